/* SPDX-License-Identifier: Apache-2.0 */
/* One topic, its writer and a subscriber, all in one thread: one of them runs inside a call of the
 * other, between any two steps (steps.h). What a race would need luck for happens here every time,
 * at every place. */
#ifndef TICKBUS_TESTS_WALK_H
#define TICKBUS_TESTS_WALK_H

#include "tests/stress/tally.h"

#define WALK_SLOTS 64

struct walk {
	struct tb_publisher *publisher;
	struct tb_topic *topic;
	struct tb_subscriber *subscriber;
	struct tally tally;
	_Atomic uint64_t written;
	uint64_t random;
	uint64_t steps;                /* that were taken: something ran inside */
	void (*inside)(struct walk *); /* at the step that is due */
	uint64_t burst;                /* what it publishes */
	unsigned int polls;            /* how often it polls */
	uint64_t words[TRUTH_PAYLOAD_SMALL / 8];
	/* Copies of last values begun inside the writer's call and finished after it. */
	uint8_t value[TRUTH_INSTRUMENTS][64];
	uint64_t taken[TRUTH_INSTRUMENTS]; /* a bit for each byte */
};

/* flags as of a topic; the ring is full and the reader has read it all. */
void walk_open(struct walk *, const char *scheme, uint32_t flags, uint64_t seed);
void walk_close(struct walk *);

void walk_publish(struct walk *, uint64_t count);
/* Polls until all that was written is accounted for. */
void walk_drain(struct walk *);
/* A reader by READ knows the head, as if it had looked, but has not fetched what is before it. */
void walk_know_head(struct walk *);
/* The topic has ended, or soon has for the reader: as if it had not, for both. A restart would do
 * too, but takes so long that little could be tried. */
void walk_revive(struct walk *);
/* As hints do: the progress line is to be looked at, a record more is said to be there; and the
 * last hint was long ago. */
void walk_hint(struct walk *);
/* Runs call with walk->inside at its k-th step; false when it has fewer. */
bool walk_step(struct walk *, unsigned int k, void (*call)(struct walk *));
/* Fails the test if hardly any step was taken: files that were not built for steps prove nothing.
 */
void walk_was_stepped(const struct walk *);
/* Fails the test if anything told so far was wrong. */
void walk_check(const struct walk *, const char *where, uint64_t a, uint64_t b, unsigned int k);

/* Last values, read in place: each is being written, or right and no older than head says. */
void walk_values(struct walk *);
/* Last values, copied bytewise in two parts: each fails its check, or is right. */
void walk_values_begin(struct walk *);
void walk_values_finish(struct walk *);

#endif
