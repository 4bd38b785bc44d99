/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a source, day by day. A source may have several days in a row. */
#ifndef TICKBUS_FEEDS_DAYS_H
#define TICKBUS_FEEDS_DAYS_H

#include "publisher/feeds/day_marks.h"
#include "publisher/feeds/source.h"

/* All but `source` is zero before the first message. */
struct days {
	struct source *source;
	struct source_message first; /* of the next day; valid if `keeps` */
	bool keeps;
};

#define DAYS_NEXT 2

/* The next message of the day that has these marks: 1. DAYS_NEXT: another day follows, whose first
 * message comes with the next call. 0 at the end of the source, or its error. */
static inline int days_next(struct days *days, const struct day_marks *marks,
			    struct source_message *message)
{
	int result;

	if (__builtin_expect(days->keeps, 0)) {
		days->keeps = false;
		*message = days->first;
		return 1;
	}
	result = source_next(days->source, message);
	if (result <= 0 || __builtin_expect(!day_marks_over(marks, message), 1))
		return result;
	days->first = *message;
	days->keeps = true;
	return DAYS_NEXT;
}

#endif
