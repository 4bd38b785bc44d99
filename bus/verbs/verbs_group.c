/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side of a notice group: UD multicast, or UDP where the device has no UD.
 *
 * G1  A sender belongs to a publishing thread, which must never wait for the control thread. The
 *     control thread must be able to destroy the sender's queue pair when the device goes. Both
 *     hold `busy` while they use the sender. If a sender finds it taken it does not send: a lost
 *     notice costs latency only. The group's fields that senders read are written only while all
 *     its senders are stopped.
 * G2  A datagram is never longer than the path MTU: a device may drop a longer one and report
 *     success. Over UDP a longer one would be lost with any of its fragments.
 * G3  The group is joined when its event says so. Until then nothing is sent, and subscribers poll.
 * G4  A send that failed ends its queue pair. The control thread checks for that, since a sender
 *     may have nothing more to send, and makes another queue pair. A sender that cannot be created
 *     is retried on its own, and the round continues with the next. Otherwise many failing senders
 *     would keep the others waiting. Each call starts one sender: there may be one for each of a
 *     thousand topics, and the control thread has a pulse to write.
 * G5  A completion queue that broke gives no completions. So a sender also failed if its send
 *     queue was full at two checks in a row, with no completion between them. */
#include "bus/verbs/verbs_group.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/barrier.h"
#include "bus/clock.h"
#include "bus/error.h"
#include "bus/verbs/notice_udp.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_mtu.h"
#include "bus/verbs/verbs_multicast.h"

#define SEND_DEPTH   64
#define SIGNAL_EVERY 16  /* sends: one completion for so many */
#define INLINE_BYTES 64  /* a notice of one topic; some devices refuse more than 96 */
#define RETRY_MS     500 /* the first pause of a sender that could not start; it doubles */
#define RETRY_MAX_MS 64000
#define SPIN_TURNS   64 /* before the processor is given to another thread */

static bool device_has_ud(struct ibv_context *verbs)
{
	struct ibv_device_attr device = { 0 };

	return verbs->device->transport_type == IBV_TRANSPORT_IB &&
	       ibv_query_device(verbs, &device) == 0 && device.max_mcast_grp > 0;
}

/* The maximum size of a datagram here. */
static uint32_t datagram_bytes(struct rdma_cm_id *id, uint32_t most)
{
	const uint32_t port = verbs_mtu_port(id), mtu = port ? port : 256;

	return mtu < most ? mtu : most;
}

static void group_use_udp(struct verbs_group *group)
{
	const uint32_t most = notice_udp_bytes(&group->address->host, &group->wish.group);

	group->kind = FABRIC_NOTICES_UDP;
	if (most && most < group->bytes)
		group->bytes = most; /* G2 */
}

/* The wish is AUTO, and the device cannot join. */
static void group_choose_udp(struct verbs_group *group)
{
	rdma_destroy_id(group->id);
	group->id = NULL;
	group->bytes = group->wish.bytes;
	group_use_udp(group);
}

/* A sender need not be a full member, if the kernel and the subnet manager know send-only members.
 */
static int group_join_with_fallback(struct verbs_group *group)
{
	group->send_only = true;
	if (verbs_multicast_join(group->id, &group->wish.group, true, NULL) == 0)
		return 0;
	group->send_only = false;
	return verbs_multicast_join(group->id, &group->wish.group, false, NULL);
}

int verbs_group_open(struct verbs_group *group, struct rdma_cm_id *listening, struct ibv_pd *pd,
		     struct rdma_event_channel *events, const struct address *address)
{
	group->pd = pd;
	group->events = events;
	group->address = address;
	group->bytes = group->wish.bytes;
	group->kind = group->wish.kind;
	if (group->kind == FABRIC_NOTICES_AUTO)
		group->kind =
			device_has_ud(listening->verbs) ? FABRIC_NOTICES_UD : FABRIC_NOTICES_UDP;
	if (group->kind == FABRIC_NOTICES_UDP)
		group_use_udp(group);
	if (group->kind != FABRIC_NOTICES_UD)
		return 0;
	group->bytes = datagram_bytes(listening, group->wish.bytes); /* G2 */
	group->id = verbs_multicast_id(events, &address->host, address->traffic_class);
	if (!group->id)
		return error_set(errno, "notices: cannot create an id for the group: %s",
				 strerror(errno));
	if (group_join_with_fallback(group) == 0)
		return 0;
	if (errno != VERBS_UNSUPPORTED || group->wish.kind != FABRIC_NOTICES_AUTO)
		return error_set(errno, "notices: cannot join the group: %s",
				 verbs_multicast_text(errno));
	group_choose_udp(group);
	return 0;
}

/* G1. The other side holds it for one send, but its thread may be preempted meanwhile. */
static void announcer_take(struct verbs_announcer *announcer)
{
	unsigned int turns = 0;

	while (atomic_flag_test_and_set_explicit(&announcer->busy, memory_order_acquire))
		if (turns++ < SPIN_TURNS)
			barrier_pause();
		else
			sched_yield();
}

static void announcer_give(struct verbs_announcer *announcer)
{
	atomic_flag_clear_explicit(&announcer->busy, memory_order_release);
}

static void announcer_stop(struct verbs_announcer *announcer)
{
	announcer_take(announcer);
	if (announcer->qp)
		rdma_destroy_qp(announcer->id);
	if (announcer->cq)
		ibv_destroy_cq(announcer->cq);
	if (announcer->id)
		rdma_destroy_id(announcer->id);
	if (announcer->mr)
		ibv_dereg_mr(announcer->mr);
	if (announcer->socket >= 0)
		close(announcer->socket);
	announcer->qp = NULL;
	announcer->cq = NULL;
	announcer->id = NULL;
	announcer->mr = NULL;
	announcer->socket = -1;
	announcer->posted = announcer->finished = 0;
	announcer->failed = announcer->was_full = false;
	announcer_give(announcer);
}

/* Nothing is sent until the group is joined (again). */
static void group_stop(struct verbs_group *group)
{
	for (struct verbs_announcer *a = group->announcers; a; a = a->next) {
		announcer_stop(a);
		a->pause_ms = a->retry_ms = 0;
	}
	if (group->ah)
		ibv_destroy_ah(group->ah);
	group->ah = NULL;
	group->round = NULL;
	group->failing = false;
}

void verbs_group_close(struct verbs_group *group)
{
	group_stop(group);
	if (group->id) {
		verbs_multicast_leave(group->id, &group->wish.group);
		rdma_destroy_id(group->id);
	}
	group->id = NULL;
}

bool verbs_group_ready(const struct verbs_group *group)
{
	return group->kind == FABRIC_NOTICES_UDP || group->ah;
}

/* -- senders ------------------------------------------------------------------------------------
 */

/* The queue pair of a sender, in the group's protection domain: 0, or -1 with errno. */
static int ud_create(struct verbs_announcer *announcer, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr how = { .cap = { .max_send_wr = SEND_DEPTH,
						 .max_recv_wr = 1,
						 .max_send_sge = 1,
						 .max_recv_sge = 1,
						 .max_inline_data = inline_bytes },
					.send_cq = announcer->cq,
					.recv_cq = announcer->cq,
					.qp_type = IBV_QPT_UD };

	if (rdma_create_qp(announcer->id, announcer->group->pd, &how) < 0)
		return -1;
	announcer->qp = announcer->id->qp;
	announcer->inline_bytes = how.cap.max_inline_data;
	return 0;
}

static int ud_start(struct verbs_announcer *announcer)
{
	struct verbs_group *group = announcer->group;

	announcer->id = verbs_multicast_id(group->events, &group->address->host,
					   group->address->traffic_class);
	if (!announcer->id)
		return error_set(errno, "notices: cannot create an id: %s", strerror(errno));
	announcer->mr = ibv_reg_mr(group->pd, announcer->buffers, SEND_DEPTH * announcer->bytes,
				   IBV_ACCESS_LOCAL_WRITE);
	if (!announcer->mr)
		return error_set(errno, "notices: cannot register %zu bytes: %s",
				 SEND_DEPTH * announcer->bytes, strerror(errno));
	announcer->cq = ibv_create_cq(announcer->id->verbs, SEND_DEPTH, NULL, NULL, 0);
	if (!announcer->cq)
		return error_set(errno, "notices: cannot create a completion queue: %s",
				 strerror(errno));
	if (ud_create(announcer, INLINE_BYTES) < 0 && ud_create(announcer, 0) < 0)
		return error_set(errno, "notices: cannot create a queue pair: %s", strerror(errno));
	return 0;
}

static void retry_set(struct verbs_announcer *announcer, int result)
{
	uint64_t pause_ms = announcer->pause_ms ? 2 * announcer->pause_ms : RETRY_MS;

	if (result == 0)
		pause_ms = 0;
	announcer->pause_ms = pause_ms < RETRY_MAX_MS ? pause_ms : RETRY_MAX_MS;
	announcer->retry_ms = clock_ms() + announcer->pause_ms;
}

static bool announcer_runs(const struct verbs_announcer *announcer)
{
	return announcer->qp || announcer->socket >= 0;
}

static int announcer_start(struct verbs_announcer *announcer)
{
	struct verbs_group *group = announcer->group;
	int result = 0;

	announcer_stop(announcer);
	announcer_take(announcer);
	if (group->kind == FABRIC_NOTICES_UDP) {
		result =
			notice_udp_sender(&group->address->host, &group->wish.group,
					  group->address->hop_limit, group->address->traffic_class);
		announcer->socket = result < 0 ? -1 : result;
		result = result < 0 ? result : 0;
	} else if (group->ah) {
		result = ud_start(announcer);
	}
	announcer_give(announcer);
	if (result < 0)
		announcer_stop(announcer);
	retry_set(announcer, result);
	return result;
}

int verbs_announcer_open(struct verbs_group *group, size_t bytes, struct verbs_announcer **out)
{
	struct verbs_announcer *announcer = calloc(1, sizeof(*announcer));

	*out = NULL;
	if (announcer)
		announcer->buffers = calloc(SEND_DEPTH, bytes);
	if (!announcer || !announcer->buffers) {
		free(announcer);
		return error_set(ENOMEM, "notices: no memory for a sender");
	}
	announcer->group = group;
	announcer->bytes = bytes;
	announcer->socket = -1;
	announcer->next = group->announcers;
	group->announcers = announcer;
	*out = announcer;
	return announcer_start(announcer);
}

void verbs_announcer_close(struct announcer *base)
{
	struct verbs_announcer *announcer = (struct verbs_announcer *)base;
	struct verbs_announcer **link;

	if (!announcer)
		return;
	announcer_stop(announcer);
	if (announcer->group->round == announcer)
		announcer->group->round = announcer->next;
	link = &announcer->group->announcers;
	while (*link != announcer)
		link = &(*link)->next;
	*link = announcer->next;
	free(announcer->buffers);
	free(announcer);
}

static void sends_collect(struct verbs_announcer *announcer)
{
	struct ibv_wc wc[SEND_DEPTH / SIGNAL_EVERY];
	const int count = ibv_poll_cq(announcer->cq, SEND_DEPTH / SIGNAL_EVERY, wc);

	announcer->failed |= count < 0;
	for (int i = 0; i < count; i++) {
		announcer->finished = wc[i].wr_id + 1;
		announcer->failed |= wc[i].status != IBV_WC_SUCCESS;
	}
}

static bool sends_full(const struct verbs_announcer *announcer)
{
	return announcer->posted - announcer->finished >= SEND_DEPTH - 1;
}

/* Whether a send failed. If the sender is sending now, the next check finds out. */
static bool announcer_failed(struct verbs_announcer *announcer)
{
	bool failed;

	if (atomic_flag_test_and_set_explicit(&announcer->busy, memory_order_acquire))
		return false;
	if (announcer->qp) {
		sends_collect(announcer);
		announcer->failed |= sends_full(announcer) && announcer->was_full &&
				     announcer->finished == announcer->was_finished; /* G5 */
		announcer->was_full = sends_full(announcer);
		announcer->was_finished = announcer->finished;
	}
	failed = announcer->failed;
	announcer_give(announcer);
	return failed;
}

int verbs_group_repair(struct verbs_group *group)
{
	struct verbs_announcer *a = group->round;
	bool first = false, failed;
	int result;

	if (!verbs_group_ready(group))
		return 0; /* G3 */
	if (!a) {
		a = group->announcers;
		group->failed = group->failing;
		group->failing = false;
	}
	for (; a; a = a->next) {
		failed = announcer_failed(a);
		first |= failed && !group->failing && !group->failed;
		group->failing |= failed;
		if (failed || (!announcer_runs(a) && clock_ms() >= a->retry_ms))
			break;
	}
	result = a ? announcer_start(a) : 0; /* G4 */
	group->round = a ? a->next : NULL;
	return result < 0 ? result : first;
}

bool verbs_group_complete(const struct verbs_group *group)
{
	const struct verbs_announcer *announcer = group->announcers;

	while (announcer && announcer_runs(announcer))
		announcer = announcer->next;
	return !announcer && verbs_group_ready(group);
}

static int ud_send(struct verbs_announcer *announcer, const void *datagram, uint32_t bytes)
{
	const struct verbs_group *group = announcer->group;
	const uint64_t number = announcer->posted;
	char *buffer = announcer->buffers + number % SEND_DEPTH * announcer->bytes;
	struct ibv_sge part = { .addr = (uintptr_t)buffer,
				.length = bytes,
				.lkey = announcer->mr->lkey };
	struct ibv_send_wr work = {
		.wr_id = number, .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND
	};
	struct ibv_send_wr *bad;

	if (number - announcer->finished >= SIGNAL_EVERY)
		sends_collect(announcer);
	if (announcer->failed)
		return -EIO;
	if (sends_full(announcer))
		return -EAGAIN;
	memcpy(buffer, datagram, bytes);
	if (bytes <= announcer->inline_bytes)
		work.send_flags |= IBV_SEND_INLINE;
	if (number % SIGNAL_EVERY == SIGNAL_EVERY - 1)
		work.send_flags |= IBV_SEND_SIGNALED;
	work.wr.ud.ah = group->ah;
	work.wr.ud.remote_qpn = group->qp_num;
	work.wr.ud.remote_qkey = group->qkey;
	if (ibv_post_send(announcer->qp, &work, &bad) != 0)
		return -EIO;
	announcer->posted++;
	return 0;
}

int verbs_announce(struct announcer *base, const void *datagram, size_t bytes)
{
	struct verbs_announcer *announcer = (struct verbs_announcer *)base;
	int result = -ENOTCONN;

	if (atomic_flag_test_and_set_explicit(&announcer->busy, memory_order_acquire))
		return -EAGAIN; /* G1 */
	if (!announcer->qp && announcer->socket < 0)
		result = -ENOTCONN; /* the control thread may be writing the group */
	else if (bytes > announcer->group->bytes || bytes > announcer->bytes)
		result = -EMSGSIZE; /* G2 */
	else if (announcer->qp)
		result = ud_send(announcer, datagram, (uint32_t)bytes);
	else
		result = send(announcer->socket, datagram, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0
				 ? -errno
				 : 0;
	announcer_give(announcer);
	return result;
}

int verbs_group_event(struct verbs_group *group, const struct verbs_event *event)
{
	struct ibv_ah_attr attributes = event->ud.ah_attr;
	const int code = verbs_event_code(event);
	const bool joined = group->ah;

	group_stop(group); /* the network may lose a group and join it again */
	if (event->type != RDMA_CM_EVENT_MULTICAST_JOIN) {
		/* A subnet manager may not know send-only members: join as a full member. */
		if (group->send_only && !joined) {
			group->send_only = false;
			verbs_multicast_leave(group->id, &group->wish.group);
			if (verbs_multicast_join(group->id, &group->wish.group, false, NULL) == 0)
				return 0;
		}
		return error_set(code, "notices: %s: %s",
				 joined ? "lost the group" : "cannot join the group",
				 verbs_multicast_text(code));
	}
	attributes.grh.hop_limit = (uint8_t)group->address->hop_limit;
	if (group->address->traffic_class)
		attributes.grh.traffic_class = (uint8_t)group->address->traffic_class;
	group->ah = ibv_create_ah(group->pd, &attributes);
	if (!group->ah)
		return error_set(errno, "notices: cannot create an address handle: %s",
				 strerror(errno));
	group->qp_num = event->ud.qp_num;
	group->qkey = event->ud.qkey;
	return 0;
}
