/* SPDX-License-Identifier: Apache-2.0 */
/* Subscribers of a publisher: accepted, refused, probed, kept alive; over a fake device. */
#include <criterion/criterion.h>
#include <errno.h>

#include "bus/address.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_channel.h"
#include "tests/unit/bus/verbs_scene.h"
#include "tickbus/error.h"

static void expect_rejected(const char *words)
{
	memset(&fake.rejected, 0, sizeof(fake.rejected));
	connection_request();
	cr_expect_eq(fake.rejected.mark, VERBS_MARK);
	cr_expect_eq(fake.rejected.number, EAGAIN); /* a waiting client tries again */
	cr_expect_str_eq((const char *)fake.rejected.body, words);
	cr_expect_not_null(strstr(news, words), "%s", news);
}

Test(subscriber, failed_accept_sends_the_reason)
{
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	fake.register_errno = ENOMEM;
	expect_rejected("cannot register 41280 bytes for messages: Cannot allocate "
			"memory");
	fake.register_errno = 0;
	fake.accept_errno = EMFILE;
	expect_rejected("cannot accept the connection: Too many open files");
	publisher_end();
}

/* A subscriber that takes nothing: messages beyond the credit wait in the backlog. */
Test(subscriber, offers_leave_half_of_the_backlog_for_answers)
{
	static const uint8_t message[FABRIC_MESSAGE_BYTES] = { 1 };
	int offered = 0, result;

	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	connection_request();
	do
		result = verbs_offer(peer, message, sizeof(message));
	while (result == 0 && offered++ < 1000);
	cr_assert_eq(result, -EAGAIN);
	cr_assert_gt(offered, VERBS_CREDITS);
	for (int i = 0; i < FABRIC_UNANSWERED; i++)
		cr_assert_eq(verbs_send(peer, message, sizeof(message), NULL), 0,
			     "no room for answer %d", i);
	cr_expect_eq(verbs_offer(peer, message, sizeof(message)), -EAGAIN);
	publisher_end();
}

Test(subscriber, address_of_its_host_is_its_origin)
{
	static const uint8_t four[FABRIC_ORIGIN_BYTES] = { [10] = 0xff, 0xff, 10, 9, 0, 1 };
	static const uint8_t six[FABRIC_ORIGIN_BYTES] = { 0xfd, [15] = 0x17 };
	static const uint8_t from[FABRIC_ORIGIN_BYTES] = { [10] = 0xff, 0xff, 10, 9, 0, 2 };
	static const uint8_t none[FABRIC_ORIGIN_BYTES];
	struct sockaddr_storage host = { 0 };
	uint8_t bytes[FABRIC_ORIGIN_BYTES];

	cr_assert_eq(address_parse_host("10.9.0.1:7471", &host), 0);
	address_host_bytes((const struct sockaddr *)&host, bytes);
	cr_expect_arr_eq(bytes, four, sizeof(four));
	cr_assert_eq(address_parse_host("[fd00::17]:7471", &host), 0);
	address_host_bytes((const struct sockaddr *)&host, bytes);
	cr_expect_arr_eq(bytes, six, sizeof(six));
	host.ss_family = AF_UNIX;
	address_host_bytes((const struct sockaddr *)&host, bytes);
	cr_expect_arr_eq(bytes, none, sizeof(none));
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	connection_request();
	cr_expect_eq(peer->origin_bytes, FABRIC_ORIGIN_BYTES);
	cr_expect_arr_eq(peer->origin, from, sizeof(from));
	publisher_end();
}

/* More requests than the listener has places for peers. */
Test(subscriber, challenged_request_gets_no_queue_pair_and_no_place)
{
	static const uint8_t origin[FABRIC_ORIGIN_BYTES] = {
		[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 9, [15] = 2
	};
	int ids;

	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	ids = fake.ids;
	answered = 1;
	for (int i = 0; i < 6; i++) {
		connection_request();
		cr_expect_eq(fake.rejected.mark, VERBS_MARK);
		cr_expect_eq(fake.rejected.number, 0);
		cr_expect_eq(fake.rejected_bytes,
			     VERBS_PRIVATE_DATA_HEADER + FABRIC_CHALLENGE_BYTES);
		for (size_t b = 0; b < FABRIC_CHALLENGE_BYTES; b++)
			cr_expect_eq(fake.rejected.body[b], 'c');
		cr_expect_eq(fake.ids, ids);
	}
	cr_expect_eq(lines, 0, "%s", news);
	answered = -EACCES;
	connection_request();
	cr_expect_eq(fake.rejected.number, EACCES);
	cr_expect_eq(fake.ids, ids);
	cr_expect_eq(fake.pairs_made, 0, "a queue pair before the proof");
	answered = 0;
	connection_request();
	cr_expect_eq(fake.pairs_made, 1);
	cr_expect_eq(peer->origin_bytes, FABRIC_ORIGIN_BYTES);
	cr_expect_arr_eq(peer->origin, origin, sizeof(origin));
	publisher_end();
}

/* With an id and a queue pair of its own; nothing of the first request stays. */
Test(subscriber, challenged_link_sends_a_second_request)
{
	fake.challenges = 1;
	subscriber_begin(PLACE);
	cr_expect_eq(fake.made_count, 2);
	cr_expect_null(fake.made[0]);
	cr_expect_eq(fake.ids, 1);
	cr_expect_eq(fake.pairs_made, 2);
	cr_expect_eq(fake.queue_pairs, 1);
	cr_expect_str_eq((const char *)fake.hellos[0], "hello");
	cr_expect_arr_eq(fake.hellos[1], "sixteen bytes...", FABRIC_CHALLENGE_BYTES);
	cr_expect_eq(fake.hellos[1][FABRIC_HELLO_BYTES - 1], 'h');
	cr_expect_eq(fake.requested.private_data_len, FABRIC_HELLO_BYTES);
	subscriber_end();
}

Test(subscriber, second_challenge_ends_the_link)
{
	fake_device_make();
	fake.challenges = 2;
	cr_assert_eq(verbs_ops.connect(&subscriber, PLACE, "hello", 5, &subscriber_calls, NULL), 0);
	verbs_link_poll(subscriber);
	cr_expect_eq(verbs_link_state(subscriber), LINK_GONE);
	cr_expect_str_eq(gone, "the publisher sent an invalid challenge");
	cr_expect_eq(fake.made_count, 2);
	subscriber_end();
}

static unsigned int posted_awaited;

static bool is_posted(void)
{
	return fake.posted >= posted_awaited;
}

static void wait_for_probe(void)
{
	posted_awaited = fake.posted + 1;
	fake.later_s += 1;
	poll_until(is_posted, "a question whether it is there");
	cr_expect_eq(fake.last_posted.opcode, IBV_WR_RDMA_WRITE);
	cr_expect_eq(fake.last_posted.num_sge, 0);
	verbs_listener_poll(listener);
}

Test(subscriber, unanswered_probe_removes_the_subscriber)
{
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	connection();
	fake.completes = true;
	for (int i = 0; i < 3; i++)
		wait_for_probe();
	fake.completes = false;
	wait_for_probe();
	fake.later_s += 25;
	wait_for_groups_check();
	cr_expect_str_empty(gone);
	fake.later_s += 10;
	poll_until_logged("it no longer answers");
	publisher_end();
}

/* Before that, its device need not answer. */
Test(subscriber, probe_begins_with_the_established_connection)
{
	struct rdma_cm_id *id;

	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	id = connection_request();
	fake.completes = true;
	fake.later_s += 60;
	wait_for_groups_check();
	cr_expect_eq(fake.posted, 0, "it is probed before its connection is established");
	cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	verbs_listener_poll(listener);
	wait_for_probe();
	publisher_end();
}

/* The connection manager gives it up. */
Test(subscriber, connection_that_is_not_established_ends)
{
	struct rdma_cm_id *id;

	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	id = connection_request();
	cm_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	verbs_listener_poll(listener);
	cr_expect_str_eq(gone, "its connection was not completed");
	publisher_end();
}

/* A SEND with invalidate arrives over the connection of an id. */
static void key_is_invalidated(const struct rdma_cm_id *id)
{
	fake.last_posted.wr_id = UINT64_C(1) << 63; /* the first receive */
	fake.completion_opcode = IBV_WC_RECV;
	fake.completion_flags = IBV_WC_WITH_INV;
	fake.completion_of = id->qp->send_cq;
}

Test(subscriber, invalidated_key_drops_the_subscriber_with_a_line)
{
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	key_is_invalidated(connection());
	verbs_listener_poll(listener);
	cr_expect_str_eq(gone, "it sent a message that invalidates a key");
	cr_expect_not_null(strstr(news, "was dropped: it sent a message that invalidates a key"),
			   "%s", news);
	publisher_end();
}

Test(subscriber, invalidated_key_ends_the_link)
{
	subscriber_begin(PLACE);
	key_is_invalidated(fake_id(RDMA_PS_TCP, 0));
	verbs_link_poll(subscriber);
	cr_expect_str_eq(gone, "it sent a message that invalidates a key");
	cr_expect_eq(verbs_link_state(subscriber), LINK_GONE);
	subscriber_end();
}

static void pass_half_a_minute(void)
{
	fake.later_s += 31;
	wait_for_timer();
	verbs_listener_poll(listener);
}

/* iWARP acknowledges no WRITE, and Soft-iWARP would end the connection for it. So the keep-alive is
 * a message, and TCP reports that it could not be delivered. A stopped subscriber has receives for
 * a few keep-alives, and still for other messages. */
Test(subscriber, idle_iwarp_subscriber_gets_bounded_keep_alives)
{
	const struct verbs_frame *frame;

	fake.device.transport_type = IBV_TRANSPORT_IWARP;
	publisher_begin(PLACE, FABRIC_NOTICES_NONE);
	connection();
	fake.completes = true;
	fake.later_s += 25;
	wait_for_groups_check();
	cr_expect_eq(fake.posted, 0, "it is sent something all the time");
	pass_half_a_minute();
	cr_assert_eq(fake.posted, 1);
	cr_expect_eq(fake.last_posted.opcode, IBV_WR_SEND);
	frame = (const struct verbs_frame *)(uintptr_t)fake.last_sge.addr;
	cr_expect(fake.last_sge.length == VERBS_FRAME_HEADER + strlen(KEEP_ALIVE) &&
		  memcmp(frame->body, KEEP_ALIVE, strlen(KEEP_ALIVE)) == 0);
	for (int i = 0; i < VERBS_CREDITS / 2; i++)
		pass_half_a_minute();
	cr_expect_eq(fake.posted, VERBS_CREDITS / 2);
	cr_expect_str_empty(gone);
	publisher_end();
}

Test(reads, address_and_device_bound_answered_reads)
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
		fake.reads = cases[i].device;
		publisher_begin(cases[i].address, FABRIC_NOTICES_NONE);
		connection_request();
		cr_expect_eq(fake.accepted.responder_resources, cases[i].expected, "%s on %d: %d",
			     cases[i].address, cases[i].device, fake.accepted.responder_resources);
		publisher_end();
	}
}

Test(reads, address_and_device_bound_requested_reads)
{
	subscriber_begin(PLACE);
	cr_expect_eq(fake.requested.initiator_depth, 16);
	subscriber_end();
	subscriber_begin(PLACE ",reads=64");
	cr_expect_eq(fake.requested.initiator_depth, 64);
	subscriber_end();
	fake.reads = 8;
	subscriber_begin(PLACE ",reads=64");
	cr_expect_eq(fake.requested.initiator_depth, 8);
	subscriber_end();
}

/* Some iWARP devices bound the other side's READs by this offer. */
Test(reads, request_offers_to_answer_reads)
{
	subscriber_begin(PLACE);
	cr_expect_geq(fake.requested.responder_resources, 1);
	subscriber_end();
}

static void expect_landing(enum ibv_transport_type transport, int access)
{
	void *landings[2];

	fake.device.transport_type = transport;
	subscriber_begin(PLACE);
	for (int i = 0; i < 2; i++) {
		landings[i] = verbs_landing(subscriber, 100);
		cr_assert_not_null(landings[i], "%s", tb_error());
		cr_expect_eq(fake.last_memory, landings[i]);
		cr_expect_eq(fake.last_access, access, "found %#x, expected %#x", fake.last_access,
			     access);
		cr_expect_eq((uintptr_t)landings[i] % 4096, 0, "it shares its first page");
	}
	cr_expect_neq((uintptr_t)landings[0] / 4096, (uintptr_t)landings[1] / 4096);
	for (int i = 0; i < 2; i++)
		verbs_landing_free(subscriber, landings[i], 100);
	subscriber_end();
}

/* The answer to a READ over iWARP is a message that writes. */
Test(reads, landing_permits_remote_writes_over_iwarp_alone)
{
	expect_landing(IBV_TRANSPORT_IB, IBV_ACCESS_LOCAL_WRITE);
	expect_landing(IBV_TRANSPORT_IWARP, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}
