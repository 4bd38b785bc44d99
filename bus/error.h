/* SPDX-License-Identifier: Apache-2.0 */
/* A call returns 0 or a count, or -errno. The message for a person is kept for the calling thread
 * until its next failure; tb_error() returns it. */
#ifndef TICKBUS_BUS_ERROR_H
#define TICKBUS_BUS_ERROR_H

#include <stdarg.h>

#define ERROR_BYTES 2048 /* of the longest message, with its NUL */

/* Keeps the message and returns -code, so that a failure is one line: return error_set(EINVAL,
 * ...). */
int error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int error_setv(int code, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Puts text before the message of a lower layer ("topic nasdaq.quote: ..."); returns result. */
int error_prefix(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A public call got NULL in place of a handle: a publisher, a subscription, a schema. Keeps the
 * message, sets errno for calls that return no error number, and returns -EINVAL. */
#define error_null(what) error_null_in(__func__, what)
int error_null_in(const char *call, const char *what) __attribute__((cold));

#endif
