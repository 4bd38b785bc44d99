/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_device.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bus/clock.h"
#include "tests/support/fake_verbs.h"

/* -- the connection manager ---------------------------------------------------------------------
 */

static struct rdma_cm_event queued[FAKE_IDS_MAX];
static unsigned int queue_first, queue_end;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *events = calloc(1, sizeof(*events));

	events->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	fake_verbs.channels++;
	return events;
}

void rdma_destroy_event_channel(struct rdma_event_channel *events)
{
	close(events->fd);
	free(events);
	fake_verbs.channels--;
}

void fake_cm_event(struct rdma_event_channel *events, struct rdma_cm_event what)
{
	cr_assert_lt(queue_end, FAKE_IDS_MAX);
	queued[queue_end++] = what;
	cr_assert_eq(eventfd_write(events->fd, 1), 0);
}

int rdma_get_cm_event(struct rdma_event_channel *events, struct rdma_cm_event **out)
{
	eventfd_t one;

	if (eventfd_read(events->fd, &one) < 0)
		return -1;
	*out = &queued[queue_first++];
	return 0;
}

int rdma_create_id(struct rdma_event_channel *events, struct rdma_cm_id **out, void *user,
		   enum rdma_port_space space)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	id->channel = events;
	id->context = user;
	id->ps = space;
	cr_assert_lt(fake.made_count, FAKE_IDS_MAX);
	fake.made[fake.made_count++] = *out = id;
	fake.ids++;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	for (unsigned int i = 0; i < fake.made_count; i++)
		if (fake.made[i] == id)
			fake.made[i] = NULL;
	cr_expect_null(id->qp, "an id goes before its queue pair");
	free(id);
	fake.ids--;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)address;
	id->verbs = &fake.context;
	id->port_num = 1;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id, (void)backlog;
	fake.listens++;
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attributes, int *mask)
{
	*mask = fake.path_mtu && attributes->qp_state == IBV_QPS_RTR ? IBV_QP_PATH_MTU : 0;
	attributes->path_mtu = fake.path_mtu;
	errno = EINVAL;
	return id == fake.given_up ? -1 : 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *how)
{
	(void)id;
	fake.accepted = *how;
	errno = fake.accept_errno;
	return fake.accept_errno ? -1 : 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	(void)id;
	memcpy(&fake.rejected, data, bytes);
	fake.rejected_bytes = bytes;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *host,
		      int timeout_ms)
{
	(void)source, (void)timeout_ms;
	id->verbs = &fake.context;
	memcpy(&id->route.addr.src_addr, host, sizeof(struct sockaddr_in));
	fake_cm_event(id->channel,
		      (struct rdma_cm_event){ .event = RDMA_CM_EVENT_ADDR_RESOLVED, .id = id });
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	fake_cm_event(id->channel,
		      (struct rdma_cm_event){ .event = RDMA_CM_EVENT_ROUTE_RESOLVED, .id = id });
	return 0;
}

static const uint8_t welcome[8] = { 'T', 'B', 4, 0, 'h', 'i', '!', '!' };
static const uint8_t challenge[20] = "TB\0\0sixteen bytes...";

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *how)
{
	struct rdma_cm_event up = { .event = RDMA_CM_EVENT_ESTABLISHED, .id = id };

	fake.requested = *how;
	memcpy(fake.hellos[0], fake.hellos[1], FABRIC_HELLO_BYTES);
	memcpy(fake.hellos[1], how->private_data, how->private_data_len);
	if (fake.challenges > 0) {
		fake.challenges--;
		up.event = RDMA_CM_EVENT_REJECTED;
		up.status = 28;
		up.param.conn.private_data = challenge;
		up.param.conn.private_data_len = sizeof(challenge);
		fake_cm_event(id->channel, up);
		return 0;
	}
	up.param.conn.private_data = welcome;
	up.param.conn.private_data_len = sizeof(welcome);
	fake_cm_event(id->channel, up);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *how)
{
	fake.last_domain = pd;
	if (how->cap.max_inline_data > fake.inline_max ||
	    (how->cap.max_inline_data && fake.queue_pairs == fake.queue_pairs_max)) {
		errno = ENOMEM;
		return -1;
	}
	if (fake.queue_pairs == fake.queue_pairs_max) {
		cr_assert_lt(fake.refused_pairs, FAKE_IDS_MAX);
		fake.refused_ms[fake.refused_pairs++] = clock_ms();
		errno = ENOMEM;
		return -1;
	}
	id->qp = calloc(1, sizeof(*id->qp));
	id->qp->context = &fake.context;
	id->qp->send_cq = how->send_cq;
	fake.queue_pairs++;
	fake.pairs_made++;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	free(id->qp);
	id->qp = NULL;
	fake.queue_pairs--;
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *how, void *user)
{
	(void)id, (void)user;
	fake.joins++;
	errno = fake.join_errno;
	if (fake.refuses_send_only && how->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		errno = EOPNOTSUPP;
	return errno ? -1 : 0;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)id, (void)address;
	return 0;
}

/* -- the device ---------------------------------------------------------------------------------
 */

static struct ibv_async_event events[FAKE_IDS_MAX];

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	(void)max;
	if (cq == fake.broken_queue)
		return -1;
	if (!fake.completion_of || cq != fake.completion_of)
		return 0;
	wc[0] = (struct ibv_wc){ .wr_id = fake.last_posted.wr_id,
				 .status = fake.completion_status,
				 .opcode = fake.completion_opcode,
				 .byte_len = fake.completion_bytes,
				 .wc_flags = fake.completion_flags };
	fake.completion_of = NULL;
	return 1;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	(void)qp, (void)work, (void)bad;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	(void)bad;
	if (fake.post_errno)
		return fake.post_errno;
	fake.last_posted = *work;
	if (work->num_sge)
		fake.last_sge = *work->sg_list;
	fake.posted++;
	if (fake.completes)
		fake.completion_of = qp->send_cq;
	return 0;
}

static int notify(struct ibv_cq *cq, int solicited)
{
	(void)cq, (void)solicited;
	return 0;
}

struct fake_device fake = {
	.device = { .transport_type = IBV_TRANSPORT_IB, .name = "made0" },
	.context = { .device = &fake.device,
		     .ops = { .poll_cq = poll_cq,
			      .post_recv = post_recv,
			      .post_send = post_send,
			      .req_notify_cq = notify } },
	.queue_pairs_max = FAKE_IDS_MAX,
	.inline_max = 1024,
	.mtu = IBV_MTU_1024,
	.reads = 100,
};

int ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attributes)
{
	(void)verbs;
	*attributes = (struct ibv_device_attr){ .max_mcast_grp = 64,
						.max_qp_rd_atom = fake.reads,
						.max_qp_init_rd_atom = fake.reads };
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *verbs, uint8_t number, struct _compat_ibv_port_attr *port)
{
	(void)verbs, (void)number;
	((struct ibv_port_attr *)port)->active_mtu = fake.mtu;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *completions, struct ibv_cq **cq, void **user)
{
	(void)completions;
	errno = EAGAIN;
	if (!fake.completion_of || !fake.completion_of->cq_context)
		return -1;
	*cq = fake.completion_of;
	*user = fake.completion_of->cq_context;
	return 0;
}

static struct ibv_mr *register_at(struct ibv_pd *pd, void *memory, size_t bytes, uint64_t address,
				  int access)
{
	static uint32_t keys;
	struct ibv_mr *mr;

	fake.last_address = address;
	fake.last_access = access;
	fake.last_memory = memory;
	errno = fake.register_errno;
	if (bytes == fake.refused_bytes) {
		fake.refused_regions++;
		errno = ENOMEM;
	}
	if (errno)
		return NULL;
	fake.registered++;
	mr = calloc(1, sizeof(*mr));
	*mr = (struct ibv_mr){ .pd = pd, .addr = memory, .length = bytes, .rkey = ++keys };
	pd->handle++; /* registrations in it */
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
	return register_at(pd, memory, bytes, (uintptr_t)memory, access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *memory, size_t bytes, uint64_t address,
			       int access)
{
	return register_at(pd, memory, bytes, address, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	mr->pd->handle--;
	free(mr);
	fake.registered--;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attributes)
{
	static struct ibv_ah ah;

	(void)pd, (void)attributes;
	fake.handles++;
	return &ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	(void)ah;
	fake.handles--;
	return 0;
}

int ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
	eventfd_t one;

	if (eventfd_read(verbs->async_fd, &one) < 0)
		return -1;
	*event = events[fake.events_taken++];
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	fake.events_acked++;
}

void fake_async_event(struct ibv_async_event what)
{
	cr_assert_lt(fake.events, FAKE_IDS_MAX);
	events[fake.events++] = what;
	cr_assert_eq(eventfd_write(fake.context.async_fd, 1), 0);
}

/* -- the clock ----------------------------------------------------------------------------------
 */

static int read_clock(clockid_t clock, struct timespec *now)
{
	const int result = clock_gettime(clock, now);

	now->tv_sec += fake.later_s;
	return result;
}

/* -- the kernel's view of an interface ---------------------------------------------------------
 */

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	if ((level == IPPROTO_IP && name == IP_MTU) ||
	    (level == IPPROTO_IPV6 && name == IPV6_MTU)) {
		memcpy(value, &fake.udp_mtu, sizeof(fake.udp_mtu));
		return 0;
	}
	return (int)syscall(SYS_getsockopt, fd, level, name, value, length);
}

void fake_device_make(void)
{
	fake.context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE); /* reading it may block */
	clock_replace(read_clock);
}

struct rdma_cm_id *fake_id(enum rdma_port_space space, unsigned int which)
{
	for (unsigned int i = 0; i < fake.made_count; i++)
		if (fake.made[i] && fake.made[i]->ps == space && which-- == 0)
			return fake.made[i];
	cr_assert_fail("no such id");
	return NULL;
}
