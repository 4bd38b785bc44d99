/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/subscriber/reading_device.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bus/bus_page.h"
#include "bus/control.h"
#include "bus/shm/shm.h"
#include "bus/verbs/verbs_channel.h"
#include "bus/verbs/verbs_private_data.h"
#include "bus/words.h"
#include "subscriber/handshake.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/prover.h"
#include "tests/support/scene.h"

#define QUEUE   128 /* entries of each queue */
#define REMOTES 128
#define REGIONS 256 /* that are registered */

struct reading_device reading;

/* -- system calls of the thread that reads ------------------------------------------------------
 */

static _Thread_local bool counts; /* this thread's calls */
static _Thread_local bool inside; /* calls of the device are not the library's */

static void call_count(void)
{
	reading.system_calls += counts && !inside;
}

ssize_t read(int fd, void *bytes, size_t room)
{
	call_count();
	return syscall(SYS_read, fd, bytes, room);
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	call_count();
	return (int)syscall(SYS_epoll_pwait, fd, events, max, timeout_ms, NULL, 0);
}

int epoll_ctl(int fd, int operation, int of, struct epoll_event *event)
{
	call_count();
	return (int)syscall(SYS_epoll_ctl, fd, operation, of, event);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *timer, struct itimerspec *old)
{
	call_count();
	return (int)syscall(SYS_timerfd_settime, fd, flags, timer, old);
}

int sched_yield(void)
{
	call_count();
	return (int)syscall(SYS_sched_yield);
}

/* -- the publisher, over shared memory -------------------------------------------------------- */

static struct link *inner;
static struct handshake inner_handshake;
static uint8_t hello[FABRIC_HELLO_BYTES]; /* the subscriber's second */
static struct remote *remotes[REMOTES];   /* the region with rkey n is remotes[n - 1] */
static unsigned int remote_count;
static uint32_t taken; /* messages from the publisher */

static struct rdma_cm_id *connected;
static struct rdma_cm_event events[QUEUE];
static unsigned int first_event, event_count;
static struct verbs_private_data welcome, challenge;

static struct ibv_wc done[QUEUE];
static unsigned int first_done, done_count;
static struct ibv_recv_wr receives[QUEUE];
static struct verbs_frame *receive_into[QUEUE];
static unsigned int first_receive, receive_count;
static struct ibv_send_wr works[QUEUE];
static struct ibv_sge parts[QUEUE];
static unsigned int first_work, work_count;
static struct ibv_mr regions[REGIONS]; /* addr NULL: free */

static void happens(enum rdma_cm_event_type what)
{
	cr_assert_lt(event_count, QUEUE);
	events[(first_event + event_count++) % QUEUE] =
		(struct rdma_cm_event){ .event = what, .id = connected };
}

/* The last event carries this. */
static void private_data_set(const struct verbs_private_data *data, size_t body)
{
	struct rdma_cm_event *event = &events[(first_event + event_count - 1) % QUEUE];

	event->param.conn.private_data = data;
	event->param.conn.private_data_len = (uint8_t)(VERBS_PRIVATE_DATA_HEADER + body);
}

static void is_done(struct ibv_wc what)
{
	cr_assert_lt(done_count, QUEUE);
	done[(first_done + done_count++) % QUEUE] = what;
}

/* The region that was handed over, as a publisher over a network announces it. */
static struct fabric_key key_of(uint64_t bytes)
{
	struct remote **remote = &remotes[remote_count++];

	cr_assert_leq(remote_count, REMOTES);
	cr_assert_eq(shm_remote_open(inner, (struct fabric_key){ 0 }, bytes, remote), 0, "%s",
		     tb_error());
	return (struct fabric_key){ .address = (uintptr_t)shm_view(*remote), .rkey = remote_count };
}

static void on_welcome(void *user, const void *bytes, size_t length)
{
	struct control_welcome said;

	(void)user;
	cr_assert_eq(control_welcome_decode(bytes, length, &said), 0, "%s", tb_error());
	said.key = key_of(bus_page_bytes(said.topics_max));
	welcome.mark = VERBS_MARK;
	welcome.number = (uint16_t)control_welcome_encode(&said, welcome.body);
	prover_signs(hello, READING_PLACE, NULL, welcome.body, welcome.number);
	happens(RDMA_CM_EVENT_ESTABLISHED);
	private_data_set(&welcome, welcome.number);
}

static void on_message(void *user, const void *bytes, size_t length)
{
	struct control_message said;
	struct verbs_frame *frame = receive_into[first_receive];

	(void)user;
	cr_assert_gt(receive_count, 0, "a message came where no receive was posted");
	cr_assert_eq(control_decode(bytes, length, &said), 0, "%s", tb_error());
	if (said.type == CONTROL_GRANT)
		said.grant.key = key_of(said.grant.region_bytes);
	frame->taken = taken;
	frame->zero = 0;
	is_done((struct ibv_wc){
		.opcode = IBV_WC_RECV,
		.wr_id = receives[first_receive].wr_id,
		.byte_len = (uint32_t)(VERBS_FRAME_HEADER + control_encode(&said, frame->body)) });
	first_receive = (first_receive + 1) % QUEUE;
	receive_count--;
}

static void on_gone(void *user, int code, const char *why)
{
	(void)user, (void)code, (void)why;
	happens(RDMA_CM_EVENT_DISCONNECTED);
}

static int on_challenge(void *user, const uint8_t bytes[FABRIC_CHALLENGE_BYTES],
			uint8_t second[FABRIC_HELLO_BYTES])
{
	(void)user;
	return handshake_answer(&inner_handshake, bytes, second);
}

static const struct link_calls inner_calls = {
	.challenge = on_challenge, .welcome = on_welcome, .message = on_message, .gone = on_gone
};

static void publisher_poll(void)
{
	inside = true;
	if (inner)
		shm_link_poll(inner);
	inside = false;
}

static void publisher_leave(void)
{
	while (remote_count > 0)
		shm_remote_close(remotes[--remote_count]);
	shm_link_close(inner);
	inner = NULL;
	taken = 0;
	event_count = done_count = receive_count = work_count = 0;
}

/* -- the connection manager ------------------------------------------------------------------- */

static struct ibv_context context;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = calloc(1, sizeof(*channel));

	channel->fd = eventfd(0, EFD_CLOEXEC);
	fake_verbs.channels++;
	return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
	fake_verbs.channels--;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	(void)channel;
	publisher_poll();
	errno = EAGAIN;
	if (event_count == 0)
		return -1;
	*out = &events[first_event];
	first_event = (first_event + 1) % QUEUE;
	event_count--;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *user,
		   enum rdma_port_space space)
{
	connected = *id = calloc(1, sizeof(**id));
	connected->channel = channel;
	connected->context = user;
	connected->ps = space;
	reading.ids++;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	cr_expect_null(id->qp, "an id goes before its queue pair");
	free(id);
	reading.ids--;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *host,
		      int timeout_ms)
{
	(void)source, (void)host, (void)timeout_ms;
	id->verbs = &context;
	happens(RDMA_CM_EVENT_ADDR_RESOLVED);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)id, (void)timeout_ms;
	happens(RDMA_CM_EVENT_ROUTE_RESOLVED);
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *how)
{
	static const uint8_t no_ticket[TB_TICKET_BYTES];
	uint8_t first[FABRIC_HELLO_BYTES];

	(void)id;
	if (prover_is_first(how->private_data, how->private_data_len)) {
		challenge.mark = VERBS_MARK;
		happens(RDMA_CM_EVENT_REJECTED);
		private_data_set(&challenge, FABRIC_CHALLENGE_BYTES);
		return 0;
	}
	reading.connections++;
	memcpy(hello, how->private_data, sizeof(hello));
	cr_assert_eq(handshake_begin(&inner_handshake, &shm_ops, "test", no_ticket, first), 0);
	errno = -shm_connect(&inner, "test", first, sizeof(first), &inner_calls, NULL);
	return errno ? -1 : 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attributes, int *mask)
{
	(void)id, (void)attributes;
	*mask = 0;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *how)
{
	(void)pd;
	id->qp = calloc(1, sizeof(*id->qp));
	id->qp->context = &context;
	id->qp->send_cq = how->send_cq;
	reading.queue_pairs++;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	free(id->qp);
	id->qp = NULL;
	reading.queue_pairs--;
	publisher_leave();
}

/* -- the device ------------------------------------------------------------------------------- */

/* Whether `bytes` from `at` on are in memory that is registered with this key. */
static bool is_local(uint64_t at, uint64_t bytes, uint32_t lkey)
{
	const struct ibv_mr *mr = lkey > 0 && lkey <= REGIONS ? &regions[lkey - 1] : NULL;

	return mr && mr->addr && at >= (uintptr_t)mr->addr &&
	       at + bytes <= (uintptr_t)mr->addr + mr->length;
}

static void read_land(void)
{
	const struct ibv_send_wr *work = &works[first_work];
	const struct ibv_sge *part = &parts[first_work];

	cr_assert(is_local(part->addr, part->length, part->lkey),
		  "a READ is outstanding into memory that is not registered any more");
	words_load((void *)(uintptr_t)part->addr,
		   (const void *)(uintptr_t)work->wr.rdma.remote_addr, part->length);
	if (work->send_flags & IBV_SEND_SIGNALED)
		is_done((struct ibv_wc){ .wr_id = work->wr_id });
	first_work = (first_work + 1) % QUEUE;
	work_count--;
}

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	const unsigned int lands = reading.lands ? reading.lands : 1;
	int count = 0;

	cr_assert_eq(cq, connected->qp->send_cq);
	cr_assert_gt(max, 0);
	reading.polls++;
	publisher_poll();
	for (unsigned int i = 0; i < lands && work_count > 0; i++)
		read_land();
	for (; count < max && done_count > 0; count++) {
		wc[count] = done[first_done];
		first_done = (first_done + 1) % QUEUE;
		done_count--;
	}
	return count;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	const unsigned int at = (first_receive + receive_count++) % QUEUE;

	(void)qp, (void)bad;
	cr_assert_leq(receive_count, QUEUE);
	receives[at] = *work;
	receive_into[at] = (struct verbs_frame *)(uintptr_t)work->sg_list->addr;
	return 0;
}

static int message_send(const struct ibv_send_wr *work)
{
	const struct verbs_frame *frame =
		(const struct verbs_frame *)(uintptr_t)work->sg_list->addr;
	const size_t bytes = work->sg_list->length - VERBS_FRAME_HEADER;

	if (bytes > 0) {
		cr_assert_eq(shm_link_send(inner, frame->body, bytes), 0, "%s", tb_error());
		taken++;
	}
	is_done((struct ibv_wc){ .wr_id = work->wr_id });
	return 0;
}

static bool is_remote(uint64_t at, uint64_t bytes, uint32_t rkey)
{
	const struct remote *remote = rkey > 0 && rkey <= remote_count ? remotes[rkey - 1] : NULL;
	const uint64_t begin = remote ? (uintptr_t)shm_view(remote) : 0;

	return remote && at >= begin && at + bytes <= begin + remote->bytes;
}

/* What the verbs demand of a READ, and the library of itself: it asks for a completion of the last
 * READ of a list. */
static void read_check(const struct ibv_send_wr *work)
{
	const struct ibv_sge *part = work->sg_list;

	cr_assert_eq(work->opcode, IBV_WR_RDMA_READ);
	cr_assert_eq(work->num_sge, 1);
	cr_assert_gt(part->length, 0);
	cr_assert_eq(work->send_flags & ~(unsigned int)IBV_SEND_SIGNALED, 0, "found flags 0x%x",
		     work->send_flags);
	cr_assert(work->next || work->send_flags & IBV_SEND_SIGNALED,
		  "the last READ of a list has no completion");
	cr_assert(is_local(part->addr, part->length, part->lkey),
		  "a READ lands outside its registration");
	cr_assert(is_remote(work->wr.rdma.remote_addr, part->length, work->wr.rdma.rkey),
		  "a READ of %u bytes leaves its region", part->length);
}

/* The READs of a list in front of the refused READ are posted. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	cr_assert_eq(qp, connected->qp);
	if (work->opcode == IBV_WR_SEND)
		return message_send(work);
	reading.doorbells++;
	for (; work; work = work->next) {
		const unsigned int at = (first_work + work_count) % QUEUE;

		read_check(work);
		if (++reading.reads == reading.refused_read) {
			reading.refusals++;
			*bad = work;
			return ENOMEM;
		}
		cr_assert_lt(work_count++, VERBS_READS, "more READs than the queue has places");
		reading.bytes += work->sg_list->length;
		reading.completions += (work->send_flags & IBV_SEND_SIGNALED) != 0;
		works[at] = *work;
		parts[at] = *work->sg_list;
	}
	return 0;
}

static int notify(struct ibv_cq *cq, int solicited)
{
	(void)cq, (void)solicited;
	return 0;
}

static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IB, .name = "made0" };
static struct ibv_context context = { .device = &device,
				      .ops = { .poll_cq = poll_cq,
					       .post_recv = post_recv,
					       .post_send = post_send,
					       .req_notify_cq = notify } };

int ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *attributes)
{
	(void)verbs;
	*attributes = (struct ibv_device_attr){ .max_qp_init_rd_atom = 16 };
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *completions, struct ibv_cq **cq, void **user)
{
	(void)completions, (void)cq, (void)user;
	errno = EAGAIN;
	return -1;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
	uint32_t at = 0;

	cr_expect_eq(access, IBV_ACCESS_LOCAL_WRITE);
	while (at < REGIONS && regions[at].addr)
		at++;
	cr_assert_lt(at, REGIONS);
	regions[at] = (struct ibv_mr){ .pd = pd, .addr = memory, .length = bytes, .lkey = at + 1 };
	reading.registered++;
	return &regions[at];
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	mr->addr = NULL;
	reading.registered--;
	return 0;
}

void reading_device_open(void)
{
	context.async_fd = eventfd(0, EFD_CLOEXEC);
}

void reading_count(void)
{
	counts = true;
	reading.doorbells = reading.reads = reading.completions = reading.polls = 0;
	reading.system_calls = 0;
	reading.bytes = 0;
}

void reading_device_close(void)
{
	close(context.async_fd);
}

void reading_expect_nothing_left(void)
{
	cr_expect(reading.ids == 0 && reading.queue_pairs == 0 && fake_verbs.queues == 0 &&
			  fake_verbs.channels == 0 && fake_verbs.domains == 0 &&
			  reading.registered == 0,
		  "left: %d ids, %d queue pairs, %d queues, %d channels, %d domains, %d regions",
		  reading.ids, reading.queue_pairs, fake_verbs.queues, fake_verbs.channels,
		  fake_verbs.domains, reading.registered);
}
