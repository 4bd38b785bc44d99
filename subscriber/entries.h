/* SPDX-License-Identifier: Apache-2.0 */
/* Which entries of the bus page are still to be READ in this look, and in which READs. */
#ifndef TICKBUS_SUBSCRIBER_ENTRIES_H
#define TICKBUS_SUBSCRIBER_ENTRIES_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/bounds.h"

#define ENTRIES_HOLE_MAX 4 /* entries that are READ along with their neighbours */

struct entries {
	uint64_t wanted[BOUND_TOPICS_MAX / 64]; /* a bit for each index */
	uint32_t next;                          /* the next run begins here or later */
};

/* Neighbouring entries that one READ fetches. */
struct entry_run {
	uint32_t first, count;
};

/* Before the entries of a look are wanted. Runs begin at the first entry again, unless some of the
 * look before are still wanted: then those come first. */
void entries_begin(struct entries *);
void entries_want(struct entries *, uint32_t index);
bool entries_have(const struct entries *, uint32_t index);
/* Finds the next runs, in order, at most max. They stay wanted. Returns how many. */
unsigned int entries_runs(const struct entries *, struct entry_run *, unsigned int max);
/* The READ of this run was posted: its entries are not wanted any more. */
void entries_posted(struct entries *, const struct entry_run *);

#endif
