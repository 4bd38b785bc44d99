/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection accepts from the other side: messages within their credit, and plain SENDs
 * alone. The device is made here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/verbs/verbs_channel.h"

#define RECEIVE (UINT64_C(1) << 63) /* marks the work request of a receive */

static struct ibv_wc arrivals[VERBS_RECEIVES];
static int arrival_count, sends;
static uint32_t last_taken; /* as the last frame reported it */

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	const int count = arrival_count < max ? arrival_count : max;

	(void)cq;
	memcpy(wc, arrivals, (size_t)count * sizeof(*wc));
	arrival_count -= count;
	memmove(arrivals, arrivals + count, (size_t)arrival_count * sizeof(*wc));
	return count;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	(void)qp, (void)work, (void)bad;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	(void)qp, (void)bad;
	sends++;
	last_taken = ((const struct verbs_frame *)(uintptr_t)work->sg_list->addr)->taken;
	return 0;
}

static struct ibv_context context = {
	.ops = { .poll_cq = poll_cq, .post_recv = post_recv, .post_send = post_send }
};
static struct ibv_qp qp = { .context = &context };
static struct ibv_cq cq = { .context = &context };
static struct ibv_mr mr;
static struct verbs_frame frames[VERBS_RECEIVES + VERBS_SENDS];
static struct verbs_channel channel = { .cq = &cq, .qp = &qp, .mr = &mr, .frames = frames };

/* A frame arrives, with this many bytes of a message. */
static void arrives(uint32_t bytes, unsigned int flags)
{
	static uint64_t number;

	arrivals[arrival_count++] = (struct ibv_wc){ .wr_id = RECEIVE | number++ % VERBS_RECEIVES,
						     .opcode = IBV_WC_RECV,
						     .byte_len = VERBS_FRAME_HEADER + bytes,
						     .wc_flags = flags };
}

static unsigned int taken(void)
{
	uint8_t message[FABRIC_MESSAGE_BYTES];
	unsigned int count = 0;

	while (verbs_channel_take(&channel, message) > 0)
		count++;
	return count;
}

Test(channel, message_beyond_the_credit_breaks_it)
{
	for (int i = 0; i < VERBS_CREDITS; i++)
		arrives(8, 0);
	verbs_channel_progress(&channel);
	cr_expect_eq(channel.broken, 0, "%s", channel.why);
	arrives(8, 0);
	verbs_channel_progress(&channel);
	cr_expect_eq(channel.broken, EPROTO);
	cr_expect_str_eq(channel.why, "it sent more messages than it had credit for");
}

Test(channel, reported_messages_are_credit_again)
{
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < VERBS_CREDITS / 2; i++)
			arrives(8, 0);
		verbs_channel_progress(&channel);
		cr_assert_eq(channel.broken, 0, "round %d: %s", round, channel.why);
		cr_assert_eq(taken(), VERBS_CREDITS / 2);
		channel.sends_finished = channel.sends_posted;
	}
	cr_expect_eq(sends, 100);
	cr_expect_eq(last_taken, 100 * VERBS_CREDITS / 2);
	/* Messages that wait to be taken still use credit. */
	for (int i = 0; i < VERBS_CREDITS; i++)
		arrives(8, 0);
	verbs_channel_progress(&channel);
	cr_expect_eq(channel.broken, 0, "%s", channel.why);
	arrives(8, 0);
	verbs_channel_progress(&channel);
	cr_expect_eq(channel.broken, EPROTO);
}

Test(channel, frames_without_a_message_need_no_credit)
{
	for (int i = 0; i < VERBS_CREDITS; i++)
		arrives(8, 0);
	for (int i = 0; i < VERBS_EXTRA; i++)
		arrives(0, 0);
	verbs_channel_progress(&channel);
	cr_expect_eq(channel.broken, 0, "%s", channel.why);
	cr_expect_eq(taken(), VERBS_CREDITS);
}

Test(channel, send_with_invalidate_breaks_it)
{
	arrives(8, IBV_WC_WITH_INV);
	verbs_channel_progress(&channel);
	cr_expect_eq(channel.broken, EPROTO);
	cr_expect_str_eq(channel.why, "it sent a message that invalidates a key");
	cr_expect_eq(taken(), 0);
}

Test(channel, immediate_data_breaks_it)
{
	arrives(8, IBV_WC_WITH_IMM);
	verbs_channel_progress(&channel);
	cr_expect_eq(channel.broken, EPROTO);
	cr_expect_str_eq(channel.why, "it sent immediate data");
	cr_expect_eq(taken(), 0);
	/* A WRITE of no bytes with immediate data needs no key. */
	channel.broken = 0;
	arrives(0, 0);
	arrivals[0].opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	verbs_channel_progress(&channel);
	cr_expect_eq(channel.broken, EPROTO);
}
