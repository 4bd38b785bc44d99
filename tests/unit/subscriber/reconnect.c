/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are lost and made again: what is joined again, and what is reported meanwhile.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"

TestSuite(reconnect, .init = net_enter, .fini = net_leave, .timeout = 60);

/* An ended topic is not joined again, but its next epoch is. */
static void end_and_connect_again(bool viewed)
{
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);
	struct tb_source *source;

	scene_publish(topic, 1, 3);
	tb_topic_end(topic);
	source = net_read_on(viewed);
	UNTIL(notes.ended && net_joined(0), 100);
	net_reconnect();
	cr_expect(net_joined(0), "an ended topic that was read was joined again");
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, 2);
	UNTIL(notes.records == 5, 100);
	cr_expect(net_joined(1));
	cr_expect_not(source->orphan);
}

Test(reconnect, ended_topic_in_place_is_not_joined_again)
{
	end_and_connect_again(true);
}

Test(reconnect, ended_topic_by_read_is_not_joined_again)
{
	end_and_connect_again(false);
}

Test(reconnect, epoch_begun_while_disconnected_is_joined_again)
{
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);
	struct tb_source *source;

	scene_publish(topic, 1, 60);
	source = net_read_on(true);
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, 2);
	cr_assert_eq(tb_poll(subscriber, 1), 1);
	net_wait_for_successor(source);
	cr_assert(source->has_successor && !notes.restarted, "%s", notes.text);
	net.away = net.cut = true;
	subscriber->turn_ms = 0; /* the next poll takes a turn */
	UNTIL(notes.records == 62, 100);
	cr_assert(notes.restarted && !subscriber->welcomed);
	UNTIL(net_joined(0), 100);
	net.away = false;
	UNTIL(net_joined(1) && !source->orphan, 100);
}

/* The next publisher may be there before the topic is reported stale. */
Test(reconnect, topic_missing_at_next_publisher_is_stale_with_reason)
{
	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 2);
	net_read_on(false);
	UNTIL(notes.last == 2, 100);
	net.away = net.cut = true;
	UNTIL(!net.cut && !subscriber->welcomed, 100);
	net_publisher_again(SCENE_STALE_MS);
	net.away = false;
	UNTIL(notes.text && strstr(notes.text, "stale 2 bus test has no topic t\n"), 100);
	scene_topic(net.publisher, "v", 64, 0);
	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 3);
	UNTIL(notes.records == 5, 100);
	cr_expect(strstr(notes.text, "2 B update 2\nstale\nstale 2 bus test has no topic t\n"
				     "restart 2 2\n"),
		  "%s", notes.text);
}

/* The reason survives an error that a handler causes before it is reported. */
static void fails_when_stale(void *user, const struct tb_event *event)
{
	notes_event(user, event);
	if (event->kind == TB_EVENT_STALE)
		cr_expect_eq(tb_poll(subscriber, 1), -EBUSY);
}

Test(reconnect, failing_handler_does_not_change_the_stale_reason)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = fails_when_stale,
						     .from = TB_FROM_OLDEST,
						     .user = &notes };
	struct tb_subscription *subscription;

	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 2);
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	UNTIL(notes.last == 2, 100);
	net.away = net.cut = true;
	UNTIL(!net.cut && !subscriber->welcomed, 100);
	net_publisher_again(SCENE_STALE_MS);
	net.away = false;
	UNTIL(notes.text && strstr(notes.text, "stale 2 "), 100);
	cr_expect(strstr(notes.text, "stale 2 bus test has no topic t\n"), "%s", notes.text);
}

Test(reconnect, epoch_read_to_its_end_during_rejoin_is_left)
{
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);
	const char *end;

	scene_publish(topic, 1, 3);
	net_read_on(true);
	UNTIL(notes.last == 3, 100);
	net.hold_join = 1;
	net.cut = true;
	UNTIL(net.holding, 100);
	tb_topic_end(topic);
	UNTIL(notes.ended, 100);
	net_release();
	UNTIL(net.leaves == 1 && net_joined(0), 100);
	end = strstr(notes.text, "ended 3\n");
	cr_expect(end && !strstr(end + 1, "ended"), "%s", notes.text);
}

/* Five tries to connect take 50 ms each; a timer wakes for each of them, once or twice. */
Test(reconnect, reader_without_a_start_sleeps_while_disconnected)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	unsigned int wakes = 0;

	scene_topic(net.publisher, "t", 64, 0);
	net_subscribe_unread(READ_HEADER);
	net.away = net.cut = true;
	UNTIL(!subscriber->welcomed, 100);
	for (net.tries = 0; net.tries < 5; wakes++) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		cr_assert_geq(tb_wait(subscriber, 1000), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms);
	}
	cr_expect_lt(wakes, 50, "woken %u times", wakes);
}

/* A hostile publisher could make what is left of a connection take as long as it likes. */
Test(reconnect, program_waits_for_a_lost_connection_only_when_it_closes)
{
	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 2);
	net_read_on(false);
	UNTIL(notes.last == 2, 100);
	net_reconnect();
	cr_expect_eq(net.settles, 0);
	tb_subscriber_close(subscriber);
	subscriber = NULL;
	cr_expect_eq(net.settles, 1);
}

Test(reconnect, stale_bound_is_that_of_the_current_publisher)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "net:test",
						       .stale_ms = 777,
						       .connect_ms = deadline_ms() };
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);

	scene_publish(topic, 1, 1);
	net_read_on(true);
	cr_expect_eq(subscriber->stale_ms, SCENE_STALE_MS);
	net_publisher_again(SCENE_HASTY_MS);
	scene_topic(net.publisher, "t", 64, 0);
	UNTIL(notes.restarted, 100);
	cr_expect_eq(subscriber->stale_ms, SCENE_HASTY_MS);
	tb_subscriber_close(subscriber);
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	cr_expect_eq(subscriber->stale_ms, 777, "as it was asked for");
}
