/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last error message. */
#include "bus/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tickbus/error.h"

static _Thread_local char message[ERROR_BYTES];

int error_setv(int code, const char *format, va_list args)
{
	char fresh[ERROR_BYTES]; /* the arguments may point into message */

	vsnprintf(fresh, sizeof(fresh), format, args);
	memcpy(message, fresh, strlen(fresh) + 1);
	return -code;
}

int error_set(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	error_setv(code, format, args);
	va_end(args);
	return -code;
}

int error_prefix(int result, const char *format, ...)
{
	char fresh[ERROR_BYTES];
	va_list args;
	int used;

	va_start(args, format);
	used = vsnprintf(fresh, sizeof(fresh), format, args);
	va_end(args);
	if (used >= 0 && (size_t)used < sizeof(fresh))
		snprintf(fresh + used, sizeof(fresh) - (size_t)used, "%s", message);
	memcpy(message, fresh, strlen(fresh) + 1);
	return result;
}

int error_null_in(const char *call, const char *what)
{
	errno = EINVAL;
	return error_set(EINVAL, "%s: found NULL, expected a %s", call, what);
}

TB_API const char *tb_error(void)
{
	return message;
}
