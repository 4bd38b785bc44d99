/* SPDX-License-Identifier: Apache-2.0 */
/* What the text after "fault:" asks for: "seed=7,tear=0.01,drop=0.1/shm:demo". The seed comes from
 * the text, since the same seed repeats the same faults. Each fault has a probability from 0 to 1,
 * with at most 9 decimals. Default 0. */
#ifndef TICKBUS_BUS_FAULT_PLAN_H
#define TICKBUS_BUS_FAULT_PLAN_H

#include <stdint.h>

#include "bus/fabric.h"

#define FAULT_SCHEME  "fault"
#define FAULT_BILLION 1000000000 /* the probability 1 */

enum fault_kind {
	/* of a notice */
	FAULT_DROP,
	FAULT_DUP,
	FAULT_REORDER,
	/* of a notice or a READ */
	FAULT_DELAY,
	/* of a READ */
	FAULT_TEAR,
	FAULT_FAIL,
	/* of a READ or a message, either way */
	FAULT_DISCONNECT,
	FAULT_STALL,
	/* of a READ of the region that came with the welcome */
	FAULT_FREEZE,
	FAULT_KINDS
};

struct fault_plan {
	uint64_t seed;
	uint32_t billionths[FAULT_KINDS]; /* the probability of each fault */
	const struct fabric_ops *ops;     /* of the fabric below, */
	const char *address;              /* and the address there, without its scheme */
};

/* Parses the text after "fault:". 0, or -EINVAL with a message: where, found, expected. */
int fault_plan_parse(const char *text, struct fault_plan *);

/* The name of a fault in an address. */
const char *fault_name(enum fault_kind);

#endif
