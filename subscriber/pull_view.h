/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers records from a ring that is mapped in place. */
#ifndef TICKBUS_SUBSCRIBER_PULL_VIEW_H
#define TICKBUS_SUBSCRIBER_PULL_VIEW_H

#include "bus/progress.h"
#include "subscriber/state.h"

/* Reads the progress line whole. False if its writer kept changing it. */
bool pull_view_line(struct tb_source *, struct progress *);
/* The head in the line, as a hint. */
uint64_t pull_view_head(const struct tb_source *);
/* Delivers records in order from `next`, at most max. Returns how many. For on_batch it collects
 * them instead (collect.h). */
int pull_view(struct tb_source *, int max);

#endif
