/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs fabric over a device and a connection manager that are made here: what either tells by
 * itself, and what becomes of it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bus/memory.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_channel.h"
#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_group.h"
#include "bus/verbs/verbs_private_data.h"
#include "tests/support/deadline.h"
#include "tests/support/fake_verbs.h"
#include "bus/clock.h"
#include "tickbus/error.h"

#define PLACE      "10.9.0.1:7471"
#define GROUP      "239.77.251.9:7472"
#define MADE       64
#define KEEP_ALIVE "alive"
#define PIECES     8

/* -- the connection manager ---------------------------------------------------------------------
 */

static struct rdma_cm_event queued[MADE];
static unsigned int queue_first, queue_end;
static struct rdma_cm_id *made[MADE]; /* in the order of their making; NULL: destroyed */
static unsigned int made_count, listens, joins;
static int ids, queue_pairs, registered, handles;
static int join_errno; /* 0: a join begins */
static bool no_send_only;
static int queue_pairs_max = MADE;
static uint64_t refused_ms[MADE]; /* when a queue pair was asked for beyond them */
static unsigned int refused;
static uint32_t inline_max = 1024; /* more is refused */
static int accept_errno, register_errno;
static size_t refused_bytes;       /* memory of so many cannot be registered */
static unsigned int refused_count; /* so often it was asked for */
static struct rdma_conn_param accepted, asked;
static struct verbs_private_data rejected;
static void *join_user;

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

static void happens(struct rdma_event_channel *events, struct rdma_cm_event what)
{
	cr_assert_lt(queue_end, MADE);
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

static struct ibv_context context;

int rdma_create_id(struct rdma_event_channel *events, struct rdma_cm_id **out, void *user,
		   enum rdma_port_space space)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	id->channel = events;
	id->context = user;
	id->ps = space;
	cr_assert_lt(made_count, MADE);
	made[made_count++] = *out = id;
	ids++;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	for (unsigned int i = 0; i < made_count; i++)
		if (made[i] == id)
			made[i] = NULL;
	cr_expect_null(id->qp, "an id goes before its queue pair");
	free(id);
	ids--;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)address;
	id->verbs = &context;
	id->port_num = 1;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id, (void)backlog;
	listens++;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *how)
{
	(void)id;
	accepted = *how;
	errno = accept_errno;
	return accept_errno ? -1 : 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	(void)id;
	memcpy(&rejected, data, bytes);
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *host,
		      int timeout_ms)
{
	(void)source, (void)timeout_ms;
	id->verbs = &context;
	memcpy(&id->route.addr.src_addr, host, sizeof(struct sockaddr_in));
	happens(id->channel,
		(struct rdma_cm_event){ .event = RDMA_CM_EVENT_ADDR_RESOLVED, .id = id });
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	happens(id->channel,
		(struct rdma_cm_event){ .event = RDMA_CM_EVENT_ROUTE_RESOLVED, .id = id });
	return 0;
}

static const uint8_t welcome[8] = { 'T', 'B', 4, 0, 'h', 'i', '!', '!' };

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *how)
{
	struct rdma_cm_event up = { .event = RDMA_CM_EVENT_ESTABLISHED, .id = id };

	asked = *how;
	up.param.conn.private_data = welcome;
	up.param.conn.private_data_len = sizeof(welcome);
	happens(id->channel, up);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *how)
{
	(void)pd;
	if (how->cap.max_inline_data > inline_max ||
	    (how->cap.max_inline_data && queue_pairs == queue_pairs_max)) {
		errno = ENOMEM;
		return -1;
	}
	if (queue_pairs == queue_pairs_max) {
		cr_assert_lt(refused, MADE);
		refused_ms[refused++] = clock_ms();
		errno = ENOMEM;
		return -1;
	}
	id->qp = calloc(1, sizeof(*id->qp));
	id->qp->context = &context;
	id->qp->send_cq = how->send_cq;
	queue_pairs++;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	free(id->qp);
	id->qp = NULL;
	queue_pairs--;
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *how, void *user)
{
	(void)id;
	joins++;
	join_user = user;
	errno = join_errno;
	if (no_send_only && how->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
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

static struct ibv_cq *answered; /* has a completion of what was posted last */
static bool answers;
static enum ibv_wc_status answer_status;
static unsigned int posted;
static struct ibv_send_wr last_posted;
static struct ibv_sge last_sge;
static struct ibv_async_event told[MADE];
static unsigned int told_first, told_end, given_back;
static enum ibv_mtu mtu = IBV_MTU_1024;
static int reads_of_device = 100;

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	(void)max;
	if (!answered || cq != answered)
		return 0;
	wc[0] = (struct ibv_wc){ .wr_id = last_posted.wr_id, .status = answer_status };
	answered = NULL;
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
	last_posted = *work;
	if (work->num_sge)
		last_sge = *work->sg_list;
	posted++;
	if (answers)
		answered = qp->send_cq;
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
	*attributes = (struct ibv_device_attr){ .max_mcast_grp = 64,
						.max_qp_rd_atom = reads_of_device,
						.max_qp_init_rd_atom = reads_of_device };
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *verbs, uint8_t number, struct _compat_ibv_port_attr *port)
{
	(void)verbs, (void)number;
	((struct ibv_port_attr *)port)->active_mtu = mtu;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *completions, struct ibv_cq **cq, void **user)
{
	(void)completions;
	errno = EAGAIN;
	if (!answered || !answered->cq_context)
		return -1;
	*cq = answered;
	*user = answered->cq_context;
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
	static struct ibv_mr mr;

	(void)pd, (void)memory, (void)access;
	errno = register_errno;
	if (bytes == refused_bytes) {
		refused_count++;
		errno = ENOMEM;
	}
	if (errno)
		return NULL;
	registered++;
	return &mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	registered--;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attributes)
{
	static struct ibv_ah ah;

	(void)pd, (void)attributes;
	handles++;
	return &ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	(void)ah;
	handles--;
	return 0;
}

int ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
	eventfd_t one;

	if (eventfd_read(verbs->async_fd, &one) < 0)
		return -1;
	*event = told[told_first++];
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	given_back++;
}

static void tells(struct ibv_async_event what)
{
	cr_assert_lt(told_end, MADE);
	told[told_end++] = what;
	cr_assert_eq(eventfd_write(context.async_fd, 1), 0);
}

/* -- the clock ----------------------------------------------------------------------------------
 */

static int64_t later_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	const int result = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += later_s;
	return result;
}

/* -- what the kernel says of an interface ---------------------------------------------------------
 */

static int udp_mtu;

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	if ((level == IPPROTO_IP && name == IP_MTU) ||
	    (level == IPPROTO_IPV6 && name == IPV6_MTU)) {
		memcpy(value, &udp_mtu, sizeof(udp_mtu));
		return 0;
	}
	return (int)syscall(SYS_getsockopt, fd, level, name, value, length);
}

/* -- a publisher --------------------------------------------------------------------------------
 */

static struct listener *listener;
static struct announcer *announcer;
static struct peer *peer;
static char news[4096], gone[256];
static unsigned int lines;

static int on_hello(void *user, struct peer *who, const void *hello, size_t bytes, void *answer,
		    size_t *answer_bytes, struct exposure **page, char reason[FABRIC_REASON_BYTES])
{
	(void)user, (void)hello, (void)bytes, (void)answer, (void)page, (void)reason;
	*answer_bytes = 0;
	peer = who;
	return 0;
}

static void on_gone(void *user, struct peer *who, const char *why)
{
	(void)user, (void)who;
	snprintf(gone, sizeof(gone), "%s", why);
}

static void on_log(void *user, enum fabric_log kind, const char *words)
{
	const size_t used = strlen(news);

	(void)user, (void)kind;
	lines++;
	snprintf(news + used, sizeof(news) - used, "%s\n", words);
}

static const struct listener_calls calls = { .hello = on_hello, .gone = on_gone, .log = on_log };

static void device_make(void)
{
	context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE); /* reading it may block */
	context.cmd_fd = context.async_fd;
}

static void publisher_begin(const char *address, enum fabric_notices_kind kind)
{
	struct fabric_listen how = { .address = address,
				     .peers_max = 4,
				     .keep_alive = KEEP_ALIVE,
				     .keep_alive_bytes = strlen(KEEP_ALIVE) };

	device_make();
	how.notices = (struct fabric_notices){ .kind = kind, .bytes = 1024 };
	cr_assert_eq(address_parse_group(GROUP, &how.notices.group), 0);
	cr_assert_eq(verbs_listen(&listener, &how, &calls, NULL), 0, "%s", tb_error());
	cr_assert_eq(verbs_announcer(listener, NULL, 1024, &announcer), 0, "%s", tb_error());
}

static void publisher_end(void)
{
	verbs_announcer_close(announcer);
	verbs_listener_close(listener);
	close(context.async_fd);
	cr_expect(ids == 0 && queue_pairs == 0 && fake_verbs.queues == 0 &&
			  fake_verbs.channels == 0 && fake_verbs.domains == 0 && registered == 0 &&
			  handles == 0,
		  "left: %d ids, %d queue pairs, %d queues, %d channels, %d domains, %d regions, "
		  "%d handles",
		  ids, queue_pairs, fake_verbs.queues, fake_verbs.channels, fake_verbs.domains,
		  registered, handles);
	cr_expect_eq(given_back, told_end, "an event was kept");
}

/* The id that was made last for a port space, of those that are there. */
static struct rdma_cm_id *id_of(enum rdma_port_space space, unsigned int which)
{
	for (unsigned int i = 0; i < made_count; i++)
		if (made[i] && made[i]->ps == space && which-- == 0)
			return made[i];
	cr_assert_fail("no such id");
	return NULL;
}

static struct rdma_cm_id *listening(void)
{
	return id_of(RDMA_PS_TCP, 0);
}

/* The group's, before its senders'. */
static struct rdma_cm_id *member(void)
{
	return id_of(RDMA_PS_UDP, 0);
}

static void cm_tells(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	happens(id->channel, (struct rdma_cm_event){ .event = type, .id = id, .status = status });
}

static void turns_until(bool (*done)(void), const char *what)
{
	struct pollfd fd = { .fd = verbs_listener_fd(listener), .events = POLLIN };
	const uint64_t end = clock_ms() + deadline_ms();

	while (!done()) {
		cr_assert_lt(clock_ms(), end, "not seen: %s, but\n%s", what, news);
		poll(&fd, 1, 100);
		verbs_listener_poll(listener);
	}
}

static bool is_sent(void)
{
	return verbs_announce(announcer, "head", 4) == 0;
}

static bool is_not_sent(void)
{
	return !is_sent();
}

static unsigned int joins_awaited;

static bool has_joined(void)
{
	return joins >= joins_awaited;
}

static const char *awaited;

static bool is_news(void)
{
	return strstr(news, awaited) || strstr(gone, awaited);
}

static void until_told(const char *what)
{
	awaited = what;
	turns_until(is_news, what);
}

static void publisher_joined(void)
{
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	turns_until(is_sent, "a notice");
}

Test(group, that_is_lost_is_joined_again_and_each_is_told_once)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	turns_until(is_not_sent, "an end of notices");
	for (int i = 0; i < 2; i++) { /* a send-only member, then a full one, of each new try */
		const unsigned int before = joins;

		joins_awaited = before + 1;
		turns_until(has_joined, "a new try");
		cm_tells(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
		joins_awaited = before + 2;
		turns_until(has_joined, "a full member");
		cm_tells(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
		verbs_listener_poll(listener);
	}
	joins_awaited = joins + 1;
	turns_until(has_joined, "a new try");
	publisher_joined();
	cr_expect_str_eq(news, "address rdma:" PLACE ": no notices to " GROUP ": notices: lost the "
			       "group: Network dropped connection on reset; will retry\n"
			       "address rdma:" PLACE ": notices go to " GROUP " again\n");
	publisher_end();
}

Test(group, that_cannot_be_asked_for_is_asked_for_again)
{
	join_errno = ENETDOWN;
	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	joins_awaited = 3;
	turns_until(has_joined, "further tries");
	cr_expect_eq(lines, 1, "%s", news);
	join_errno = 0;
	joins_awaited = joins + 1;
	turns_until(has_joined, "a new try");
	publisher_joined();
	cr_expect_eq(lines, 2, "%s", news);
	publisher_end();
}

/* By a kernel that knows no such members, or not at this moment. */
Test(group, that_a_send_only_member_cannot_even_ask_for_is_asked_for_by_a_full_one)
{
	no_send_only = true;
	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	cr_expect_eq(joins, 2);
	publisher_joined();
	cr_expect_str_empty(news);
	/* Who is refused as a full member is refused for a while. */
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	joins_awaited = 4;
	turns_until(has_joined, "a new try");
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -EINVAL);
	verbs_listener_poll(listener);
	cr_expect_eq(joins, 4);
	cr_expect_not_null(strstr(news, "cannot join the group: Invalid"), "%s", news);
	publisher_end();
}

static bool is_taken(void)
{
	return given_back == told_end;
}

/* The groups are checked after the device's events. */
static void timer_turn(void)
{
	news[0] = '\0';
	tells((struct ibv_async_event){ .element.port_num = 1,
					.event_type = IBV_EVENT_PORT_ACTIVE });
	turns_until(is_taken, "the device's event");
}

static void look_at_groups(void)
{
	timer_turn();
	timer_turn();
}

static void time_passes(uint64_t ms)
{
	((struct verbs_announcer *)announcer)->group->tried_ms -= ms;
	look_at_groups();
}

Test(group, whose_join_is_under_way_is_given_some_seconds)
{
	unsigned int before;

	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	before = joins;
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	joins_awaited = before + 1;
	turns_until(has_joined, "a new try");
	time_passes(5000);
	cr_expect_eq(joins, before + 1, "it was given up");
	publisher_joined();
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	joins_awaited = before + 2;
	turns_until(has_joined, "a new try");
	time_passes(15000);
	cr_expect_eq(joins, before + 3, "it was waited for");
	publisher_joined();
	publisher_end();
}

/* It would be tried for ever, and who connects there would be told of it. */
Test(group, of_the_other_kind_of_addresses_has_no_senders)
{
	struct sockaddr_storage six;
	struct fabric_notices notices;
	struct announcer *other;

	cr_assert_eq(address_parse_group("[ff15::7]:7472", &six), 0);
	publisher_begin("127.0.0.1:7471", FABRIC_NOTICES_UDP);
	cr_expect_eq(verbs_announcer(listener, &six, 1024, &other), 0);
	cr_expect_null(other);
	verbs_notices(listener, &six, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_NONE);
	look_at_groups();
	cr_expect_eq(lines, 0, "%s", news);
	publisher_end();
	lines = 0;
	news[0] = '\0';
	publisher_begin("[::1]:7471", FABRIC_NOTICES_UDP);
	cr_expect_null(announcer);
	cr_expect_str_eq(news, "address rdma:[::1]:7471: no notices: the bus's group is an IPv4 "
			       "address\n");
	publisher_end();
}

/* Some devices send no more than 96 bytes inline, or none, and refuse the queue pair that asks. */
Test(sender, of_a_device_that_sends_little_inline_is_had_all_the_same)
{
	static const char notice[128];
	static const struct {
		uint32_t most, bytes;
		bool expected;
	} cases[] = { { 1024, 64, true }, { 96, 64, true }, { 96, 72, false }, { 0, 64, false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		inline_max = cases[i].most;
		publisher_begin(PLACE, FABRIC_NOTICES_UD);
		publisher_joined();
		cr_expect_eq(verbs_announce(announcer, notice, cases[i].bytes), 0);
		cr_expect_eq(!!(last_posted.send_flags & IBV_SEND_INLINE), cases[i].expected,
			     "%u bytes where %u may be inline", cases[i].bytes, cases[i].most);
		cr_expect_str_empty(news);
		publisher_end();
	}
}

static struct announcer *second;

static bool is_sent_by_second(void)
{
	return verbs_announce(second, "head", 4) == 0;
}

static unsigned int refused_awaited;

static bool is_refused(void)
{
	return refused >= refused_awaited;
}

Test(sender, that_cannot_be_had_is_missing_alone_and_tried_ever_more_seldom)
{
	unsigned int before;

	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	publisher_joined();
	before = joins;
	queue_pairs_max = queue_pairs;
	cr_assert_eq(verbs_announcer(listener, NULL, 1024, &second), 0);
	cr_expect(is_sent());
	refused_awaited = 3;
	turns_until(is_refused, "further tries");
	cr_expect_geq(refused_ms[1] - refused_ms[0], 500);
	cr_expect_geq(refused_ms[2] - refused_ms[1], 1000);
	cr_expect(is_sent());
	cr_expect_not(is_sent_by_second());
	cr_expect_eq(joins, before);
	cr_expect_str_eq(news, "address rdma:" PLACE ": cannot create a sender to " GROUP
			       ": notices: cannot create a queue pair: Cannot allocate memory; "
			       "will retry\n");
	/* A group that is joined again has those that can be had, and is not left for the other. */
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	joins_awaited = before + 1;
	turns_until(has_joined, "a new try");
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	verbs_listener_poll(listener);
	look_at_groups();
	cr_expect_eq(joins, before + 1);
	cr_expect_neq(is_sent(), is_sent_by_second());
	queue_pairs_max = MADE;
	until_told("all senders to " GROUP " work again");
	cr_expect(is_sent() && is_sent_by_second());
	verbs_announcer_close(second);
	publisher_end();
}

/* Whenever the list is looked at, another try of those in front is due. */
Test(sender, that_can_never_be_had_does_not_keep_those_behind_it_waiting)
{
	struct pollfd fd;
	unsigned int tries;

	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	fd = (struct pollfd){ .fd = verbs_listener_fd(listener), .events = POLLIN };
	refused_bytes = 64 * 128; /* of the one that is made last, and comes first */
	cr_assert_eq(verbs_announcer(listener, NULL, 128, &second), 0);
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	for (tries = 0; !is_sent() && tries < 4; tries = refused_count) {
		later_s += 100;
		poll(&fd, 1, 1000);
		verbs_listener_poll(listener);
	}
	cr_expect(is_sent(), "the first was tried %u times, and the one behind it never", tries);
	cr_expect_geq(refused_count, 1);
	verbs_announcer_close(second);
	publisher_end();
}

Test(sender, that_lacks_something_else_than_another_one_is_told_of_with_it)
{
	struct pollfd fd;

	publisher_begin(PLACE, FABRIC_NOTICES_UD);
	fd = (struct pollfd){ .fd = verbs_listener_fd(listener), .events = POLLIN };
	refused_bytes = 64 * 128;
	cr_assert_eq(verbs_announcer(listener, NULL, 128, &second), 0);
	register_errno = EPERM;
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	while (refused_count < 4) {
		later_s += 100;
		poll(&fd, 1, 1000);
		verbs_listener_poll(listener);
	}
	cr_expect_eq(lines, 1, "%s", news);
	register_errno = 0;
	verbs_announcer_close(second);
	publisher_end();
}

/* RoCE joins no groups of IPv6. */
Test(group, that_a_kernel_has_no_multicast_for_is_sent_to_by_udp_where_it_may)
{
	struct fabric_notices notices;

	join_errno = 524;
	publisher_begin("127.0.0.1:7471", FABRIC_NOTICES_AUTO);
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_UDP);
	cr_expect_eq(verbs_announce(announcer, "head", 4), 0);
	cr_expect_str_empty(news);
	publisher_end();
	publisher_begin("127.0.0.1:7471", FABRIC_NOTICES_UD);
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_UD);
	cr_expect_eq(verbs_announce(announcer, "head", 4), -ENOTCONN);
	cr_expect_not_null(strstr(news, "the kernel does not support it on this kind of device"),
			   "%s", news);
	publisher_end();
}

Test(group, has_datagrams_of_the_path_mtu_where_that_is_less_than_what_was_set)
{
	static const char datagram[1024];
	struct fabric_notices notices;

	mtu = IBV_MTU_512;
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.bytes, 512);
	posted = 0;
	cr_expect_eq(verbs_announce(announcer, datagram, 513), -EMSGSIZE);
	cr_expect_eq(posted, 0);
	cr_expect_eq(verbs_announce(announcer, datagram, 512), 0);
	cr_expect_eq(posted, 1);
	publisher_end();
}

static uint32_t bytes_by_udp(const char *address, enum fabric_notices_kind kind, int interface_mtu)
{
	static const char datagram[1024];
	struct fabric_notices notices;

	udp_mtu = interface_mtu;
	publisher_begin(address, kind);
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_UDP);
	cr_expect_eq(verbs_announce(announcer, datagram, notices.bytes), 0);
	if (notices.bytes < sizeof(datagram))
		cr_expect_eq(verbs_announce(announcer, datagram, notices.bytes + 1), -EMSGSIZE);
	publisher_end();
	return notices.bytes;
}

/* A fragment that is lost takes the whole with it. */
Test(group, by_udp_has_datagrams_that_are_sent_in_one_piece)
{
	cr_expect_eq(bytes_by_udp("127.0.0.1:7471", FABRIC_NOTICES_UDP, 1500), 1024);
	cr_expect_eq(bytes_by_udp("127.0.0.1:7471", FABRIC_NOTICES_UDP, 576), 576 - 28);
	cr_expect_eq(bytes_by_udp("127.0.0.1:7471", FABRIC_NOTICES_UDP, 0), 1024);
	join_errno = VERBS_UNSUPPORTED;
	cr_expect_eq(bytes_by_udp("127.0.0.1:7471", FABRIC_NOTICES_AUTO, 576), 576 - 28);
}

/* -- a device that fails ------------------------------------------------------------------------
 */

Test(sender, whose_send_failed_is_started_again)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	answer_status = IBV_WC_LOC_QP_OP_ERR;
	answered = ((struct verbs_announcer *)announcer)->cq;
	until_told("a sender failed and was started again");
	answer_status = IBV_WC_SUCCESS;
	turns_until(is_sent, "a notice");
	cr_expect_eq(lines, 1, "%s", news);
	publisher_end();
}

static void is_asked(void)
{
	struct rdma_cm_event request = { .event = RDMA_CM_EVENT_CONNECT_REQUEST };

	rdma_create_id(listening()->channel, &request.id, NULL, RDMA_PS_TCP);
	request.id->verbs = &context;
	request.param.conn.responder_resources = 64; /* of READs that it would like to make */
	peer = NULL;
	gone[0] = '\0';
	happens(listening()->channel, request);
	verbs_listener_poll(listener);
	cr_assert_not_null(peer);
}

/* -- a request that cannot be accepted ----------------------------------------------------------
 */

static void expect_rejected(const char *words)
{
	memset(&rejected, 0, sizeof(rejected));
	is_asked();
	cr_expect_eq(rejected.mark, VERBS_MARK);
	cr_expect_eq(rejected.number, EAGAIN); /* who waits for its publisher tries again */
	cr_expect_str_eq((const char *)rejected.body, words);
	cr_expect_not_null(strstr(news, words), "%s", news);
}

Test(subscriber, who_cannot_be_accepted_is_told_why)
{
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	register_errno = ENOMEM;
	expect_rejected("cannot register 41280 bytes for messages: Cannot allocate "
			"memory");
	register_errno = 0;
	accept_errno = EMFILE;
	expect_rejected("cannot accept the connection: Too many open files");
	publisher_end();
}

Test(device, that_is_lost_takes_everything_of_it_along_and_is_tried_again)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	is_asked();
	tells((struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL });
	until_told("the device is back");
	cr_expect_str_eq(gone, "the device is lost");
	cr_expect_eq(listens, 2);
	publisher_joined();
	publisher_end();
}

/* So many at most in a poll: between two of them its owner beats the pulse. */
static unsigned int poll_until(const int *count, int wanted, int most)
{
	struct pollfd fd = { .fd = verbs_listener_fd(listener), .events = POLLIN };
	const uint64_t end = clock_ms() + deadline_ms();
	unsigned int polls = 0;

	for (; *count < wanted; polls++) {
		const int before = *count;

		cr_assert_lt(clock_ms(), end);
		poll(&fd, 1, 1000);
		verbs_listener_poll(listener);
		cr_assert_leq(*count, before + most, "%d at once", *count - before);
	}
	return polls;
}

Test(device, that_returns_is_given_its_memory_and_its_senders_one_by_one)
{
	static char bytes[PIECES][4096];
	struct exposure *exposures[PIECES];
	struct announcer *others[PIECES];
	uint64_t began_ms;

	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	for (int i = 0; i < PIECES; i++) {
		const struct memory memory = { .base = bytes[i], .bytes = sizeof(bytes[i]) };

		cr_assert_eq(verbs_expose(listener, &memory, 0, &exposures[i]), 0);
		cr_assert_eq(verbs_announcer(listener, NULL, 64, &others[i]), 0);
	}
	cm_tells(listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	verbs_listener_poll(listener);
	cr_expect_eq(registered, 0);
	cr_expect_eq(queue_pairs, 0);
	poll_until(&ids, 1, 1);
	began_ms = clock_ms();
	cr_expect_geq(poll_until(&registered, PIECES, 1), PIECES);
	cr_expect_eq(listens, 1, "listened at before all of it can be read");
	until_told("the device is back");
	cr_expect_eq(listens, 2);
	cm_tells(member(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	/* The event and the timer may fall into one poll. */
	cr_expect_geq(poll_until(&queue_pairs, PIECES + 1, 2), PIECES);
	cr_expect_lt(clock_ms() - began_ms, PIECES * 500, "it waited between its steps");
	cr_expect(is_sent());
	for (int i = 0; i < PIECES; i++) {
		verbs_announcer_close(others[i]);
		verbs_withdraw(exposures[i]);
	}
	publisher_end();
}

/* A topic that is made between two steps. */
Test(device, that_is_returning_takes_what_comes_meanwhile_once)
{
	static char bytes[2][4096];
	struct memory memory = { .base = bytes[0], .bytes = sizeof(bytes[0]) };
	struct exposure *exposures[2];
	struct sockaddr_storage own;
	struct announcer *other;

	cr_assert_eq(address_parse_group("239.77.251.10:7472", &own), 0);
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	cr_assert_eq(verbs_expose(listener, &memory, 0, &exposures[0]), 0);
	cm_tells(listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	verbs_listener_poll(listener);
	poll_until(&ids, 1, 1);
	memory.base = bytes[1];
	cr_assert_eq(verbs_expose(listener, &memory, 0, &exposures[1]), 0);
	cr_expect_eq(registered, 1);
	joins = 0;
	cr_assert_eq(verbs_announcer(listener, &own, 64, &other), 0);
	until_told("the device is back");
	cr_expect_eq(registered, 2);
	cr_expect_eq(joins, 2, "%u joins of 2 groups", joins);
	verbs_announcer_close(other);
	publisher_end();
}

/* It would read how long a datagram may be while the group is opened anew, or keep what was true of
 * the device before. */
Test(device, that_is_away_has_no_senders_by_udp_either)
{
	static const char datagram[1024];
	struct fabric_notices notices;
	struct announcer *other;

	udp_mtu = 1500;
	publisher_begin("127.0.0.1:7471", FABRIC_NOTICES_UDP);
	cr_expect(is_sent());
	cm_tells(listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	verbs_listener_poll(listener);
	cr_assert_eq(verbs_announcer(listener, NULL, 1024, &other), 0, "%s", tb_error());
	cr_expect_eq(verbs_announce(announcer, "head", 4), -ENOTCONN);
	cr_expect_eq(verbs_announce(other, "head", 4), -ENOTCONN, "it runs without a device");
	udp_mtu = 576;
	until_told("the device is back");
	turns_until(is_sent, "a notice");
	verbs_notices(listener, NULL, &notices);
	cr_expect_eq(notices.kind, FABRIC_NOTICES_UDP);
	cr_expect_eq(notices.bytes, 576 - 28);
	cr_expect_eq(verbs_announce(other, datagram, 576 - 28), 0);
	cr_expect_eq(verbs_announce(other, datagram, 576 - 27), -EMSGSIZE);
	verbs_announcer_close(other);
	publisher_end();
}

Test(address, of_an_interface_that_is_another_one_is_bound_anew)
{
	publisher_begin(PLACE, FABRIC_NOTICES_AUTO);
	publisher_joined();
	is_asked();
	cm_tells(id_of(RDMA_PS_TCP, 1), RDMA_CM_EVENT_ADDR_CHANGE, 0);
	verbs_listener_poll(listener);
	cr_expect_str_eq(gone, "the interface has another hardware address");
	cr_expect_eq(lines, 0, "%s", news);
	cr_expect(is_sent());
	is_asked();
	cm_tells(listening(), RDMA_CM_EVENT_ADDR_CHANGE, 0);
	until_told("the device is back");
	cr_expect_str_eq(gone, "the interface has another hardware address");
	cr_expect_eq(listens, 2);
	publisher_joined();
	publisher_end();
}

/* -- a subscriber that is there, or is not --------------------------------------------------------
 */

static unsigned int posted_awaited;

static bool is_posted(void)
{
	return posted >= posted_awaited;
}

static void until_probed(void)
{
	posted_awaited = posted + 1;
	later_s += 1;
	turns_until(is_posted, "a question whether it is there");
	cr_expect_eq(last_posted.opcode, IBV_WR_RDMA_WRITE);
	cr_expect_eq(last_posted.num_sge, 0);
	verbs_listener_poll(listener);
}

Test(subscriber, whose_device_does_not_answer_any_more_loses_its_place)
{
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	is_asked();
	answers = true;
	for (int i = 0; i < 3; i++)
		until_probed();
	answers = false;
	until_probed();
	later_s += 25;
	look_at_groups();
	cr_expect_str_empty(gone);
	later_s += 10;
	until_told("it no longer answers");
	publisher_end();
}

static void half_a_minute(void)
{
	later_s += 31;
	timer_turn();
	verbs_listener_poll(listener);
}

/* iWARP acknowledges no WRITE, and Soft-iWARP would end the connection for it: a message is what
 * TCP may fail to deliver. One that is stopped has receives for some of them, and for those that
 * say something. */
Test(subscriber, over_iwarp_is_sent_something_now_and_then_and_not_more_than_half_of_its_receives)
{
	const struct verbs_frame *frame;

	device.transport_type = IBV_TRANSPORT_IWARP;
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	is_asked();
	answers = true;
	later_s += 25;
	look_at_groups();
	cr_expect_eq(posted, 0, "it is sent something all the time");
	half_a_minute();
	cr_assert_eq(posted, 1);
	cr_expect_eq(last_posted.opcode, IBV_WR_SEND);
	frame = (const struct verbs_frame *)(uintptr_t)last_sge.addr;
	cr_expect(last_sge.length == VERBS_FRAME_HEADER + strlen(KEEP_ALIVE) &&
		  memcmp(frame->body, KEEP_ALIVE, strlen(KEEP_ALIVE)) == 0);
	for (int i = 0; i < VERBS_CREDITS / 2; i++)
		half_a_minute();
	cr_expect_eq(posted, VERBS_CREDITS / 2);
	cr_expect_str_empty(gone);
	publisher_end();
}

/* -- READs at once ------------------------------------------------------------------------------
 */

Test(reads, that_a_publisher_answers_at_once_are_as_its_address_and_its_device_have_it)
{
	static const struct {
		const char *address;
		int device;
		uint8_t expected;
	} cases[] = {
		{ PLACE, 100, 64 }, /* as it was asked for */
		{ PLACE, 32, 32 },
		{ PLACE, 0, 16 },
		{ PLACE, 1000, 64 },
		{ PLACE ",reads=4", 100, 4 },
		{ PLACE ",reads=128", 32, 32 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		reads_of_device = cases[i].device;
		publisher_begin(cases[i].address, FABRIC_NOTICES_NONE);
		is_asked();
		cr_expect_eq(accepted.responder_resources, cases[i].expected, "%s on %d: %d",
			     cases[i].address, cases[i].device, accepted.responder_resources);
		publisher_end();
	}
}

/* -- a subscriber -------------------------------------------------------------------------------
 */

static struct link *subscriber;

static void on_welcome(void *user, const void *bytes, size_t length)
{
	(void)user, (void)bytes, (void)length;
}

static void on_link_gone(void *user, int code, const char *why)
{
	(void)user, (void)code;
	snprintf(gone, sizeof(gone), "%s", why);
}

static void subscriber_begin(const char *address)
{
	static const struct link_calls link_calls = { .welcome = on_welcome, .gone = on_link_gone };

	device_make();
	cr_assert_eq(verbs_connect(&subscriber, address, "hello", 5, &link_calls, NULL), 0, "%s",
		     tb_error());
	verbs_link_poll(subscriber);
	cr_assert_eq(verbs_link_state(subscriber), LINK_UP, "%s", gone);
}

static void subscriber_end(void)
{
	verbs_link_close(subscriber);
	close(context.async_fd);
	cr_expect(ids == 0 && queue_pairs == 0 && fake_verbs.queues == 0 &&
		  fake_verbs.channels == 0 && fake_verbs.domains == 0 && registered == 0);
	cr_expect_eq(given_back, told_end, "an event was kept");
}

static void until_gone(void)
{
	const uint64_t end = clock_ms() + deadline_ms();

	while (verbs_link_state(subscriber) != LINK_GONE) {
		cr_assert_lt(clock_ms(), end);
		verbs_link_poll(subscriber);
	}
}

Test(reads, that_a_subscriber_asks_for_are_sixteen_or_as_its_address_says)
{
	subscriber_begin(PLACE);
	cr_expect_eq(asked.initiator_depth, 16);
	subscriber_end();
	subscriber_begin(PLACE ",reads=64");
	cr_expect_eq(asked.initiator_depth, 64);
	subscriber_end();
	reads_of_device = 8;
	subscriber_begin(PLACE ",reads=64");
	cr_expect_eq(asked.initiator_depth, 8);
	subscriber_end();
}

Test(address, of_an_interface_that_is_another_one_ends_a_connection)
{
	subscriber_begin(PLACE);
	cm_tells(id_of(RDMA_PS_TCP, 0), RDMA_CM_EVENT_ADDR_CHANGE, 0);
	verbs_link_poll(subscriber);
	cr_expect_str_eq(gone, "the interface has another hardware address");
	cr_expect_eq(verbs_link_state(subscriber), LINK_GONE);
	subscriber_end();
}

Test(device, that_is_lost_ends_the_connections_over_it)
{
	subscriber_begin(PLACE);
	tells((struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL });
	until_gone();
	cr_expect_str_eq(gone, "the RDMA device is lost");
	subscriber_end();
}

Test(device, that_tells_nothing_is_not_waited_for, .timeout = 20)
{
	subscriber_begin(PLACE);
	tells((struct ibv_async_event){ .event_type = IBV_EVENT_COMM_EST });
	while (told_first < told_end)
		verbs_link_poll(subscriber);
	cr_expect_eq(verbs_link_state(subscriber), LINK_UP);
	subscriber_end();
}
