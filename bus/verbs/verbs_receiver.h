/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's side of notice groups: one queue pair for all groups of UD, a socket for each
 * group of UDP. */
#ifndef TICKBUS_BUS_VERBS_RECEIVER_H
#define TICKBUS_BUS_VERBS_RECEIVER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/bounds.h"
#include "bus/fabric.h"
#include "bus/verbs/verbs_events.h"

#define VERBS_COLLECT 16

/* A group that is received. */
struct verbs_member {
	enum fabric_notices_kind kind; /* NONE: this member is free */
	struct sockaddr_storage group;
	int socket; /* UDP */
};

/* One queue pair for all groups of UD, a socket for each of UDP. */
struct verbs_receiver {
	struct rdma_cm_id *id;
	struct ibv_cq *cq; /* NULL: no group of UD was joined yet */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffers;
	uint32_t count;
	struct ibv_wc wc[VERBS_COLLECT]; /* collected, not taken yet */
	unsigned int wc_at, wc_count;
	struct verbs_member members[BOUND_NOTICE_GROUPS_MAX];
	uint32_t used;    /* members from here on were never joined */
	uint32_t sockets; /* of members */
	uint32_t turn;    /* the member whose socket is read next */
};

/* What receivers of a link are made of. */
struct verbs_receive {
	struct rdma_event_channel *events;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct sockaddr_storage local;
	uint32_t count; /* of datagrams that may be queued */
};

/* Begins to join a group: its member, or NULL with errno and a text. */
struct verbs_member *verbs_receiver_join(struct verbs_receiver *, const struct verbs_receive *,
					 const struct fabric_notices *);
/* Takes a group that is not joined. */
void verbs_receiver_leave(struct verbs_receiver *, const struct sockaddr_storage *group);
/* An event of the receiver's id. A group that failed is left. */
void verbs_receiver_event(struct verbs_receiver *, const struct verbs_event *);
/* Takes a zeroed receiver. */
void verbs_receiver_close(struct verbs_receiver *);
/* Whether datagrams over UD have arrived. If the completion queue broke, its groups are left. */
bool verbs_receiver_has(struct verbs_receiver *);
/* The next datagram: its length, or 0. If the queue pair failed, its groups are left. */
size_t verbs_receiver_take(struct verbs_receiver *, void *datagram, size_t room);

#endif
