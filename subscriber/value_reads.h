/* SPDX-License-Identifier: Apache-2.0 */
/* A pass over last-value slots of a topic: in place, or by READs of which several are outstanding.
 * Images, watch lists and conflation take their values this way.
 *
 * The caller says which slots are wanted, as a bit for each instrument, and gets the result of each
 * copy. The bits belong to the caller. It may clear a bit at any time: the slot is then left out. A
 * bit that is set behind the pass waits for the next pass. */
#ifndef TICKBUS_SUBSCRIBER_VALUE_READS_H
#define TICKBUS_SUBSCRIBER_VALUE_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "subscriber/state.h"

/* What became of the copy of a wanted slot: 1: source->record has the value. 0: the slot was never
 * written in this epoch. -EAGAIN: the copy is torn, of another instrument, or no value. Returns how
 * many records it delivered, 0 or 1. After it the caller of the pass checks deliver_stopped(). */
typedef int value_taken(struct tb_source *, uint32_t instrument, int result);

/* A new pass over [0, range). It is allowed while another runs, whose READs are then thrown away.
 * In a pass with `names`, names of the range that are not known are READ before. */
void value_reads_begin(struct value_reads *, const uint64_t *wanted, uint32_t range, bool names);
/* Moves the pass on; delivers at most max records. Returns how many. */
int value_reads_pass(struct tb_source *, int max, value_taken *);
/* Whether each wanted slot was copied, or its READ failed. */
bool value_reads_over(const struct value_reads *);
/* Outstanding READs were lost with the connection; the pass begins again. */
void value_reads_interrupted(struct value_reads *);
/* A READ of this chunk has completed. */
void value_reads_landed(struct tb_source *, unsigned int chunk, int status);

/* Work of a pass that is not over, as a sleeper sees it. */
enum value_work {
	VALUE_WORK_NONE, /* a completion will wake the sleeper */
	VALUE_WORK_SOON,
	VALUE_WORK_NOW,
};
enum value_work value_reads_work(const struct tb_source *);

/* The first set bit from `from` on; range if there is none. */
uint32_t value_reads_next(const uint64_t *bits, uint32_t from, uint32_t range);

#endif
