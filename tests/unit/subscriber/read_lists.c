/* SPDX-License-Identifier: Apache-2.0 */
/* READs of all topics wait in a list and go out together (U3), over a fabric whose READs land when
 * the test says so. */
#include <criterion/criterion.h>
#include <errno.h>

#include "bus/clock.h"
#include "subscriber/notices.h"
#include "subscriber/turn.h"
#include "tests/support/clock.h"
#include "tests/unit/subscriber/late.h"

TestSuite(read_lists, .init = late_enter, .fini = late_leave, .timeout = 60);

static struct tb_topic *topics[2];
static struct tb_subscription *subscriptions[2];
static struct notes of[2];

/* What the second handler of a turn does to the topic whose handler ran first. */
static void (*second)(struct tb_source *first);
static struct tb_source *first;

static void on_record(void *user, const struct tb_source *from, const struct tb_record *record)
{
	notes_record(user, from, record);
	if (!first)
		first = (struct tb_source *)(uintptr_t)from;
	else if (second && from != first)
		second(first);
}

/* Two topics, each of a subscription of its own, whose reader spins. A record of each has landed,
 * and the next poll delivers both. */
static void both_landed(void)
{
	const struct tb_subscription_options how[2] = {
		{ .size = sizeof(how[0]),
		  .on_record = on_record,
		  .on_event = notes_event,
		  .user = &of[0],
		  .from = TB_FROM_OLDEST },
		{ .size = sizeof(how[1]),
		  .on_record = on_record,
		  .on_event = notes_event,
		  .user = &of[1],
		  .from = TB_FROM_OLDEST },
	};

	late_two_read(0);
	tb_unsubscribe(subscription);
	subscriber->poll_ns = 0;
	for (int i = 0; i < 2; i++) {
		topics[i] = scene_topic(late.publisher, i ? "u1" : "u0", 64, 0);
		scene_publish(topics[i], 1, 2);
		cr_assert_eq(tb_subscribe(subscriber, i ? "u1" : "u0", &how[i], &subscriptions[i]),
			     0, "%s", tb_error());
	}
	late.at_once = true;
	UNTIL(of[0].records == 2 && of[1].records == 2 && late_is_discovered());
	late.at_once = false;
	late.page_held = true;
	for (int i = 0; i < 2; i++)
		scene_publish(topics[i], 3, 3);
	while (of[0].records < 3 || of[1].records < 3 || late.count < 4) {
		late_poll_once();
		if (of[0].records == 3 && of[1].records == 3 && late.count >= 4)
			break;
		while (late.count > 0)
			late_land(0, 0);
	}
	for (int i = 0; i < 2; i++)
		scene_publish(topics[i], 4, 4);
	while (late.count > 0)
		late_land(0, 0);
	first = NULL;
}

static unsigned int held_of(const struct tb_source *whose)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < late.count; i++)
		count += tag_unpack(late.held[i].tag).slot == whose->slot;
	return count;
}

Test(read_lists, reads_of_two_topics_go_out_together)
{
	both_landed();
	late.lists = 0;
	late_poll_once();
	cr_expect(of[0].records == 4 && of[1].records == 4);
	cr_expect_eq(late.count, 4);
	cr_expect_eq(late.lists, 1, "found %u lists", late.lists);
}

static unsigned int under_way_at_record;

static void count_under_way(void *user, const struct tb_source *from,
			    const struct tb_record *record)
{
	notes_record(user, from, record);
	under_way_at_record = late.count;
}

Test(read_lists, reads_go_out_before_the_first_record)
{
	late_two_read(0);
	UNTIL(late_is_discovered() && late.count == 0);
	subscription->options.on_record = count_under_way;
	clock_stop();
	scene_publish(topic, 3, 4);
	cr_assert(notices_hint(source, 3));
	late_poll_once();
	cr_assert_eq(late_slots_held(), 1);
	late_land(0, 0);
	cr_assert(notices_hint(source, 4));
	late_poll_once();
	cr_expect_eq(notes.records, 3);
	cr_expect_eq(under_way_at_record, 1, "the READ of record 4 waits for a handler");
}

static void leave_it(struct tb_source *it)
{
	tb_unsubscribe(it->subscription);
}

Test(read_lists, topic_that_a_handler_left_is_not_read)
{
	uint32_t slot;

	both_landed();
	second = leave_it;
	late_poll_once();
	cr_assert(of[0].records == 4 && of[1].records == 4);
	slot = first->slot;
	cr_expect_eq(held_of(first), 0, "the publisher may have withdrawn its memory");
	cr_expect_eq(late.count, 2, "the other topic is READ");
	UNTIL(!subscriber->table[slot]);
}

static void take_long(struct tb_source *it)
{
	(void)it;
	clock_pass(SCENE_STALE_MS);
}

Test(read_lists, memory_that_may_be_gone_after_a_handler_is_not_read)
{
	both_landed();
	clock_stop();
	second = take_long;
	late_poll_once();
	cr_assert(of[0].records == 4 && of[1].records == 4);
	cr_expect_eq(held_of(first), 0);
	cr_expect_eq(late_find(READ_PROGRESS), late.count);
	second = NULL;
	for (int i = 0; i < 2; i++)
		scene_publish(topics[i], 5, 5);
	late.at_once = true;
	UNTIL(of[0].records == 5 && of[1].records == 5); /* the bus page shows its epoch */
	cr_expect_eq(late.breaks, 0);
}

static void fill_queue(struct tb_source *it)
{
	(void)it;
	late.places = late.count;
}

Test(read_lists, waiting_reads_go_out_when_the_queue_has_room)
{
	both_landed();
	second = fill_queue;
	late_poll_once();
	cr_assert_eq(late.count, 0);
	cr_assert_geq(subscriber->waiting_count, 2);
	late.places = HELD_MAX;
	second = NULL;
	late_poll_once();
	cr_expect_eq(subscriber->waiting_count, 0);
	cr_expect_geq(late.count, 2);
	scene_publish(topics[0], 5, 5);
	late.at_once = true;
	UNTIL(of[0].records == 5);
}

Test(read_lists, waiting_reads_end_with_the_connection)
{
	both_landed();
	second = fill_queue;
	late_poll_once();
	cr_assert_geq(subscriber->waiting_count, 2);
	late.places = HELD_MAX;
	second = NULL;
	turn_disconnect(subscriber);
	cr_expect_eq(subscriber->under_way, 0);
	cr_expect_eq(subscriber->waiting_count, 0);
	for (int i = 0; i < 2; i++)
		scene_publish(topics[i], 5, 5);
	late.at_once = true;
	UNTIL(of[0].records == 5 && of[1].records == 5);
	cr_expect(of[0].lost == 0 && of[1].lost == 0);
}

static uint64_t reads_counted(void)
{
	uint64_t value[2][SUBSCRIPTION_COUNTERS];

	for (int i = 0; i < 2; i++)
		tb_subscription_counters(subscriptions[i], value[i], SUBSCRIPTION_COUNTERS);
	return value[0][SUBSCRIPTION_READS] + value[1][SUBSCRIPTION_READS];
}

/* The READs behind it go out, and it is tried again. */
Test(read_lists, refused_read_holds_up_no_other)
{
	uint64_t reads;

	both_landed();
	reads = reads_counted();
	late.refused = 2;
	late_poll_once();
	cr_expect_eq(late.count, 3);
	cr_expect_eq(reads_counted() - reads, 3, "a READ that was not posted is counted");
	late_poll_once();
	scene_publish(topics[0], 5, 5);
	scene_publish(topics[1], 5, 5);
	late.at_once = true;
	UNTIL(of[0].records == 5 && of[1].records == 5);
	cr_expect_eq(late.breaks, 0);
}

/* All places of the queue are taken by READs that wait. */
static int got;

static void get_value(struct tb_source *it)
{
	const struct tb_record *value;

	late.places = 3;
	late.at_once = true;
	got = tb_get(it, 0, &value);
}

Test(read_lists, value_read_posts_the_list_first)
{
	both_landed();
	second = get_value;
	late_poll_once();
	cr_assert(of[0].records == 4 && of[1].records == 4);
	cr_expect_eq(got, 1, "%s", tb_error());
}

/* tb_get took it from the link, which does not report it to a sleeper any more. */
Test(read_lists, completion_that_is_kept_ends_a_wait)
{
	const struct tb_record *value;

	late_two_read(0);
	UNTIL(late_is_discovered() && late.count == 0);
	scene_publish(topic, 3, 3);
	source->look = true;
	UNTIL(late_slots_held() == 1);
	late.at_once = true;
	cr_assert_eq(tb_get(source, 0, &value), 1, "%s", tb_error());
	cr_assert_eq(subscriber->completions.count, 1);
	cr_expect_eq(tb_wait(subscriber, 0), 1);
	cr_expect_not(subscriber->woken, "the wait ended for another reason");
	late_poll_once();
	cr_expect_eq(notes.records, 3);
}

/* A READ of a value has not landed. Until it has, records of the ring are left alone, so a sleeper
 * need not wake for them. The fabric does not sleep while a READ is held. */
Test(read_lists, records_that_wait_for_values_let_a_reader_sleep)
{
	static const uint8_t cancel_kind[] = { TB_KIND_CANCEL };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_NEWEST,
						     .conflate_us = 1000,
						     .exempt_kinds = cancel_kind,
						     .exempt_kind_count = 1 };

	late_two_read(0);
	tb_unsubscribe(subscription);
	topic = scene_topic(late.publisher, "u", 64, 0);
	cr_assert_eq(tb_subscribe(subscriber, "u", &how, &subscription), 0, "%s", tb_error());
	source = subscription->sources;
	UNTIL(source->state == SOURCE_RUNNING && late_is_discovered() && late.count == 0);
	late.images_held = true;
	scene_publish(topic, 1, 1);
	cr_assert(notices_hint(source, 1));
	UNTIL(late_slots_held() == 1);
	late_land(late_find(READ_SLOTS), 0);
	UNTIL(late_held(READ_VALUES) == 1);
	scene_publish(topic, 2, 2);
	cr_assert(notices_hint(source, 2));
	late_poll_once();
	cr_assert_eq(late_held(READ_VALUES), 1);
	subscriber->woken = false;
	cr_expect_eq(tb_wait(subscriber, 0), 1);
	cr_expect(subscriber->woken, "the wait ended for records");
	late.at_once = true;
	UNTIL(source->next == 3);
}
