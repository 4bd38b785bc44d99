/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the faults of a connection, and counts them.
 *
 * Each fault has a sequence of its own. It is made from the seed, and from the number of the
 * connection among those of this process with that seed. So the same seed and the same calls give
 * the same faults. Another probability for a fault leaves the other faults as they were.
 *
 * Threads  Only the connection's thread draws from it. Any thread may read the counts. */
#ifndef TICKBUS_BUS_FAULT_CHANCE_H
#define TICKBUS_BUS_FAULT_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/fault/fault_plan.h"

struct fault_chance {
	uint64_t state[FAULT_KINDS];
	uint32_t billionths[FAULT_KINDS];
};

/* Begins the sequences of a new connection. */
void fault_chance_begin(struct fault_chance *, const struct fault_plan *);

/* Whether the fault happens now. */
bool fault_chance_met(struct fault_chance *, enum fault_kind);

/* 64 random bits of the fault's sequence; a number from 0 to bound - 1. */
uint64_t fault_chance_bits(struct fault_chance *, enum fault_kind);
uint64_t fault_chance_below(struct fault_chance *, enum fault_kind, uint64_t bound);

/* Counts a fault that happened. */
void fault_counted(enum fault_kind);

#endif
