/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/day_marks.h"

#include <inttypes.h>
#include <stdio.h>

#define SECOND_NS UINT64_C(1000000000)
#define DAY_NS    (UINT64_C(86400) * SECOND_NS)

void day_marks_time(uint64_t time_ns, char text[DAY_MARKS_TIME_BYTES])
{
	const unsigned int second = (unsigned int)(time_ns / SECOND_NS);

	if (time_ns >= DAY_NS)
		snprintf(text, DAY_MARKS_TIME_BYTES, "%" PRIu64 " ns (no time of day)", time_ns);
	else
		snprintf(text, DAY_MARKS_TIME_BYTES, "%02u:%02u:%02u.%09" PRIu64, second / 3600,
			 second / 60 % 60, second % 60, time_ns % SECOND_NS);
}

void day_marks_no_start(const struct day_marks *marks, const char *start,
			char text[DAY_MARKS_TEXT_BYTES])
{
	char time[DAY_MARKS_TIME_BYTES];

	day_marks_time(marks->time_ns, time);
	snprintf(text, DAY_MARKS_TEXT_BYTES,
		 "begins at offset %" PRIu64 " of the uncompressed stream, with a message of %s, "
		 "expected %s",
		 marks->begin, time, start);
}

void day_marks_no_end(const struct day_marks *marks, const char *end,
		      char text[DAY_MARKS_TEXT_BYTES])
{
	char time[DAY_MARKS_TIME_BYTES];

	day_marks_time(marks->time_ns, time);
	snprintf(text, DAY_MARKS_TEXT_BYTES,
		 "ends at offset %" PRIu64 " of the uncompressed stream, after a message of %s, "
		 "expected %s",
		 marks->end, time, end);
}
