/* SPDX-License-Identifier: Apache-2.0 */
/* Many subscribers at once, over a fake device: a turn of the listener does a bounded part of the
 * work, and the timer continues it. Everything is counted. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>

#include "bus/bounds.h"
#include "bus/clock.h"
#include "bus/verbs/verbs.h"
#include "tests/support/deadline.h"
#include "tests/unit/bus/verbs_scene.h"

#define CROWD (2 * BOUND_PEERS_OF_A_TURN + 8)
/* A slow machine does not make a request too old. */
#define PATIENT       PLACE ",attempt_ms=60000"
#define REQUESTS_MAX  1024
#define EVENTS_A_TURN 64

static struct rdma_cm_id *ids[CROWD];

/* One turn of the listener, when it is due. */
static void turn(void)
{
	struct pollfd fd = { .fd = verbs_listener_fd(listener), .events = POLLIN };

	cr_assert_eq(poll(&fd, 1, (int)deadline_ms()), 1, "no turn is due");
	verbs_listener_poll(listener);
}

/* Turns until a count reached its end: at most BOUND_PEERS_OF_A_TURN in each turn. */
static void turns(const unsigned int *count, unsigned int wanted)
{
	const uint64_t end = clock_ms() + deadline_ms();
	unsigned int before;

	while (*count < wanted) {
		cr_assert_lt(clock_ms(), end, "found %u, expected %u", *count, wanted);
		before = *count;
		turn();
		cr_assert_leq(*count - before, BOUND_PEERS_OF_A_TURN, "%u in one turn",
			      *count - before);
	}
	cr_expect_eq(*count, wanted);
}

static void crowd_connects(void)
{
	for (int i = 0; i < CROWD; i++)
		ids[i] = request_arrives();
	turns(&hellos, CROWD);
	for (int i = 0; i < CROWD; i++)
		cm_event(ids[i], RDMA_CM_EVENT_ESTABLISHED, 0);
	verbs_listener_poll(listener);
}

Test(crowd, turn_answers_a_bounded_number_of_requests)
{
	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	for (int i = 0; i < CROWD; i++)
		request_arrives();
	turn();
	cr_expect_eq(hellos, BOUND_PEERS_OF_A_TURN);
	cr_expect_eq(fake.queue_pairs, BOUND_PEERS_OF_A_TURN);
	turn();
	cr_expect_eq(hellos, 2 * BOUND_PEERS_OF_A_TURN);
	turns(&hellos, CROWD);
	publisher_end();
}

Test(crowd, request_that_was_given_up_builds_nothing)
{
	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	fake.given_up = request_arrives();
	request_arrives();
	turns(&hellos, 1);
	cr_expect_eq(fake.queue_pairs, 1);
	cr_expect_eq(fake.ids, 2, "the id of a request that was given up is kept");
	publisher_end();
}

/* The kernel does not report this today. */
Test(crowd, reported_end_of_a_waiting_request_builds_nothing)
{
	static const enum rdma_cm_event_type ends[] = { RDMA_CM_EVENT_REJECTED,
							RDMA_CM_EVENT_UNREACHABLE,
							RDMA_CM_EVENT_CONNECT_ERROR,
							RDMA_CM_EVENT_DISCONNECTED };
	const int kinds = sizeof(ends) / sizeof(ends[0]);

	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	for (int i = 0; i < CROWD; i++)
		ids[i] = request_arrives();
	for (int i = 0; i < kinds; i++) /* the first, the last, and between them */
		cm_event(ids[i * (CROWD - 1) / (kinds - 1)], ends[i], 0);
	turns(&hellos, CROWD - 4);
	turn();
	cr_expect_eq(hellos, CROWD - 4);
	cr_expect_eq(fake.queue_pairs, CROWD - 4);
	publisher_end();
}

static void expect_old_requests_refused(const char *address, int64_t seconds)
{
	hellos = 0;
	publisher_begin(address, FABRIC_NOTICES_NONE);
	for (int i = 0; i < CROWD; i++)
		request_arrives();
	turn();
	fake.later_s += seconds;
	turn();
	turn();
	cr_expect_not_null(strstr(news, "the connection request waited too long for an answer"));
	cr_expect_eq(fake.rejected.number, EAGAIN);
	cr_expect_eq(fake.ids, 1 + BOUND_PEERS_OF_A_TURN);
	cr_expect_eq(hellos, BOUND_PEERS_OF_A_TURN);
	cr_expect_eq(fake.queue_pairs, BOUND_PEERS_OF_A_TURN);
	publisher_end();
}

/* Its subscriber has begun another attempt. */
Test(crowd, request_as_old_as_an_attempt_builds_nothing)
{
	expect_old_requests_refused(PLACE, 2);
	expect_old_requests_refused(PATIENT, 60);
}

Test(crowd, request_within_an_attempt_is_answered)
{
	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	for (int i = 0; i < CROWD; i++)
		request_arrives();
	turn();
	fake.later_s += 50;
	turns(&hellos, CROWD);
	publisher_end();
}

Test(crowd, bounded_number_of_requests_waits)
{
	static const char words[] = "too many connection requests wait for an answer";
	const int most = FAKE_IDS_MAX - 64;

	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	for (int i = 0; i < most && !strstr(news, words); i += EVENTS_A_TURN) {
		for (int j = 0; j < EVENTS_A_TURN; j++)
			request_arrives();
		turn();
		/* One id listens, others have peers. */
		cr_assert_leq(fake.ids - 1 - fake.queue_pairs, REQUESTS_MAX);
	}
	cr_expect_not_null(strstr(news, words));
	cr_expect_eq(fake.rejected.number, EAGAIN);
	publisher_end();
}

Test(crowd, turn_ends_a_bounded_number_of_lost_subscribers)
{
	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	crowd_connects();
	for (int i = 0; i < CROWD; i++)
		cm_event(ids[i], RDMA_CM_EVENT_DISCONNECTED, 0);
	turn();
	cr_expect_eq(gones, BOUND_PEERS_OF_A_TURN);
	cr_expect_eq(fake.queue_pairs, CROWD - BOUND_PEERS_OF_A_TURN);
	/* Lost subscribers still have their places, so no subscriber is refused meanwhile. */
	request_arrives();
	turn();
	cr_expect_eq(hellos, CROWD);
	turns(&gones, CROWD);
	turns(&hellos, CROWD + 1);
	cr_expect_eq(fake.queue_pairs, 1);
	publisher_end();
}

Test(crowd, lost_subscriber_gets_no_message)
{
	struct peer *last;

	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	crowd_connects();
	last = peer;
	for (int i = 0; i < CROWD; i++)
		cm_event(ids[i], RDMA_CM_EVENT_DISCONNECTED, 0);
	turn();
	cr_expect_eq(verbs_send(last, "news", 4, NULL), 0, "its owner would drop it at once");
	cr_expect_eq(verbs_offer(last, "news", 4), 0);
	cr_expect_eq(fake.posted, 0);
	/* It may be dropped before its turn comes. */
	verbs_ops.drop(last, "the test drops it");
	turns(&gones, CROWD - 1);
	publisher_end();
}

/* The owner sends to each of them at once. */
Test(crowd, failed_sends_lose_a_bounded_number_in_a_turn)
{
	struct peer *peers[CROWD];

	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	for (int i = 0; i < CROWD; i++) {
		connection();
		peers[i] = peer;
	}
	fake.post_errno = EIO;
	for (int i = 0; i < CROWD; i++)
		cr_expect_eq(verbs_send(peers[i], "news", 4, NULL), 0);
	cr_expect_eq(fake.queue_pairs, CROWD);
	turns(&gones, CROWD);
	cr_expect_str_eq(gone, "its send queue failed");
	publisher_end();
}

Test(crowd, turn_probes_a_bounded_number_of_subscribers)
{
	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	crowd_connects();
	fake.posted = 0;
	fake.later_s += 1;
	turns(&fake.posted, CROWD);
	turn();
	cr_expect_eq(fake.posted, CROWD, "a subscriber is probed twice");
	publisher_end();
}

/* Requests that never end keep the listener at work. They must not hide a dead subscriber. */
Test(crowd, flood_of_requests_does_not_stop_probes)
{
	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	connection();
	answered = -EACCES;
	for (int i = 0; i < BOUND_PEERS_OF_A_TURN; i++)
		request_arrives();
	fake.posted = 0;
	for (int i = 0; i < 8; i++) {
		for (int j = 0; j < BOUND_PEERS_OF_A_TURN; j++)
			request_arrives();
		fake.later_s += 1;
		turn();
	}
	cr_expect_gt(fake.posted, 0);
	publisher_end();
}

/* The subscriber whose turn is next may go meanwhile. */
Test(crowd, probes_continue_when_a_subscriber_goes)
{
	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	crowd_connects();
	fake.posted = 0;
	fake.later_s += 1;
	while (fake.posted == 0)
		turn();
	cr_assert_eq(fake.posted, BOUND_PEERS_OF_A_TURN);
	/* The newest is probed first. */
	cm_event(ids[CROWD - BOUND_PEERS_OF_A_TURN - 1], RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_event(ids[CROWD - BOUND_PEERS_OF_A_TURN - 2], RDMA_CM_EVENT_DISCONNECTED, 0);
	while (gones < 2)
		turn();
	while (fake.posted < CROWD - 2)
		turn();
	cr_expect_leq(fake.posted, CROWD);
	publisher_end();
}

Test(crowd, lost_device_ends_a_bounded_number_in_a_turn)
{
	static char bytes[64];
	const struct memory memory = { .base = bytes, .bytes = sizeof(bytes) };
	struct exposure *exposure;

	publisher_begin(PATIENT, FABRIC_NOTICES_NONE);
	crowd_connects();
	cm_event(listening(), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	turn();
	cr_expect_eq(gones, BOUND_PEERS_OF_A_TURN);
	/* A topic that is made meanwhile waits for the device's return. */
	fake.register_errno = EIO;
	cr_expect_eq(verbs_expose(listener, &memory, 0, &exposure), 0);
	fake.register_errno = 0;
	turns(&gones, CROWD);
	cr_expect_str_eq(gone, "the device was removed");
	poll_until_logged("the device is back");
	cr_expect_eq(fake.listens, 2);
	publisher_end();
}
