/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers the records of several topics of a group in one order. */
#ifndef TICKBUS_SUBSCRIBER_MERGE_H
#define TICKBUS_SUBSCRIBER_MERGE_H

#include "subscriber/state.h"

/* Moves all topics of a merge forward, once in each pass over the table. Delivers at most max
 * records. Returns how many. */
int merge_poll(struct tb_subscription *, int max);

#endif
