/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "bus/clock.h"

#define LINES_MAX 1000

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
	if (endpoint->left_out > 0)
		publisher_log(endpoint->publisher, TB_LOG_WARNING,
			      "%" PRIu32 " more lines about clients were left out",
			      endpoint->left_out);
	endpoint->left_out = 0;
}

void endpoint_log_second(struct endpoint *endpoint)
{
	const uint64_t second = clock_ms() / 1000, passed = second - endpoint->second;

	if (passed > 0)
		endpoint_log_rest(endpoint);
	endpoint->lines -= passed < endpoint->lines ? (uint32_t)passed : endpoint->lines;
	endpoint->second = second;
}

void endpoint_log(struct endpoint *endpoint, const char *text)
{
	endpoint_log_second(endpoint);
	if (endpoint->lines == LINES_MAX) {
		endpoint->left_out++;
		return;
	}
	endpoint->lines++;
	publisher_log(endpoint->publisher, TB_LOG_WARNING, "%s", text);
}
