/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes over RDMA: private data of an accept and of a reject, and frames of control messages.
 * They come in any order with SENDs and completions. The device is simulated here: two queues, and
 * memory for frames. */
#include <errno.h>
#include <string.h>

#include "bus/verbs/verbs_channel.h"
#include "bus/verbs/verbs_private_data.h"
#include "tests/fuzz/fuzz.h"

#define BACKLOG_BYTES 65536

static void private_data(const uint8_t *data, size_t size)
{
	struct verbs_private_data welcome;
	uint8_t challenge[FABRIC_CHALLENGE_BYTES];
	char why[FABRIC_REASON_BYTES + 1];
	int code;

	if (verbs_private_data_welcome(data, size, &welcome) == 0) {
		fuzz_deep = true;
		FUZZ_EXPECT(welcome.number <= FABRIC_WELCOME_BYTES);
		FUZZ_EXPECT(size >= VERBS_PRIVATE_DATA_HEADER + (size_t)welcome.number);
		FUZZ_EXPECT(memcmp(welcome.body, data + VERBS_PRIVATE_DATA_HEADER,
				   welcome.number) == 0);
	}
	if (verbs_private_data_challenge(data, size, challenge)) {
		FUZZ_EXPECT(size >= VERBS_PRIVATE_DATA_HEADER + FABRIC_CHALLENGE_BYTES);
		FUZZ_EXPECT(memcmp(challenge, data + VERBS_PRIVATE_DATA_HEADER,
				   FABRIC_CHALLENGE_BYTES) == 0);
	}
	code = verbs_private_data_refusal(data, size, why);
	FUZZ_EXPECT(code >= 0 && code < 4096);
	if (code == 0)
		return;
	FUZZ_EXPECT(strlen(why) <= FABRIC_REASON_BYTES &&
		    strlen(why) + VERBS_PRIVATE_DATA_HEADER <= size);
	for (const char *c = why; *c; c++)
		FUZZ_EXPECT(*c >= ' ' && *c <= '~');
}

/* -- a device -----------------------------------------------------------------------------------
 */

#define RECEIVE (UINT64_C(1) << 63)

static struct {
	struct ibv_recv_wr receives[VERBS_RECEIVES];
	struct ibv_sge buffers[VERBS_RECEIVES];
	unsigned int receive_first, receive_count;
	uint64_t works[VERBS_WORKS]; /* SENDs that ask for a completion */
	unsigned int work_first, work_count;
	struct ibv_wc done[VERBS_RECEIVES + VERBS_WORKS];
	unsigned int done_count;
} device;

/* Frames that have arrived and were not taken yet. */
static struct {
	uint8_t body[FABRIC_MESSAGE_BYTES];
	size_t bytes;
} arrived[VERBS_RECEIVES];
static unsigned int arrived_first, arrived_count;

static int on_receive(struct ibv_qp *qp, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	const unsigned int at = (device.receive_first + device.receive_count++) % VERBS_RECEIVES;

	(void)qp;
	(void)bad;
	FUZZ_EXPECT(device.receive_count <= VERBS_RECEIVES);
	device.receives[at] = *work;
	device.buffers[at] = *work->sg_list;
	return 0;
}

static int on_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	for (; work; work = work->next) {
		if (!(work->send_flags & IBV_SEND_SIGNALED))
			continue;
		FUZZ_EXPECT(device.work_count < VERBS_WORKS);
		device.works[(device.work_first + device.work_count++) % VERBS_WORKS] = work->wr_id;
	}
	return 0;
}

static int on_poll(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	const unsigned int count =
		device.done_count < (unsigned int)max ? device.done_count : (unsigned int)max;

	(void)cq;
	memcpy(wc, device.done, count * sizeof(*wc));
	device.done_count -= count;
	memmove(device.done, device.done + count, device.done_count * sizeof(*wc));
	return (int)count;
}

static void frame_arrives(const uint8_t **data, size_t *size, size_t length)
{
	const unsigned int at = device.receive_first;
	struct verbs_frame *frame = (struct verbs_frame *)(uintptr_t)device.buffers[at].addr;

	length = length <= sizeof(*frame) ? length : sizeof(*frame);
	if (device.receive_count == 0)
		return; /* a device may delay the completion */
	fuzz_take(data, size, frame, length);
	if (length > VERBS_FRAME_HEADER) {
		const unsigned int last = (arrived_first + arrived_count++) % VERBS_RECEIVES;

		FUZZ_EXPECT(arrived_count <= VERBS_RECEIVES);
		arrived[last].bytes = length - VERBS_FRAME_HEADER;
		memcpy(arrived[last].body, frame->body, arrived[last].bytes);
	}
	device.done[device.done_count++] =
		(struct ibv_wc){ .wr_id = device.receives[at].wr_id, .byte_len = (uint32_t)length };
	device.receive_first = (at + 1) % VERBS_RECEIVES;
	device.receive_count--;
}

static void work_finishes(bool good)
{
	if (device.work_count == 0)
		return;
	device.done[device.done_count++] =
		(struct ibv_wc){ .wr_id = device.works[device.work_first],
				 .status = good ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR };
	device.work_first = (device.work_first + 1) % VERBS_WORKS;
	device.work_count--;
}

/* -- a connection -------------------------------------------------------------------------------
 */

static void take(struct verbs_channel *channel)
{
	uint8_t message[FABRIC_MESSAGE_BYTES];
	const size_t bytes = verbs_channel_take(channel, message);

	if (bytes == 0)
		return;
	fuzz_deep = true;
	FUZZ_EXPECT(arrived_count > 0 && arrived[arrived_first].bytes == bytes);
	FUZZ_EXPECT(memcmp(arrived[arrived_first].body, message, bytes) == 0);
	arrived_first = (arrived_first + 1) % VERBS_RECEIVES;
	arrived_count--;
}

static void reads(struct verbs_channel *channel, unsigned int count)
{
	struct ibv_send_wr list[VERBS_READS] = { 0 };
	uint64_t tags[VERBS_READS] = { 0 };
	const unsigned int room = VERBS_READS - verbs_channel_reads(channel);

	if (count % (VERBS_READS + 1) > 0 && count % (VERBS_READS + 1) <= room)
		verbs_channel_read(channel, list, tags, count % (VERBS_READS + 1));
}

static void turn(struct verbs_channel *channel, const uint8_t **data, size_t *size)
{
	static const uint8_t message[FABRIC_MESSAGE_BYTES] = { 1 };
	uint8_t what[3];

	fuzz_take(data, size, what, sizeof(what));
	switch (what[0] % 8) {
	case 0:
	case 1:
		frame_arrives(data, size, what[1] | (size_t)what[2] << 8);
		break;
	case 2:
		work_finishes(what[1] != 255);
		break;
	case 3:
		verbs_channel_send(channel, message, 1 + (what[1] | (size_t)what[2] << 8) % 1024);
		break;
	case 4:
		take(channel);
		break;
	case 5:
		reads(channel, what[1]);
		break;
	case 6:
		verbs_channel_probe(channel);
		break;
	default:
		verbs_channel_progress(channel);
		channel->done_count = 0; /* all completions were reaped */
		break;
	}
}

static void conversation(const uint8_t *data, size_t size)
{
	struct ibv_context context = {
		.ops = { .poll_cq = on_poll, .post_send = on_send, .post_recv = on_receive }
	};
	struct ibv_qp qp = { .context = &context };
	struct ibv_cq cq = { .context = &context };
	struct ibv_mr mr = { .lkey = 1 };
	struct verbs_channel channel = { .qp = &qp, .cq = &cq, .mr = &mr };

	memset(&device, 0, sizeof(device));
	arrived_first = arrived_count = 0;
	channel.frames = calloc(VERBS_RECEIVES + VERBS_SENDS, sizeof(struct verbs_frame));
	channel.backlog = malloc(BACKLOG_BYTES);
	FUZZ_EXPECT(channel.frames && channel.backlog);
	for (uint32_t i = 0; i < VERBS_RECEIVES; i++) {
		struct ibv_sge buffer = { .addr = (uintptr_t)&channel.frames[i] };
		struct ibv_recv_wr work = { .wr_id = RECEIVE | i, .sg_list = &buffer }, *bad;

		on_receive(&qp, &work, &bad);
	}
	while (size > 0 && !channel.broken) {
		turn(&channel, &data, &size);
		FUZZ_EXPECT(channel.sent - channel.acknowledged <= VERBS_CREDITS);
		FUZZ_EXPECT(channel.sends_posted - channel.sends_finished <= VERBS_SENDS);
		FUZZ_EXPECT(channel.arrived_count <= VERBS_RECEIVES);
		FUZZ_EXPECT(verbs_channel_reads(&channel) <= VERBS_READS);
		FUZZ_EXPECT(channel.backlog_used <= BACKLOG_BYTES);
	}
	free(channel.frames);
	free(channel.backlog);
}

FUZZ_TARGET(data, size)
{
	if (size == 0)
		return 0;
	if (*data % 2)
		conversation(data + 1, size - 1);
	else
		private_data(data + 1, size - 1);
	return 0;
}
