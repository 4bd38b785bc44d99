/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of every tickbus call.
 *
 * A call that can fail returns 0 or a count, or a negative errno value. tb_error() then tells a
 * person what was wrong: where, what was found, and what was expected. */
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

/* The words of the calling thread's call that just failed. They mean nothing behind one that went
 * well, which may have left others, but for TB_WAIT (subscriber.h). The text belongs to the library
 * and stays as it is until the same thread's next call. At most 2,047 bytes. */
TB_API const char *tb_error(void);

#ifdef __cplusplus
}
#endif

#endif
