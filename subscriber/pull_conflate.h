/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers a conflated topic: walks its ring, and copies the values that have changed. */
#ifndef TICKBUS_SUBSCRIBER_PULL_CONFLATE_H
#define TICKBUS_SUBSCRIBER_PULL_CONFLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/progress.h"
#include "subscriber/state.h"

/* Moves a conflated source on; delivers at most max records. Returns how many. */
int pull_conflate(struct tb_source *, int max);
/* The progress line that was requested is there. NULL: it was not valid, or its READ failed. */
void pull_conflate_line(struct tb_source *, const struct progress *);

/* Notices would only wake a source that is read when an interval ends. */
bool pull_conflate_needs_no_notices(const struct tb_source *);
/* Whether records of the ring need no wake-up now. Either the source is read only when an interval
 * ends (J-I2), or values are copied first (J-I4). */
bool pull_conflate_leaves_ring(const struct tb_source *);
/* Whether values are to be delivered before the epoch is over. */
bool pull_conflate_owes(const struct tb_source *);

/* Work that a sleeper would miss. */
struct conflate_work {
	bool now, soon;
	bool sleeps;      /* the source needs no wake-up before ends_ns */
	uint64_t ends_ns; /* when the interval ends at which something is owed; else UINT64_MAX */
};
struct conflate_work pull_conflate_work(const struct tb_source *);

#endif
