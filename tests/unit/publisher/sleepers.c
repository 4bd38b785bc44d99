/* SPDX-License-Identifier: Apache-2.0 */
/* Which sleepers are woken, and when. */

#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/unit/publisher/client.h"

#define SLEEPER_TOPICS 600

TestSuite(sleepers, .init = client_enter, .fini = client_leave, .timeout = 60);

Test(sleepers, sleeper_is_woken_once_when_head_moves)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message arm;
	uint64_t epoch;

	client_open(&client);
	epoch = epoch_of("t");
	arm = topic_message(CONTROL_ARM, 1, epoch, 0);
	client_send(&client, &arm); /* not joined: ignored */
	cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
	for (uint64_t head = 1; head <= 100; head++) {
		arm.topic.head = head - 1;
		if (head % 2)
			client_send(&client, &arm);
		scene_publish(topic, head, head);
		if (head % 2 == 0)
			client_send(&client, &arm);
		UNTIL(&client, client.wakes == head);
		cr_assert_eq(client.last.topic.topic_id, 1);
		cr_assert_eq(client.last.topic.epoch, epoch);
		cr_assert_eq(client.last.topic.head, head);
		cr_assert_eq(client.last.request, 0);
	}
	scene_publish(topic, 101, 110);
	cr_expect_eq(epoch_of("t"), epoch);
	cr_expect_eq(client.wakes, 100, "a client that did not arm is not woken");
	arm.topic.head = 110;
	client_send(&client, &arm);
	cr_assert_eq(join(&client, 1, epoch)->type,
		     CONTROL_GRANT); /* for another reader of the client */
	scene_publish(topic, 111, 111);
	UNTIL(&client, client.wakes == 101);
	arm.topic.head = 111;
	client_send(&client, &arm);
	cr_assert_eq(tb_topic_restart(topic), 0);
	epoch = epoch_of("t");
	cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
	scene_publish(topic, 1, 2);
	cr_expect_eq(epoch_of("t"), epoch);
	cr_expect_leq(client.wakes, 102, "a join of the next epoch starts awake");
}

/* Two readers of one subscriber. The second has read a record before its flush. */
Test(sleepers, shared_join_is_woken_for_its_lowest_head)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message arm;
	uint64_t epoch;

	scene_publish(topic, 1, 5);
	client_open(&client);
	epoch = epoch_of("t");
	cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
	for (uint64_t head = 5; head <= 6; head++) {
		arm = topic_message(CONTROL_ARM, 1, epoch, head);
		client_send(&client, &arm);
	}
	cr_assert_eq(epoch_of("t"), epoch); /* both arms were handled */
	cr_assert_eq(client.wakes, 0);
	scene_publish(topic, 6, 6);
	UNTIL(&client, client.wakes == 1);
}

/* Every record that a reader has read is reserved. A sleeper further ahead costs each flush. */
Test(sleepers, arm_above_reserved_drops_the_client)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message arm;
	uint64_t epoch, reserved;

	scene_publish(topic, 1, 5);
	reserved = topic_reserved(topic);
	cr_assert_gt(reserved, 5);
	client_open(&other);
	client_open(&client);
	epoch = epoch_of("t");
	cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
	arm = topic_message(CONTROL_ARM, 1, epoch, reserved);
	client_send(&client, &arm);
	cr_assert_eq(epoch_of("t"), epoch, "an arm at the last reserved record is valid");
	arm = topic_message(CONTROL_ARM, 1, epoch + 1, UINT64_MAX);
	client_send(&client, &arm);
	cr_assert_eq(epoch_of("t"), epoch, "an arm of another epoch is ignored");
	arm = topic_message(CONTROL_ARM, 1, epoch, reserved + 1);
	client_send(&client, &arm);
	bus_counter(BUS_MALFORMED); /* the arm was handled */
	bus_counter(BUS_MALFORMED);
	cr_assert_eq(bus_counter(BUS_JOINS), 0, "the client was not dropped");
	UNTIL(&client, client.gones == 1);
	cr_expect_eq(bus_counter(BUS_MALFORMED), 1);
	cr_expect(was_logged("was dropped: topic t: found an arm at record 9, expected at most 8, "
			     "the last that may be written"),
		  "%s", logged);
}

/* A set word needs no second interruption of the publishing thread. The test sets 2, which a flush
 * treats like 1, to see whether it is set again. */
Test(sleepers, armed_topic_is_not_armed_again)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message arm;
	uint64_t epoch;

	client_open(&client);
	client_open(&other);
	epoch = epoch_of("t");
	cr_assert_eq(join(&client, 1, epoch)->type, CONTROL_GRANT);
	cr_assert_eq(join(&other, 1, epoch)->type, CONTROL_GRANT);
	arm = topic_message(CONTROL_ARM, 1, epoch, 0);
	client_send(&client, &arm);
	cr_assert_eq(epoch_of("t"), epoch);
	cr_assert_eq(atomic_load(&topic->wakeup.armed), 1);
	atomic_store(&topic->wakeup.armed, 2);
	client_send(&other, &arm);
	bus_counter(BUS_WAKES);
	cr_expect_eq(atomic_load(&topic->wakeup.armed), 2);
	scene_publish(topic, 1, 1);
	UNTIL(&client, client.wakes == 1);
	UNTIL(&other, other.wakes == 1);
}

/* More wakes at once than its socket holds: it reads some, sleeps again, and gets the rest. */
Test(sleepers, sleeper_of_many_topics_is_woken_not_dropped)
{
	static struct tb_topic *topics[SLEEPER_TOPICS];
	uint64_t epochs[SLEEPER_TOPICS];
	char name[32];

	client_open(&client);
	for (uint32_t i = 0; i < SLEEPER_TOPICS; i++) {
		struct control_message arm;

		snprintf(name, sizeof(name), "t%u", i);
		topics[i] = scene_topic(publisher, name, 64, 0);
		epochs[i] = epoch_of(name);
		cr_assert_eq(join(&client, i + 1, epochs[i])->type, CONTROL_GRANT);
		arm = topic_message(CONTROL_ARM, i + 1, epochs[i], 0);
		client_send(&client, &arm);
		cr_assert_eq(epoch_of(name), epochs[i]); /* the arm was handled */
	}
	for (uint32_t i = 0; i < SLEEPER_TOPICS; i++)
		scene_publish(topics[i], 1, 1);
	UNTIL(&client, client.woken_count == SLEEPER_TOPICS || client.gones);
	cr_expect_eq(client.gones, 0, "%s", client.why);
	cr_expect_eq(warnings, 0, "%s", logged);
}
