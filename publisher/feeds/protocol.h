/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol: what the messages of an exchange mean. It makes events of a market (market.h) of each
 * message, and knows where a day begins and ends. Each protocol is a folder with a struct
 * protocol_kind.
 *
 * Errors   a malformed message is counted and has no effect; the first few are reported with their
 *          offset. A message with a defect is malformed, or disagrees with the book or with a name.
 *          The caller learns each.
 * Threads  one thread at a time; any thread may read the counters.
 * Memory   that of the market, and bytes of the kind. */
#ifndef TICKBUS_FEEDS_PROTOCOL_H
#define TICKBUS_FEEDS_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "publisher/feeds/day_marks.h"
#include "publisher/feeds/market/market.h"
#include "publisher/feeds/source.h"
#include "tickbus/counters.h"

#define PROTOCOL_COUNTERS_MAX       64 /* as many as a publisher shows of a feed */
#define PROTOCOL_MALFORMED_REPORTED 8  /* malformed messages that are reported; all are counted */

struct protocol;

/* What a message's pace depends on. */
struct protocol_time {
	uint64_t time_ns; /* since midnight */
	bool is_trade;    /* the market makes a trade with shares of it, if it knows its order */
};

/* `message` begins each message with protocol_goes_on, then market_begin with the day's midnight_ns
 * and the message's time, and ends it with market_end. */
struct protocol_kind {
	const char *name;  /* for people: "ITCH 5.0" */
	const char *start; /* "the start of the day's messages (system event O)" */
	const char *end;   /* "the end of the day's messages (system event C)" */
	size_t bytes;      /* of its structure, which begins with struct protocol */
	const struct tb_counter *counters;
	unsigned int types; /* the first counters are those of valid messages, by type */
	unsigned int count; /* of all its counters */
	enum day_mark (*mark)(const struct source_message *);
	/* False: the message is malformed, so it has no time to wait for. */
	bool (*time)(const struct source_message *, struct protocol_time *);
	/* Fetches the memory that a later message will need. The message is not checked. */
	void (*expect)(struct protocol *, const uint8_t *bytes, size_t length);
	int (*message)(struct protocol *, const struct source_message *);
	/* All names are forgotten. */
	void (*clear)(struct protocol *);
};

struct protocol_options {
	uint32_t wanted; /* as the market's */
	void (*output)(void *user, const struct market_output *);
	/* The first message of a day does not begin it. Before its outputs */
	void (*no_start)(void *user);                                        /* or NULL */
	void (*malformed)(void *user, uint64_t offset, const char *message); /* or NULL */
	void *user;
};

/* Counters of the feed, behind those of the kind and of the market. */
enum protocol_counter { PROTOCOL_COUNTER_TIME_AHEAD, PROTOCOL_COUNTER_COUNT };

struct protocol {
	const struct protocol_kind *kind;
	struct protocol_options options;
	struct market *market;
	uint64_t *counters; /* of the kind, the market's, and PROTOCOL_COUNTER_COUNT */
	struct tb_counter *table;
	uint64_t midnight_ns; /* of the messages' day, nanoseconds since 1970 UTC */
	/* Written for each message, so in lines of their own: a feed's thread reads what is above.
	 */
	_Alignas(64) struct day_marks marks; /* of the present day */
	uint64_t malformed;
};

int protocol_open(struct protocol **, const struct protocol_kind *,
		  const struct protocol_options *);

/* Takes NULL. */
void protocol_close(struct protocol *);

/* Sets the midnight of the messages that follow, in nanoseconds since 1970 UTC. */
void protocol_date(struct protocol *, uint64_t midnight_ns);

/* Begins a day: removes all orders, names and marks. Counters go on. */
void protocol_clear(struct protocol *);

#define PROTOCOL_DEFECT   MARKET_DEFECT
#define PROTOCOL_NEXT_DAY 2

/* Processes one message. 0, or -ENOMEM: the books are no longer right. PROTOCOL_DEFECT: the message
 * cannot be used as it is. The records from here on may be wrong. PROTOCOL_NEXT_DAY: it begins
 * another day. It had no effect; give it again after protocol_clear. */
static inline int protocol_message(struct protocol *protocol, const struct source_message *message)
{
	return protocol->kind->message(protocol, message);
}

/* Whether protocol_message would return PROTOCOL_NEXT_DAY. */
bool protocol_is_over(const struct protocol *, const struct source_message *);

static inline void protocol_expect(struct protocol *protocol, const uint8_t *bytes, size_t length)
{
	protocol->kind->expect(protocol, bytes, length);
}

/* -- for the kinds ------------------------------------------------------------------------------
 */

void protocol_day_begins(struct protocol *);

/* Notes a message that is this mark. `time_ns`: since midnight; that of the marks if the message is
 * too short to have a time. False: it begins another day, and has no effect: return
 * PROTOCOL_NEXT_DAY. */
static inline bool protocol_goes_on(struct protocol *protocol, const struct source_message *message,
				    enum day_mark mark, uint64_t time_ns)
{
	struct day_marks *marks = &protocol->marks;
	bool first;

	if (__builtin_expect(day_marks_over(marks, mark), 0))
		return false;
	first = day_marks_note(marks, message, mark);
	marks->time_ns = time_ns;
	if (__builtin_expect(first, 0))
		protocol_day_begins(protocol);
	return true;
}

/* Counts one more. */
static inline void protocol_count(struct protocol *protocol, unsigned int counter)
{
	__atomic_store_n(&protocol->counters[counter], protocol->counters[counter] + 1,
			 __ATOMIC_RELAXED);
}

/* Counts and reports a malformed message, with the text of tb_error(). Returns PROTOCOL_DEFECT. */
int protocol_malformed(struct protocol *, unsigned int counter, uint64_t offset);

/* Counts a message whose time is too far ahead to wait for it. */
void protocol_count_jump(struct protocol *);

/* Valid messages so far. */
uint64_t protocol_valid(const struct protocol *);

/* The counters are protocol->counters. Their table, which lives as long as the protocol. */
const struct tb_counter *protocol_counter_table(const struct protocol *, size_t *count);

#endif
