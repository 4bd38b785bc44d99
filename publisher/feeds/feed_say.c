/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/feed_say.h"

#include <stdarg.h>
#include <stdio.h>

void feed_say(const struct feed_say *say, enum tb_log_level level, const char *format, ...)
{
	char line[1024];
	va_list args;
	int used = snprintf(line, sizeof(line), "feed %s: ", say->name);

	va_start(args, format);
	vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	if (say->log)
		say->log(say->user, level, line);
}
