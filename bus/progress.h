/* SPDX-License-Identifier: Apache-2.0 */
/* The cache line that says how far a ring is written.
 *
 * P-I1  head counts records that are complete in their slots.
 * P-I2  No slot of record n is touched before a line with reserved >= n is written.
 * P-I3  Within an epoch, head and instruments never decrease, and first never changes. reserved
 *       decreases only to head, when the topic ends or leaves the epoch.
 * P-I4  A line's quality is at least as new as its head: a line that counts the record of a change
 *       has that change.
 * P-I5  In a topic that marks messages, `whole` is the last record up to head that ended an input
 *       message, 0 before the first. The end of the topic ends the open message. In other topics
 *       whole is 0.
 * P-I6  In a topic of a group, complete_ns is W: this line's head counts all records of the topic
 *       with time_ns up to W. W is the stamp of a finished message. It never decreases, not even
 *       from an epoch to the next. In other topics W is 0. */
#ifndef TICKBUS_BUS_PROGRESS_H
#define TICKBUS_BUS_PROGRESS_H

#include "bus/record.h"
#include "bus/region.h"

enum topic_state { TOPIC_LIVE = 1, TOPIC_ENDED = 2 };

/* A private copy. The line in shared memory has the same fields, as _Atomic words. */
struct progress {
	uint64_t head;
	uint64_t reserved;
	uint64_t first; /* the lowest sequence this memory ever held */
	uint64_t epoch;
	uint32_t instruments;
	uint8_t state;   /* enum topic_state */
	uint8_t quality; /* enum tb_quality, at least as new as head (P-I4) */
	uint16_t zero;
	uint64_t complete_ns; /* W: head counts all records up to this time (P-I6) */
	uint64_t whole;       /* the last sequence that ended an input message (P-I5) */
	uint64_t check;
};
static_assert(sizeof(struct progress) == 64, "one cache line");
static_assert(offsetof(struct progress, state) == 36, "layout 2");
static_assert(offsetof(struct progress, complete_ns) == 40, "layout 2");

struct progress_line {
	_Atomic uint64_t word[8];
};

void progress_store(struct progress_line *line, struct progress *progress, bool checked,
		    uint64_t salt);

/* Loads the words of a shared line: each word whole, but not all together. progress_verify decides.
 */
void progress_load(const struct progress_line *line, struct progress *copy);

/* 0; or -EAGAIN if the copy is torn, from another epoch, or contradicts itself. Contradictions are
 * head > reserved, reserved beyond head + slots, first beyond head + 1, whole > head, more
 * instruments than capacity, an unknown state or quality. In a topic without group, W must be 0. A
 * field without a meaning yet must be zero. -EAGAIN also for counts so high that a reader's sums
 * would wrap. An unchecked line (shared memory only) does not prove that its words belong together.
 * Each word is right on its own, and every use must hold with that. */
int progress_verify(struct progress *copy, const struct region_shape *shape, uint64_t salt);

/* The lowest sequence that may still be in the ring. */
uint64_t progress_oldest(const struct progress *copy, uint64_t slots);

#endif
