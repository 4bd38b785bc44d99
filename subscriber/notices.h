/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: datagrams that say how far topics are. */
#ifndef TICKBUS_SUBSCRIBER_NOTICES_H
#define TICKBUS_SUBSCRIBER_NOTICES_H

#include "bus/fabric.h"
#include "subscriber/state.h"

/* A source was granted: receives the group of its notices. */
void notices_join(struct tb_source *, const struct fabric_notices *);
/* A source needs its group no longer; the last source leaves the group. */
void notices_leave(const struct tb_source *);
/* The source has a new mapping: its notices are numbered from those of the grant on. */
void notices_begin(struct tb_source *);
/* With each pulse: tries again to receive groups that are not received. */
void notices_keep(struct tb_subscriber *);
/* Processes datagrams that have arrived: at most 64, and a bounded number of entries. */
void notices_take(struct tb_subscriber *);
/* True while notices arrive for this topic, few are lost and no hint was false; the topic then
 * needs no polling and no wake-up. */
bool notices_alive(const struct tb_source *);
/* A notice or a wake-up claims that this head was reached. False if the claim is ignored for now,
 * or is a whole lap ahead, so that only the progress line can judge it. */
bool notices_hint(struct tb_source *, uint64_t head);
/* The bus page shows this head. If no notice said it, notices are missing, and the reader polls
 * until another comes. */
void notices_missed(struct tb_source *, uint64_t head);
/* The progress line shows that the hint was false: drops it, and pauses further hints. */
void notices_false(struct tb_source *);

#endif
