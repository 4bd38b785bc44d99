/* SPDX-License-Identifier: Apache-2.0 */
/* A topic, its writer and a subscriber in a single thread. One runs inside a call of the other,
 * between any two steps (steps.h). So every interleaving happens in every run, without luck. */
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
	uint64_t steps;                /* how often `inside` ran */
	void (*inside)(struct walk *); /* at the step that is due */
	uint64_t burst;                /* records that `inside` publishes */
	unsigned int polls;            /* how often `inside` polls */
	uint32_t quality;              /* that was stated last */
	uint64_t changed;              /* the sequence of its record */
	uint64_t words[TRUTH_PAYLOAD_SMALL / 8];
	/* Copies of last values begun inside the writer's call and finished after it. */
	uint8_t value[TRUTH_INSTRUMENTS][64];
	uint64_t taken[TRUTH_INSTRUMENTS]; /* a bit for each byte */
};

/* Flags of a topic. Afterwards the ring is full, and the reader has read it all. */
void walk_open(struct walk *, const char *scheme, uint32_t flags, uint64_t seed);
void walk_close(struct walk *);

void walk_publish(struct walk *, uint64_t count);
/* States the other of good and suspect. */
void walk_state(struct walk *);
/* Checks in place: a line that counts the record of the last change has its quality. */
void walk_line(struct walk *);
/* Polls until every written record is accounted for. */
void walk_drain(struct walk *);
/* Makes the head known to a reader by READ, which has not fetched the records before it yet. */
void walk_know_head(struct walk *);
/* Undoes the end of the topic, for writer and reader. A restart would take too long for so many
 * rounds. */
void walk_revive(struct walk *);
/* Gives the reader a hint of one more record, as if the last hint was long ago. It then reads the
 * progress line. */
void walk_hint(struct walk *);
/* Runs `call`, and walk->inside at its k-th step. False: it has fewer steps. */
bool walk_step(struct walk *, unsigned int k, void (*call)(struct walk *));
/* Fails the test if too few steps were taken, as in a file that was not built for steps. */
void walk_was_stepped(const struct walk *);
/* Fails the test if the tally has a complaint. `where`, a, b and k say what was tried. */
void walk_check(const struct walk *, const char *where, uint64_t a, uint64_t b, unsigned int k);

/* Checks last values in place: each is being written, or is right and as new as the head. */
void walk_values(struct walk *);
/* Checks last values copied bytewise in two parts: each fails its check, or is right. */
void walk_values_begin(struct walk *);
void walk_values_finish(struct walk *);

#endif
