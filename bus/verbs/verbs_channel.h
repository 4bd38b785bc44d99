/* SPDX-License-Identifier: Apache-2.0 */
/* One reliable connection: control messages as SENDs under credit, READs, and the send queue that
 * they share.
 *
 * C1  At most VERBS_CREDITS messages are sent beyond those that the other side said it took. Each
 *     side posts that many receives and some more for frames that only say what was taken, so no
 *     SEND ever waits for a receive. What has no credit waits in a backlog of bounded bytes.
 * C2  READs finish in the order in which they were posted, and so do SENDs; but a SEND may be said
 *     to be finished before an earlier READ is (Soft-iWARP does). A completion of READ n finishes
 *     the READs before it, so only the last one of a list asks for one.
 * C3  Receives are posted again by verbs_channel_take only: what is collected in one go is bounded
 *     by the queues, whatever the other side sends. */
#ifndef TICKBUS_BUS_VERBS_CHANNEL_H
#define TICKBUS_BUS_VERBS_CHANNEL_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"

#define VERBS_CREDITS      16 /* messages that may be on their way to one side */
#define VERBS_EXTRA        4  /* receives beyond them, for frames without a message */
#define VERBS_RECEIVES     (VERBS_CREDITS + VERBS_EXTRA)
#define VERBS_SENDS        (VERBS_CREDITS + VERBS_EXTRA)
#define VERBS_READS        64 /* the most READs in a send queue */
#define VERBS_WORKS        (VERBS_READS + VERBS_SENDS + 1)
#define VERBS_FRAME_HEADER 8

/* READs that a connection may have under way: what a subscriber asks for, what a device that tells
 * no bound is taken to answer, the most that a request can say. */
#define VERBS_DEPTH_ASKED   16
#define VERBS_DEPTH_UNKNOWN 16
#define VERBS_DEPTH_MOST    255

struct verbs_frame {
	uint32_t taken; /* messages its sender took so far */
	uint32_t zero;
	uint8_t body[FABRIC_MESSAGE_BYTES];
};
static_assert(offsetof(struct verbs_frame, body) == VERBS_FRAME_HEADER, "as it crosses the wire");

struct verbs_channel {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* NULL: broken off, nothing lands any more */
	struct ibv_mr *mr;
	struct verbs_frame *frames; /* receives, then sends */

	/* The send queue. */
	uint64_t tags[VERBS_READS]; /* of READs under way */
	uint64_t reads_posted, reads_finished;
	uint32_t sends_posted, sends_finished;
	bool probing;
	struct fabric_completion done[VERBS_READS]; /* and not collected yet */
	uint32_t done_first, done_count;

	/* Messages. */
	uint32_t sent, acknowledged; /* by the other side */
	uint32_t taken, told;
	struct {
		uint16_t frame;
		uint32_t bytes;
	} arrived[VERBS_RECEIVES];
	uint32_t arrived_first, arrived_count;
	uint8_t *backlog;
	size_t backlog_used;

	int broken; /* 0 or an errno value: the first thing that went wrong, and its words */
	char why[128];
};

/* Makes the queue pair of an id that has a device. 0 or -errno with words. */
int verbs_channel_open(struct verbs_channel *, struct rdma_cm_id *, struct ibv_pd *,
		       struct ibv_comp_channel *, void *owner);
/* Ends the queue pair: nothing lands after it, READs that were under way are done with an error. */
void verbs_channel_break(struct verbs_channel *);
/* Takes a zeroed one and a half-built one. */
void verbs_channel_close(struct verbs_channel *);
/* Collects completions, bounded. Whether it is broken is in `broken` afterwards. */
void verbs_channel_progress(struct verbs_channel *);
/* The next message that arrived: its length, 0 none. */
size_t verbs_channel_take(struct verbs_channel *, uint8_t message[FABRIC_MESSAGE_BYTES]);
/* 0; -EAGAIN the backlog is full; -ENOTCONN. */
int verbs_channel_send(struct verbs_channel *, const void *message, size_t bytes);
/* Whether the other side's device still answers: a WRITE of nothing, which needs no permission and
 * no receive. An answer that does not come breaks the channel by itself. */
void verbs_channel_probe(struct verbs_channel *);
/* For iWARP, which cannot be probed: sends a keep-alive, unless half of the credit is used. The
 * other half is for messages that a stopped subscriber may still have to take. */
void verbs_channel_keep_alive(struct verbs_channel *, const void *message, size_t bytes);
/* READs that are under way or done and not collected yet. */
unsigned int verbs_channel_reads(const struct verbs_channel *);
/* Posts a list of READs with one doorbell; the number or -errno. With those that
 * verbs_channel_reads tells they are VERBS_READS at most. */
int verbs_channel_read(struct verbs_channel *, struct ibv_send_wr *list, const uint64_t *tags,
		       unsigned int count);

/* READs under way at once: as an address says (0: it does not), no more than the device has. */
uint8_t verbs_reads(uint32_t said, uint32_t usual, int device);

#endif
