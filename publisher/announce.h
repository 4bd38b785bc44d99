/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: what a flush sends to the network, and the heads of all topics with each pulse. */
#ifndef TICKBUS_PUBLISHER_ANNOUNCE_H
#define TICKBUS_PUBLISHER_ANNOUNCE_H

#include "publisher/state.h"

/* The senders of heads at a endpoint, to the bus's own group. */
int announce_endpoint(struct endpoint *);
/* A topic's senders; under the lock, before its first record and after its last. multicast: the
 * topic's own group, or NULL. -EINVAL; -ENOSPC: the bus has BOUND_NOTICE_GROUPS_MAX. */
int announce_open(struct tb_topic *, const char *multicast);
void announce_close(struct tb_topic *);
/* The topic's head; by the publishing thread. */
void announce_topic(struct tb_topic *);
/* All heads, each to its topic's group; with each pulse, under the lock. */
void announce_heads(struct tb_publisher *);
/* How a topic's notices travel from a endpoint. */
void announce_describe(const struct endpoint *, const struct tb_topic *, struct fabric_notices *);
void announce_end(struct tb_publisher *);

#endif
