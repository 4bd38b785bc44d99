/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a source and keeps its books on a thread of its own, so that the feed's thread only
 * publishes. What the market makes of the messages comes to the feed's thread through a queue, in
 * its order.
 *
 *   source_next -> protocol_message -> market -> queue        the reading thread
 *   queue -> the feed's output                                the feed's thread
 *
 * Threads  the feed's thread calls reading_start and reading_take. Protocol and market call
 *          reading_no_start and reading_output on the reading thread. Between the two calls source
 *          and protocol belong to that thread. The feed's thread reads only names and the date.
 * Memory   READING_BYTES, at open. */
#ifndef TICKBUS_FEEDS_READING_H
#define TICKBUS_FEEDS_READING_H

#include "publisher/feeds/days.h"
#include "publisher/feeds/protocol.h"

#define READING_BYTES     1048576
#define READING_WHY_BYTES 128
#define READING_BATCH     256 /* messages that are shown to the feed's thread together */

/* Where the reading is: after a message, or at its end. */
struct reading_place {
	uint64_t message; /* the number of the message, from 1; 0: none so far */
	uint64_t time_ns; /* of the last message that has a time, since midnight */
};

struct reading_options {
	int cpu;                         /* that the reading thread avoids; -1: none */
	const _Atomic bool *interrupted; /* once true, the reading ends at its current message */
	int wake_fd;                     /* can be read once *interrupted is true */
	uint64_t touch_ns;               /* how often `idle` is called while messages are read */

	/* On the feed's thread: */

	/* The source's first message does not begin a day. */
	void (*no_start)(void *user, const struct day_marks *);
	/* The first message of the source that could not be used as it is: its offset, and why.
	 * After `ended`. */
	void (*defect)(void *user, uint64_t offset, const char *why);
	/* An output of the message with this number. */
	void (*output)(void *user, uint64_t message, const struct market_output *);
	/* The message has no more outputs. 0, or the -errno of its outputs, which ends the reading.
	 * May be called again before the next output. */
	int (*ended)(void *user);
	/* After `ended`: `batch` messages had outputs since the last call. Or there are no more for
	 * now, and messages were read since the last call. */
	void (*idle)(void *user);
	unsigned int batch;
	void *user;
};

struct reading;

int reading_open(struct reading **, const struct reading_options *);

/* Takes NULL. */
void reading_close(struct reading *);

/* Begins to read a day on a new thread: 0, or -errno: there is no thread. After 0, reading_take has
 * to follow. `message`: the number of messages before this day. */
int reading_start(struct reading *, struct protocol *, struct days *, uint64_t message);

/* Calls the options' functions until the day is read to its end: 0: it was the last;
 * PROTOCOL_NEXT_DAY; -EINTR: interrupted; or the error that stopped it. The thread is over then.
 * *place: after the last message that was read or, if an output failed, after its message. After an
 * error the reading cannot start again. */
int reading_take(struct reading *, struct reading_place *place);

/* The calls of protocol and market, on the reading thread. */
void reading_no_start(struct reading *);
void reading_output(struct reading *, const struct market_output *);

#endif
