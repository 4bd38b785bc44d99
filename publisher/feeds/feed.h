/* SPDX-License-Identifier: Apache-2.0 */
/* A feed: one thread that reads messages from a source at its pace, and publishes the records that
 * the market derives from them.
 *
 *   source_next -> protocol_message -> market -> feed's output -> projection -> tb_publish ...
 *   tb_group_flush
 *
 * With a reading thread, the steps up to the market run there (reading.h). Topics get the same
 * records either way.
 *
 * A topic's last record of each message has the flag `last`. So the feed holds one record of each
 * topic until the next record or the end of the message.
 *
 * A feed's topics are a group. Each message's records have one time, that of their publication.
 *
 * A source may have several days. With each day after the first the topics restart, books and names
 * begin empty, and the date moves on.
 *
 * The group is flushed once for all messages that are due together, at most FEED_BATCH of them. A
 * day without its beginning or its end makes the topics suspect from there on. So does a source
 * that cannot be read on.
 *
 * Threads  call these functions from the thread that opened the feed. The feed's own thread is the
 *          only writer of its topics.
 * Memory   allocated when the feed is opened, except for the growth of the books. */
#ifndef TICKBUS_FEEDS_FEED_H
#define TICKBUS_FEEDS_FEED_H

#include <stdarg.h>

#include "publisher/feeds/outputs.h"
#include "publisher/feeds/pace.h"
#include "publisher/feeds/protocol.h"
#include "publisher/feeds/reading.h"
#include "publisher/feeds/source.h"
#include "tickbus/publisher.h"

#define FEED_BATCH       64
#define FEED_FIRST_TRADE UINT64_MAX

enum feed_at_end {
	FEED_LINGER = 1, /* the topics end and stay readable */
	FEED_EXIT,       /* the topics end, and the daemon may exit */
	FEED_RESTART,    /* the topics restart empty, and the source is read again */
};

/* What a day without its beginning or its end means. Either way its topics are suspect. */
enum feed_incomplete {
	FEED_WARN = 1, /* a warning in the log */
	FEED_FAIL, /* an error in the log; the feed does not restart, and is over as incomplete */
};

#define FEED_INCOMPLETE 1 /* the result of a feed that failed only for that */

/* A day of a source. */
struct feed_day {
	uint64_t midnight_ns; /* its beginning, in nanoseconds since 1970 UTC */
	char date[16];        /* for people: 2019-12-30 */
};

struct feed_options {
	const char *name;
	const struct protocol_kind *protocol;      /* of the source's messages */
	int (*open)(void *user, struct source **); /* opens the source, each time it is read */
	void *open_user;
	/* The date of the n-th day of a source, from 0. NULL: 24 hours behind each other from
	 * midnight_ns on. 0, or -errno. With open_user */
	int (*date)(void *user, unsigned int number, struct feed_day *);
	uint64_t midnight_ns; /* of the first day; used without `date` */
	uint64_t from_ns; /* since midnight, or FEED_FIRST_TRADE; earlier messages are not paced */
	uint32_t speed_milli;
	enum pace_wait wait;
	uint32_t start_subscribers;
	enum feed_at_end at_end;
	enum feed_incomplete incomplete;
	int cpu;             /* of the publishing thread; -1: any */
	bool reading_thread; /* source and books have a thread of their own; only with speed 0 */
	struct tb_group *group;
	const struct feed_topic *topics;
	size_t topic_count;
	uint32_t touch_ms; /* a waiting feed shows at least this often that it lives */
	struct tb_publisher *publisher;
	int done_fd; /* an eventfd that is written when the feed is over */
	tb_log_handler *log;
	void *user;
};

struct feed;

/* Options are copied, except what they point to. -EPROTO: a topic's schema does not fit its select;
 * -ENOMEM; errors of the source's open. */
int feed_open(struct feed **, const struct feed_options *);

/* Starts the thread. */
int feed_start(struct feed *);

/* True if its thread has ended. *result is then 0, FEED_INCOMPLETE, or the -errno that ended it
 * early. */
bool feed_over(const struct feed *, int *result);

enum feed_at_end feed_at_end(const struct feed *);

/* Ends the thread at its current message, and the topics with it. Takes NULL. */
void feed_stop(struct feed *);

/* Frees a stopped feed. Call it after its publisher was closed, which shows the feed's counters
 * until then. Takes NULL. */
void feed_close(struct feed *);

#endif
