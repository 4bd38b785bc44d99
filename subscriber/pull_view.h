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
/* In a merge: delivers records up to the head that is known and up to limit_ns, at most max. The
 * next record stays in `record`. With limit_ns 0 it only looks at it. */
int pull_view_merged(struct tb_source *, int max);
/* Reads the line and acts on it. */
void pull_view_look(struct tb_source *);
/* Whether the line has another W than the line that was read last. A hint. */
bool pull_view_moved(const struct tb_source *);
/* The word that shows the next record, as it is now. False if a record may be there, or if the slot
 * is busy. A slot that is still empty in the first lap counts as idle. */
bool pull_view_glance(const struct tb_source *, struct glance *);

#endif
