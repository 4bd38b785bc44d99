/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher and a subscriber over a fabric whose READs land when the test says so, "late:NAME".
 */
#ifndef TICKBUS_TESTS_LATE_H
#define TICKBUS_TESTS_LATE_H

#include <criterion/criterion.h>

#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#define BATCH_BYTES   8192
#define SLOTS_OF_READ 16
#define HALF_SLOTS    (BATCH_BYTES / 2 / 64)
#define READS_OF_HALF (HALF_SLOTS / SLOTS_OF_READ)
#define HELD_MAX      64

extern struct late {
	struct tb_publisher *publisher;
	struct fabric_read held[HELD_MAX]; /* in the order in which they were posted */
	unsigned int count, places;        /* places: size of the queue */
	struct fabric_completion done[HELD_MAX];
	unsigned int done_count;
	bool at_once;         /* READs complete when they are collected */
	bool images_held;     /* READs of images are held */
	bool page_held;       /* READs of the line and of names are held, as those of slots */
	char story[512];      /* s: slots posted, S: landed; l, L: the line */
	bool cut;             /* the connection is lost, once */
	bool silent;          /* no READ completes, the bus page's included */
	bool page_fails;      /* READs of the bus page fail */
	unsigned int entries; /* READs of entries of the bus page */
	unsigned int lists;   /* of READs that were posted */
	unsigned int refused; /* this READ from now on is refused, once; 0: no READ */
	unsigned int polls, breaks;
} late;

extern struct tb_topic *topic;
extern struct tb_subscriber *subscriber;
extern struct tb_subscription *subscription;
extern struct tb_source *source;
extern struct notes notes;

/* Completes the i-th held READ with the memory of this moment, or with an error. */
void late_land(unsigned int i, int status);
void late_enter(void);
void late_leave(void);
/* A reader of a topic with these many slots and records. */
void late_read_on(uint32_t slots, uint64_t records, uint32_t flags);
void late_poll_once(void);
unsigned int late_held(enum read_kind kind);
unsigned int late_slots_held(void);
/* The READ of this kind that was posted first and has not landed; late.count: there is none. */
unsigned int late_find(enum read_kind kind);
/* Two records are read: the names of their instruments are known. */
void late_two_read(uint32_t flags);
/* READs into both halves are outstanding. */
void late_both_under_way(uint64_t records, uint32_t flags);
void late_land_half(unsigned int first);
uint64_t late_counted(enum subscription_counter counter);
void late_expect_all(uint64_t records);
bool late_is_discovered(void);

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition);           \
			late_poll_once();                                                          \
		}                                                                                  \
	} while (0)

#endif
