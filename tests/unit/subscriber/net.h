/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher and a subscriber over a fabric that can be stopped at any point, "net:NAME". Its
 * shared memory is reached by READs only, unless it is viewed. */
#ifndef TICKBUS_TESTS_NET_H
#define TICKBUS_TESTS_NET_H

#include <criterion/criterion.h>
#include <sched.h>

#include "bus/bounds.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#define NET_QUEUE 16 /* received notices that are not processed yet */

extern struct net {
	struct tb_publisher *publisher;
	bool viewed;                 /* memory has a view */
	enum read_kind held;         /* READs of this and later kinds are refused; 0: no READ is */
	bool landless;               /* landings cannot be allocated */
	bool unanswered;             /* READs never complete */
	bool entries_damaged;        /* READs bring entries of the bus page with a wrong check */
	bool short_once;             /* the publisher has no descriptor for the first join */
	bool succeeded;              /* then another publisher replaces it */
	struct tb_schema *successor; /* schema of its topic t; NULL: it has no topic */
	uint32_t hold_join; /* topic id whose join stops the publisher until net_release() */
	bool holding;
	uint32_t held_ms; /* pass on the clock when it is stopped */
	bool cut;         /* the connection is lost, once */
	bool away;        /* no publisher listens */
	/* An epoch whose memory was withdrawn: a READ of it ends the connection, as over RC. */
	uint64_t gone_epoch;
	unsigned int gone_reads;
	uint64_t reads[READ_ENTRIES + 1], read_bytes[READ_ENTRIES + 1]; /* by kind */
	unsigned int leaves, reaps, tries, settles;
	unsigned int schemas, joins; /* requests */
	const char *landing;         /* the first that a READ of records used */
	size_t landed;               /* bytes of it that were used */
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
/* A publisher whose bus page has room for this many topics. */
void net_publisher_for(uint32_t topics_max);
struct tb_source *net_read_on(bool viewed);
/* Takes turns, which deliver no record, until the next epoch is known. */
void net_wait_for_successor(const struct tb_source *);
uint64_t net_counted(const struct tb_subscription *subscription, enum subscription_counter counter);
bool net_joined(size_t joins);
/* Connected, and every matching topic is joined. */
bool net_served(void);
void net_reconnect(void);
struct tb_topic *net_topic(const char *name, struct tb_schema *schema);
/* Subscribes to t and holds back READs of this kind and later kinds. */
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
