/* SPDX-License-Identifier: Apache-2.0 */
/* One reliable connection: messages under credit, and the send queue they share with READs. */
#include "bus/verbs/verbs_channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

#define BACKLOG_BYTES 65536
/* The id of a work request: a receive with its frame's number, a SEND, a probe, or the number of a
 * READ. */
#define RECEIVE      (UINT64_C(1) << 63)
#define SEND         (UINT64_C(1) << 62)
#define PROBE        (UINT64_C(1) << 61)
#define COLLECT      16
#define FRAMES_BYTES ((VERBS_RECEIVES + VERBS_SENDS) * sizeof(struct verbs_frame))

static void channel_broken(struct verbs_channel *channel, int code, const char *why)
{
	if (channel->broken)
		return;
	channel->broken = code;
	snprintf(channel->why, sizeof(channel->why), "%s", why);
}

static int receive_post(struct verbs_channel *channel, uint32_t frame)
{
	struct ibv_sge part = { .addr = (uintptr_t)&channel->frames[frame],
				.length = sizeof(struct verbs_frame),
				.lkey = channel->mr->lkey };
	struct ibv_recv_wr work = { .wr_id = RECEIVE | frame, .sg_list = &part, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int code = ibv_post_recv(channel->qp, &work, &bad);

	return code ? error_set(code, "a receive cannot be posted: %s", strerror(code)) : 0;
}

int verbs_channel_open(struct verbs_channel *channel, struct rdma_cm_id *id, struct ibv_pd *pd,
		       struct ibv_comp_channel *completions, void *owner)
{
	struct ibv_qp_init_attr how = { .cap = { .max_send_wr = VERBS_WORKS,
						 .max_recv_wr = VERBS_RECEIVES,
						 .max_send_sge = 1,
						 .max_recv_sge = 1 },
					.qp_type = IBV_QPT_RC };
	int result = 0;

	channel->id = id;
	channel->backlog = malloc(BACKLOG_BYTES);
	channel->frames = calloc(1, FRAMES_BYTES);
	if (!channel->backlog || !channel->frames)
		return error_set(ENOMEM, "no memory for a connection");
	channel->mr = ibv_reg_mr(pd, channel->frames, FRAMES_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!channel->mr)
		return error_set(errno, "cannot register %zu bytes for messages: %s", FRAMES_BYTES,
				 strerror(errno));
	channel->cq = ibv_create_cq(id->verbs, VERBS_WORKS + VERBS_RECEIVES, owner, completions, 0);
	if (!channel->cq)
		return error_set(errno, "cannot create a completion queue: %s", strerror(errno));
	how.send_cq = how.recv_cq = channel->cq;
	if (rdma_create_qp(id, pd, &how) < 0)
		return error_set(errno, "cannot create a queue pair: %s", strerror(errno));
	channel->qp = id->qp;
	for (uint32_t i = 0; i < VERBS_RECEIVES && result == 0; i++)
		result = receive_post(channel, i);
	if (result == 0 && (result = -ibv_req_notify_cq(channel->cq, 0)) < 0)
		error_set(-result, "the completion queue cannot be watched: %s", strerror(-result));
	return result;
}

/* -- the send queue -----------------------------------------------------------------------------
 */

unsigned int verbs_channel_reads(const struct verbs_channel *channel)
{
	return (unsigned int)(channel->reads_posted - channel->reads_finished) +
	       channel->done_count;
}

/* Completes the oldest READ. */
static void read_finish(struct verbs_channel *channel, int status)
{
	const uint64_t tag = channel->tags[channel->reads_finished++ % VERBS_READS];

	channel->done[(channel->done_first + channel->done_count++) % VERBS_READS] =
		(struct fabric_completion){ .tag = tag, .status = status };
}

void verbs_channel_break(struct verbs_channel *channel)
{
	channel_broken(channel, ECONNRESET, "the connection was ended");
	if (channel->qp)
		rdma_destroy_qp(channel->id);
	channel->qp = NULL;
	while (channel->reads_finished < channel->reads_posted)
		read_finish(channel, -ECONNRESET);
}

void verbs_channel_close(struct verbs_channel *channel)
{
	if (channel->qp)
		rdma_destroy_qp(channel->id);
	if (channel->cq)
		ibv_destroy_cq(channel->cq);
	if (channel->mr)
		ibv_dereg_mr(channel->mr);
	free(channel->frames);
	free(channel->backlog);
	memset(channel, 0, sizeof(*channel));
}

/* Posts work requests. A failure breaks the connection: of a list that was posted in part, the last
 * request, which asks for the completion, may be missing. */
static int works_post(struct verbs_channel *channel, struct ibv_send_wr *list)
{
	struct ibv_send_wr *bad;
	int code = ibv_post_send(channel->qp, list, &bad);

	if (code == 0)
		return 0;
	channel_broken(channel, code, "its send queue failed");
	return error_set(code, "the send queue: %s", strerror(code));
}

/* C2 */
static bool is_last_of_region(const struct ibv_send_wr *list, unsigned int i, unsigned int count)
{
	return i + 1 == count || list[i + 1].wr.rdma.rkey != list[i].wr.rdma.rkey;
}

int verbs_channel_read(struct verbs_channel *channel, struct ibv_send_wr *list,
		       const uint64_t *tags, unsigned int count)
{
	int result;

	if (channel->broken || !channel->qp)
		return error_set(ENOTCONN, "not connected");
	for (unsigned int i = 0; i < count; i++) {
		channel->tags[channel->reads_posted % VERBS_READS] = tags[i];
		list[i].wr_id = channel->reads_posted++;
		list[i].opcode = IBV_WR_RDMA_READ;
		list[i].send_flags = is_last_of_region(list, i, count) ? IBV_SEND_SIGNALED : 0;
		list[i].next = i + 1 == count ? NULL : &list[i + 1];
	}
	result = works_post(channel, list);
	if (result < 0)
		channel->reads_posted -= count; /* the caller expects no completion of them */
	return result < 0 ? result : (int)count;
}

void verbs_channel_probe(struct verbs_channel *channel)
{
	struct ibv_send_wr work = { .wr_id = PROBE,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .send_flags = IBV_SEND_SIGNALED };

	if (channel->broken || !channel->qp || channel->probing)
		return;
	channel->probing = true;
	works_post(channel, &work);
}

/* -- messages -----------------------------------------------------------------------------------
 */

static bool frame_free(const struct verbs_channel *channel)
{
	return channel->sends_posted - channel->sends_finished < VERBS_SENDS;
}

static bool has_credit(const struct verbs_channel *channel)
{
	return channel->sent - channel->acknowledged < VERBS_CREDITS && frame_free(channel);
}

/* Sends a frame, with or without a message. A frame must be free. */
static int frame_send(struct verbs_channel *channel, const void *message, size_t bytes)
{
	struct verbs_frame *frame =
		&channel->frames[VERBS_RECEIVES + channel->sends_posted % VERBS_SENDS];
	struct ibv_sge part = { .addr = (uintptr_t)frame,
				.length = (uint32_t)(VERBS_FRAME_HEADER + bytes),
				.lkey = channel->mr->lkey };
	struct ibv_send_wr work = { .wr_id = SEND,
				    .sg_list = &part,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };

	frame->taken = channel->reported = channel->taken;
	frame->zero = 0;
	if (bytes) {
		memcpy(frame->body, message, bytes);
		channel->sent++;
	}
	channel->sends_posted++;
	return works_post(channel, &work);
}

static void backlog_send(struct verbs_channel *channel)
{
	size_t at = 0;
	uint16_t bytes;

	while (at < channel->backlog_used && has_credit(channel) && !channel->broken) {
		memcpy(&bytes, channel->backlog + at, sizeof(bytes));
		if (frame_send(channel, channel->backlog + at + sizeof(bytes), bytes) < 0)
			break;
		at += sizeof(bytes) + bytes;
	}
	channel->backlog_used -= at;
	if (at)
		memmove(channel->backlog, channel->backlog + at, channel->backlog_used);
}

int verbs_channel_send(struct verbs_channel *channel, const void *message, size_t bytes)
{
	const uint16_t length = (uint16_t)bytes;

	if (bytes == 0 || bytes > FABRIC_MESSAGE_BYTES)
		return error_set(EMSGSIZE, "found a message of %zu bytes, expected 1 to %d", bytes,
				 FABRIC_MESSAGE_BYTES);
	if (channel->broken || !channel->qp)
		return error_set(ENOTCONN, "not connected");
	if (channel->backlog_used == 0 && has_credit(channel))
		return frame_send(channel, message, bytes);
	if (channel->backlog_used + sizeof(length) + bytes > BACKLOG_BYTES)
		return error_set(EAGAIN, "the other side does not take its messages");
	memcpy(channel->backlog + channel->backlog_used, &length, sizeof(length));
	memcpy(channel->backlog + channel->backlog_used + sizeof(length), message, bytes);
	channel->backlog_used += sizeof(length) + bytes;
	return 0;
}

int verbs_channel_offer(struct verbs_channel *channel, const void *message, size_t bytes)
{
	if (channel->backlog_used >= BACKLOG_BYTES / 2)
		return error_set(EAGAIN, "the other side does not take its messages");
	return verbs_channel_send(channel, message, bytes);
}

void verbs_channel_keep_alive(struct verbs_channel *channel, const void *message, size_t bytes)
{
	if (!channel->broken && channel->qp && frame_free(channel) &&
	    channel->sent - channel->acknowledged < VERBS_CREDITS / 2)
		frame_send(channel, message, bytes);
}

/* Reports what was taken when half of the credit is owed and no message carries it. */
static void credit_send(struct verbs_channel *channel)
{
	if (channel->taken - channel->reported >= VERBS_CREDITS / 2 && frame_free(channel) &&
	    !channel->broken)
		frame_send(channel, NULL, 0);
}

size_t verbs_channel_take(struct verbs_channel *channel, uint8_t message[FABRIC_MESSAGE_BYTES])
{
	while (channel->arrived_count > 0 && channel->qp) {
		const uint16_t index = channel->arrived[channel->arrived_first].frame;
		const uint32_t bytes = channel->arrived[channel->arrived_first].bytes;
		const struct verbs_frame *frame = &channel->frames[index];

		channel->arrived_first = (channel->arrived_first + 1) % VERBS_RECEIVES;
		channel->arrived_count--;
		if (bytes < VERBS_FRAME_HEADER || frame->zero ||
		    frame->taken - channel->acknowledged > channel->sent - channel->acknowledged) {
			channel_broken(channel, EPROTO, "it sent a frame that is not valid");
			return 0;
		}
		channel->acknowledged = frame->taken;
		if (bytes > VERBS_FRAME_HEADER)
			memcpy(message, frame->body, bytes - VERBS_FRAME_HEADER);
		if (receive_post(channel, index) < 0)
			channel_broken(channel, EIO, "its receive queue failed");
		backlog_send(channel);
		if (bytes == VERBS_FRAME_HEADER)
			continue;
		channel->taken++;
		credit_send(channel);
		return bytes - VERBS_FRAME_HEADER;
	}
	return 0;
}

/* -- completions --------------------------------------------------------------------------------
 */

/* Devices differ in the status for a SEND that is longer than its receive. A receive of ours can
 * fail for no other reason. */
static void completion_failed(struct verbs_channel *channel, const struct ibv_wc *wc)
{
	char why[128];

	snprintf(why, sizeof(why), "%s", ibv_wc_status_str(wc->status));
	if ((wc->wr_id & RECEIVE) && wc->status != IBV_WC_WR_FLUSH_ERR) {
		channel_broken(channel, EPROTO, "it sent a frame that is too long");
		return;
	}
	switch (wc->status) {
	case IBV_WC_WR_FLUSH_ERR:
		channel_broken(channel, ECONNRESET, "the other side closed the connection");
		break;
	case IBV_WC_RETRY_EXC_ERR:
		channel_broken(channel, ETIMEDOUT, "the other side no longer answers");
		break;
	case IBV_WC_REM_ACCESS_ERR:
		channel_broken(channel, ECONNRESET, "the memory is no longer exposed");
		break;
	default:
		channel_broken(channel, ECONNRESET, why);
		break;
	}
}

/* Completes READs up to this one (C2). READs before a failed one fail too. Some devices report a
 * flushed request twice. */
static void reads_finish(struct verbs_channel *channel, uint64_t last, int status)
{
	if (last >= channel->reads_posted)
		return;
	while (channel->reads_finished <= last)
		read_finish(channel, status);
}

static void receive_finish(struct verbs_channel *channel, const struct ibv_wc *wc)
{
	const uint32_t at = (channel->arrived_first + channel->arrived_count) % VERBS_RECEIVES;

	if (wc->wc_flags & IBV_WC_WITH_INV) { /* C4 */
		channel_broken(channel, EPROTO, "it sent a message that invalidates a key");
		return;
	}
	if (wc->wc_flags & IBV_WC_WITH_IMM || wc->opcode != IBV_WC_RECV) {
		channel_broken(channel, EPROTO, "it sent immediate data");
		return;
	}
	channel->received += wc->byte_len > VERBS_FRAME_HEADER;
	if (channel->received - channel->reported > VERBS_CREDITS) { /* C1 */
		channel_broken(channel, EPROTO, "it sent more messages than it had credit for");
		return;
	}
	channel->arrived[at].frame = (uint16_t)(wc->wr_id & ~RECEIVE);
	channel->arrived[at].bytes = wc->byte_len;
	channel->arrived_count++;
}

static void completion(struct verbs_channel *channel, const struct ibv_wc *wc)
{
	const bool good = wc->status == IBV_WC_SUCCESS;

	if (!good)
		completion_failed(channel, wc);
	if (wc->wr_id & RECEIVE) {
		if (good)
			receive_finish(channel, wc);
		return;
	}
	if (wc->wr_id == SEND) {
		channel->sends_finished++;
	} else if (wc->wr_id == PROBE) {
		channel->probing = false;
	} else {
		reads_finish(channel, wc->wr_id, good ? 0 : -ECONNRESET);
	}
}

void verbs_channel_progress(struct verbs_channel *channel)
{
	struct ibv_wc wc[COLLECT];
	int count = 0;

	do {
		count = channel->qp ? ibv_poll_cq(channel->cq, COLLECT, wc) : 0;
		for (int i = 0; i < count; i++)
			completion(channel, &wc[i]);
	} while (count == COLLECT); /* C3 */
	if (count < 0)
		channel_broken(channel, EIO, "its completion queue failed");
	if (channel->qp && channel->backlog_used && !channel->broken)
		backlog_send(channel);
	if (channel->qp)
		credit_send(channel);
}

uint8_t verbs_channel_depth(uint32_t setting, uint32_t usual, int device)
{
	const uint32_t wanted = setting ? setting : usual;
	const uint32_t most = device > 0 ? (uint32_t)device : VERBS_DEPTH_UNKNOWN;

	return (uint8_t)(wanted < most ? wanted : most);
}
