/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: a flush sends the head of its topic, a pulse the heads of all. A tick repeats heads that
 * moved. */
#ifndef TICKBUS_PUBLISHER_ANNOUNCE_H
#define TICKBUS_PUBLISHER_ANNOUNCE_H

#include "publisher/state.h"

#define ANNOUNCE_TICK_MS 2

/* Opens an endpoint's sender of heads to the bus's own group. */
int announce_endpoint(struct endpoint *);
/* Opens a topic's senders before its first record, closes them after its last; under the lock.
 * multicast: the topic's own group, or NULL for the bus's. -EINVAL; -ENOSPC: the bus has
 * BOUND_NOTICE_GROUPS_MAX groups. */
int announce_open(struct tb_topic *, const char *multicast);
void announce_close(struct tb_topic *);
/* Sends the topic's head; by the publishing thread. */
void announce_topic(struct tb_topic *);
/* Sends all heads, each to its topic's group; with each pulse, under the lock. */
void announce_heads(struct tb_publisher *);
/* Starts the ticks, before the control thread's timer ticks. Again: no effect. */
void announce_begin(struct tb_publisher *);
/* Whether a tick is due; then the next tick is due later. */
bool announce_due(struct tb_publisher *);
/* Sends the heads of topics that were flushed and rested since, once for each flush that was the
 * last; with each tick, under the lock. */
void announce_repeat(struct tb_publisher *);
/* Fills in the topic's key and the numbers that its notices have reached, if it has notices. */
void announce_grant(const struct endpoint *, const struct tb_topic *, struct control_message *);
/* How an endpoint sends a topic's notices. */
void announce_describe(const struct endpoint *, const struct tb_topic *, struct fabric_notices *);
void announce_end(struct tb_publisher *);

#endif
