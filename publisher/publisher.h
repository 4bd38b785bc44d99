/* SPDX-License-Identifier: Apache-2.0 */
/* A bus: its topics, its listeners and the thread that answers for them.
 *
 * The lock guards the list of topics and what topic.h puts under it (T2). The control thread holds
 * it while it works, others take it to create and restart topics, to add a block of counters and to
 * count joins: never in tb_publish or tb_flush. */
#ifndef TICKBUS_PUBLISHER_PUBLISHER_H
#define TICKBUS_PUBLISHER_PUBLISHER_H

#include <pthread.h>
#include <stdarg.h>

#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/groups.h"
#include "publisher/realm.h"
#include "bus/bounds.h"
#include "publisher/topic.h"

struct session;

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
	uint64_t close_by_ms; /* on CLOCK_MONOTONIC, set before closing */
};

void publisher_lock(struct tb_publisher *);
void publisher_unlock(struct tb_publisher *);
void publisher_log(const struct tb_publisher *, enum tb_log_level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Whether a topic of this name may be added: 0, -EEXIST, -ENOSPC. */
int publisher_room(struct tb_publisher *, const char *name);
/* Makes a topic's memory readable in its realms over every network fabric there is, before its
 * first record: what is to be registered is registered now, or said to be impossible, and nothing
 * of it done. Under the lock. */
int publisher_expose(struct tb_publisher *, const struct region_shape *, const struct memory *,
		     uint32_t realms, struct exposures *);
/* Takes a topic's exposures back; under the lock, or while no control thread runs. */
void publisher_withdraw(struct exposures *);
/* What a bus may be called, and a realm: 0, or -EINVAL with words about the option `what`. */
int publisher_name_check(const char *what, const char *name);
void publisher_pin(struct tb_publisher *, const struct memory *);

/* announce.c: notices. The senders of heads at a endpoint, to the bus's own group. */
int announce_endpoint(struct endpoint *);
/* A topic's senders; under the lock, before its first record and after its last. multicast: the
 * topic's own group, or NULL. -EINVAL; -ENOSPC: the bus has BOUND_NOTICE_GROUPS_MAX. */
int announce_open(struct tb_topic *, const char *multicast);
void announce_close(struct tb_topic *);
/* The topic's head; by the publishing thread. */
void announce_topic(struct tb_topic *);
/* All heads, each to its topic's group; with each pulse, under the lock. */
void announce_heads(struct tb_publisher *);
/* How a topic's notices travel from a endpoint. */
void announce_told(const struct endpoint *, const struct tb_topic *, struct fabric_notices *);
void announce_end(struct tb_publisher *);

/* server.c: the control thread. */
extern const struct listener_calls server_calls;
void *server_run(void *publisher);
/* Writes pulse and entries of the bus pages of these realms, a bit for each; under the lock. */
void server_pulse(struct tb_publisher *, uint32_t realms);

/* session.c: joins. */
struct join *session_find(const struct session *, const struct tb_topic *);
struct join *session_join(struct session *, struct tb_topic *);
void session_leave(struct join *);
void session_close(struct session *);
/* Sends; a subscriber that does not take it is dropped and its session freed: -ENOTCONN. */
int session_send(struct session *, const struct control_message *, struct exposure *given);
/* Sends what can wait: -EAGAIN when the subscriber's queue is full, else as session_send. */
int session_offer(struct session *, const struct control_message *);

/* answers.c: what a control message of a subscriber asks for. -ENOTCONN: the session is no more. */
int answers_give(struct session *, const struct control_message *);
/* Looks at a topic's sleepers and wakes those that have something to read; for whom its queue has
 * no room with a later look, at the next pulse at the latest. */
void answers_wake(struct tb_topic *);

#endif
