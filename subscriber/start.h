/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the start of TB_FROM_TIME: a bisection before the first record is read. */
#ifndef TICKBUS_SUBSCRIBER_START_H
#define TICKBUS_SUBSCRIBER_START_H

#include "bus/progress.h"
#include "subscriber/state.h"

/* Takes a verified line while reading has not begun. Returns true if reading begins with it. False:
 * the start is still to be found, and the state is SOURCE_FIND. */
bool start_line(struct tb_source *, const struct progress *);
/* Whether the search needs more copies, or a line that judges a copy. */
bool start_searches(const struct tb_source *);
/* In SOURCE_FIND: whether a slot is to be copied next; else it is the line. */
bool start_wants_slot(const struct tb_source *);
/* Copies the slot in place, or posts its READ: 1, 0 or -errno as fetch(). */
int start_fetch(struct tb_source *);
/* The slot's READ has landed. */
void start_landed(struct tb_source *);
/* The sequence that was found, 1 or more. It may be overwritten by now. */
uint64_t start_found(const struct tb_source *);

#endif
