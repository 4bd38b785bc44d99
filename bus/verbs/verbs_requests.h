/* SPDX-License-Identifier: Apache-2.0 */
/* Connection requests that wait for the listener's answer. */
#ifndef TICKBUS_BUS_VERBS_REQUESTS_H
#define TICKBUS_BUS_VERBS_REQUESTS_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_listener.h"

/* A request arrived: it waits, or is refused if too many wait. */
void verbs_requests_add(struct verbs_listener *, const struct verbs_event *);
/* Forgets the request of an id, if it waits: its subscriber gave it up. */
void verbs_requests_forget(struct verbs_listener *, const struct rdma_cm_id *);
/* Answers the oldest requests, at most BOUND_PEERS_OF_A_TURN. The timer continues with the rest. */
void verbs_requests_answer(struct verbs_listener *);
/* Forgets all requests, before their device goes. */
void verbs_requests_close(struct verbs_listener *);

#endif
