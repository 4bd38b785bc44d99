/* SPDX-License-Identifier: Apache-2.0 */
/* The subscribers of a listener, each with a connection of its own. */
#ifndef TICKBUS_BUS_VERBS_PEER_H
#define TICKBUS_BUS_VERBS_PEER_H

#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_listener.h"

struct verbs_peer;

/* A connection request: accepts or refuses it. */
void verbs_peer_request(struct verbs_listener *, const struct verbs_event *);
/* Takes the messages of a peer, at most as many as it has receives. Later messages make an event of
 * their own. */
void verbs_peer_read(struct verbs_listener *, struct verbs_peer *);
/* Probes each peer, or sends it a keep-alive, and removes those that do not answer. */
void verbs_peers_check(struct verbs_listener *);
/* For struct peers: ends a peer's connection. */
void verbs_peer_end(struct peers_entry *);

#endif
