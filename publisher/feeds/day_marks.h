/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a source has a whole day. The exchange begins a day with system event O (start of
 * messages), and ends it with system event C (end of messages). The framing of a file does not show
 * that it was cut between two messages. */
#ifndef TICKBUS_FEEDS_DAY_MARKS_H
#define TICKBUS_FEEDS_DAY_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "publisher/feeds/source.h"

#define DAY_MARKS_EVENT_BYTES 12 /* of a system event */
#define DAY_MARKS_EVENT_AT    11

/* Zeros before the first message. */
struct day_marks {
	uint64_t begin;  /* the offset of the first message */
	uint64_t end;    /* the offset behind the last message */
	bool started;    /* the first message is O */
	bool ended;      /* the last message is C */
	uint8_t time[6]; /* of the last message that has a time, as in the message */
};

/* Notes the next message of the source. True for the first message. */
bool day_marks_note(struct day_marks *, const struct source_message *);

/* Whether this message begins another day: it follows a C, or it is an O and not the first message.
 */
static inline bool day_marks_over(const struct day_marks *marks,
				  const struct source_message *message)
{
	if (marks->ended)
		return true;
	return message->length == DAY_MARKS_EVENT_BYTES && message->bytes[0] == 'S' &&
	       message->bytes[DAY_MARKS_EVENT_AT] == 'O' && marks->end > 0;
}

/* Sets the time of the last message, in nanoseconds since midnight. */
void day_marks_at(struct day_marks *, uint64_t time_ns);

#define DAY_MARKS_TEXT_BYTES 224

/* The message about a source without its mark: where it begins or ends, and what was expected. */
void day_marks_no_start(const struct day_marks *, char text[DAY_MARKS_TEXT_BYTES]);
void day_marks_no_end(const struct day_marks *, char text[DAY_MARKS_TEXT_BYTES]);

/* "09:39:36.663325325": the time of the last message. A time of 24 hours or more, as in damaged
 * data: "97628995410213 ns (no time of day)". */
#define DAY_MARKS_TIME_BYTES 64
void day_marks_time(const struct day_marks *, char text[DAY_MARKS_TIME_BYTES]);

#endif
