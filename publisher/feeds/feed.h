/* SPDX-License-Identifier: Apache-2.0 */
/* A feed: one thread that reads messages from a source at its pace, and publishes what the market
 * makes of them.
 *
 *   source_next -> market_message -> feed's output -> projection -> tb_publish ... tb_flush
 *
 * Topics are flushed once for all messages that are due together, at most FEED_BATCH of them.
 * Threads  everything here by the thread that opened it; the feed's own thread is the only writer
 *          of its topics.
 * Memory   allocated when it is opened, but for what the books grow by. */
#ifndef TICKBUS_FEEDS_FEED_H
#define TICKBUS_FEEDS_FEED_H

#include <stdarg.h>

#include "publisher/feeds/market.h"
#include "publisher/feeds/pace.h"
#include "publisher/feeds/source.h"
#include "tickbus/publisher.h"

#define FEED_BATCH       64
#define FEED_FIRST_TRADE UINT64_MAX

enum feed_at_end {
	FEED_LINGER = 1, /* the topics end and stay readable */
	FEED_EXIT,       /* the topics end, and whoever runs the feed may end too */
	FEED_RESTART,    /* the topics begin again, empty, and the source is read again */
};

struct feed_topic {
	enum market_select select;
	struct tb_topic *topic;         /* made with TB_TOPIC_MANUAL_FLUSH */
	const struct tb_schema *schema; /* of the topic; lives as long as the feed */
};

struct feed_options {
	const char *name;
	int (*open)(void *user, struct source **); /* of the source, each time it is read */
	void *open_user;
	uint64_t midnight_ns; /* of the messages' day */
	uint64_t from_ns;     /* since midnight, or FEED_FIRST_TRADE; what is before is not paced */
	uint32_t speed_milli;
	enum pace_wait wait;
	uint32_t start_subscribers;
	enum feed_at_end at_end;
	int cpu; /* -1: any */
	const struct feed_topic *topics;
	size_t topic_count;
	uint32_t touch_ms; /* a waiting feed shows that it lives at least this often */
	struct tb_publisher *publisher;
	int done_fd; /* an eventfd that is written when the feed is over */
	tb_log_handler *log;
	void *user;
};

struct feed;

/* Options are copied, but for what they point to. -EPROTO: a topic's schema does not fit what it
 * selects; -ENOMEM; what the source's open gives. */
int feed_open(struct feed **, const struct feed_options *);

/* Begins. */
int feed_start(struct feed *);

/* Whether its thread is over, and how: 0, or the -errno of what ended it before its end. */
bool feed_over(const struct feed *, int *result);

enum feed_at_end feed_at_end(const struct feed *);

/* Ends the thread where it is, and the topics with it. Takes NULL. */
void feed_stop(struct feed *);

/* Frees a feed that was stopped, after its publisher was closed, which shows its counters until
 * then. Takes NULL. */
void feed_close(struct feed *);

#endif
