/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's side of notice groups.
 *
 * V1  The 40 bytes in front of a received datagram are the GRH, or nothing. They prove nothing, and
 *     are not read.
 * V2  Anyone may send to a group, and no path MTU is above BOUND_NOTICE_BYTES_MAX. So every receive
 *     has room for that many bytes, whatever maximum the publisher states. A longer datagram would
 *     end the queue pair, and with it all groups.
 * V3  A receiver whose queue pair ended has no groups any more. They may be joined again. */
#include "bus/verbs/verbs_receiver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/bounds.h"
#include "bus/error.h"
#include "bus/verbs/notice_udp.h"
#include "bus/verbs/verbs_multicast.h"

#define GRH_BYTES     40
#define RECEIVE_BYTES (GRH_BYTES + BOUND_NOTICE_BYTES_MAX)

static int receive_post(struct verbs_receiver *receiver, uint64_t index)
{
	struct ibv_sge part = { .addr = (uintptr_t)(receiver->buffers + index * RECEIVE_BYTES),
				.length = RECEIVE_BYTES, /* V2 */
				.lkey = receiver->mr->lkey };
	struct ibv_recv_wr work = { .wr_id = index, .sg_list = &part, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_recv(receiver->qp, &work, &bad) == 0 ? 0 : -EIO;
}

/* The error of a failed call that may not have set errno. */
static int failure(void)
{
	return errno ? -errno : -EIO;
}

/* Makes the queue pair for all groups. -errno: the caller closes what was made. */
static int ud_listen(struct verbs_receiver *receiver, const struct verbs_receive *how)
{
	struct ibv_qp_init_attr qp = { .cap = { .max_send_wr = 1,
						.max_recv_wr = how->count,
						.max_send_sge = 1,
						.max_recv_sge = 1 },
				       .qp_type = IBV_QPT_UD };

	receiver->count = how->count;
	receiver->buffers = calloc(receiver->count, RECEIVE_BYTES);
	if (!receiver->buffers)
		return -ENOMEM;
	receiver->id = verbs_multicast_id(how->events, &how->local, 0);
	if (!receiver->id)
		return failure();
	receiver->mr = ibv_reg_mr(how->pd, receiver->buffers,
				  (size_t)receiver->count * RECEIVE_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!receiver->mr)
		return failure();
	receiver->cq =
		ibv_create_cq(receiver->id->verbs, (int)receiver->count, NULL, how->completions, 0);
	if (!receiver->cq)
		return failure();
	qp.send_cq = qp.recv_cq = receiver->cq;
	if (rdma_create_qp(receiver->id, how->pd, &qp) < 0)
		return failure();
	receiver->qp = receiver->id->qp;
	for (uint32_t i = 0; i < receiver->count; i++)
		if (receive_post(receiver, i) < 0)
			return -EIO;
	return 0;
}

static void ud_close(struct verbs_receiver *receiver)
{
	if (receiver->qp)
		rdma_destroy_qp(receiver->id);
	if (receiver->cq)
		ibv_destroy_cq(receiver->cq);
	if (receiver->mr)
		ibv_dereg_mr(receiver->mr);
	if (receiver->id)
		rdma_destroy_id(receiver->id);
	free(receiver->buffers);
	receiver->qp = NULL;
	receiver->cq = NULL;
	receiver->mr = NULL;
	receiver->id = NULL;
	receiver->buffers = NULL;
	receiver->wc_at = receiver->wc_count = 0;
}

static int ud_join(struct verbs_receiver *receiver, const struct verbs_receive *how,
		   struct verbs_member *member)
{
	int result = 0;

	if (!receiver->qp) {
		result = ud_listen(receiver, how);
		if (result < 0)
			ud_close(receiver);
	}
	if (result == 0 && verbs_multicast_join(receiver->id, &member->group, false, member) < 0)
		result = failure();
	if (result < 0)
		return error_set(-result, "notices: cannot receive from the group: %s",
				 strerror(-result));
	return 0;
}

static struct verbs_member *member_of(struct verbs_receiver *receiver,
				      const struct sockaddr_storage *group)
{
	for (size_t i = 0; i < BOUND_NOTICE_GROUPS_MAX; i++) {
		struct verbs_member *member = &receiver->members[i];

		if (group ? member->kind != FABRIC_NOTICES_NONE &&
				    address_same(&member->group, group)
			  : member->kind == FABRIC_NOTICES_NONE)
			return member;
	}
	return NULL;
}

struct verbs_member *verbs_receiver_join(struct verbs_receiver *receiver,
					 const struct verbs_receive *how,
					 const struct fabric_notices *notices)
{
	struct verbs_member *member = member_of(receiver, NULL);
	int result;

	if (!member) {
		error_set(ENOSPC, "notices: found a %dth group, expected at most %d",
			  BOUND_NOTICE_GROUPS_MAX + 1, BOUND_NOTICE_GROUPS_MAX);
		errno = ENOSPC;
		return NULL;
	}
	member->group = notices->group;
	if (notices->group.ss_family != how->local.ss_family) {
		result = error_set(EPROTO, "notices: found an IPv%d group, expected IPv%d",
				   notices->group.ss_family == AF_INET ? 4 : 6,
				   how->local.ss_family == AF_INET ? 4 : 6);
	} else if (member_of(receiver, &notices->group)) {
		result = error_set(EEXIST, "notices: the group is joined already");
	} else if (notices->kind == FABRIC_NOTICES_UDP) {
		member->socket = notice_udp_receiver(&how->local, &notices->group,
						     how->count * (size_t)notices->bytes);
		result = member->socket < 0 ? member->socket : 0;
	} else {
		result = ud_join(receiver, how, member);
	}
	if (result < 0) {
		errno = -result;
		return NULL;
	}
	member->kind = notices->kind;
	if (receiver->used <= (uint32_t)(member - receiver->members))
		receiver->used = (uint32_t)(member - receiver->members) + 1;
	receiver->sockets += member->kind == FABRIC_NOTICES_UDP;
	return member;
}

static void member_leave(struct verbs_receiver *receiver, struct verbs_member *member)
{
	if (member->kind == FABRIC_NOTICES_UD)
		verbs_multicast_leave(receiver->id, &member->group);
	else if (member->kind == FABRIC_NOTICES_UDP)
		close(member->socket);
	receiver->sockets -= member->kind == FABRIC_NOTICES_UDP;
	member->kind = FABRIC_NOTICES_NONE;
}

void verbs_receiver_leave(struct verbs_receiver *receiver, const struct sockaddr_storage *group)
{
	struct verbs_member *member = member_of(receiver, group);

	if (member)
		member_leave(receiver, member);
}

void verbs_receiver_event(struct verbs_receiver *receiver, const struct verbs_event *event)
{
	if (event->type != RDMA_CM_EVENT_MULTICAST_ERROR)
		return;
	for (size_t i = 0; i < BOUND_NOTICE_GROUPS_MAX; i++)
		if (event->joined == &receiver->members[i])
			member_leave(receiver, &receiver->members[i]);
}

/* V3 */
static void ud_end(struct verbs_receiver *receiver)
{
	for (size_t i = 0; i < BOUND_NOTICE_GROUPS_MAX; i++)
		if (receiver->members[i].kind == FABRIC_NOTICES_UD)
			member_leave(receiver, &receiver->members[i]);
	ud_close(receiver);
}

void verbs_receiver_close(struct verbs_receiver *receiver)
{
	/* A queue pair that is attached to a group cannot be destroyed. */
	for (size_t i = 0; i < BOUND_NOTICE_GROUPS_MAX; i++)
		member_leave(receiver, &receiver->members[i]);
	ud_close(receiver);
}

bool verbs_receiver_has(struct verbs_receiver *receiver)
{
	int count;

	if (!receiver->cq || receiver->wc_at < receiver->wc_count)
		return receiver->wc_at < receiver->wc_count;
	count = ibv_poll_cq(receiver->cq, VERBS_COLLECT, receiver->wc);
	receiver->wc_at = 0;
	receiver->wc_count = count > 0 ? (unsigned int)count : 0;
	if (count < 0)
		ud_end(receiver);
	return count > 0;
}

/* Reads the sockets in turn, and skips a bounded number of empty datagrams. */
static size_t udp_take(struct verbs_receiver *receiver, void *datagram, size_t room)
{
	uint32_t left = VERBS_COLLECT;

	for (uint32_t i = 0; i < receiver->used; i++) {
		const struct verbs_member *member = &receiver->members[receiver->turn];
		ssize_t got = 0;

		receiver->turn = (receiver->turn + 1) % receiver->used;
		if (member->kind != FABRIC_NOTICES_UDP)
			continue;
		for (; got == 0 && left > 0; left -= got == 0)
			got = recv(member->socket, datagram, room, MSG_DONTWAIT);
		if (got > 0)
			return (size_t)got;
	}
	return 0;
}

size_t verbs_receiver_take(struct verbs_receiver *receiver, void *datagram, size_t room)
{
	for (int i = 0; i < VERBS_COLLECT && verbs_receiver_has(receiver); i++) {
		const struct ibv_wc *wc = &receiver->wc[receiver->wc_at++];
		size_t bytes = 0;

		if (wc->status != IBV_WC_SUCCESS) {
			ud_end(receiver);
			break;
		}
		if (wc->byte_len > GRH_BYTES)
			bytes = wc->byte_len - GRH_BYTES; /* V1 */
		bytes = bytes < room ? bytes : room;
		memcpy(datagram, receiver->buffers + wc->wr_id * RECEIVE_BYTES + GRH_BYTES, bytes);
		if (receive_post(receiver, wc->wr_id) < 0)
			ud_end(receiver);
		if (bytes)
			return bytes;
	}
	return receiver->sockets > 0 ? udp_take(receiver, datagram, room) : 0;
}
