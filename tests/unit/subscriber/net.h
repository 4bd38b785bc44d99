/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher and a subscriber over a fabric that can be stopped at any point, "net:NAME": shared
 * memory that only READs reach, unless it is viewed. */
#ifndef TICKBUS_TESTS_NET_H
#define TICKBUS_TESTS_NET_H

#include <criterion/criterion.h>
#include <sched.h>

#include "bus/bounds.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#define NET_QUEUE 16 /* notices that are received and not taken yet */

extern struct net {
	struct tb_publisher *publisher;
	bool viewed;         /* memory can be looked at in place */
	enum read_kind held; /* READs of this kind and later ones are not taken; 0: all are */
	bool landless;       /* there is no memory for READs to land in */
	bool unanswered;     /* READs are taken, and never complete */
	bool short_once;     /* the publisher has no descriptor for the first join */
	bool succeeded;      /* and then another one takes its place */
	struct tb_schema *successor; /* of that one's topic t; NULL: it has none */
	uint32_t hold_join; /* of this topic id: the publisher is held until net_release() */
	bool holding;
	uint32_t held_ms; /* pass at once when it is held */
	bool cut;         /* the connection is gone, once */
	bool away;        /* nobody listens */
	unsigned int leaves, reaps, tries;
	unsigned int schemas, joins; /* that were asked for */
	const char *landing;         /* of records */
	size_t landed;               /* up to here */
	uint8_t notices[NET_QUEUE][BOUND_NOTICE_BYTES_MAX];
	size_t notice_bytes[NET_QUEUE];
	unsigned int first_notice, notice_count;
} net;

extern struct tb_subscriber *subscriber;
extern struct notes notes;

void net_release(void);
void net_enter(void);
void net_leave(void);
void net_publisher_again(uint32_t stale_ms);
struct tb_source *net_read_on(bool viewed);
uint64_t net_counted(const struct tb_subscription *subscription, enum subscription_counter counter);
bool net_joined(size_t joins);
/* Connected, and every topic that is to be joined has been. */
bool net_served(void);
void net_reconnect(void);
struct tb_topic *net_topic(const char *name, struct tb_schema *schema);
/* A subscription to t, of which nothing of this kind was READ yet. */
void net_subscribe_unread(enum read_kind kind);

/* Polls, at most `records` each time, until it is so. */
#define UNTIL(condition, records)                                                                  \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition ": %s",     \
				     notes.text ? notes.text : "");                                \
			cr_assert_geq(tb_poll(subscriber, records), 0, "%s", tb_error());          \
			sched_yield();                                                             \
		}                                                                                  \
	} while (0)

#endif
