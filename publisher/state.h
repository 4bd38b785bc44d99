/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the publisher share: a bus, its topics, its endpoints, its sessions.
 *
 * The lock guards the list of topics and what T2 puts under it. The control thread holds
 * it while it works, others take it to create and restart topics, to add a block of counters and to
 * count joins: never in tb_publish or tb_flush.
 *
 * T1  The hot fields belong to the writing thread. Nobody else reads or writes them.
 * T2  memory, exposures, shape and what hangs on them change only under the publisher's lock: at
 *     creation and at a restart. The control thread reads them under the lock.
 * T3  The control thread learns of the writer's work through the progress line's head word, and
 *     through the atomics in `wakeup`, `touched`, `restarts` and `end_due`. */
#ifndef TICKBUS_PUBLISHER_STATE_H
#define TICKBUS_PUBLISHER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bus/bounds.h"
#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/groups.h"
#include "bus/memory.h"
#include "bus/progress.h"
#include "bus/region.h"
#include "publisher/names.h"
#include "publisher/wakeup.h"
#include "tickbus/publisher.h"

#define TOPIC_UNPUBLISHED_MAX 16384 /* names; records of further ones are counted in all */

struct session;

struct realm {
	char name[CONTROL_NAME_MAX + 1];
	uint8_t ticket[TB_TICKET_BYTES]; /* zeros: what is shown by who has none */
	char (*patterns)[TB_PATTERN_MAX + 1];
	size_t pattern_count;
	uint32_t index; /* what fabrics know it by */
	bool whole;     /* all topics are in it, there is nothing to hide */
	struct memory page;
	struct bus_pulse pulse; /* its count tells of time and of the realm's topics alone */
};

/* Of one memory: for each listener and realm; NULL: not exposed there. */
struct exposures {
	struct exposure *of[BOUND_LISTENERS_MAX][BOUND_REALMS_MAX];
};

struct tb_topic {
	/* The writing thread's (T1). */
	char *ring;
	char *last_value; /* NULL: none */
	struct progress_line *line;
	struct progress progress; /* as the line was last written */
	uint64_t sequence;        /* of the last record written */
	uint64_t slot_mask;
	uint64_t step;
	uint64_t salt, progress_salt, directory_salt;
	uint32_t slot_bytes, payload_max;
	bool checked, manual_flush, ended;
	bool more; /* is done for a record: a last value, a flush */
	struct names names;
	char *directory;
	struct wakeup wakeup;
	struct announcer *announcers[BOUND_LISTENERS_MAX];
	uint32_t announcer_count;
	uint64_t notices;
	_Atomic uint64_t announced, unannounced;
	_Atomic uint64_t flushes;
	_Atomic uint32_t touched; /* set by each call, cleared by the control thread */

	/* Told to the control thread (T3). */
	_Atomic uint32_t end_due;
	_Atomic uint64_t restarts;

	/* Under the publisher's lock (T2). */
	struct tb_publisher *publisher;
	struct memory memory;
	struct exposures exposures; /* shm: made when the first peer joins, and for all realms */
	uint32_t realms;            /* that may read it, a bit for each */
	uint32_t notice_group;      /* that its notices go to */
	struct region_shape shape;
	struct tb_schema *schema;
	char name[TB_TOPIC_NAME_MAX + 1];
	uint32_t flags;

	/* Under their own lock, never held for longer than a copy of a page. */
	pthread_mutex_t unpublished_lock;
	struct names unpublished;
	uint64_t unpublished_total;

	/* The control thread's, under the lock too, since topics come and go there. */
	struct join *joins;
	uint32_t join_count;
	uint64_t silent; /* quarters of the stale bound without a call of the writer */
	uint64_t restarts_sent;
	bool end_sent;
};

/* A subscriber's hold on a topic. In two lists: its topic's and its session's. */
struct join {
	struct session *session;
	struct tb_topic *topic;
	struct join *next_of_topic, **link_of_topic;
	struct join *next_of_session, **link_of_session;
	uint64_t epoch;     /* of the memory it was given */
	uint64_t head_seen; /* what it had read when it went to sleep */
	bool armed;
};

/* A connected subscriber. */
struct session {
	struct tb_publisher *publisher;
	struct peer *peer;
	const struct realm *realm;
	struct session *next, **link;
	struct join *joins;
	uint32_t listener;                           /* index */
	uint64_t refused[BOUND_TOPICS_MAX / 64 + 1]; /* a bit by topic id: its join was, last */
};

struct feed_block {
	char name[CONTROL_NAME_MAX + 1];
	const struct tb_counter *table;
	const _Atomic uint64_t *values;
	size_t count;
};

/* What a listener's callbacks are given: which of them called. */
struct endpoint {
	struct tb_publisher *publisher;
	struct listener *listener;
	struct exposure *pages[BOUND_REALMS_MAX]; /* the realms' bus pages */
	const struct sockaddr_storage *group;     /* that notices go to by default; NULL: none */
	uint64_t second;                          /* on CLOCK_MONOTONIC, that `lines` are of */
	uint32_t lines;                           /* that its peers gave reason for */
	uint32_t index;
};

/* A multicast group, at each endpoint that has notices. */
struct notice_group {
	const struct sockaddr_storage *where;              /* NULL: each endpoint's own */
	struct announcer *announcers[BOUND_LISTENERS_MAX]; /* of heads; NULL: no notices there */
	uint64_t notices[BOUND_LISTENERS_MAX];             /* sent by them */
};

struct tb_publisher {
	pthread_mutex_t lock;
	struct tb_topic **topics; /* id - 1 */
	uint32_t topic_count, topics_max;
	struct endpoint endpoints[BOUND_LISTENERS_MAX];
	uint32_t endpoint_count;
	struct groups groups;
	struct notice_group
		notice_groups[BOUND_NOTICE_GROUPS_MAX]; /* the bus's own, then groups.others */
	uint32_t notice_group_count;
	struct session *sessions;
	struct feed_block feeds[BOUND_FEEDS_MAX];
	size_t feed_count;
	_Atomic uint64_t counters[BUS_COUNTERS]; /* the control thread's */

	struct realm *realms; /* at least one */
	uint32_t realm_count;
	struct fabric_common common;
	uint64_t bus_id;
	char name[CONTROL_NAME_MAX + 1];
	uint32_t stale_ms, exit_wait_ms;
	struct fabric_notices notices; /* as the options want them */
	int cpu, node;                 /* -1: any */
	bool fence_in_flush;
	bool pin_warned;
	bool held; /* its listeners are not looked at yet */

	tb_log_handler *log;
	void *log_user;

	pid_t process; /* that opened it; a child that was forked has a copy */
	pthread_t thread;
	int epoll_fd, timer_fd, event_fd;
	_Atomic bool closing;
	uint64_t close_by_ms;  /* on CLOCK_MONOTONIC, set before closing */
	uint64_t pulse_due_ns; /* on CLOCK_MONOTONIC, the control thread's */
};

static inline void publisher_lock(struct tb_publisher *publisher)
{
	pthread_mutex_lock(&publisher->lock);
}

static inline void publisher_unlock(struct tb_publisher *publisher)
{
	pthread_mutex_unlock(&publisher->lock);
}

/* The head that readers can see; by any thread, under the lock. */
static inline uint64_t topic_head(const struct tb_topic *topic)
{
	return atomic_load_explicit(&topic->line->word[0], memory_order_acquire);
}

#endif
