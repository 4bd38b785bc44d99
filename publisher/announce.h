/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: a flush sends the head of its topic, a pulse the heads of all. */
#ifndef TICKBUS_PUBLISHER_ANNOUNCE_H
#define TICKBUS_PUBLISHER_ANNOUNCE_H

#include "publisher/state.h"

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
/* How an endpoint sends a topic's notices. */
void announce_describe(const struct endpoint *, const struct tb_topic *, struct fabric_notices *);
void announce_end(struct tb_publisher *);

#endif
