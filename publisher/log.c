/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "bus/clock.h"

#define LINES_PER_SECOND 1000

void publisher_log(const struct tb_publisher *publisher, enum tb_log_level level,
		   const char *format, ...)
{
	char text[1024];
	va_list args;

	if (!publisher->log)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	publisher->log(publisher->log_user, level, text);
}

void endpoint_log_rest(struct endpoint *endpoint)
{
	if (endpoint->lines > LINES_PER_SECOND)
		publisher_log(endpoint->publisher, TB_LOG_WARNING,
			      "%" PRIu32 " more lines about clients were left out",
			      endpoint->lines - LINES_PER_SECOND);
	endpoint->lines = 0;
}

void endpoint_log_second(struct endpoint *endpoint)
{
	const uint64_t second = clock_ms() / 1000;

	if (second != endpoint->second)
		endpoint_log_rest(endpoint);
	endpoint->second = second;
}

void endpoint_log(struct endpoint *endpoint, const char *text)
{
	endpoint_log_second(endpoint);
	if (endpoint->lines++ < LINES_PER_SECOND)
		publisher_log(endpoint->publisher, TB_LOG_WARNING, "%s", text);
}
