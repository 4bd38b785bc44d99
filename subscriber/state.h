/* SPDX-License-Identifier: Apache-2.0 */
/* The structures of a subscriber, each below the other:
 *
 *   tb_subscriber     the connection to one bus, its pulse, its outstanding requests
 *   tb_subscription   a pattern, its handlers, and where reading begins
 *   tb_source         one topic that was joined for one subscription: its memory, and the position
 *
 * All of it belongs to the thread that uses the subscriber. Nothing is freed while a handler runs
 * or while a READ into it is outstanding. */
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
#include "bus/name_index.h"
#include "bus/notice.h"
#include "bus/record.h"
#include "bus/region.h"
#include "subscriber/call.h"
#include "subscriber/entries.h"
#include "subscriber/find.h"
#include "subscriber/handshake.h"
#include "subscriber/loss_window.h"
#include "subscriber/nap.h"
#include "tickbus/record.h"
#include "tickbus/subscriber.h"
#include "tickbus/ticket.h"

#define HALVES_MAX 2 /* batches of one topic at once, each in its half of the landing */

/* The senders of a topic's notices: its writer; the control thread, as sender 0. */
enum notice_sender { NOTICE_WRITER, NOTICE_HEADS, NOTICE_SENDERS };

/* The last notice of a sender that named the topic. */
struct last_notice {
	uint64_t number;
	uint64_t head;
};

struct choice;
struct conflate;
struct exempt;
struct image;
struct merge;
struct name_list;
struct watch;

/* A topic's memory, and the identity that its records, line and names must prove. */
struct mapping {
	struct remote *remote;
	const char *view; /* the memory in place; NULL: READs only */
	struct region_shape shape;
	struct region_layout layout;
	uint64_t record_salt, progress_salt, directory_salt;
	bool checked;
	record_taker *take; /* of its records in place */
	const struct tb_schema *schema;
	char (*names)[TB_INSTRUMENT_NAME_MAX + 1]; /* by instrument; "": not known yet */
	/* For tb_get in place, from its first call on, in a topic with checks. */
	const char *values;     /* the last values; NULL: not set yet */
	struct tb_record shown; /* by tb_get; size, epoch and data never change */

	uint32_t names_known;         /* all names of instruments below this are in `names` */
	uint32_t names_indexed;       /* names of instruments below this are in the index */
	struct name_index name_index; /* made when a name is first looked up */
	uint8_t notice_key[NOTICE_KEY_BYTES];
	uint64_t
		notice_numbers[NOTICE_SENDERS]; /* when it was granted: older notices are replays */
	struct image *image;                    /* NULL: the subscription has no images */
	struct watch *watch;                    /* NULL: the subscription is no watch list */
	struct choice *choice;     /* NULL: the subscription has no list of instruments */
	struct conflate *conflate; /* NULL: each record is delivered */
	uint64_t shown_ms; /* when a grant or an entry that showed this epoch was requested */
	unsigned int shown_rarely; /* of those in a row, each too long after the last */
};

/* Records that wait for the next call of on_batch: private copies that were proven, side by side in
 * slot layout. The position is behind them already. */
struct collection {
	char *memory; /* NULL: the subscription has no on_batch */
	size_t bytes;
	uint32_t stride;   /* slot_bytes of the present epoch */
	uint32_t places;   /* records that fit */
	uint32_t held;     /* records */
	uint32_t whole;    /* of them, up to the last that ends a message */
	uint8_t each_ends; /* TB_FLAG_LAST: each record is a message */
	bool due;          /* all of them, whole or not: a gap or an event waits behind them */
};

enum source_state {
	SOURCE_HEADER,  /* the header is fetched and compared */
	SOURCE_START,   /* the progress line is fetched, to find the start */
	SOURCE_FIND,    /* slots are copied, to find the start of TB_FROM_TIME */
	SOURCE_RUNNING, /* records are read */
	SOURCE_ENDED,   /* the topic ended and was read to its end */
	SOURCE_DEAD,    /* left; freed when no READ is outstanding */
};

/* Records that are READ together: first to end - 1. A batch is held while some of its records are
 * not delivered. A batch that was discarded has end 0; its READs may still land. */
struct batch {
	uint64_t first, end;
	unsigned int under_way; /* outstanding READs */
	bool failed;            /* a READ of it failed */
	bool asked;             /* the line was requested after all its READs had landed */
	bool proven;            /* and that line was valid */
	bool ahead;             /* no line counted its records when they were requested (N8) */
};

/* The search for the start of TB_FROM_TIME. */
struct start {
	struct find find;
	bool waits; /* the last copy is to be judged by a line */
	bool whole; /* that copy was whole, and had this time */
	uint64_t time_ns;
};

/* Slots that are READ together with the line (N8). */
struct ahead {
	uint64_t next;    /* `next` at the last look */
	uint64_t brought; /* records that the look before it brought */
	uint32_t bytes;   /* that were READ ahead since a record came */
};

#define VALUE_CHUNKS 16 /* READs of last-value slots that are outstanding at once */

/* Last-value slots, or directory entries, that a READ brings. count 0: free. */
struct value_chunk {
	uint32_t first, count;
	uint32_t taken; /* slots of it that were looked at */
	bool names;     /* directory entries */
	bool posted, under_way, failed;
	unsigned int number; /* of the pass that began it */
};

/* A pass over last-value slots: value_reads.h. */
struct value_reads {
	const uint64_t *wanted; /* a bit for each instrument */
	uint32_t range;         /* instruments below this */
	uint32_t at;            /* the pass goes on with this slot */
	uint32_t names_at;      /* and before with this name, if it is not known */
	bool names;             /* names come first */
	bool unread;            /* a READ of the pass failed */
	unsigned int number;    /* of the pass */
	struct value_chunk chunks[VALUE_CHUNKS];
};

struct tb_source {
	struct tb_subscription *subscription;
	struct tb_source *next_source;
	struct tb_source *next_of_id, **link_of_id;          /* in the index, by topic id */
	struct tb_source *next_of_name, **link_of_name;      /* and by name */
	struct tb_source *next_settling, **link_of_settling; /* link NULL: not in the list */
	char name[TB_TOPIC_NAME_MAX + 1];
	uint32_t slot; /* in the subscriber's table */
	enum source_state state;
	struct mapping mapping;
	struct mapping successor; /* the next epoch, once it is granted */
	bool has_successor;       /* the source switches when the old epoch is read to its end */
	bool orphan;              /* the connection was lost; the topic is to be joined again */
	uint32_t listed;          /* the last pass of the discovery whose catalogue has the topic */
	bool armed;               /* the publisher will wake the subscriber */
	bool stale;
	uint64_t entry_count;   /* the pulse count when its entry of the bus page was last used */
	uint64_t entry_lost_ms; /* since when the page has no valid entry of it; 0: it has */
	int stale_code; /* the reason for staleness that was reported last; 0: no reason yet */

	/* Position. */
	uint64_t next;             /* the sequence to read next; 0: reading has not begun */
	uint64_t started;          /* `next` at the start of this epoch: nothing was read before */
	uint64_t head;             /* the last head that is known */
	uint64_t written;          /* the head as last seen in the line: a hint */
	bool batched;              /* the head is watched, instead of slot `next` */
	uint64_t joined;           /* the head when the publisher counted the join */
	uint64_t successor_joined; /* the same of the successor */
	uint64_t next_when_lost; /* `next` when the publisher was last found gone; 0: it is alive */
	unsigned int tries;      /* failed copies of slot `next` while the window did not move */
	unsigned int idle;       /* empty looks in a row */
	bool look;               /* the progress line is to be read */
	bool copy_failed;        /* because a copy of slot `next` failed */
	unsigned int invalid;    /* reads of the line in a row that found it invalid */
	uint64_t invalid_ms;     /* when the first of them was */
	uint64_t next_when_invalid;
	uint64_t detour; /* not 0: records need more than their handler: holes or an image come
			    first, or only some instruments are chosen */
	uint64_t hole_first, hole_last; /* holes that are not reported yet; hole_first 0: no hole */
	uint32_t quality;               /* as the program knows it: enum tb_quality */
	uint32_t quality_at_head;       /* what a line with the head quality_head says */
	uint64_t quality_head;          /* 0: no line waits for its head to be reached */
	bool ahead;                     /* reading began beyond the head, where the quality is not
					 * known before the first record comes */

	/* Notices. */
	uint64_t hint;          /* a head that a notice claims; 0: no hint, or it was false */
	uint64_t hint_after_ns; /* hints before this are ignored; 0: all hints were true */
	uint32_t hint_pause_ms;
	struct last_notice last_notice[NOTICE_SENDERS];
	uint64_t noticed_head;         /* the highest head of a notice, or of the grant */
	bool noticed_writer;           /* a notice of the writer came since the grant */
	struct loss_window losses;     /* of the writer's notices */
	uint64_t noticed_in;           /* the datagram that named the topic last */
	uint64_t noticed_ms;           /* when a notice last had a head that may be true */
	struct fabric_notices notices; /* how notices travel, from the grant */

	/* READs. */
	char *landing;      /* halves, then one page for header, progress line and names */
	bool landing_local; /* plain memory: there is a view, so no READ lands in it */
	unsigned int halves;
	size_t half_bytes;
	struct batch batches[HALVES_MAX]; /* by half */
	unsigned int under_way;           /* outstanding READs, all kinds */
	bool page_under_way;              /* a READ into the landing's page is outstanding */
	uint64_t fetched_ns;              /* when the header or the line was last requested */
	struct ahead ahead_of_line;       /* N8 */
	uint32_t names_from;              /* the first entry of the names that are fetched */
	uint32_t name_wanted;

	struct value_reads value_reads; /* for images and watch lists */
	struct start start;             /* SOURCE_FIND */

	/* In a merge (merge_state.h). */
	uint64_t complete_ns; /* W of the line that `head` came with */
	uint8_t lines_owed;   /* lines to read until `head` is final, in a merge that drains */
	uint64_t limit_ns;    /* records after this time wait */
	uint64_t floor_ns;    /* records before this time come too late for the order */
	uint64_t passed_ns;   /* of the last record in this pull that did not wait; 0: none */
	uint64_t skip_ns;     /* the merge was there when the topic joined: earlier records are
			       * skipped; 0: no longer */
	uint64_t away_ms;     /* since when its memory is not the present memory; 0: it is */
	int leaving_code;
	bool held;     /* `record` is a proven copy of record `next`, which waits for its turn */
	bool finished; /* the line says that the topic ended */
	bool leaving;  /* the topic leaves when its memory was read */
	bool final;    /* and the last line of it was read */
	bool left;     /* and has left; it may come back */
	bool rejoins;  /* an earlier epoch was read: it joins with a new epoch */

	struct collection collected; /* for on_batch */
	struct record record;        /* the copy that is proven and delivered */
};

struct tb_subscription {
	struct tb_subscriber *subscriber;
	struct tb_subscription *next_subscription;
	struct tb_source *sources;
	struct tb_subscription_options options;
	char pattern[TB_PATTERN_MAX + 1];
	struct name_list *list; /* the chosen instruments; NULL: all */
	struct merge *merge;    /* TB_MERGE; NULL: topics are delivered one by one */
	struct exempt *exempt;  /* NULL: no conflation */
	bool discover;          /* the catalogue is to be requested */
	bool changed;           /* because the bus's topics changed */
	bool refused;           /* the refusal of the connection was reported */
	bool retry;             /* a join met a shortage; it is tried again with the next pulse */
	bool fresh;             /* tb_subscribe has not returned yet */
	bool waits;             /* TB_WAIT: the publisher's shortage is waited out */
	bool closing;
	uint64_t datagrams_before;    /* of the subscriber, when the subscription began */
	uint64_t datagrams_named;     /* that named one of its topics */
	uint64_t named_in, beaten_in; /* the last of them; the last with heads */
	int error; /* the last refusal while fresh, with error_text; 0: no refusal */
	char error_text[1024];
	/* Hash of the last refusal's text, by topic id, 0 for the catalogue. 0: no refusal. */
	uint64_t refusal_hash[BOUND_TOPICS_MAX + 1];
	uint64_t counters[SUBSCRIPTION_COUNTERS];
};

/* A request that is not answered yet. number 0: the place is free. */
struct discovery_request {
	uint32_t number;
	enum control_type type;
	uint32_t pass;                  /* of the discovery that made it */
	uint32_t index;                 /* of its topic in the catalogue */
	const struct tb_schema *schema; /* of its topic; JOIN */
	uint32_t topic_id;              /* JOIN */
	uint64_t epoch;                 /* JOIN */
	bool leave; /* the last reader left meanwhile; if the join is refused, it is ended */
};

/* The requests that find and join topics. */
struct discovery {
	struct tb_subscription *subscription; /* that is served; NULL: no subscription */
	struct discovery_request requests[FABRIC_UNANSWERED];
	uint32_t outstanding;
	uint32_t number;              /* of the last request */
	uint32_t pass;                /* counts catalogues */
	bool catalogued;              /* all pages have come; or the catalogue was refused */
	bool refused;                 /* the catalogue was */
	bool changed;                 /* the catalogue was requested because the topics changed */
	uint32_t after;               /* the last topic id of the catalogue so far */
	uint32_t count;               /* topics that match */
	uint32_t at;                  /* the topic that is requested next */
	struct control_topic *topics; /* BOUND_TOPICS_MAX */
	char *text;                   /* of the schema of topic `at` so far */
	uint32_t text_bytes;
};

/* Completed READs that were taken from the link and are not processed yet, in the order of arrival.
 * They are at most as many as the queue has places, and one more for the pulse (U2). So there is
 * always room for the READ that a call waits for. */
#define COMPLETIONS_MAX (FABRIC_DEPTH_MAX + 2)
struct completions {
	struct fabric_completion done[COMPLETIONS_MAX];
	unsigned int first, count;
};

/* What tb_get and its relatives need. A handler of tb_get_many may call tb_get, so each has a half
 * of the landing and a copy of its own. */
struct get {
	bool busy;              /* a handler of tb_get_many runs */
	char *landing;          /* two halves of batch_bytes; NULL: not needed yet */
	unsigned int under_way; /* outstanding READs into it */
	bool failed;            /* one of them failed */
	struct record copy;     /* the value that tb_get shows */
	struct record listed;   /* the value that a handler of tb_get_many is shown */
};

/* A word that shows whether a source has records (glance.h). */
struct glance {
	const _Atomic uint64_t *word;
	uint64_t expected; /* while there are none */
};

/* Sources by the topic id of their last grant, and by a hash of their name. */
struct topic_index {
	struct tb_source *by_id[BOUND_TOPICS_MAX + 1];
	struct tb_source *by_name[BOUND_TOPICS_MAX];
};

struct schema_cache {
	struct schema_cache *next;
	uint64_t fingerprint;
	struct tb_schema *schema;
};

struct tb_subscriber {
	const struct fabric_ops *ops;
	char *address;
	char *location;             /* the address without its scheme */
	struct link *link;          /* NULL between two tries to connect */
	struct handshake handshake; /* of the link */
	struct control_welcome welcome;
	bool welcomed;
	bool opening; /* tb_subscriber_open waits until the publisher has room */
	int64_t user; /* that listens; -1: not known */
	uint32_t flags, connect_ms, topics_max, batch_bytes, read_bytes;
	uint64_t poll_ns;                /* polling interval; 0: READ after READ */
	uint8_t ticket[TB_TICKET_BYTES]; /* zeros: no ticket */
	uint32_t stale_asked_ms;         /* the caller's stale bound; 0: the publisher's */
	uint32_t stale_ms; /* the stale bound; 0: not known before the first welcome */
	int gone_code;     /* why the last connection or try to connect ended */
	char gone_text[640];
	int lost_code; /* why the connection was lost; valid while `lost` is set */
	char lost_text[640];

	struct tb_subscription *subscriptions;
	struct tb_source **table; /* topics_max sources by slot */
	struct glance *glances;   /* by slot */
	uint32_t table_used;      /* slots below this were used at some time */
	uint32_t slots_full;      /* slots below this are in use */
	struct topic_index index;
	uint64_t
		leaves[BOUND_TOPICS_MAX + 1]; /* epochs by topic id: leaves that are not sent yet */
	bool leaves_owed;                     /* perhaps */
	struct tb_source *settling; /* sources whose header or start was not known lately */
	uint32_t first_polled;      /* the slot that the last poll began with */
	uint64_t rounds;            /* passes over the table by tb_poll */
	bool untidy;                /* something ended and is not freed yet */
	struct discovery discovery;
	uint32_t answers; /* since the topics were looked at */
	bool quiet;       /* no topic had a record then */
	struct schema_cache *schemas;
	unsigned int schemas_learned; /* since unused schemas were forgotten */

	/* The bus page. */
	struct remote *page;
	const char *page_view;
	char *page_copy; /* a landing; NULL where there is a view */
	size_t page_bytes;
	bool pulse_under_way;   /* its READ is outstanding */
	uint64_t page_asked_ms; /* since when the pulse is awaited; 0: it is not awaited */
	uint32_t page_grace_ms; /* grace period after the caller was away */
	bool lost;              /* the connection was lost, and is not back yet */
	uint64_t pulse_count, pulse_ms;
	uint32_t changes, pulse_topics;
	bool pulse_known;
	struct entries entries;         /* those to be READ in this look */
	struct entries landed;          /* those whose READs have completed */
	unsigned int entries_under_way; /* their outstanding READs */
	uint64_t entries_ms;            /* when these were posted */
	struct fabric_notices groups[BOUND_NOTICE_GROUPS_MAX]; /* that sources need, each once */
	uint32_t group_count;
	uint64_t datagrams;    /* processed */
	uint64_t page_ms;      /* of the last pulse_look */
	uint64_t heard_ms;     /* of the turn before the last: messages that come now are younger */
	uint64_t retry_ms;     /* when to try to connect again */
	uint64_t turn_ms;      /* of the last turn */
	uint64_t all_woken_ms; /* of the last turn that woke all sources */
	unsigned int failures; /* tries to connect that failed since the last welcome */
	bool woken;            /* perhaps by something other than a record: a turn is due */
	unsigned int under_way; /* outstanding READs of all sources, and those in `completions` */
	struct completions completions;
	struct get get;
	struct fabric_read waiting[FABRIC_DEPTH_MAX]; /* READs that go out with one doorbell (U3) */
	unsigned int waiting_count;
	bool delivers; /* what was READ is delivered in this turn */

	struct nap nap;    /* instead of a sleep, while records come often */
	unsigned int soon; /* waits in a row for something that is due soon and did not come */

	uint32_t records_max; /* of the tb_poll that runs */

	int epoll_fd, timer_fd;
	int link_fd; /* the link's descriptor in epoll; -1: not in epoll */
	bool descriptor_mode;
	bool closing;
	struct call call; /* that runs handlers now; a forked child has a copy */
};

/* False if the program only asks for values: it follows nothing. */
static inline bool source_follows(const struct tb_source *source)
{
	return !(source->subscription->options.flags & TB_VALUES);
}

/* False if the program only asks for values, or watches them. */
static inline bool source_reads_records(const struct tb_source *source)
{
	return !(source->subscription->options.flags & (TB_VALUES | TB_WATCH));
}

#endif
