/* SPDX-License-Identifier: Apache-2.0 */
/* A subscriber and what belongs to it, one below the other:
 *
 *   tb_subscriber     the connection to one bus, its pulse, the requests under way
 *   tb_subscription   a pattern, handlers, where to begin
 *   tb_source         one topic that was joined for one subscription: its memory and the position
 * in it
 *
 * All of it belongs to the thread that uses the subscriber. Nothing is freed while a handler runs,
 * or while a READ into it is under way. */
#ifndef TICKBUS_SUBSCRIBER_STATE_H
#define TICKBUS_SUBSCRIBER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bus/bounds.h"
#include "bus/control.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/record.h"
#include "bus/region.h"
#include "tickbus/record.h"
#include "tickbus/subscriber.h"
#include "tickbus/ticket.h"

#define HALVES_MAX 2 /* batches of one topic at once, each in its part of the landing */

/* Where a topic's bytes are, and under which identity they prove themselves. */
struct mapping {
	struct remote *remote;
	const char *view; /* NULL: READs */
	struct region_shape shape;
	struct region_layout layout;
	uint64_t record_salt, progress_salt, directory_salt;
	bool checked;
	const struct tb_schema *schema;
	char (*names)[TB_INSTRUMENT_NAME_MAX + 1]; /* by instrument; "" not known yet */
};

enum source_state {
	SOURCE_HEADER, /* the header is being fetched and compared */
	SOURCE_START,  /* nothing was begun: the progress line is being fetched, to decide where */
	SOURCE_RUNNING,
	SOURCE_ENDED, /* read to the end of an ended topic */
	SOURCE_DEAD,  /* left; freed when nothing is under way */
};

/* Records that are READ together: first to end - 1. It is held while it has any that were not
 * delivered; what was thrown away (end 0) may still be landing. */
struct batch {
	uint64_t first, end;
	unsigned int under_way; /* READs */
	bool failed;            /* one of them */
	bool asked, proven;     /* a progress line is, a valid one was READ after all had landed */
};

struct tb_source {
	struct tb_subscription *subscription;
	struct tb_source *next_source;
	char name[TB_TOPIC_NAME_MAX + 1];
	uint32_t slot; /* in the subscriber's table */
	enum source_state state;
	struct mapping mapping, successor; /* the epoch after this one, once it was granted */
	bool has_successor; /* switched to when the old epoch was read as far as it goes */
	bool orphan;        /* its connection went; to be joined anew */
	bool armed, stale;
	int stale_code; /* why it stays so, as told; 0: nothing was */

	/* Position. */
	uint64_t next;           /* the sequence to be delivered next; 0: not begun */
	uint64_t head;           /* the last head known */
	uint64_t written;        /* the head as last seen in the line; a hint */
	bool batched;            /* the head is watched, not slot `next` */
	uint64_t joined;         /* the head when the publisher counted the join */
	uint64_t next_when_lost; /* when the publisher was last found gone; 0: it is there */
	unsigned int tries;      /* of slot `next` with the window unmoved */
	unsigned int idle;       /* empty looks in a row */
	bool look;               /* the progress line is to be looked at */
	bool copy_failed;        /* because a copy of slot `next` failed */
	unsigned int invalid;    /* looks in a row that found no valid line */
	uint64_t invalid_ms;     /* the first of them */
	uint64_t next_when_invalid;
	uint64_t hole_first, hole_last; /* holes not yet told */

	/* Notices. */
	uint64_t hint; /* a head that one told; 0: none, or a false one */
	uint64_t hint_after_ms;
	uint32_t hint_pause_ms;
	uint64_t notice_number;
	uint64_t noticed_ms;           /* when one told a head that may be true */
	struct fabric_notices notices; /* how they travel, as the grant told */

	/* READs. */
	char *landing;      /* halves, then one page for header, progress and names */
	bool landing_local; /* plain memory: there is a view, so nothing lands in it */
	unsigned int halves;
	size_t half_bytes;
	struct batch batches[HALVES_MAX]; /* of each half */
	unsigned int under_way;           /* READs in all */
	bool page_under_way;
	uint64_t fetched_ms;
	uint32_t names_from;
	uint32_t name_wanted;

	struct record record; /* the copy that is delivered, where there is a view */
};

struct tb_subscription {
	struct tb_subscriber *subscriber;
	struct tb_subscription *next_subscription;
	struct tb_source *sources;
	struct tb_subscription_options options;
	char pattern[TB_PATTERN_MAX + 1];
	bool discover; /* the catalogue is to be asked */
	bool changed;  /* since the bus's topics did */
	bool refused;  /* was told that the connection is */
	bool retry;    /* with the next pulse: there was a shortage for a join */
	bool fresh;    /* tb_subscribe has not returned yet */
	bool waits;    /* for what its publisher is short of, as it was asked to */
	bool closing;
	bool named; /* by the notice that is being taken */
	int error;  /* the last refusal while fresh, its words in error_words; 0: none stands */
	char error_text[1024];
	/* Hashes of the words of the last refusal, by topic id, 0: of the catalogue; until it is
	 * over. */
	uint64_t refusal_hash[BOUND_TOPICS_MAX + 1];
	uint64_t counters[SUBSCRIPTION_COUNTERS];
};

/* The requests that find and join topics, one at a time. */
enum discovery_phase { DISCOVERY_IDLE, DISCOVERY_CATALOGUE, DISCOVERY_SCHEMA, DISCOVERY_JOIN };

struct discovery {
	enum discovery_phase phase;
	struct tb_subscription *subscription;
	uint32_t request;
	uint32_t after, count, at;
	bool changed;                 /* it is asked since the bus's topics did */
	struct control_topic *topics; /* topics_max */
	char *text;                   /* of the schema that is being fetched */
	uint32_t text_bytes;
};

struct schema_cache {
	struct schema_cache *next;
	uint64_t fingerprint;
	struct tb_schema *schema;
};

struct tb_subscriber {
	const struct fabric_ops *ops;
	char *address, *location; /* location: the address without its scheme */
	struct link *link;        /* NULL between two tries */
	struct control_welcome welcome;
	bool welcomed;
	uint32_t flags, connect_ms, topics_max, batch_bytes, read_bytes;
	uint8_t ticket[TB_TICKET_BYTES]; /* zeros: none */
	uint32_t stale_asked_ms;         /* 0: the publisher's own */
	uint32_t stale_ms;               /* 0: not known before the first welcome */
	int gone_code;                   /* why the last connection went */
	char gone_text[256];

	struct tb_subscription *subscriptions;
	struct tb_source **table; /* topics_max sources by slot */
	uint32_t table_used;      /* no slot from here on ever had one */
	uint32_t first_polled;    /* who is polled first */
	bool untidy;              /* something was ended and is not freed yet */
	struct discovery discovery;
	struct schema_cache *schemas;
	unsigned int schemas_learned; /* since those that no topic had were forgotten */

	/* Pulse. */
	struct remote *page;
	const char *page_view;
	char *page_copy; /* a landing */
	size_t page_bytes;
	bool page_under_way;
	uint64_t page_asked_ms; /* since when it is wanted and did not come; 0: it is not */
	uint32_t page_grace_ms; /* so long that says nothing of the publisher */
	bool lost;              /* the connection went, and did not come back yet */
	uint64_t pulse_count, pulse_ms;
	uint32_t changes;
	bool pulse_known;
	struct fabric_notices groups[BOUND_NOTICE_GROUPS_MAX]; /* that sources need, each once */
	uint32_t group_count;
	uint64_t page_ms, tried_ms, turn_ms; /* page_ms: of the last pulse_look */
	unsigned int refusals;               /* one after the other, that doubled the pause */
	bool woken;                          /* by what may be no record: house is to be kept */
	unsigned int under_way;              /* READs of all sources */

	pid_t process;                   /* that opened it; a child that was forked has a copy */
	int epoll_fd, timer_fd, link_fd; /* link_fd: the one in epoll, -1 none */
	bool descriptor_mode;
	bool in_poll, closing;
};

#endif
