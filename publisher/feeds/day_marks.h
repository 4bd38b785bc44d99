/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a source has a whole day. An exchange begins and ends a day with a message that says so:
 * a mark. The framing of a file does not show that it was cut between two messages. */
#ifndef TICKBUS_FEEDS_DAY_MARKS_H
#define TICKBUS_FEEDS_DAY_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "publisher/feeds/source.h"

enum day_mark { DAY_MARK_NONE, DAY_MARK_START, DAY_MARK_END };

/* Zeros before the first message. */
struct day_marks {
	uint64_t begin;   /* the offset of the first message */
	uint64_t end;     /* the offset behind the last message, 0: there was none */
	uint64_t time_ns; /* of the last message that has a time, since midnight */
	bool started;     /* the first message is a start */
	bool ended;       /* the last message is an end */
};

/* Notes the next message of the source, which is this mark. True for the first message. */
static inline bool day_marks_note(struct day_marks *marks, const struct source_message *message,
				  enum day_mark mark)
{
	const bool first = marks->end == 0;

	if (__builtin_expect(first, 0)) {
		marks->started = mark == DAY_MARK_START;
		marks->begin = message->offset;
	}
	marks->ended = mark == DAY_MARK_END;
	marks->end = message->offset + SOURCE_FRAME_BYTES + message->length;
	return first;
}

/* Whether a message that is this mark begins another day: it follows an end, or it is a start and
 * not the first message. */
static inline bool day_marks_over(const struct day_marks *marks, enum day_mark mark)
{
	return marks->ended || (mark == DAY_MARK_START && marks->end > 0);
}

#define DAY_MARKS_TEXT_BYTES 224

/* The message about a source without its mark: where it begins or ends, and what was expected:
 * `start`, `end`, for people. */
void day_marks_no_start(const struct day_marks *, const char *start,
			char text[DAY_MARKS_TEXT_BYTES]);
void day_marks_no_end(const struct day_marks *, const char *end, char text[DAY_MARKS_TEXT_BYTES]);

/* "09:39:36.663325325": a time since midnight. A time of 24 hours or more, as in damaged data:
 * "97628995410213 ns (no time of day)". */
#define DAY_MARKS_TIME_BYTES 64
void day_marks_time(uint64_t time_ns, char text[DAY_MARKS_TIME_BYTES]);

#endif
