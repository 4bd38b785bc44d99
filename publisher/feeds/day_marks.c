/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/day_marks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "publisher/feeds/itch.h"

#define FRAME_BYTES 2
#define TIME_AT     5
#define SECOND_NS   UINT64_C(1000000000)

static bool is_event(const struct source_message *message, uint8_t event)
{
	return message->length == DAY_MARKS_EVENT_BYTES && message->bytes[0] == 'S' &&
	       message->bytes[DAY_MARKS_EVENT_AT] == event;
}

bool day_marks_note(struct day_marks *marks, const struct source_message *message)
{
	const bool first = marks->end == 0;

	if (first) {
		marks->started = is_event(message, 'O');
		marks->begin = message->offset;
	}
	marks->ended = is_event(message, 'C');
	if (message->length >= ITCH_HEAD_BYTES)
		memcpy(marks->time, message->bytes + TIME_AT, sizeof(marks->time));
	marks->end = message->offset + FRAME_BYTES + message->length;
	return first;
}

void day_marks_at(struct day_marks *marks, uint64_t time_ns)
{
	for (size_t i = sizeof(marks->time); i--; time_ns >>= 8)
		marks->time[i] = (uint8_t)time_ns;
}

void day_marks_time(const struct day_marks *marks, char text[DAY_MARKS_TIME_BYTES])
{
	uint64_t time_ns = 0;
	unsigned int second;

	for (size_t i = 0; i < sizeof(marks->time); i++)
		time_ns = time_ns << 8 | marks->time[i];
	if (time_ns >= ITCH_DAY_NS) {
		snprintf(text, DAY_MARKS_TIME_BYTES, "%" PRIu64 " ns (no time of day)", time_ns);
		return;
	}
	second = (unsigned int)(time_ns / SECOND_NS);
	snprintf(text, DAY_MARKS_TIME_BYTES, "%02u:%02u:%02u.%09" PRIu64, second / 3600,
		 second / 60 % 60, second % 60, time_ns % SECOND_NS);
}

void day_marks_no_start(const struct day_marks *marks, char text[DAY_MARKS_TEXT_BYTES])
{
	char time[DAY_MARKS_TIME_BYTES];

	day_marks_time(marks, time);
	snprintf(text, DAY_MARKS_TEXT_BYTES,
		 "begins at offset %" PRIu64 " of the uncompressed stream, with a message of %s, "
		 "expected the start of the day's messages (system event O)",
		 marks->begin, time);
}

void day_marks_no_end(const struct day_marks *marks, char text[DAY_MARKS_TEXT_BYTES])
{
	char time[DAY_MARKS_TIME_BYTES];

	day_marks_time(marks, time);
	snprintf(text, DAY_MARKS_TEXT_BYTES,
		 "ends at offset %" PRIu64 " of the uncompressed stream, after a message of %s, "
		 "expected the end of the day's messages (system event C)",
		 marks->end, time);
}
