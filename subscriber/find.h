/* SPDX-License-Identifier: Apache-2.0 */
/* Bisection: the last record of a ring with a time up to T.
 *
 * It only decides which slot to copy next, and what the copies mean. Its user makes the copies, in
 * a call that waits (past.c) or step by step (start.c). */
#ifndef TICKBUS_SUBSCRIBER_FIND_H
#define TICKBUS_SUBSCRIBER_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/progress.h"

#define FIND_TRIES  8   /* failed copies of a record before it counts as corrupt */
#define FIND_COPIES 256 /* of all slots together: the most that a bisection takes */

struct find {
	uint64_t time_ns;
	uint64_t slots;
	uint64_t low, high; /* the result lies in low to high - 1; low alone may be overwritten */
	bool low_found;     /* record low was copied, and its time is up to time_ns */
	uint64_t above;     /* the first record that was copied and is later; 0: no record was */
	uint64_t above_ns;
	uint64_t at;         /* to be copied next, in low + 1 to high - 1 */
	uint64_t first_at;   /* of a run of corrupt records that ends below `at` */
	unsigned int tries;  /* failed copies of `at` */
	unsigned int copies; /* of all slots */
};

/* Begins with a verified line. */
void find_begin(struct find *, uint64_t time_ns, const struct progress *, uint64_t slots);
/* Whether a slot is to be copied: that of record *sequence. */
bool find_next(const struct find *, uint64_t *sequence);
/* The copy was whole. */
void find_copied(struct find *, uint64_t time_ns);
/* The copy was not whole. The line was loaded, and verified, after the copy. */
void find_failed(struct find *, const struct progress *);
/* No slot is to be copied any more. Returns 0: *sequence is the result. -ERANGE: all records that
 * are held and whole are later; `above` is the first of them. -EAGAIN: FIND_COPIES copies did not
 * suffice, or no record was whole. */
int find_result(const struct find *, uint64_t *sequence);

#endif
