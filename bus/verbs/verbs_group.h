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
	struct ibv_qp *qp; /* NULL: not started, or over UDP */
	struct ibv_mr *mr;
	char *buffers;
	size_t bytes; /* of each buffer */
	uint32_t inline_bytes;
	uint64_t posted, finished;
	bool failed;                 /* a send failed: nothing is sent any more */
	bool was_full;               /* at the last check (G5) */
	uint64_t was_finished;       /* at the last check */
	int socket;                  /* -1: not started, or over UD */
	uint64_t pause_ms, retry_ms; /* when the next try is due, if it could not start */
};

/* A group that a listener's notices go to. */
struct verbs_group {
	struct verbs_group *next;
	struct fabric_notices wish;
	enum fabric_notices_kind kind; /* the result; NONE while the device is away */
	uint32_t bytes;
	const struct address *address;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id; /* the member */
	bool send_only;
	struct ibv_pd *pd;
	struct ibv_ah *ah; /* NULL: not joined yet */
	uint32_t qp_num, qkey;
	struct verbs_announcer *announcers;
	struct verbs_announcer *round; /* the next in this round; NULL: the round is over */
	bool failing, failed;          /* a sender failed in this round, in the round before */
	int lost;    /* why it is not joined, as logged last: an errno value, or 0 */
	int missing; /* why a sender could not start, as logged last: an errno value, or 0 */
	uint64_t tried_ms;
};

/* Begins to join the group; the event that ends the join goes to verbs_group_event. -errno: no
 * notices. verbs_group_repair starts the senders. */
int verbs_group_open(struct verbs_group *, struct rdma_cm_id *listening, struct ibv_pd *,
		     struct rdma_event_channel *, const struct address *);
/* Stops the senders; they start again with the group. Takes a zeroed group. */
void verbs_group_close(struct verbs_group *);
/* An event of the group's id: 0, or -errno with a text: no notices. */
int verbs_group_event(struct verbs_group *, const struct verbs_event *);
/* Whether the group can be sent to. */
bool verbs_group_ready(const struct verbs_group *);
/* Starts at most one sender: it was not started, or its queue pair failed (for example while there
 * was no route to the group). Rounds over all senders continue while `round` is set. Returns 1 for
 * the first failed sender of a round, if all senders worked in the round before. Otherwise 0, or
 * -errno with a text when the sender could not start. The next try of that sender comes after a
 * pause that grows. */
int verbs_group_repair(struct verbs_group *);
/* Whether the group is joined and all its senders are started. */
bool verbs_group_complete(const struct verbs_group *);
/* -errno with a sender: verbs_group_repair tries it again. -errno without: no memory. */
int verbs_announcer_open(struct verbs_group *, size_t bytes, struct verbs_announcer **);

#endif
