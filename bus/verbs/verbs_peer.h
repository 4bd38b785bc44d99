/* SPDX-License-Identifier: Apache-2.0 */
/* The subscribers of a listener, each with a connection of its own. */
#ifndef TICKBUS_BUS_VERBS_PEER_H
#define TICKBUS_BUS_VERBS_PEER_H

#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_listener.h"

struct verbs_peer;

/* A connection request: accepts or refuses it. */
void verbs_peer_request(struct verbs_listener *, const struct verbs_event *);
/* Refuses the request of an id with a reason, and destroys the id. */
void verbs_peer_refuse(struct verbs_listener *, struct rdma_cm_id *, int code, const char *why);
/* The connection is established at both sides. */
void verbs_peer_established(struct verbs_peer *);
/* The connection is lost: verbs_peers_end_lost ends it. */
void verbs_peer_lose(struct verbs_listener *, struct verbs_peer *, const char *why);
/* Ends lost connections, at most BOUND_PEERS_OF_A_TURN. False: there are more, and the timer
 * continues with them. */
bool verbs_peers_end_lost(struct verbs_listener *);
/* Takes the messages of a peer, at most as many as it has receives. Later messages make an event of
 * their own. */
void verbs_peer_read(struct verbs_listener *, struct verbs_peer *);
/* Probes peers or sends them keep-alives, at most BOUND_PEERS_OF_A_TURN, and loses those that do
 * not answer. The timer continues with the rest. going_on: only continues a round. */
void verbs_peers_check(struct verbs_listener *, bool going_on);
/* For struct peers: ends a peer's connection. */
void verbs_peer_end(struct peers_entry *);

#endif
