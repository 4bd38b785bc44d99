/* SPDX-License-Identifier: Apache-2.0 */
/* Moves a joined topic forward: compares the header, finds the start, reads records, and switches
 * to the next epoch. */
#ifndef TICKBUS_SUBSCRIBER_ADVANCE_H
#define TICKBUS_SUBSCRIBER_ADVANCE_H

#include "bus/control.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"

/* Uses a grant and begins to read its topic. May call on_event. 0 or -errno. */
int advance_grant(struct tb_subscription *, const struct tb_schema *,
		  const struct control_message *grant);
/* A READ that fetch() posted has completed. May call on_event. */
void advance_fetched(struct tb_source *, enum read_kind, int status);
/* Continues a join as far as possible now. May call on_event, never on_record. */
void advance_settle(struct tb_source *);
/* Continues all joins whose start is not known. */
void advance_settle_all(struct tb_subscriber *);
/* Whether an epoch was read to its end, or cannot be read any more. */
bool advance_drained(const struct tb_source *);
/* Goes on with the next epoch, which is granted. May call on_event. */
void advance_switch(struct tb_source *);
/* Delivers at most max records of a topic outside merges. Returns how many. */
int advance_poll(struct tb_source *, int max);
/* Reads on in the directory, if the subscription's names are to be looked for there. */
void advance_names(struct tb_source *);

#endif
