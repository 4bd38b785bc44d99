/* SPDX-License-Identifier: Apache-2.0 */
/* A topic that begins a new epoch before its reader has begun the old epoch, or read it to the end.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "publisher/state.h"
#include "subscriber/fetch.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"
#include "tickbus/error.h"

TestSuite(restarts, .init = net_enter, .fini = net_leave, .timeout = 60);

Test(restarts, slow_old_epoch_is_read_to_its_end)
{
	struct tb_topic *topic = scene_topic(net.publisher, "t", 1024, 0);
	struct tb_source *source = net_read_on(false);

	scene_publish(topic, 1, 100);
	cr_assert_eq(tb_topic_restart(topic), 0);
	net.held = READ_HEADER;
	UNTIL(source->has_successor, 100);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0, "%s", notes.text);
	cr_assert_not(notes.restarted, "left after %u records", (unsigned int)notes.records);
	net.held = READ_NONE;
	UNTIL(notes.restarted, 100);
	cr_expect(strstr(notes.text, "100 B update 100\nrestart 100 100\n"), "%s", notes.text);
}

Test(restarts, topic_restarted_before_first_read_appears_in_new_epoch)
{
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);

	scene_publish(topic, 1, 2);
	net_subscribe_unread(READ_HEADER);
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, 3);
	UNTIL(subscriber->table[0]->mapping.shape.epoch == topic->shape.epoch, 100);
	net.held = READ_NONE;
	UNTIL(notes.events == 1, 100);
	scene_publish(topic, 4, 4);
	UNTIL(notes.records == 1, 100);
	cr_expect_str_eq(notes.text, "appeared t 4\n4 B update 4\n");
}

/* Its line was requested before the restart, and arrives after the grant of the new epoch. */
Test(restarts, old_epoch_begins_at_the_head_of_its_own_join)
{
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);

	scene_publish(topic, 1, 40);
	net_subscribe_unread(READ_PROGRESS);
	UNTIL(subscriber->table[0]->state == SOURCE_START, 100);
	net.unanswered = true;
	net.held = READ_NONE;
	UNTIL(subscriber->table[0]->page_under_way, 100);
	cr_assert_eq(tb_topic_restart(topic), 0);
	UNTIL(subscriber->table[0]->has_successor, 100);
	net.unanswered = false;
	UNTIL(notes.restarted, 100);
	cr_expect_eq(strncmp(notes.text, "appeared t 41\nrestart 40 40\n", 28), 0, "%s",
		     notes.text);
}

Test(restarts, topic_before_its_appearance_does_not_go_stale)
{
	scene_topic(net.publisher, "t", 64, 0);
	net_subscribe_unread(READ_PROGRESS);
	UNTIL(subscriber->table[0]->state == SOURCE_START, 100);
	tb_publisher_close(net.publisher);
	net.publisher = NULL;
	UNTIL(subscriber->lost, 100);
	for (int i = 0; i < 100; i++) {
		subscriber->page_ms = 0; /* read the pulse */
		subscriber->turn_ms = 0;
		clock_pass(1); /* the line, which is gone too, is due again */
		cr_assert_geq(tb_poll(subscriber, 100), 0);
	}
	cr_expect_eq(notes.events, 0, "%s", notes.text);
}

static struct tb_subscription *left_inside;

static void leave_at_restart(void *user, const struct tb_event *event)
{
	notes_event(user, event);
	if (event->kind == TB_EVENT_RESTART)
		tb_unsubscribe(left_inside);
}

/* The old epoch had ended, so its join was over; the handler ends the join of the new epoch. */
static void leave_in_handler(bool viewed)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = leave_at_restart,
						     .from = TB_FROM_OLDEST,
						     .user = &notes };
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);

	net.viewed = viewed;
	scene_publish(topic, 1, 2);
	tb_topic_end(topic);
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &left_inside), 0, "%s", tb_error());
	UNTIL(notes.ended && net_joined(0), 100);
	cr_assert_eq(tb_topic_restart(topic), 0);
	UNTIL(notes.restarted, 100);
	UNTIL(net_joined(0), 100);
	cr_expect_eq(net.leaves, 2, "%u leaves", net.leaves);
}

Test(restarts, subscription_ended_at_a_restart_leaves_its_view)
{
	leave_in_handler(true);
}

Test(restarts, subscription_ended_at_a_restart_leaves_its_reads)
{
	leave_in_handler(false);
}
