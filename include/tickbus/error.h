/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of every tickbus call.
 *
 * A call that can fail returns 0 or a count, or a negative errno value. tb_error() then explains
 * the failure to a person: where it is, what was found, and what was expected.
 *
 * A call that gets NULL in place of its publisher, topic, group, subscriber, subscription, source,
 * schema or field returns -EINVAL. If it returns something else than a number of type int, it
 * returns NULL or 0, and errno is EINVAL. Calls that close or free take NULL, and do nothing. */
#ifndef TICKBUS_ERROR_H
#define TICKBUS_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TB_API __attribute__((visibility("default")))
#else
#define TB_API
#endif

/* The message for the call that just failed on the calling thread, at most 2,047 bytes. After a
 * call that succeeded it has no meaning, with two exceptions: tb_subscriber_open with TB_WAIT, and
 * tb_subscribe with TB_WAIT or a pattern (subscriber.h). The library owns the text, which stays
 * valid until the same thread's next call. */
TB_API const char *tb_error(void);

#ifdef __cplusplus
}
#endif

#endif
