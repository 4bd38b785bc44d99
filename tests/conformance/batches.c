/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: on_batch gets what on_record gets, cut between messages. Built once per fabric, with
 * SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bus/bounds.h"
#include "bus/counters.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "tests/conformance/scheme.h"
#include "tests/support/batches.h"
#include "tests/support/bytewise.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct batches got;
static uint64_t seed;

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	seed = scene_seed();
	bytewise_add(seed);
	publisher = scene_publisher(SCHEME);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&got.notes);
	scene_leave();
}

TestSuite(batches, .init = enter, .fini = leave, .timeout = 120);

static void subscriber_open(uint32_t batch_bytes)
{
	char address[64];
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = address,
						   .batch_bytes = batch_bytes,
						   .poll_us = TB_POLL_SPIN,
						   .connect_ms = 20000 };

	scene_address(SCHEME, address, sizeof(address));
	cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
}

/* A topic that marks messages, and its reader. */
static void scene(uint32_t slots)
{
	topic = scene_topic(publisher, "t", slots, TB_TOPIC_MARKS_MESSAGES);
	subscriber = scene_subscriber(SCHEME, 0);
	got.marked = true;
	subscription = batches_subscribe(subscriber, "t", 0, &got);
}

static void part(uint64_t from, uint64_t to)
{
	batches_publish(topic, from, to, TB_KIND_UPDATE, false);
}

static void message(uint64_t from, uint64_t to)
{
	batches_publish(topic, from, to, TB_KIND_UPDATE, true);
}

/* Polls until the subscriber has read the records before `next`, delivered or not. */
static void read_until(uint64_t next)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();

	while (subscription->sources->next < next) {
		cr_assert_lt(scene_now_ms(), late_ms, "waited for record %" PRIu64, next - 1);
		cr_assert_geq(tb_poll(subscriber, 1000), 0, "%s", tb_error());
	}
}

static void read_to_the_end(void)
{
	cr_assert_eq(tb_topic_end(topic), 0);
	cr_assert(scene_poll_while(subscriber, &got.notes.ended), "%s", got.notes.text);
}

static void expect(const char *text, const char *form)
{
	cr_expect_str_eq(got.notes.text, text, "%s", got.notes.text);
	cr_expect_str_eq(got.form, form, "%s", got.form);
}

static uint64_t counted(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

/* -- the same records as on_record ------------------------------------------------------------ */

static struct notes single;

/* Publishes up to 40 records in messages of 1 to 9, with holes and qualities inside and outside
 * messages. */
static void publish_some(struct tb_topic *of, uint64_t *random)
{
	static const uint8_t kinds[] = { TB_KIND_UPDATE, TB_KIND_UPDATE, TB_KIND_UPDATE,
					 TB_KIND_CANCEL, TB_KIND_CLEAR,  TB_KIND_STATUS,
					 TB_KIND_USER,   TB_KIND_HOLE };

	for (size_t left = random_below(random, 40); left > 0;) {
		const size_t more = 1 + random_below(random, left < 9 ? left : 9);
		const uint64_t next = tb_topic_sequence(of) + 1;

		batches_publish(of, next, next + more - 1,
				kinds[random_below(random, sizeof(kinds))],
				random_below(random, 4) != 0);
		if (random_below(random, 10) == 0)
			cr_assert_eq(tb_topic_quality(of, (uint32_t)random_below(random, 3), 0), 0);
		left -= more;
	}
}

/* Each tb_poll reports its own part of a row of holes. Merges these parts. */
static void gaps_merge(char *text)
{
	uint64_t first, last, from, to;
	char *at, *behind;
	int bytes, more;

	for (at = strstr(text, "gap "); at; at = strstr(at + 1, "gap ")) {
		while (sscanf(at, "gap %" SCNu64 " %" SCNu64 " upstream%n", &first, &last,
			      &bytes) == 2 &&
		       sscanf(at + bytes, "\ngap %" SCNu64 " %" SCNu64 " upstream%n", &from, &to,
			      &more) == 2 &&
		       from == last + 1) {
			behind = at + bytes + more;
			at += sprintf(at, "gap %" PRIu64 " %" PRIu64 " upstream", first, to);
			memmove(at, behind, strlen(behind) + 1);
			at -= strlen("upstream");
			while (strncmp(at, "gap ", 4) != 0)
				at--;
		}
	}
}

/* Nothing is lost, so both must read the same, events included. */
static void compare(uint32_t flags, uint32_t strict)
{
	uint64_t random = seed;

	topic = scene_topic(publisher, "t", 256, flags);
	got.marked = flags & TB_TOPIC_MARKS_MESSAGES;
	got.quiet = true;
	subscriber = scene_subscriber(SCHEME, 0);
	subscription = batches_subscribe(subscriber, "t", strict, &got);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &single);
	for (int round = 0; round < 200; round++) {
		publish_some(topic, &random);
		if (random_below(&random, 20) == 0) {
			cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
			single.restarted = got.notes.restarted = false;
			cr_assert(scene_poll_while(subscriber, &single.restarted));
			cr_assert(scene_poll_while(subscriber, &got.notes.restarted));
		}
		for (size_t polls = random_below(&random, 4); polls > 0; polls--)
			cr_assert_geq(tb_poll(subscriber, 1 + (int)random_below(&random, 50)), 0);
		cr_assert(scene_poll_until(subscriber, &single.last, tb_topic_sequence(topic)));
		read_until(tb_topic_sequence(topic) + 1);
	}
	cr_assert_eq(tb_topic_end(topic), 0);
	cr_assert(scene_poll_while(subscriber, &single.ended));
	cr_assert(scene_poll_while(subscriber, &got.notes.ended));
	cr_assert_eq(single.lost, got.notes.lost);
	cr_expect_eq(single.records, got.notes.records);
	cr_expect_eq(got.notes.wrong, 0);
	cr_expect_eq(counted(SUBSCRIPTION_RECORDS), single.records + single.changes);
	cr_expect_gt(got.most, 9, "found no batch with many messages");
	gaps_merge(got.notes.text);
	gaps_merge(single.text);
	cr_expect(strcmp(got.notes.text, single.text) == 0, "by batches:\n%s\nby records:\n%s",
		  got.notes.text, single.text);
	notes_free(&single);
}

Test(batches, batches_of_a_topic_with_marks_have_the_records_in_order)
{
	compare(TB_TOPIC_MARKS_MESSAGES, 0);
}

Test(batches, batches_of_a_topic_without_marks_have_the_records_in_order)
{
	compare(0, 0);
}

Test(batches, strict_batches_have_the_records_in_order)
{
	compare(TB_TOPIC_MARKS_MESSAGES, TB_STRICT);
}

Test(batches, unchecked_batches_have_the_records_in_order)
{
	/* Networks serve checked topics alone. */
	const uint32_t unchecked = strcmp(SCHEME, "shm") == 0 ? TB_TOPIC_UNCHECKED : 0;

	compare(TB_TOPIC_MARKS_MESSAGES | unchecked, 0);
}

/* -- whole messages --------------------------------------------------------------------------- */

Test(batches, open_message_waits_for_its_end)
{
	scene(64);
	message(1, 1);
	message(2, 4);
	part(5, 6);
	read_until(7);
	for (int i = 0; i < 20; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(got.notes.records, 4);
	cr_expect_eq(counted(SUBSCRIPTION_RECORDS), 4);
	message(7, 7);
	cr_assert(scene_poll_until(subscriber, &got.notes.last, 7));
	cr_expect_eq(got.notes.records, 7);
	cr_expect_eq(got.cut, 0, "%s", got.form);
	cr_expect(strstr(got.form, "3 "), "%s", got.form);
}

Test(batches, each_record_is_a_message_in_a_topic_without_marks)
{
	topic = scene_topic(publisher, "t", 64, 0);
	subscriber = scene_subscriber(SCHEME, 0);
	subscription = batches_subscribe(subscriber, "t", 0, &got);
	part(1, 3);
	cr_assert(scene_poll_until(subscriber, &got.notes.last, 3));
	message(4, 5);
	part(6, 6);
	cr_assert(scene_poll_until(subscriber, &got.notes.last, 6));
	cr_expect_eq(got.notes.records, 6);
}

Test(batches, records_max_cuts_longer_messages_only)
{
	int count = 0;

	scene(64);
	message(1, 3);
	message(4, 5);
	while (got.notes.records < 5) {
		const int more = tb_poll(subscriber, 2);

		cr_assert(more >= 0 && more <= 2, "found %d", more);
		count += more;
	}
	cr_expect_eq(count, 5);
	expect("appeared t 1\n1 A update 1\n2 B update 2\n3 A update 3\n4 B update 4\n5 A update "
	       "5\n",
	       "2- 1 2 ");
}

Test(batches, records_max_1_delivers_record_by_record)
{
	uint64_t polls = 0;

	scene(64);
	message(1, 5);
	while (got.notes.records < 5) {
		const int more = tb_poll(subscriber, 1);

		cr_assert(more == 0 || more == 1, "found %d", more);
		polls += (uint64_t)more;
	}
	cr_expect_eq(polls, 5);
	cr_expect_str_eq(got.form, "1- 1- 1- 1- 1 ");
}

/* What was held before counts as well. */
Test(batches, smaller_records_max_bounds_what_is_held)
{
	scene(64);
	part(1, 20);
	read_until(21);
	cr_assert_eq(got.notes.records, 0);
	for (uint64_t records = 0; records < 20; records += 7) {
		cr_expect_leq(tb_poll(subscriber, 7), 7);
		cr_expect_eq(got.notes.records, records + 7 < 20 ? records + 7 : 14);
	}
	message(21, 21);
	cr_assert(scene_poll_until(subscriber, &got.notes.last, 21));
	cr_expect_str_eq(got.form, "7- 7- 7 ");
}

Test(batches, message_longer_than_the_memory_is_cut_there)
{
	const uint64_t places = BOUND_BATCH_BYTES_MIN / 64;

	topic = scene_topic(publisher, "t", 1024, TB_TOPIC_MARKS_MESSAGES);
	subscriber_open(BOUND_BATCH_BYTES_MIN);
	got.marked = true;
	subscription = batches_subscribe(subscriber, "t", 0, &got);
	message(1, 3 * places - 1);
	cr_assert(scene_poll_until(subscriber, &got.notes.last, 3 * places - 1));
	message(3 * places, 4 * places - 1);
	cr_assert(scene_poll_until(subscriber, &got.notes.last, 4 * places - 1));
	cr_expect_str_eq(got.form, "128- 128- 127 128 ");
	cr_expect_eq(got.notes.records, 4 * places - 1);
	cr_expect_eq(got.notes.wrong, 0);
}

/* The other topic leaves 2 of 10 records to this topic in each call that it begins. */
Test(batches, message_is_not_cut_by_records_of_another_topic)
{
	struct notes others = { .quiet = true };
	struct tb_topic *other = scene_topic(publisher, "u", 64, 0);

	scene(64);
	scene_subscribe(subscriber, "u", TB_FROM_OLDEST, &others);
	for (uint64_t i = 0; i < 50; i++) {
		message(5 * i + 1, 5 * i + 5);
		scene_publish(other, 8 * i + 1, 8 * i + 8);
		while (got.notes.last < 5 * i + 5 || others.last < 8 * i + 8)
			cr_assert_leq(tb_poll(subscriber, 10), 10);
	}
	cr_expect_eq(got.notes.records, 250);
	cr_expect_eq(got.cut, 0, "%s", got.form);
	notes_free(&others);
}

/* -- what interrupts a message ---------------------------------------------------------------- */

Test(batches, hole_and_quality_come_between_batches_at_their_place)
{
	scene(64);
	part(1, 2);
	batches_publish(topic, 3, 4, TB_KIND_HOLE, false);
	message(5, 6);
	part(7, 7);
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, TB_QUALITY_MISSING), 0);
	part(9, 9);
	read_to_the_end();
	expect("appeared t 1\n1 A update 1\n2 B update 2\ngap 3 4 upstream\n5 A update 5\n"
	       "6 B update 6\n7 A update 7\nquality 1 4 at 8\n9 A update 9\nended 9\n",
	       "2- | 3- | 1- | ");
}

/* The record that states the quality is lost in a gap, and the line states it at its head. */
Test(batches, quality_of_a_line_follows_what_was_read)
{
	scene(64);
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, 0), 0);
	cr_assert(scene_poll_until(subscriber, &got.notes.changes, 1));
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_GOOD, 0), 0);
	part(3, 150);
	cr_assert(scene_poll_until(subscriber, &got.notes.changes, 2));
	cr_expect(strstr(got.notes.text, "150 B update 150\nquality 0 0 at 0\n"), "%s",
		  got.notes.text);
}

Test(batches, lap_inside_a_message_follows_what_was_read)
{
	uint64_t first;

	scene(64);
	message(1, 1);
	part(2, 3);
	read_until(4);
	part(4, 199);
	message(200, 200);
	cr_assert(scene_poll_until(subscriber, &got.notes.last, 200), "%s", got.notes.text);
	cr_expect(strstr(got.notes.text, "3 A update 3\ngap 4 "), "%s", got.notes.text);
	cr_expect_eq(got.notes.records + got.notes.lost, 200);
	cr_expect_eq(counted(SUBSCRIPTION_LOST_OVERRUN), got.notes.lost);
	cr_expect_eq(counted(SUBSCRIPTION_RECORDS), got.notes.records);
	cr_expect_eq(sscanf(strstr(got.notes.text, "gap 4 "), "gap 4 %" SCNu64, &first), 1);
	cr_expect_eq(first, got.notes.lost + 3);
	cr_expect_eq(strncmp(got.form, "1 2- | ", 7), 0, "%s", got.form);
}

/* Random laps: each record is delivered or lost, once, and only a gap cuts a message. */
static void lap_often(uint32_t flags)
{
	uint64_t random = seed, gaps = 0;

	topic = scene_topic(publisher, "t", 64, TB_TOPIC_MARKS_MESSAGES);
	subscriber_open(0);
	got.marked = got.quiet = true;
	got.notes.quiet = true;
	subscription = batches_subscribe(subscriber, "t", flags, &got);
	for (int round = 0; round < 300; round++) {
		uint64_t left = random_below(&random, round % 3 == 0 ? 120 : 20);

		while (left > 0) {
			const uint64_t more = 1 + random_below(&random, left < 7 ? left : 7);

			message(tb_topic_sequence(topic) + 1, tb_topic_sequence(topic) + more);
			left -= more;
		}
		for (size_t polls = random_below(&random, 200); polls > 0; polls--)
			cr_assert_geq(tb_poll(subscriber, 10 + (int)random_below(&random, 50)), 0);
	}
	gaps = got.notes.events;
	read_to_the_end();
	cr_expect_gt(gaps, 3);
	cr_expect_eq(got.notes.records + got.notes.lost, tb_topic_sequence(topic));
	cr_expect_eq(got.notes.wrong, 0);
	cr_expect_leq(got.cut, got.notes.events);
}

Test(batches, laps_are_accounted_exactly)
{
	lap_often(0);
}

Test(batches, laps_of_a_strict_reader_are_accounted_exactly)
{
	lap_often(TB_STRICT);
}

/* Damages the payload of a record that was published. */
static void damage(uint64_t sequence)
{
	char *slot = topic->ring + (sequence & topic->slot_mask) * topic->slot_bytes;

	slot[RECORD_HEADER_BYTES] ^= 1;
}

Test(batches, damaged_record_is_in_no_batch)
{
	scene(64);
	message(1, 9);
	part(10, 19);
	damage(6);
	damage(17);
	message(20, 20);
	cr_assert(scene_poll_until(subscriber, &got.notes.last, 20), "%s", got.notes.text);
	cr_expect(strstr(got.notes.text, "5 A update 5\ngap 6 6 corrupt\n7 A update 7\n"), "%s",
		  got.notes.text);
	cr_expect(strstr(got.notes.text, "16 B update 16\ngap 17 17 corrupt\n18 B update 18\n"),
		  "%s", got.notes.text);
	cr_expect_str_eq(got.form, "5- | 3 7- | 3 ", "%s", got.form);
	cr_expect_eq(got.notes.wrong, 0);
}

Test(batches, restart_inside_a_message_follows_its_records)
{
	scene(64);
	part(1, 3);
	read_until(4);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	message(1, 2);
	read_to_the_end();
	expect("appeared t 1\n1 A update 1\n2 B update 2\n3 A update 3\nrestart 3 3\n"
	       "1 A update 1\n2 B update 2\nended 2\n",
	       "3- | 2 | ");
}

Test(batches, end_inside_a_message_follows_its_records)
{
	scene(64);
	part(1, 3);
	read_to_the_end();
	expect("appeared t 1\n1 A update 1\n2 B update 2\n3 A update 3\nended 3\n", "3- | ");
}

/* The publisher dies inside a message. Its records come before the restart. */
Test(batches, message_of_a_dead_publisher_comes_before_its_successor)
{
	scene(64);
	part(1, 3);
	read_until(4);
	topic->ended = true; /* closing writes no end, as after a crash */
	tb_publisher_close(publisher);
	publisher = NULL;
	for (int i = 0; i < 20; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(got.notes.records, 0);
	publisher = scene_publisher(SCHEME);
	topic = scene_topic(publisher, "t", 64, TB_TOPIC_MARKS_MESSAGES);
	message(1, 1);
	cr_assert(scene_poll_until(subscriber, &got.notes.records, 4), "%s", got.notes.text);
	cr_expect(strstr(got.notes.text, "3 A update 3\nrestart 3 3\n1 A update 1\n"), "%s",
		  got.notes.text);
}

/* -- handlers --------------------------------------------------------------------------------- */

static struct tb_subscription *ending;

static void close_in_handler(void *user, const struct tb_source *source,
			     const struct tb_batch *batch)
{
	batches_take(user, source, batch);
	tb_subscriber_close(subscriber);
}

static void end_in_handler(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	batches_take(user, source, batch);
	tb_unsubscribe(ending);
}

/* 200 messages of a record each, and memory for batches of 128. */
static void subscribe_with(tb_batch_handler *handler)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_batch = handler,
							 .on_event = batches_event,
							 .user = &got,
							 .from = TB_FROM_OLDEST };

	topic = scene_topic(publisher, "t", 256, 0);
	part(1, 200);
	subscriber_open(BOUND_BATCH_BYTES_MIN);
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &ending), 0, "%s", tb_error());
}

Test(batches, handler_can_close_its_subscriber)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();
	int result = 0;

	subscribe_with(close_in_handler);
	while (result >= 0 && scene_now_ms() < late_ms)
		result = tb_poll(subscriber, 1000);
	cr_expect_eq(result, -ECANCELED);
	cr_expect_eq(got.count, 1);
	subscriber = NULL;
}

Test(batches, handler_can_end_its_subscription)
{
	subscribe_with(end_in_handler);
	cr_assert(scene_poll_until(subscriber, &got.count, 1));
	for (int i = 0; i < 50; i++)
		cr_assert_geq(tb_poll(subscriber, 1000), 0);
	cr_expect_eq(got.count, 1);
}

/* The end of a topic is found while the call waits, but its last records come later. */
Test(batches, tb_subscribe_delivers_no_batch)
{
	struct notes others = { .quiet = true };

	scene(64);
	scene_topic(publisher, "u", 64, 0);
	part(1, 2);
	read_until(3);
	cr_assert_eq(tb_topic_end(topic), 0);
	for (int i = 0; i < 10; i++) {
		struct tb_subscription *other =
			scene_subscribe(subscriber, "u", TB_FROM_OLDEST, &others);

		cr_expect_eq(got.count, 0);
		cr_expect(!got.notes.ended);
		tb_unsubscribe(other);
	}
	cr_assert(scene_poll_while(subscriber, &got.notes.ended));
	cr_expect_str_eq(got.form, "2- | ");
	notes_free(&others);
}

/* -- options ---------------------------------------------------------------------------------- */

Test(batches, subscription_needs_a_single_handler_of_records)
{
	struct tb_subscription_options options = { .size = sizeof(options) };

	subscriber = scene_subscriber(SCHEME, 0);
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscription options: found no handler of records, expected "
				     "on_record or on_batch");
	options.on_record = notes_record;
	options.on_batch = batches_take;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscription options: found both on_record and on_batch, "
				     "expected a single handler of records");
}

Test(batches, source_names_its_instruments_only)
{
	scene(64);
	message(1, 1);
	cr_assert(scene_poll_until(subscriber, &got.notes.records, 1));
	cr_expect_str_eq(tb_source_name(subscription->sources, 0), "A");
	cr_expect_null(tb_source_name(subscription->sources, 1));
	cr_expect_null(tb_source_name(subscription->sources, 16));
	cr_expect_null(tb_source_name(subscription->sources, UINT32_MAX));
}
