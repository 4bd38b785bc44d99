/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side of a notice group: the group, and the senders to it. */
#ifndef TICKBUS_BUS_VERBS_GROUP_H
#define TICKBUS_BUS_VERBS_GROUP_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/address.h"
#include "bus/fabric.h"
#include "bus/verbs/verbs_events.h"

struct verbs_announcer {
	struct announcer base;
	struct verbs_group *group;
	struct verbs_announcer *next;
	atomic_flag busy;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* NULL: not now */
	struct ibv_mr *mr;
	char *buffers;
	size_t bytes; /* of each */
	uint32_t inline_bytes;
	uint64_t posted, finished;
	bool failed;                 /* a send did, and nothing is sent any more */
	int socket;                  /* -1: none */
	uint64_t pause_ms, again_ms; /* when it could not be had: it is tried then */
};

/* A group that a listener's notices go to. */
struct verbs_group {
	struct verbs_group *next;
	struct fabric_notices asked;
	enum fabric_notices_kind kind; /* as it is now; NONE while the device is away */
	uint32_t bytes;
	const struct address *address;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id; /* the member */
	bool send_only;
	struct ibv_pd *pd;
	struct ibv_ah *ah; /* NULL: not joined yet */
	uint32_t qp_num, qkey;
	struct verbs_announcer *announcers;
	struct verbs_announcer *round; /* who is looked at next; NULL: all were */
	bool failing, failed;          /* a sender did in this round, in the one before */
	int lost;    /* why it is not joined, as it was told last: an errno value, or 0 */
	int missing; /* why a sender could not be had, likewise */
	uint64_t tried_ms;
};

/* Begins to join what was asked for; the event that ends it goes to verbs_group_event. -errno: no
 * notices. The senders are started by verbs_group_mend. */
int verbs_group_open(struct verbs_group *, struct rdma_cm_id *listening, struct ibv_pd *,
		     struct rdma_event_channel *, const struct address *);
/* Stops the senders, which live on and start again with the group. Takes a zeroed one. */
void verbs_group_close(struct verbs_group *);
/* An event of the group's id: 0, or -errno with words: there are no notices. */
int verbs_group_event(struct verbs_group *, const struct verbs_event *);
/* Whether what is sent to it leaves. */
bool verbs_group_ready(const struct verbs_group *);
/* Starts the senders that are not, once the group is joined, and those anew whose queue pair
 * failed, as when there was no route to the group for a moment: one a call, in rounds that go on
 * while `round` says so, whether it could be had or not. 1 when the first of a round had failed and
 * none had in the round before, 0, or -errno with words: one cannot be had, which costs the others
 * nothing. It is tried again after a pause that grows. */
int verbs_group_mend(struct verbs_group *);
/* Whether all senders of a group that is joined are there. */
bool verbs_group_whole(const struct verbs_group *);
/* -errno with the sender: it is tried again by verbs_group_mend. */
int verbs_announcer_open(struct verbs_group *, size_t bytes, struct verbs_announcer **);

#endif
