/* SPDX-License-Identifier: Apache-2.0 */
/* One reliable connection: control messages as SENDs under credit, READs, and the send queue that
 * they share.
 *
 * C1  At most VERBS_CREDITS messages are sent beyond those that the other side reported as taken.
 *     Each side posts that many receives, and some more for frames without a message, so no SEND
 *     ever waits for a receive. Messages without credit wait in a backlog of bounded size. The
 *     receiver counts messages as they arrive, and a message beyond the credit breaks the
 *     connection.
 * C2  READs complete in the order in which they were posted, and so do SENDs. But a SEND may
 *     complete before an earlier READ (Soft-iWARP). The completion of READ n completes the READs
 *     before it. So in a list only the last READ of each region asks for a completion. A topic's
 *     READs do not wait for those of topics behind it.
 * C3  Only verbs_channel_take posts receives again: the queues bound what one call collects,
 *     whatever the other side sends.
 * C4  Only plain SENDs arrive. A SEND with invalidate may end a key, and immediate data takes a
 *     receive. Either breaks the connection. */
#ifndef TICKBUS_BUS_VERBS_CHANNEL_H
#define TICKBUS_BUS_VERBS_CHANNEL_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"

#define VERBS_CREDITS      16 /* messages in flight to one side */
#define VERBS_EXTRA        4  /* receives beyond them, for frames without a message */
#define VERBS_RECEIVES     (VERBS_CREDITS + VERBS_EXTRA)
#define VERBS_SENDS        (VERBS_CREDITS + VERBS_EXTRA)
#define VERBS_READS        FABRIC_DEPTH_MAX /* maximum READs in a send queue */
#define VERBS_WORKS        (VERBS_READS + VERBS_SENDS + 1)
#define VERBS_FRAME_HEADER 8

/* Outstanding READs of a connection. */
#define VERBS_DEPTH_ASKED   16  /* what a subscriber asks for */
#define VERBS_DEPTH_UNKNOWN 16  /* assumed of a device that states no bound */
#define VERBS_DEPTH_MOST    255 /* the maximum that a request can carry */

struct verbs_frame {
	uint32_t taken; /* messages its sender took so far */
	uint32_t zero;
	uint8_t body[FABRIC_MESSAGE_BYTES];
};
static_assert(offsetof(struct verbs_frame, body) == VERBS_FRAME_HEADER, "as it crosses the wire");

struct verbs_channel {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* NULL: ended, nothing lands any more */
	struct ibv_mr *mr;
	struct verbs_frame *frames; /* receives, then sends */

	/* The send queue. */
	uint64_t tags[VERBS_READS]; /* of outstanding READs */
	uint64_t reads_posted, reads_finished;
	uint32_t sends_posted, sends_finished;
	bool probing;
	struct fabric_completion done[VERBS_READS]; /* not collected yet */
	uint32_t done_first, done_count;

	/* Messages. */
	uint32_t sent, acknowledged; /* by the other side */
	uint32_t received;           /* from the other side */
	uint32_t taken, reported;    /* to the other side */
	struct {
		uint16_t frame;
		uint32_t bytes;
	} arrived[VERBS_RECEIVES];
	uint32_t arrived_first, arrived_count;
	uint8_t *backlog;
	size_t backlog_used;

	int broken; /* 0, or the errno value of the first failure; `why` is its text */
	char why[128];
};

/* Makes the queue pair of an id that has a device. 0, or -errno with a text. */
int verbs_channel_open(struct verbs_channel *, struct rdma_cm_id *, struct ibv_pd *,
		       struct ibv_comp_channel *, void *owner);
/* Ends the queue pair: nothing lands after it, outstanding READs complete with an error. */
void verbs_channel_break(struct verbs_channel *);
/* Takes a zeroed or half-built channel. */
void verbs_channel_close(struct verbs_channel *);
/* Collects completions, a bounded number. Sets `broken` when the connection failed. */
void verbs_channel_progress(struct verbs_channel *);
/* The next message that arrived: its length, or 0. */
size_t verbs_channel_take(struct verbs_channel *, uint8_t message[FABRIC_MESSAGE_BYTES]);
/* 0; -EAGAIN: the backlog is full; -ENOTCONN. */
int verbs_channel_send(struct verbs_channel *, const void *message, size_t bytes);
/* Sends a message that can wait: -EAGAIN if half of the backlog is in use, else as
 * verbs_channel_send. */
int verbs_channel_offer(struct verbs_channel *, const void *message, size_t bytes);
/* Checks that the other side's device still answers, by a WRITE of no bytes, which needs no
 * permission and no receive. A missing answer breaks the channel. */
void verbs_channel_probe(struct verbs_channel *);
/* For iWARP, which cannot be probed: sends a keep-alive, unless half of the credit is used. The
 * other half is for messages that a stopped subscriber may still have to take. */
void verbs_channel_keep_alive(struct verbs_channel *, const void *message, size_t bytes);
/* READs that are outstanding, or complete and not collected yet. */
unsigned int verbs_channel_reads(const struct verbs_channel *);
/* Posts a list of READs with one doorbell: their number, or -errno. Together with
 * verbs_channel_reads() at most VERBS_READS. */
int verbs_channel_read(struct verbs_channel *, struct ibv_send_wr *list, const uint64_t *tags,
		       unsigned int count);

/* The number of READs that may be outstanding: the address's setting, or the usual number if the
 * setting is 0. Bounded by the device's. */
uint8_t verbs_channel_depth(uint32_t setting, uint32_t usual, int device);

#endif
