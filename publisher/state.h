/* SPDX-License-Identifier: Apache-2.0 */
/* The structures that the files of the publisher share: a bus, its topics, endpoints, sessions.
 *
 * The lock guards the list of topics and what T2 names. The control thread holds it for each turn.
 * Other threads take it to create or restart a topic, to add a block of counters, to count joins
 * and to change a ticket. tb_publish and tb_flush never take it.
 *
 * T1  The hot fields belong to the writing thread. No other thread reads or writes them.
 * T2  memory, exposures, shape and what depends on them change only under the publisher's lock: at
 *     creation and at a restart. The control thread reads them under the lock.
 * T3  The control thread sees the writer's work through the progress line's head word and through
 *     the atomics in `wakeup`, `touched`, `restarts` and `end_due`. */
#ifndef TICKBUS_PUBLISHER_STATE_H
#define TICKBUS_PUBLISHER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "bus/bounds.h"
#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/groups.h"
#include "bus/memory.h"
#include "bus/notice.h"
#include "bus/progress.h"
#include "bus/proof.h"
#include "bus/region.h"
#include "publisher/interrupts.h"
#include "publisher/names.h"
#include "publisher/wakeup.h"
#include "tickbus/publisher.h"

#define TOPIC_UNPUBLISHED_MAX 16384 /* names; further names only count in the total */

#define ENDPOINT_HOST_LISTS 256
#define TOPIC_NAME_LISTS    1024

struct session;
struct quota_host;
TAILQ_HEAD(join_list, join);
TAILQ_HEAD(session_list, session);

struct realm {
	char name[CONTROL_NAME_MAX + 1];
	uint8_t ticket[TB_TICKET_BYTES]; /* zeros: for clients without a ticket */
	uint8_t old_ticket[TB_TICKET_BYTES];
	uint64_t old_until_ms; /* of the old ticket, on clock_coarse_ms(); 0: no old ticket */
	char (*patterns)[TB_PATTERN_MAX + 1];
	size_t pattern_count;
	uint32_t index;           /* the realm's number in a fabric */
	uint32_t subscribers_max; /* at each address */
	bool whole;               /* includes all topics */
	struct memory page;
	struct bus_pulse pulse; /* counts intervals and changes of this realm's topics */
};

/* The exposures of one memory, by listener and realm; NULL: not exposed there. */
struct exposures {
	struct exposure *of[BOUND_LISTENERS_MAX][BOUND_REALMS_MAX];
};

typedef int writer_function(struct tb_topic *, const struct tb_update *, uint64_t time_ns);

struct tb_topic {
	/* The writing thread's (T1). */
	char *ring;
	char *last_value; /* NULL: none */
	struct progress_line *line;
	struct progress progress; /* as the line was last written */
	uint64_t sequence;        /* of the last record written */
	uint64_t whole; /* the last of them that ended a message; a line takes it with head */
	uint64_t slot_mask, prefetch_slots;
	uint64_t step;
	uint64_t salt, progress_salt, directory_salt;
	uint32_t slot_bytes, payload_max;
	uint32_t usual_bytes; /* payloads that tb_publish writes itself; all others are unusual */
	bool checked, manual_flush, marks_messages, ended;
	/* Writes a record of payload_max bytes; all its fields are right. */
	writer_function *usual;
	int (*unusual)(struct tb_topic *, const struct tb_update *);
	/* Behind each record: its last value, the end of its message, a flush. */
	int (*more)(struct tb_topic *, const struct tb_update *);
	struct names names;
	char *directory;
	struct wakeup wakeup;
	struct announcer *announcers[BOUND_LISTENERS_MAX];
	uint32_t announcer_count;
	_Atomic uint64_t notices; /* number of the last; grants load it */
	_Atomic uint64_t announced, unannounced;
	_Atomic uint64_t flushes;
	_Atomic uint32_t touched; /* set by each call, cleared by the control thread */
	uint32_t quality_cause;   /* of the quality in `progress` */
	struct tb_group *group;   /* NULL: no group */
	struct tb_topic *next_of_group;
	bool moved; /* in a flush of the group: its head moved, so others learn of it */

	/* Read by the control thread (T3). */
	_Atomic uint32_t end_due;
	_Atomic uint64_t restarts;

	/* Under the publisher's lock (T2). */
	struct tb_publisher *publisher;
	struct memory memory;
	struct exposures exposures;           /* shm: made at the first join, for all realms */
	uint32_t realms;                      /* that include it, a bit for each */
	uint32_t notice_group;                /* that its notices go to */
	uint8_t notice_key[NOTICE_KEY_BYTES]; /* of this epoch; the writing thread reads it too */
	struct region_shape shape;
	struct tb_schema *schema;
	char name[TB_TOPIC_NAME_MAX + 1];
	struct tb_topic *next_named;
	uint32_t flags;

	/* Under their own lock, held at most for the copy of a page. */
	pthread_mutex_t unpublished_lock;
	struct names unpublished;
	uint64_t unpublished_total;

	/* The control thread's, also under the lock. */
	struct join *joins;
	uint32_t join_count, sleepers; /* sleepers: joins that are armed */
	uint64_t silent; /* quarters of the stale bound without a call of the writer */
	uint64_t restarts_sent;
	bool end_sent;          /* the pages say that it ended, so its joins are owed an ending */
	uint64_t head_ticked;   /* the head at the last tick */
	uint64_t head_repeated; /* the head that was repeated last */
};

/* Topics that one thread writes in order, see group.c. */
struct tb_group {
	/* The writing thread's (T1). */
	struct tb_topic *topics;   /* by id; added by this thread, see the API */
	uint64_t open_ns;          /* the stamp of the open message; 0: no message is open */
	uint64_t done_ns;          /* of the last finished message; 0: there was none */
	uint64_t shown_ns;         /* W in the topics' lines */
	uint64_t clock_ns;         /* as read last */
	uint64_t retry_ms;         /* when times may begin again, after a failure; 0: now */
	_Atomic uint64_t set_back; /* the control thread reads it */

	struct tb_publisher *publisher;
	uint32_t id; /* number, above 0, and era, see region.h; the writing thread's */
	char name[BOUND_NAME_MAX + 1];
	struct tb_group *next; /* under the publisher's lock */
};

/* The last that a client learned of its granted epoch. */
enum join_sent { JOIN_SENT_NOTHING, JOIN_SENT_ENDING, JOIN_SENT_REVOKE };

/* A client's use of a topic. In the topic's list and in the session's table. */
struct join {
	struct session *session;
	struct tb_topic *topic;
	struct join *next_of_topic, **link_of_topic;
	TAILQ_ENTRY(join) owed, late; /* in those lists while is_owed, is_late */
	uint64_t epoch;               /* of the memory that was granted */
	uint64_t head_seen;           /* what the client had read when it went to sleep */
	enum join_sent sent;
	bool armed; /* set by join_arm() */
	bool is_owed, is_late;
};

/* A request for the catalogue that waits for its answer. */
struct catalogue_request {
	uint32_t number, after;
	char pattern[TB_PATTERN_MAX + 1];
};

/* A connected subscriber. */
struct session {
	struct tb_publisher *publisher;
	struct peer *peer;
	const struct realm *realm;
	struct quota_host *host; /* counts its place */
	struct session *next, **link;
	struct join **joins; /* by topic id - 1; NULL: not joined */
	uint32_t joins_room, join_count;
	struct join_list owed;         /* joins whose client must learn something (O1) */
	struct session_list *offering; /* the publisher's list that it is in; NULL: none */
	TAILQ_ENTRY(session) place;
	/* Requests that wait, in a ring of FABRIC_UNANSWERED that the first one makes; some: the
	 * session is in the publisher's list `asking`. */
	struct catalogue_request *asked;
	unsigned int asked_first, asked_count;
	uint64_t second_ms; /* when the second began in which `requests` came */
	uint32_t requests;
	TAILQ_ENTRY(session) asks;
	struct interrupts interrupts; /* on account of its sleepers */
	uint32_t listener;            /* index */
	uint64_t refused[BOUND_TOPICS_MAX / 64 +
			 1]; /* a bit by topic id: the last join was refused */
};

struct feed_block {
	char name[CONTROL_NAME_MAX + 1];
	const struct tb_counter *table;
	const _Atomic uint64_t *values;
	size_t count;
};

/* Where the bus listens; the user of the listener's callbacks. */
struct endpoint {
	struct tb_publisher *publisher;
	struct listener *listener;
	struct exposure *pages[BOUND_REALMS_MAX]; /* the realms' bus pages */
	const struct sockaddr_storage *group;     /* of notices by default; NULL: no notices */
	uint64_t second;                          /* on CLOCK_MONOTONIC, of the last look */
	uint32_t lines;                           /* logged; each second takes one away */
	uint32_t left_out; /* lines that were not logged, and not yet reported */
	uint32_t index;
	uint32_t subscribers[BOUND_REALMS_MAX];        /* sessions of each realm */
	struct quota_host *hosts[ENDPOINT_HOST_LISTS]; /* that have sessions */
	char identity[FABRIC_IDENTITY_BYTES];          /* the address, as clients dial it */
};

/* A multicast group, at each endpoint that has notices. */
struct notice_group {
	const struct sockaddr_storage *where;              /* NULL: each endpoint's own */
	struct announcer *announcers[BOUND_LISTENERS_MAX]; /* of heads; NULL: no notices there */
	uint64_t notices[BOUND_LISTENERS_MAX];             /* sent by them */
};

struct tb_publisher {
	pthread_mutex_t lock;
	pthread_mutex_t next;                     /* of the thread that is next to take the lock */
	struct tb_topic **topics;                 /* id - 1 */
	struct tb_topic *named[TOPIC_NAME_LISTS]; /* the same, by name */
	uint32_t topic_count, topics_max;
	struct tb_group *topic_groups; /* newest first */
	struct endpoint endpoints[BOUND_LISTENERS_MAX];
	uint32_t endpoint_count;
	struct groups groups;
	struct notice_group
		notice_groups[BOUND_NOTICE_GROUPS_MAX]; /* the bus's own, then groups.others */
	uint32_t notice_group_count;
	struct session *sessions;
	struct session_list ready, full; /* with offers to make now; with a full queue */
	struct session_list asking;      /* whose requests for the catalogue wait (CA1) */
	struct join_list late;           /* sleepers whose topic's word is not set */
	uint64_t late_due_ns;            /* the next look at them, on CLOCK_MONOTONIC; 0: none */
	uint64_t late_pause_ns;          /* before it */
	struct interrupts interrupts;    /* on account of all sleepers */
	struct feed_block feeds[BOUND_FEEDS_MAX];
	size_t feed_count;
	_Atomic uint64_t counters[BUS_COUNTERS]; /* the control thread's */

	struct realm *realms; /* at least one */
	uint32_t realm_count;
	struct fabric_common common;
	uint64_t bus_id;
	uint8_t secret[PROOF_SECRET_BYTES]; /* of the cookies; random at each start */
	char name[CONTROL_NAME_MAX + 1];
	uint32_t stale_ms, exit_wait_ms;
	uint32_t subscribers_max, subscribers_per_host; /* at each address */
	struct fabric_notices notices;                  /* as the options want them */
	int cpu, node;                                  /* -1: any */
	bool fence_in_flush;
	bool pin_warned;
	bool held; /* its listeners are not in epoll yet */

	tb_log_handler *log;
	void *log_user;

	pid_t process; /* that opened it; a forked child has a copy */
	pthread_t thread;
	int epoll_fd, timer_fd, event_fd;
	_Atomic bool closing;
	uint64_t close_by_ms;   /* on CLOCK_MONOTONIC, set before closing */
	uint64_t pulse_due_ns;  /* on CLOCK_MONOTONIC, the control thread's */
	uint64_t tick_due_ns;   /* the same; 0: no topic has notices */
	uint32_t tick_first;    /* index of the topic that the next tick begins with */
	uint32_t signals_first; /* the same, of the next look for signals */
	bool signals_left;      /* no look for signals has reached all topics since the last came */
	uint32_t sleepers_left; /* topics whose sleepers are not looked at since the pulse */
};

/* A thread that waits for the lock holds `next` meanwhile. The control thread wants the lock back
 * at once while it has work. It stands behind a waiting thread, which a mutex alone would let it
 * pass. */
static inline void publisher_lock(struct tb_publisher *publisher)
{
	pthread_mutex_lock(&publisher->next);
	pthread_mutex_lock(&publisher->lock);
	pthread_mutex_unlock(&publisher->next);
}

static inline void publisher_unlock(struct tb_publisher *publisher)
{
	pthread_mutex_unlock(&publisher->lock);
}

/* No reader has read beyond this. By any thread, under the lock. */
static inline uint64_t topic_reserved(const struct tb_topic *topic)
{
	return atomic_load_explicit(&topic->line->word[1], memory_order_acquire);
}

/* The head that readers see. By any thread, under the lock. */
static inline uint64_t topic_head(const struct tb_topic *topic)
{
	return atomic_load_explicit(&topic->line->word[0], memory_order_acquire);
}

/* The quality that readers see. By any thread, under the lock. */
static inline uint32_t topic_quality(const struct tb_topic *topic)
{
	struct progress progress;

	progress_load(topic->line, &progress);
	return progress.quality;
}

/* A client goes to sleep, or sleeps no longer; its topic counts sleepers. */
static inline void join_arm(struct join *join, bool armed)
{
	join->topic->sleepers += (uint32_t)armed - join->armed;
	join->armed = armed;
}

/* Whether a sleeper has something to read. An old epoch is read to its end. */
static inline bool join_has_news(const struct join *join)
{
	return join->epoch != join->topic->shape.epoch || topic_head(join->topic) > join->head_seen;
}

#endif
