/* SPDX-License-Identifier: Apache-2.0 */
/* Pulling by READ, in batches. */
#ifndef TICKBUS_SUBSCRIBER_PULL_READ_H
#define TICKBUS_SUBSCRIBER_PULL_READ_H

#include "subscriber/state.h"

#define READS_MAX 16 /* READs of one batch */

/* Records in order from `next`; the number delivered. */
int pull_read(struct tb_source *, int max);
/* Whether pull_read would deliver or READ at once. */
bool pull_read_due(const struct tb_source *);
/* One of a batch's READs has completed. */
void pull_read_landed(struct tb_source *, unsigned int half, int status);
/* Whether there are records that were READ, or are under way, and were not delivered. */
bool pull_read_holds(const struct tb_source *);
/* Throws them away. */
void pull_read_drop(struct tb_source *);
/* The progress line that was asked for is valid. */
void pull_read_proven(struct tb_source *);

#endif
