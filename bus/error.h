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

#endif
