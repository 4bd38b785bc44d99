/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the verbs fabric without a device: private data, a connection, senders and receivers of
 * notices over a device that is made here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/notice.h"
#include "bus/verbs/notice_udp.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_channel.h"
#include "bus/verbs/verbs_device.h"
#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_group.h"
#include "bus/verbs/verbs_private_data.h"
#include "bus/verbs/verbs_receiver.h"
#include "bus/bounds.h"
#include "tickbus/error.h"

/* -- what an accept and a reject carry ----------------------------------------------------------
 */

Test(private_data, welcome_needs_mark_and_counted_bytes)
{
	uint8_t data[256] = { 'T', 'B', 3, 0, 'a', 'b', 'c' };
	struct verbs_private_data told;

	cr_assert_eq(verbs_private_data_welcome(data, sizeof(data), &told), 0);
	cr_expect_eq(told.number, 3);
	cr_expect_arr_eq(told.body, "abc", 3);
	cr_expect_eq(verbs_private_data_welcome(data, 7, &told), 0);
	cr_expect_eq(verbs_private_data_welcome(data, 6, &told), -EPROTO);
	cr_expect_eq(verbs_private_data_welcome(data, 0, &told), -EPROTO);
	data[2] = FABRIC_WELCOME_BYTES + 1;
	cr_expect_eq(verbs_private_data_welcome(data, sizeof(data), &told), -EPROTO);
	data[2] = FABRIC_WELCOME_BYTES;
	cr_expect_eq(verbs_private_data_welcome(data, sizeof(data), &told), 0);
	data[1] = 'X';
	cr_expect_eq(verbs_private_data_welcome(data, sizeof(data), &told), -EPROTO);
}

Test(private_data, refusal_has_code_and_printable_text)
{
	uint8_t data[256] = { 'T', 'B', EACCES, 0, 'n', 'o', '\033', '!' };
	char why[FABRIC_REASON_BYTES + 1];

	cr_assert_eq(verbs_private_data_refusal(data, sizeof(data), why), EACCES);
	cr_expect_str_eq(why, "no?!");
	cr_assert_eq(verbs_private_data_refusal(data, 6, why), EACCES);
	cr_expect_str_eq(why, "no");
	cr_expect_eq(verbs_private_data_refusal(data, VERBS_PRIVATE_DATA_HEADER, why), 0);
	data[2] = data[3] = 0xff;
	cr_expect_eq(verbs_private_data_refusal(data, sizeof(data), why), EPROTO);
	memset(data + VERBS_PRIVATE_DATA_HEADER, 'w', sizeof(data) - VERBS_PRIVATE_DATA_HEADER);
	cr_expect_eq(verbs_private_data_refusal(data, sizeof(data), why), EPROTO);
	cr_expect_eq(strlen(why), FABRIC_REASON_BYTES);
	data[0] = 'X';
	cr_expect_eq(verbs_private_data_refusal(data, sizeof(data), why), 0);
}

Test(private_data, librdmacm_failures_become_EIO)
{
	cr_expect_eq(verbs_event_code(&(struct verbs_event){ .status = -EHOSTUNREACH }),
		     EHOSTUNREACH);
	cr_expect_eq(verbs_event_code(&(struct verbs_event){ .status = -1 }), EIO);
	cr_expect_eq(verbs_event_code(&(struct verbs_event){ .status = 28 }), EIO);
}

/* -- a device that is made here -----------------------------------------------------------------
 */

static enum ibv_wc_status status; /* of what it completes */
static uint32_t byte_len;
static unsigned int polls, posted;
static uint64_t last_signaled;
static bool signaled;

static int endless(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	(void)cq;
	cr_assert_lt(polls++, 1000, "these would be taken for ever");
	for (int i = 0; i < max; i++)
		wc[i] = (struct ibv_wc){ .status = status, .byte_len = byte_len };
	return max;
}

static int one_for_each_signal(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	(void)cq;
	(void)max;
	if (!signaled)
		return 0;
	signaled = false;
	*wc = (struct ibv_wc){ .status = status, .wr_id = last_signaled };
	return 1;
}

static unsigned int receives, receives_fail_at; /* 0: all succeed */
static uint32_t receive_bytes;

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)bad;
	receive_bytes = work->sg_list->length;
	return ++receives == receives_fail_at ? ENOMEM : 0;
}

static int send_fails_with; /* 0: sends succeed */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	if (send_fails_with)
		return send_fails_with;
	posted++;
	if (work->send_flags & IBV_SEND_SIGNALED) {
		signaled = true;
		last_signaled = work->wr_id;
	}
	return 0;
}

static struct ibv_context context = { .ops = { .post_recv = post_recv, .post_send = post_send } };
static struct ibv_qp qp = { .context = &context };
static struct ibv_cq cq = { .context = &context };
static struct ibv_mr mr;

/* Fakes of the calls that make and destroy a UD receiver. They count the objects that exist. */
static int ids, queue_pairs, queues, registered, joined;
static bool without_device;

int rdma_create_id(struct rdma_event_channel *events, struct rdma_cm_id **id, void *user,
		   enum rdma_port_space space)
{
	(void)events;
	(void)user;
	(void)space;
	*id = calloc(1, sizeof(**id));
	ids++;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)address;
	id->verbs = without_device ? NULL : &context;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	ids--;
	errno = 0;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *how)
{
	(void)pd;
	(void)how;
	id->qp = &qp;
	queue_pairs++;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	id->qp = NULL;
	queue_pairs--;
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *how, void *user)
{
	(void)how;
	(void)user;
	cr_assert_not_null(id, "a join without an id");
	joined++;
	return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)address;
	cr_assert(id && id->qp, "a leave without an id");
	joined--;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *verbs, int depth, void *user,
			     struct ibv_comp_channel *completions, int vector)
{
	(void)verbs;
	(void)depth;
	(void)user;
	(void)completions;
	(void)vector;
	queues++;
	return &cq;
}

int ibv_destroy_cq(struct ibv_cq *queue)
{
	(void)queue;
	queues--;
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
	(void)pd;
	(void)memory;
	(void)bytes;
	(void)access;
	registered++;
	return &mr;
}

int ibv_dereg_mr(struct ibv_mr *region)
{
	(void)region;
	registered--;
	return 0;
}

static void expect_nothing_left(void)
{
	cr_expect(ids == 0 && queue_pairs == 0 && queues == 0 && registered == 0 && joined == 0,
		  "left: %d ids, %d queue pairs, %d queues, %d regions, %d groups", ids,
		  queue_pairs, queues, registered, joined);
}

/* -- a connection -------------------------------------------------------------------------------
 */

static int one_failed_receive(struct ibv_cq *queue, int max, struct ibv_wc *wc)
{
	(void)queue;
	(void)max;
	if (polls++ > 0)
		return 0;
	*wc = (struct ibv_wc){ .status = status, .wr_id = UINT64_C(1) << 63 };
	return 1;
}

Test(channel, failed_posts_are_not_outstanding_reads)
{
	struct verbs_channel channel = { .cq = &cq, .qp = &qp, .mr = &mr };
	struct ibv_send_wr list[2] = { 0 };
	const uint64_t tags[2] = { 1, 2 };

	send_fails_with = EINVAL;
	cr_expect_eq(verbs_channel_read(&channel, list, tags, 2), -EINVAL);
	cr_expect_eq(verbs_channel_reads(&channel), 0);
	cr_expect_eq(channel.broken, EINVAL);
}

/* Soft-RoCE and Soft-iWARP have different statuses for it; a flush is no fault. */
Test(channel, too_long_send_blames_the_sender)
{
	static const struct {
		enum ibv_wc_status status;
		int code;
		const char *why;
	} cases[] = {
		{ IBV_WC_LOC_LEN_ERR, EPROTO, "it sent a frame that is too long" },
		{ IBV_WC_LOC_QP_OP_ERR, EPROTO, "it sent a frame that is too long" },
		{ IBV_WC_WR_FLUSH_ERR, ECONNRESET, "the other side closed the connection" },
	};

	context.ops.poll_cq = one_failed_receive;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verbs_channel channel = { .cq = &cq, .qp = &qp, .mr = &mr };

		status = cases[i].status;
		polls = 0;
		verbs_channel_progress(&channel);
		cr_expect_eq(channel.broken, cases[i].code, "%d", channel.broken);
		cr_expect_str_eq(channel.why, cases[i].why);
	}
}

Test(receiver, empty_datagrams_do_not_keep_it_busy)
{
	static char buffers[40 + BOUND_NOTICE_BYTES_MAX];
	struct verbs_receiver receiver = {
		.qp = &qp, .cq = &cq, .mr = &mr, .buffers = buffers, .count = 1
	};
	char datagram[16];

	context.ops.poll_cq = endless;
	byte_len = 40;
	cr_expect_eq(verbs_receiver_take(&receiver, datagram, sizeof(datagram)), 0);
	byte_len = 44;
	for (int i = 0; i < VERBS_COLLECT; i++) /* what is left of those collected */
		verbs_receiver_take(&receiver, datagram, sizeof(datagram));
	cr_expect_eq(verbs_receiver_take(&receiver, datagram, sizeof(datagram)), 4);
}

Test(receiver, datagram_after_an_empty_datagram_is_taken)
{
	struct verbs_receiver receiver = { .cq = NULL };
	char datagram[16];
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	receiver.members[3] =
		(struct verbs_member){ .kind = FABRIC_NOTICES_UDP, .socket = ends[0] };
	receiver.used = 5;
	receiver.sockets = 1;
	cr_assert_eq(send(ends[1], "", 0, 0), 0);
	cr_assert_eq(send(ends[1], "told", 4, 0), 4);
	cr_expect_eq(verbs_receiver_take(&receiver, datagram, sizeof(datagram)), 4);
	cr_expect_eq(verbs_receiver_take(&receiver, datagram, sizeof(datagram)), 0);
	close(ends[0]);
	close(ends[1]);
}

/* Groups of one port on loopback, as many as there may be, and one more. */
static struct fabric_notices a_group(int number)
{
	struct fabric_notices notices = { .kind = FABRIC_NOTICES_UDP, .bytes = 1024 };
	char words[64];

	snprintf(words, sizeof(words), "239.77.251.%d:%d", number, 20000 + (int)getpid() % 40000);
	cr_assert_eq(address_parse_group(words, &notices.group), 0);
	return notices;
}

/* -- a receiver of UD */

static struct verbs_receive ud_how = { .count = 4, .local.ss_family = AF_INET };

static struct fabric_notices ud_group(int number, uint32_t bytes)
{
	struct fabric_notices notices = a_group(number);

	notices.kind = FABRIC_NOTICES_UD;
	notices.bytes = bytes;
	return notices;
}

static int nothing_came(struct ibv_cq *queue, int max, struct ibv_wc *wc)
{
	(void)queue;
	(void)max;
	(void)wc;
	return 0;
}

/* The publisher's maximum does not bound what strangers send. */
Test(receiver, receives_hold_the_longest_datagram)
{
	static const uint32_t told[] = { 0, 4096, 256 };
	struct verbs_receiver receiver = { .cq = NULL };

	for (int i = 0; i < 3; i++) {
		const struct fabric_notices notices = ud_group(i + 1, told[i]);

		cr_assert_not_null(verbs_receiver_join(&receiver, &ud_how, &notices), "%s",
				   tb_error());
	}
	cr_expect_eq(receives, 4, "one queue pair for all");
	cr_expect_eq(receive_bytes, 40 + 4096);
	cr_expect_eq(joined, 3);
	verbs_receiver_close(&receiver);
	expect_nothing_left();
}

Test(receiver, failed_queue_pair_leaves_groups_and_rejoins)
{
	static const enum ibv_wc_status ends[] = { IBV_WC_LOC_LEN_ERR, IBV_WC_WR_FLUSH_ERR };
	const struct fabric_notices first = ud_group(1, 1024), second = ud_group(2, 1024);
	const struct fabric_notices over_udp = a_group(3);
	struct verbs_receive how = ud_how;
	struct verbs_receiver receiver = { .cq = NULL };
	char datagram[16];

	cr_assert_eq(address_parse_host("127.0.0.1", &how.local), 0);
	cr_assert_not_null(verbs_receiver_join(&receiver, &how, &over_udp), "%s", tb_error());
	for (int i = 0; i < 2; i++) {
		cr_assert_not_null(verbs_receiver_join(&receiver, &how, &first), "%s", tb_error());
		cr_assert_not_null(verbs_receiver_join(&receiver, &how, &second), "%s", tb_error());
		context.ops.poll_cq = endless;
		polls = 0;
		status = ends[i];
		cr_expect_eq(verbs_receiver_take(&receiver, datagram, sizeof(datagram)), 0);
		expect_nothing_left();
		context.ops.poll_cq = nothing_came;
		cr_expect_eq(verbs_receiver_take(&receiver, datagram, sizeof(datagram)), 0);
		cr_expect_null(verbs_receiver_join(&receiver, &how, &over_udp), "it was left");
	}
	verbs_receiver_close(&receiver);
}

Test(receiver, half_made_receiver_is_destroyed)
{
	const struct fabric_notices notices = ud_group(1, 1024);
	struct verbs_receiver receiver = { .cq = NULL };

	receives_fail_at = 3;
	cr_expect_null(verbs_receiver_join(&receiver, &ud_how, &notices));
	cr_expect_eq(errno, EIO);
	expect_nothing_left();
	without_device = true;
	errno = 0;
	cr_expect_null(verbs_receiver_join(&receiver, &ud_how, &notices));
	cr_expect_eq(errno, ENODEV);
	expect_nothing_left();
	without_device = false;
	receives = 0;
	receives_fail_at = 0;
	cr_assert_not_null(verbs_receiver_join(&receiver, &ud_how, &notices), "%s", tb_error());
	cr_expect_eq(receives, 4);
	verbs_receiver_close(&receiver);
	expect_nothing_left();
}

Test(receiver, group_of_other_family_is_refused)
{
	struct fabric_notices notices = ud_group(1, 1024);
	struct verbs_receiver receiver = { .cq = NULL };

	cr_assert_eq(address_parse_group("[ff15::1]:7472", &notices.group), 0);
	for (int i = 0; i < 2; i++) {
		notices.kind = i ? FABRIC_NOTICES_UDP : FABRIC_NOTICES_UD;
		cr_expect_null(verbs_receiver_join(&receiver, &ud_how, &notices));
		cr_expect_eq(errno, EPROTO);
		cr_expect_str_eq(tb_error(), "notices: found an IPv6 group, expected IPv4");
	}
	expect_nothing_left();
}

static void tell(int number, const char *what)
{
	const struct fabric_notices to = a_group(number);
	struct sockaddr_storage local;
	int fd;

	cr_assert_eq(address_parse_host("127.0.0.1", &local), 0);
	fd = notice_udp_sender(&local, &to.group, 1, 0);
	cr_assert_geq(fd, 0, "%s", tb_error());
	cr_assert_eq(send(fd, what, strlen(what), 0), (ssize_t)strlen(what));
	close(fd);
}

Test(receiver, only_joined_groups_are_received)
{
	struct verbs_receiver receiver = { .cq = NULL };
	struct verbs_receive how = { .count = 16 };
	struct fabric_notices notices;
	char datagram[16];
	int seen[2] = { 0 };

	cr_assert_eq(address_parse_host("127.0.0.1", &how.local), 0);
	for (int i = 1; i <= 3; i++) {
		notices = a_group(i);
		cr_assert_not_null(verbs_receiver_join(&receiver, &how, &notices), "%s",
				   tb_error());
	}
	cr_expect_null(verbs_receiver_join(&receiver, &how, &notices), "a group twice");
	cr_expect_eq(errno, EEXIST);
	verbs_receiver_leave(&receiver, &notices.group);
	verbs_receiver_leave(&receiver, &notices.group);
	for (int i = 0; i < 3; i++) {
		tell(3, "left");
		tell(4, "never");
		tell(1, "1");
		tell(2, "2");
	}
	for (int i = 0; i < 6; i++) {
		cr_assert_eq(verbs_receiver_take(&receiver, datagram, sizeof(datagram)), 1);
		cr_assert(datagram[0] == '1' || datagram[0] == '2');
		seen[datagram[0] - '1']++;
		cr_expect_leq(abs(seen[0] - seen[1]), 1, "not in turn");
	}
	cr_expect_eq(verbs_receiver_take(&receiver, datagram, sizeof(datagram)), 0);
	verbs_receiver_close(&receiver);
}

Test(receiver, one_group_too_many_is_refused)
{
	struct verbs_receiver receiver = { .cq = NULL };
	struct verbs_receive how = { .count = 16 };
	struct fabric_notices notices;

	cr_assert_eq(address_parse_host("127.0.0.1", &how.local), 0);
	for (int i = 1; i <= BOUND_NOTICE_GROUPS_MAX; i++) {
		notices = a_group(i);
		cr_assert_not_null(verbs_receiver_join(&receiver, &how, &notices), "%d: %s", i,
				   tb_error());
	}
	notices = a_group(BOUND_NOTICE_GROUPS_MAX + 1);
	cr_expect_null(verbs_receiver_join(&receiver, &how, &notices));
	cr_expect_eq(errno, ENOSPC);
	cr_expect_str_eq(tb_error(), "notices: found a 65th group, expected at most 64");
	verbs_receiver_leave(&receiver, &receiver.members[7].group);
	cr_expect_not_null(verbs_receiver_join(&receiver, &how, &notices), "%s", tb_error());
	verbs_receiver_close(&receiver);
}

static struct verbs_group group;
static struct verbs_announcer announcer;
static char sent[64 * 64];

static void sender_make(void)
{
	group = (struct verbs_group){ .bytes = 64, .announcers = &announcer };
	announcer = (struct verbs_announcer){ .group = &group,
					      .cq = &cq,
					      .qp = &qp,
					      .mr = &mr,
					      .buffers = sent,
					      .bytes = 64,
					      .socket = -1 };
	context.ops.poll_cq = one_for_each_signal;
}

Test(sender, completed_sends_never_stop_it)
{
	sender_make();
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(verbs_announce(&announcer.base, "head", 4), 0, "at %d", i);
	cr_expect_eq(posted, 1000);
}

/* A failed queue pair sends nothing, and only its completions show it. */
Test(sender, failed_queue_pair_sends_nothing)
{
	int good = 0;

	sender_make();
	status = IBV_WC_LOC_QP_OP_ERR;
	while (good < 1000 && verbs_announce(&announcer.base, "head", 4) == 0)
		good++;
	cr_expect_leq(good, 32, "%d were called sent", good);
	cr_expect_eq(verbs_announce(&announcer.base, "head", 4), -EIO);
}

Test(sender, stopped_sender_does_not_read_its_group)
{
	sender_make();
	announcer.qp = NULL;
	announcer.group = NULL; /* the control thread's */
	cr_expect_eq(verbs_announce(&announcer.base, "head", 4), -ENOTCONN);
}

static struct verbs_announcer *preempted;
static unsigned int yields;

/* The thread that sends runs on, and is done with its send. Sanitizers yield too. */
int sched_yield(void)
{
	if (preempted) {
		yields++;
		atomic_flag_clear(&preempted->busy);
	}
	preempted = NULL;
	return 0;
}

Test(sender, stop_gives_the_processor_to_a_preempted_send, .timeout = 60)
{
	static struct verbs_group unjoined;
	struct verbs_announcer *sender;

	unjoined.kind = FABRIC_NOTICES_UD; /* not joined: the sender does not start */
	cr_assert_eq(verbs_announcer_open(&unjoined, 64, &sender), 0);
	preempted = sender;
	atomic_flag_test_and_set(&sender->busy);
	verbs_announcer_close(&sender->base);
	cr_expect_eq(yields, 1);
}

/* The address's settings hold for every group. */
Test(sender, hops_and_traffic_class_come_from_the_listener)
{
	struct verbs_group groups[2] = { { .wish = a_group(1) }, { .wish = a_group(2) } };
	struct address address;

	cr_assert_eq(address_parse("127.0.0.1:7471,hop_limit=7,traffic_class=72", &address), 0);
	for (int i = 0; i < 2; i++) {
		struct verbs_announcer *one;
		socklen_t bytes = sizeof(int);
		int found = 0;

		cr_assert_eq(verbs_group_open(&groups[i], NULL, NULL, NULL, &address), 0, "%s",
			     tb_error());
		cr_assert_eq(verbs_announcer_open(&groups[i], 64, &one), 0, "%s", tb_error());
		cr_assert_eq(getsockopt(one->socket, IPPROTO_IP, IP_MULTICAST_TTL, &found, &bytes),
			     0);
		cr_expect_eq(found, 7);
		cr_assert_eq(getsockopt(one->socket, IPPROTO_IP, IP_TOS, &found, &bytes), 0);
		cr_expect_eq(found, 72);
		verbs_announcer_close(&one->base);
		verbs_group_close(&groups[i]);
	}
}

Test(sender, udp_has_hops_and_traffic_class_of_the_address)
{
	struct sockaddr_storage local, to;
	socklen_t bytes = sizeof(int);
	int fd, found = 0;

	cr_assert_eq(address_parse_host("127.0.0.1", &local), 0);
	cr_assert_eq(address_parse_group("239.77.250.2:7472", &to), 0);
	fd = notice_udp_sender(&local, &to, 5, 0x48);
	cr_assert_geq(fd, 0, "%s", tb_error());
	cr_expect_eq(getsockopt(fd, IPPROTO_IP, IP_TOS, &found, &bytes), 0);
	cr_expect_eq(found, 0x48);
	cr_expect_eq(getsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &found, &bytes), 0);
	cr_expect_eq(found, 5);
	close(fd);
}

/* -- where a device is --------------------------------------------------------------------------
 */

static void line_write(const char *folder, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/device/%s", folder, name);
	file = fopen(path, "we");
	cr_assert_not_null(file, "%s", path);
	fputs(text, file);
	fclose(file);
}

Test(device, numa_node_comes_from_sysfs)
{
	char folder[] = "/tmp/tickbus-device-XXXXXX", path[128], cpus[16];
	struct ibv_device device = { 0 };

	cr_assert_not_null(mkdtemp(folder));
	memcpy(device.ibdev_path, folder, sizeof(folder));
	cr_expect_eq(verbs_device_node(&device, cpus, sizeof(cpus)), -1, "of a software device");
	cr_expect_str_empty(cpus);
	snprintf(path, sizeof(path), "%s/device", folder);
	cr_assert_eq(mkdir(path, 0700), 0);
	line_write(folder, "numa_node", "1\n");
	line_write(folder, "local_cpulist", "16-31,48-63\n");
	cr_expect_eq(verbs_device_node(&device, cpus, sizeof(cpus)), 1);
	cr_expect_str_eq(cpus, "16-31,48-63");
	line_write(folder, "numa_node", "-1\n");
	cr_expect_eq(verbs_device_node(&device, cpus, sizeof(cpus)), -1, "of a host with one node");
	line_write(folder, "numa_node", "none\n");
	cr_expect_eq(verbs_device_node(&device, cpus, sizeof(cpus)), -1);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/device/%s", folder,
			 i ? "numa_node" : "local_cpulist");
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/device", folder);
	rmdir(path);
	rmdir(folder);
}
