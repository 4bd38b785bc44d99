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
#ifndef TICKBUS_SUBSCRIBER_SUBSCRIBER_H
#define TICKBUS_SUBSCRIBER_SUBSCRIBER_H

#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/counters.h"
#include "bus/directory.h"
#include "bus/fabric.h"
#include "bus/progress.h"
#include "bus/bounds.h"
#include "tickbus/subscriber.h"

#define TRIES_MAX    8 /* copies of one slot, with the window unmoved, before it is called corrupt */
#define POLL_PAGE_MS 1    /* READs of an idle topic's progress line are at least this far apart */
#define SWITCH_TRIES 64   /* looks at an old epoch whose progress line is not valid any more */
#define READ_BYTES   8192 /* of one READ, or what a batch has for each of READS_MAX */
#define READS_MAX    16   /* READs of one batch */
#define HALVES_MAX   2    /* batches of one topic at once, each in its part of the landing */
#define RECONNECT_MS 50
#define REFUSED_MS   1000 /* the longest pause after refusals, which double it */
#define SCHEMAS_KEPT 64   /* learned, before those that no joined topic has are forgotten */
#define HOUSEKEEP_MS 50   /* while records flow, or are waited for */

/* What a completed READ was for: the low byte of its tag; above it the half that it lands in, and
 * the source's slot. */
enum fetch_kind {
	FETCH_NONE = 0,
	FETCH_HEADER,
	FETCH_PROGRESS,
	FETCH_NAMES,
	FETCH_SLOTS,
	FETCH_PAGE
};

/* Where a topic's bytes are, and under which identity they prove themselves. */
struct place {
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
	struct place place, successor; /* the epoch after this one, once it was granted */
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
	bool again;    /* with the next pulse: there was a shortage for a join */
	bool fresh;    /* tb_subscribe has not returned yet */
	bool waits;    /* for what its publisher is short of, as it was asked to */
	bool closing;
	bool named; /* by the notice that is being taken */
	int error;  /* the last refusal while fresh, its words in error_words; 0: none stands */
	char error_words[1024];
	/* Hashes of the words of the last refusal, by topic id, 0: of the catalogue; until it is
	 * over. */
	uint64_t told[BOUND_TOPICS_MAX + 1];
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
	char *address, *place; /* place: the address without its scheme */
	struct link *link;     /* NULL between two tries */
	struct control_welcome welcome;
	bool welcomed;
	uint32_t flags, connect_ms, topics_max, batch_bytes, read_bytes;
	uint8_t ticket[TB_TICKET_BYTES]; /* zeros: none */
	uint32_t stale_asked_ms;         /* 0: the publisher's own */
	uint32_t stale_ms;               /* 0: not known before the first welcome */
	int gone_code;                   /* why the last connection went */
	char gone_words[256];

	struct tb_subscription *subscriptions;
	struct tb_source **table; /* topics_max sources by slot */
	uint32_t table_used;      /* no slot from here on ever had one */
	uint32_t turn;            /* who is polled first */
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
	uint64_t page_asked_ms;    /* since when it is wanted and did not come; 0: it is not */
	uint32_t page_patience_ms; /* so long that says nothing of the publisher */
	bool lost;                 /* the connection went, and did not come back yet */
	uint64_t pulse_count, pulse_ms;
	uint32_t changes;
	bool pulse_known;
	struct fabric_notices groups[BOUND_NOTICE_GROUPS_MAX]; /* that sources need, each once */
	uint32_t group_count;
	uint64_t page_ms, tried_ms, kept_ms; /* page_ms: of the last pulse_look */
	unsigned int refusals;               /* one after the other, that doubled the pause */
	bool woken;                          /* by what may be no record: house is to be kept */
	unsigned int under_way;              /* READs of all sources */

	pid_t process;                   /* that opened it; a child that was forked has a copy */
	int epoll_fd, timer_fd, link_fd; /* link_fd: the one in epoll, -1 none */
	bool descriptor_mode;
	bool in_poll, closing;
};

/* connection.c */
int connection_begin(struct tb_subscriber *);
void connection_keep(struct tb_subscriber *);
void connection_close(struct tb_subscriber *);
/* Posts READs of a topic: the number, 0 there is no room now, or -errno. */
int connection_read(struct tb_source *, const struct fabric_read *, unsigned int count);
/* Collects completed READs. */
void connection_reap(struct tb_subscriber *);
int connection_send(struct tb_subscriber *, const struct control_message *);

/* discovery.c */
int discovery_open(struct tb_subscriber *);
void discovery_close(struct tb_subscriber *);
void discovery_reset(struct tb_subscriber *);
void discovery_step(struct tb_subscriber *);
/* Whether a request is under way, or one is to be made. */
bool discovery_waits(const struct tb_subscriber *);
/* An answer; false if it was not for the request under way. */
bool discovery_answer(struct tb_subscriber *, const struct control_message *);
/* What tb_subscribe will know of a refusal, when it ends; code 0: none stands any more. */
void discovery_outcome(struct tb_subscription *, int code, const char *words);

/* source.c */
int source_grant(struct tb_subscription *, const struct tb_schema *,
		 const struct control_message *);
/* Takes back a join whose grant was of no use, or came for nobody any more. */
void source_decline(struct tb_subscriber *, const struct control_topic *);
struct tb_source *source_find(const struct tb_subscription *, const char *name);
void source_leave(struct tb_source *);
void source_end(struct tb_source *);  /* it was read to its end */
void source_reap(struct tb_source *); /* frees a dead one when nothing is under way */
void source_orphan(struct tb_source *);
void source_head(struct tb_source *, uint64_t head);
uint64_t source_tag(const struct tb_source *, enum fetch_kind, unsigned int half);
/* Fetches bytes of the region into the landing's page, now where there is a view, else by a READ: 1
 * done, 0 later, -errno. Done means source_fetched was called. */
int source_fetch(struct tb_source *, enum fetch_kind, uint64_t offset, uint32_t bytes);
void source_fetched(struct tb_source *, enum fetch_kind, int status);
/* Goes on with joining, as far as it goes now; delivers no record. */
void source_settle(struct tb_source *);
/* Delivers up to max records; the number. */
int source_poll(struct tb_source *, int max);
/* Keeps count of looks at the progress line that found no valid one; valid. */
bool source_line(struct tb_source *, bool valid);

/* deliver.c */
void deliver_holes(struct tb_source *);
void deliver_gap(struct tb_source *, uint64_t first, uint64_t last, enum tb_cause);
void deliver_event(struct tb_source *, enum tb_event_kind);
/* Of a topic that was told stale: why it stays so, once, and again when it is for another code: the
 * words may differ from try to try. */
void deliver_stale_why(struct tb_source *, int code, const char *words);
void deliver_restart(struct tb_source *, uint64_t old_epoch, uint64_t delivered, uint64_t head);
void deliver_refused(struct tb_subscription *, const char *topic, int code, const char *words);

/* pull_view.c, pull_read.c: records in order from `next`; the number delivered. */
int pull_view(struct tb_source *, int max);
int pull_read(struct tb_source *, int max);
/* Whether pull_read would deliver or READ at once. */
bool pull_read_due(const struct tb_source *);
/* One of a batch's READs has completed. */
void pull_read_landed(struct tb_source *, unsigned int half, int status);
/* Whether there are records that were READ, or are under way, and were not delivered. */
bool pull_read_holds(const struct tb_source *);
/* Throws them away. */
void pull_read_drop(struct tb_source *);
/* The progress line that was asked for is valid. */
void pull_read_proven(struct tb_source *);

/* reader.c */
/* Decides by a fresh progress line what became of slot `next`: true when the position moved. */
bool reader_look(struct tb_source *, const struct progress *);
/* A copy of slot `next` failed though the window did not move: true when it was given up. */
bool reader_failed(struct tb_source *);
void reader_start(struct tb_source *, const struct progress *);

/* pulse.c */
int pulse_open(struct tb_subscriber *, struct fabric_key);
void pulse_close(struct tb_subscriber *);
void pulse_look(struct tb_subscriber *);
void pulse_fetched(struct tb_subscriber *, int status);
bool pulse_unanswered(const struct tb_subscriber *);
void pulse_lost(struct tb_subscriber *);
/* The publisher is there, and does not have this topic: stale, with the words. False: what can
 * still be read is read first, of an epoch that was granted before, too. */
bool pulse_without(struct tb_source *, const char *words);

/* notices.c */
/* A source was granted, and needs the group that the grant told; it needs it no more. */
void notices_join(struct tb_source *, const struct fabric_notices *);
void notices_leave(const struct tb_source *);
/* With each pulse: groups that are needed and not received are tried again. */
void notices_keep(struct tb_subscriber *);
void notices_take(struct tb_subscriber *);
/* Whether a topic's come, so that nobody needs to look or to be woken for it. */
bool notices_alive(const struct tb_source *);
/* Somebody says that head was reached; false when that should be looked at. */
bool notices_hint(struct tb_source *, uint64_t head);
/* The progress line says that it was not. */
void notices_false(struct tb_source *);

/* subscriber.c */
void subscriber_cleanup(struct tb_subscriber *);

#endif
