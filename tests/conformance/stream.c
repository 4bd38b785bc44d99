/* SPDX-License-Identifier: Apache-2.0 */
/* What a subscriber receives of a topic: records, gaps, restarts, the end. Built once per fabric,
 * with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/record.h"
#include "publisher/state.h"
#include "tests/conformance/scheme.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/scene.h"

static struct tb_publisher *publisher;
static struct notes notes;

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	faulty_add(scene_seed());
	publisher = scene_publisher(SCHEME);
}

static void leave(void)
{
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(stream, .init = enter, .fini = leave, .timeout = 60);

Test(stream, oldest_start_delivers_every_record_in_order_then_end)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber;

	scene_publish(topic, 1, 5);
	subscriber = scene_subscriber(SCHEME, 0);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.last, 5));
	scene_publish(topic, 6, 7);
	tb_topic_end(topic);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_expect_str_eq(notes.text, "appeared t 1\n1 A update 1\n2 B update 2\n3 A update 3\n"
				     "4 B update 4\n5 A update 5\n6 B update 6\n7 A update 7\n"
				     "ended 7\n");
	tb_subscriber_close(subscriber);
}

Test(stream, newest_start_delivers_only_records_after_join)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);

	scene_publish(topic, 1, 5);
	scene_subscribe(subscriber, "t", TB_FROM_NEWEST, &notes);
	scene_publish(topic, 6, 6);
	cr_assert(scene_poll_until(subscriber, &notes.records, 1));
	cr_expect_str_eq(notes.text, "appeared t 6\n6 B update 6\n");
	tb_subscriber_close(subscriber);
}

static void *publish_when_joined(void *topic)
{
	while (tb_publisher_joins(publisher, NULL, 0) == 0)
		sched_yield();
	scene_publish(topic, 6, 15);
	return NULL;
}

Test(stream, newest_start_begins_where_publisher_counted_the_join)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	pthread_t thread;

	scene_publish(topic, 1, 5);
	cr_assert_eq(pthread_create(&thread, NULL, publish_when_joined, topic), 0);
	scene_subscribe(subscriber, "t", TB_FROM_NEWEST, &notes);
	pthread_join(thread, NULL);
	cr_assert(scene_poll_until(subscriber, &notes.last, 15));
	cr_expect_eq(notes.records, 10, "%s", notes.text);
	tb_subscriber_close(subscriber);
}

Test(stream, records_overwritten_before_join_are_one_exact_gap)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber;

	scene_publish(topic, 1, 1000);
	tb_topic_end(topic);
	subscriber = scene_subscriber(SCHEME, 0);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_expect_eq(notes.records, 64);
	cr_expect_eq(notes.lost, 936);
	cr_expect_eq(notes.wrong, 0);
	cr_expect(strstr(notes.text, "gap 1 936 before_join\n937 A update 937\n"), "%s",
		  notes.text);
	tb_subscriber_close(subscriber);
}

Test(stream, lapped_reader_gets_exact_gap)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);

	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	scene_publish(topic, 1, 10);
	cr_assert(scene_poll_until(subscriber, &notes.last, 10));
	scene_publish(topic, 11, 500);
	tb_topic_end(topic);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_expect(strstr(notes.text, "10 B update 10\ngap 11 436 overrun\n437 A update 437\n"),
		  "%s", notes.text);
	cr_expect_eq(notes.records + notes.lost, 500);
	cr_expect_eq(notes.wrong, 0);
	tb_subscriber_close(subscriber);
}

/* A strict subscription reads the progress line after each batch, and delivers the same stream. */
Test(stream, strict_subscription_gets_same_records_and_gaps)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = notes_record,
						   .on_event = notes_event,
						   .user = &notes,
						   .from = TB_FROM_OLDEST,
						   .flags = TB_STRICT };
	struct tb_subscription *subscription;

	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	scene_publish(topic, 1, 3);
	cr_assert(scene_poll_until(subscriber, &notes.last, 3));
	scene_publish(topic, 4, 500);
	tb_topic_end(topic);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_expect(strstr(notes.text, "3 A update 3\ngap 4 436 overrun\n437 A update 437\n"), "%s",
		  notes.text);
	cr_expect_eq(notes.records, 67);
	cr_expect_eq(notes.wrong, 0);
	tb_subscriber_close(subscriber);
}

Test(stream, strict_subscription_that_keeps_up_loses_nothing)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 1024, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = notes_record,
						   .on_event = notes_event,
						   .user = &notes,
						   .from = TB_FROM_OLDEST,
						   .flags = TB_STRICT };
	struct tb_subscription *subscription;

	notes.quiet = true;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	for (uint64_t x = 1; x <= 5000; x += 100) {
		scene_publish(topic, x, x + 99);
		cr_assert(scene_poll_until(subscriber, &notes.last, x + 99));
	}
	cr_expect_eq(notes.records, 5000);
	cr_expect(notes.lost == 0 && notes.wrong == 0);
	tb_subscriber_close(subscriber);
}

Test(stream, sequence_start_begins_there_or_reports_a_gap)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = notes_record,
						   .on_event = notes_event,
						   .user = &notes,
						   .from = TB_FROM_SEQUENCE,
						   .sequence = 100 };
	struct tb_subscription *subscription;

	scene_publish(topic, 1, 110);
	tb_topic_end(topic); /* until then, the oldest slots may be about to be written */
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0);
	cr_assert(scene_poll_until(subscriber, &notes.last, 110));
	cr_expect_eq(notes.records, 11);
	tb_unsubscribe(subscription);
	notes_free(&notes);
	options.sequence = 20;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0);
	cr_assert(scene_poll_until(subscriber, &notes.last, 110));
	cr_expect(strstr(notes.text, "gap 20 46 before_join\n47 A update 47\n"), "%s", notes.text);
	tb_unsubscribe(subscription);
	notes_free(&notes);
	options.epoch = 77;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0);
	cr_assert(scene_poll_until(subscriber, &notes.last, 110));
	cr_expect(strstr(notes.text, "restart 0 0\ngap 1 46 overrun\n47 A update 47\n"), "%s",
		  notes.text);
	tb_subscriber_close(subscriber);
}

/* Schema and start are checked before the publisher counts a join. */
Test(stream, topic_with_another_schema_is_refused_before_join)
{
	struct tb_schema *another = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_OLDEST,
						     .schema = another };
	struct tb_subscription *subscription;

	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 5);
	cr_expect_eq(tb_subscribe(subscriber, "t", &how, &subscription), -EPROTO);
	cr_expect_eq(tb_subscribe(subscriber, "*", &how, &subscription), 0, "%s", tb_error());
	cr_assert(scene_poll_while(subscriber, &notes.refused), "%s", notes.text);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 0);
	cr_expect_eq(notes.records, 0);
	tb_subscriber_close(subscriber);
	tb_schema_free(another);
}

Test(stream, start_at_sequence_0_is_refused)
{
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .from = TB_FROM_SEQUENCE };
	struct tb_subscription *subscription;

	cr_expect_eq(tb_subscribe(subscriber, "*", &how, &subscription), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscription options: found sequence 0, expected 1 or more");
	tb_subscriber_close(subscriber);
}

Test(stream, undefined_kind_is_not_published)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const uint64_t word = 1;
	struct tb_update update = { .size = sizeof(update), .length = 8, .data = &word };
	char expected[128];

	cr_assert_eq(tb_instrument(topic, "A"), 0);
	for (unsigned int kind = 0; kind < 256; kind++) {
		const bool known = (kind >= 1 && kind <= TB_KIND_HOLE) || kind >= TB_KIND_USER;

		update.kind = (uint8_t)kind;
		cr_expect_eq(tb_publish(topic, &update), known ? 0 : -EINVAL, "kind %u", kind);
		snprintf(expected, sizeof(expected),
			 "topic t: found kind %u, expected 1 to 6, or 128 to 255", kind);
		if (!known)
			cr_expect_str_eq(tb_error(), expected);
	}
}

Test(stream, consecutive_holes_are_one_gap_with_cause_upstream)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	struct tb_update hole = { .size = sizeof(hole), .kind = TB_KIND_HOLE, .time_ns = 1 };

	scene_publish(topic, 1, 2);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(tb_publish(topic, &hole), 0, "%s", tb_error());
	scene_publish(topic, 6, 6);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, 3));
	cr_expect_str_eq(notes.text, "appeared t 1\n1 A update 1\n2 B update 2\n"
				     "gap 3 5 upstream\n6 B update 6\n");
	tb_subscriber_close(subscriber);
}

Test(stream, pattern_joins_present_and_later_topics)
{
	struct tb_topic *one = scene_topic(publisher, "a.quote", 64, 0), *two, *other;
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);

	scene_publish(one, 1, 1);
	scene_subscribe(subscriber, "*.quote", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, 1));
	other = scene_topic(publisher, "a.trade", 64, 0);
	scene_publish(other, 1, 1);
	two = scene_topic(publisher, "b.quote", 64, 0);
	scene_publish(two, 1, 1);
	cr_assert(scene_poll_until(subscriber, &notes.records, 2));
	cr_expect_str_eq(notes.text, "appeared a.quote 1\n1 A update 1\n"
				     "appeared b.quote 1\n1 A update 1\n");
	tb_subscriber_close(subscriber);
}

Test(stream, restarted_topic_is_read_to_old_end_then_from_new_start)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);

	scene_publish(topic, 1, 3);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.last, 1));
	scene_publish(topic, 4, 5);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	scene_publish(topic, 1, 2);
	tb_topic_end(topic);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_expect_str_eq(notes.text,
			 "appeared t 1\n1 A update 1\n2 B update 2\n3 A update 3\n"
			 "4 B update 4\n5 A update 5\nrestart 5 5\n"
			 "1 A update 1\n2 B update 2\nended 2\n",
			 "%s", notes.text);
	tb_subscriber_close(subscriber);
}

/* An epoch that ended has no reserved slots behind its last record, and holds no record back. */
Test(stream, previous_epoch_loses_only_overwritten_records)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, TB_TOPIC_MANUAL_FLUSH);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);

	scene_publish(topic, 1, 1);
	tb_flush(topic);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.last, 1));
	scene_publish(topic, 2, 66);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	scene_publish(topic, 1, 2);
	tb_topic_end(topic);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_expect(strstr(notes.text, "1 A update 1\ngap 2 2 overrun\n3 A update 3\n"), "%s",
		  notes.text);
	cr_expect(strstr(notes.text, "66 B update 66\nrestart 66 66\n1 A update 1\n"), "%s",
		  notes.text);
	cr_expect_eq(notes.records, 67);
	cr_expect_eq(notes.lost, 1);
	cr_expect_eq(notes.wrong, 0);
	tb_subscriber_close(subscriber);
}

Test(stream, successor_of_closed_publisher_is_read_after_a_restart)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	scene_publish(topic, 1, 3);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.last, 3));
	tb_publisher_close(publisher);
	publisher = NULL;
	/* A mapping outlives the publisher, so the end can still be read; over a network it cannot.
	 */
	if (strcmp(SCHEME, "shm") == 0)
		cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	while (!notes.ended && !notes.stale && scene_now_ms() < until_ms)
		if (tb_poll(subscriber, 10) == 0)
			tb_wait(subscriber, 10);
	publisher = scene_publisher(SCHEME);
	topic = scene_topic(publisher, "t", 64, 0);
	scene_publish(topic, 1, 2);
	cr_assert(scene_poll_until(subscriber, &notes.records, 5), "%s", notes.text);
	cr_expect(notes.restarted);
	cr_expect(strstr(notes.text, "restart 3 3\n1 A update 1\n2 B update 2\n"), "%s",
		  notes.text);
	cr_expect_not(notes.live);
	tb_subscriber_close(subscriber);
}

/* TICKBUS_TEST_RECORDS sets fewer records for a slow device. */
Test(stream, records_through_small_ring_are_all_accounted_for)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 1024, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	const char *wanted = getenv("TICKBUS_TEST_RECORDS");
	const uint64_t total = wanted ? strtoull(wanted, NULL, 10) : 100000;

	cr_assert(total >= 5000 && total % 500 == 0, "found %" PRIu64 " records", total);
	notes.quiet = true;
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	for (uint64_t x = 1; x <= total; x += 500) {
		scene_publish(topic, x, x + 499);
		tb_poll(subscriber, 700);
	}
	tb_topic_end(topic);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_expect_eq(notes.records + notes.lost, total);
	cr_expect_eq(notes.wrong, 0);
	cr_expect_geq(notes.records, 1024 - 128); /* without the slots reserved in one step */
	tb_subscriber_close(subscriber);
}

/* -- records that are counted but never come --------------------------------------------------- */

static _Atomic uint64_t *sequence_word(const struct tb_topic *topic, uint64_t sequence)
{
	return (_Atomic uint64_t *)(void *)(topic->ring +
					    (sequence & topic->slot_mask) * topic->slot_bytes);
}

/* Only a hostile publisher leaves a slot as it was and counts its record. */
static void record_that_never_comes(uint64_t before, uint64_t word, bool ends)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	char expected[96];

	scene_publish(topic, 1, 1);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	for (uint64_t i = 1; i <= before; i++) {
		if (i > 1)
			scene_publish(topic, i, i);
		cr_assert(scene_poll_until(subscriber, &notes.last, i), "%s", notes.text);
	}
	scene_publish(topic, before + 1, before + 1);
	atomic_store(sequence_word(topic, before + 1), word);
	if (ends)
		tb_topic_end(topic);
	cr_assert(scene_poll_until(subscriber, &notes.lost, 1), "%s", notes.text);
	if (!ends) {
		scene_publish(topic, before + 2, before + 2);
		tb_topic_end(topic);
	}
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	snprintf(expected, sizeof(expected), "\ngap %" PRIu64 " %" PRIu64 " corrupt\n%s",
		 before + 1, before + 1, ends ? "ended " : "");
	cr_expect(strstr(notes.text, expected), "%s", notes.text);
	cr_expect_eq(notes.lost, 1, "%s", notes.text);
	cr_expect_eq(notes.records, before + !ends, "%s", notes.text);
	tb_subscriber_close(subscriber);
}

Test(stream, record_of_a_slot_that_stays_empty_is_corrupt)
{
	record_that_never_comes(3, 0, false);
}

Test(stream, record_of_a_slot_that_stays_busy_is_corrupt)
{
	record_that_never_comes(70, 0, false);
}

Test(stream, record_of_a_slot_that_stays_old_is_corrupt)
{
	record_that_never_comes(70, 71 - 64, false);
}

Test(stream, last_record_of_a_slot_that_stays_old_is_corrupt)
{
	record_that_never_comes(70, 71 - 64, true);
}

Test(stream, last_record_of_a_slot_that_stays_empty_is_corrupt)
{
	record_that_never_comes(3, 0, true);
}

Test(stream, descriptor_is_readable_when_a_record_arrives)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	struct pollfd ready = { .fd = tb_subscriber_fd(subscriber), .events = POLLIN };

	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	for (uint64_t x = 1; x <= 50; x++) {
		const uint64_t until_ms = scene_now_ms() + deadline_ms();

		while (tb_poll(subscriber, 10) > 0)
			;
		scene_publish(topic, x, x);
		while (notes.last < x && scene_now_ms() < until_ms) {
			cr_assert_eq(poll(&ready, 1, (int)deadline_ms()), 1);
			while (tb_poll(subscriber, 10) > 0)
				;
		}
		cr_assert_eq(notes.last, x);
	}
	tb_subscriber_close(subscriber);
}

static void close_in_handler(void *user, const struct tb_source *source,
			     const struct tb_record *record)
{
	(void)source;
	(void)record;
	tb_subscriber_close(user);
}

Test(stream, handler_can_close_its_subscriber)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = close_in_handler,
						   .user = subscriber,
						   .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	int result = 0;

	scene_publish(topic, 1, 3);
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0);
	while (result >= 0 && scene_now_ms() < until_ms)
		result = tb_poll(subscriber, 10);
	cr_expect_eq(result, -ECANCELED);
}

/* Two subscriptions of the same four topics. The first record after `armed` ends one of them. */
#define TOPICS 4

static struct endings {
	struct tb_subscription *subscriptions[2];
	int ended; /* the subscription that a handler is to end */
	bool armed, over;
	uint64_t records[2], after;
} endings;

static void endings_record(int which)
{
	endings.records[which]++;
	endings.after += endings.over && which == endings.ended;
	if (!endings.armed || endings.over)
		return;
	endings.over = true;
	tb_unsubscribe(endings.subscriptions[endings.ended]);
}

static void on_first(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user, (void)source, (void)record;
	endings_record(0);
}

static void on_second(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user, (void)source, (void)record;
	endings_record(1);
}

static void end_in_handler(int ended, bool both)
{
	const struct tb_subscription_options first = { .size = sizeof(first),
						       .on_record = on_first,
						       .from = TB_FROM_OLDEST };
	struct tb_subscription_options second = first;
	struct tb_subscriber *subscriber;
	const uint64_t all = TOPICS * 50;
	uint64_t left;

	second.on_record = on_second;
	for (int i = 0; i < TOPICS; i++)
		scene_publish(scene_topic(publisher, (char[]){ 't', (char)('0' + i), 0 }, 64, 0), 1,
			      50);
	subscriber = scene_subscriber(SCHEME, 0);
	endings.ended = ended;
	cr_assert_eq(tb_subscribe(subscriber, "*", &first, &endings.subscriptions[0]), 0);
	if (both)
		cr_assert_eq(tb_subscribe(subscriber, "*", &second, &endings.subscriptions[1]), 0);
	/* Record by record, until each topic has several left to deliver. */
	for (uint64_t few = 8 * TOPICS; endings.records[0] + endings.records[1] < few;)
		cr_assert_geq(tb_poll(subscriber, 1), 0);
	endings.armed = true;
	left = endings.records[!ended];
	cr_assert(scene_poll_while(subscriber, &endings.over));
	cr_expect_eq(endings.after, 0, "%" PRIu64 " records came after the subscription's end",
		     endings.after);
	if (both) {
		cr_assert(scene_poll_until(subscriber, &endings.records[!ended], all));
		cr_expect_lt(left, all);
	}
	cr_expect_eq(endings.after, 0);
	tb_subscriber_close(subscriber);
}

Test(stream, subscription_ended_by_its_handler_gets_no_more_records)
{
	end_in_handler(0, false);
}

Test(stream, subscription_ended_by_another_handler_gets_no_more_records)
{
	end_in_handler(0, true);
}

static void end_when_it_appears(void *user, const struct tb_event *event)
{
	struct tb_subscription **subscription = user;

	endings.over |= event->kind == TB_EVENT_APPEARED;
	if (event->kind == TB_EVENT_APPEARED)
		tb_unsubscribe(*subscription);
}

Test(stream, subscription_ended_on_appearance_gets_no_records)
{
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = on_first,
						   .on_event = end_when_it_appears,
						   .user = &endings.subscriptions[0],
						   .from = TB_FROM_OLDEST };

	cr_assert_eq(tb_subscribe(subscriber, "*", &options, &endings.subscriptions[0]), 0);
	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 50);
	cr_assert(scene_poll_while(subscriber, &endings.over));
	for (int i = 0; i < 100; i++)
		cr_assert_geq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(endings.records[0], 0);
	tb_subscriber_close(subscriber);
}

static void end_when_it_restarts(void *user, const struct tb_event *event)
{
	struct tb_subscription **subscription = user;

	notes_event(&notes, event);
	if (event->kind == TB_EVENT_RESTART)
		tb_unsubscribe(*subscription);
}

static bool joins_become(struct tb_subscriber *subscriber, size_t joins)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (tb_publisher_joins(publisher, NULL, 0) != joins && scene_now_ms() < until_ms)
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	return tb_publisher_joins(publisher, NULL, 0) == joins;
}

Test(stream, subscription_ended_on_restart_leaves_the_topic)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0);
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = on_first,
						   .on_event = end_when_it_restarts,
						   .user = &endings.subscriptions[0],
						   .from = TB_FROM_OLDEST };

	scene_publish(topic, 1, 3);
	tb_topic_end(topic);
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &endings.subscriptions[0]), 0);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_assert(joins_become(subscriber, 0));
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	cr_assert(scene_poll_while(subscriber, &notes.restarted), "%s", notes.text);
	cr_expect(joins_become(subscriber, 0), "the topic is joined without a subscription");
	tb_subscriber_close(subscriber);
}

Test(stream, forked_child_leaves_subscriptions_of_parent_working)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscriber *subscriber = scene_subscriber(SCHEME, 0), *other;
	struct tb_subscription *subscription =
		scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	struct notes seen = { 0 };
	int status = -1;
	pid_t child;

	scene_publish(topic, 1, 5);
	cr_assert(scene_poll_until(subscriber, &notes.last, 5));
	child = fork();
	if (child == 0) {
		tb_unsubscribe(subscription);
		tb_subscriber_close(subscriber);
		tb_publisher_close(publisher);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	scene_publish(topic, 6, 10);
	cr_assert(scene_poll_until(subscriber, &notes.last, 10), "%s", notes.text);
	cr_expect_null(strstr(notes.text, "ended"), "%s", notes.text);
	other = scene_subscriber(SCHEME, 0);
	scene_subscribe(other, "t", TB_FROM_OLDEST, &seen);
	cr_assert(scene_poll_until(other, &seen.last, 10), "%s", seen.text);
	tb_subscriber_close(other);
	tb_subscriber_close(subscriber);
	notes_free(&seen);
}

Test(stream, open_without_required_arguments_fails)
{
	static const char *const lists[] = { "shm:somewhere", NULL };
	const struct tb_publisher_options bus = { .size = sizeof(bus), .name = "other" };
	const struct tb_subscriber_options how = { .size = sizeof(how), .address = "shm:test" };
	struct tb_publisher_options listen = bus, users = bus, groups = bus;
	struct tb_publisher *other;
	struct tb_subscriber *subscriber;

	listen.listen = users.users = groups.groups = lists;
	listen.listen_count = users.user_count = groups.group_count = 2;
	cr_expect_eq(tb_publisher_open(NULL, &bus), -EINVAL);
	cr_expect_eq(tb_publisher_open(&other, NULL), -EINVAL);
	cr_expect_eq(tb_publisher_open(&other, &listen), -EINVAL);
	cr_expect_str_eq(tb_error(), "publisher options: listen[1]: found NULL");
	cr_expect_eq(tb_publisher_open(&other, &users), -EINVAL);
	cr_expect_str_eq(tb_error(), "publisher options: users[1]: found NULL");
	cr_expect_eq(tb_publisher_open(&other, &groups), -EINVAL);
	cr_expect_str_eq(tb_error(), "publisher options: groups[1]: found NULL");
	cr_expect_eq(tb_subscriber_open(NULL, &how), -EINVAL);
	cr_expect_eq(tb_subscriber_open(&subscriber, NULL), -EINVAL);
}

Test(stream, null_payload_is_refused)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_update update = { .size = sizeof(update),
				    .instrument = (uint32_t)tb_instrument(topic, "A"),
				    .kind = TB_KIND_UPDATE,
				    .length = 8 };

	cr_expect_eq(tb_publish(topic, &update), -EINVAL);
	cr_expect_str_eq(tb_error(), "topic t: found a payload of 8 bytes at NULL");
	cr_expect_eq(tb_publish(topic, NULL), -EINVAL);
	cr_expect_str_eq(tb_error(), "tb_publish: found NULL, expected a struct tb_update");
	update.length = 0;
	cr_expect_eq(tb_publish(topic, &update), 0);
	cr_expect_eq(tb_topic_sequence(topic), 1);
}

Test(stream, duplicate_listen_address_is_refused)
{
	static const char *const lists[][2] = {
		{ "shm:a", "shm:a" },
		{ "rdma:192.0.2.1:7471", "rdma:192.0.2.1:7471" },
		{ "rdma:[::ffff:1]:7471", "rdma:[0::ffff:1]:7471,reads=4" },
	};
	struct tb_publisher_options options = { .size = sizeof(options),
						.name = "a",
						.listen_count = 2 };
	struct tb_publisher *other;
	char expected[128];

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		options.listen = lists[i];
		snprintf(expected, sizeof(expected),
			 "publisher options: listen[1]: found %s, which listen[0] has already",
			 lists[i][1]);
		cr_expect_eq(tb_publisher_open(&other, &options), -EADDRINUSE);
		cr_expect_str_eq(tb_error(), expected);
	}
}
