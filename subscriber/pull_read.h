/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers records by READ, in batches. */
#ifndef TICKBUS_SUBSCRIBER_PULL_READ_H
#define TICKBUS_SUBSCRIBER_PULL_READ_H

#include "subscriber/state.h"

#define READS_MAX 16 /* READs of one batch */

/* Delivers records in order from `next`, at most max. Returns how many. For on_batch it collects
 * them instead (collect.h). */
int pull_read(struct tb_source *, int max);
/* Whether pull_read() would deliver a record or post a READ at once. */
bool pull_read_due(const struct tb_source *);
/* A READ of the batch in this half has completed. */
void pull_read_landed(struct tb_source *, unsigned int half, int status);
/* Whether some records were requested and are not delivered yet. */
bool pull_read_holds(const struct tb_source *);
/* Discards them. */
void pull_read_drop(struct tb_source *);
/* The progress line that was requested is valid: it proves what had landed before (N4). */
void pull_read_proven(struct tb_source *);

#endif
