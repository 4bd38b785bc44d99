/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a source, day by day. The message that begins another day is read with the day
 * before, and kept for its own day. */
#ifndef TICKBUS_FEEDS_DAYS_H
#define TICKBUS_FEEDS_DAYS_H

#include "publisher/feeds/source.h"

/* All but `source` is zero before the first message. */
struct days {
	struct source *source;
	struct source_message first; /* of the next day; valid if `keeps` */
	bool keeps;
};

/* The next message, like source_next. */
static inline int days_next(struct days *days, struct source_message *message)
{
	if (__builtin_expect(!days->keeps, 1))
		return source_next(days->source, message);
	days->keeps = false;
	*message = days->first;
	return 1;
}

/* The message begins another day: it comes again, and its memory stays valid until then. */
static inline void days_keep(struct days *days, const struct source_message *message)
{
	days->first = *message;
	days->keeps = true;
}

#endif
