/* SPDX-License-Identifier: Apache-2.0 */
/* A joined topic's way: the header is compared, the start is found, records are read, and the epoch
 * after this one is switched to. */
#ifndef TICKBUS_SUBSCRIBER_ADVANCE_H
#define TICKBUS_SUBSCRIBER_ADVANCE_H

#include "bus/control.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"

/* Takes a grant, and begins to read what it is for. */
int advance_grant(struct tb_subscription *, const struct tb_schema *,
		  const struct control_message *grant);
/* A READ that fetch() posted has completed. */
void advance_fetched(struct tb_source *, enum read_kind, int status);
/* Goes on with joining, as far as it goes now; delivers no record. */
void advance_settle(struct tb_source *);
/* Delivers up to max records; the number. */
int advance_poll(struct tb_source *, int max);

#endif
