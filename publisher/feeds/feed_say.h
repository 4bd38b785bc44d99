/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of a feed: each begins with the feed's name.
 *
 * Threads  any, as far as the handler allows it. */
#ifndef TICKBUS_FEEDS_FEED_SAY_H
#define TICKBUS_FEEDS_FEED_SAY_H

#include "tickbus/publisher.h"

struct feed_say {
	const char *name;
	tb_log_handler *log; /* NULL: no log */
	void *user;
};

void feed_say(const struct feed_say *, enum tb_log_level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
