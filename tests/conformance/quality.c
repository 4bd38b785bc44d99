/* SPDX-License-Identifier: Apache-2.0 */
/* The quality of a topic: an event at the place of its change, and the state for subscribers that
 * did not read that place. Built once per fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/quality.h"
#include "publisher/state.h"
#include "tests/conformance/scheme.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/scene.h"

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct notes notes;

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	faulty_add(scene_seed());
	publisher = scene_publisher(SCHEME);
	topic = scene_topic(publisher, "t", 64, 0);
	subscriber = scene_subscriber(SCHEME, 0);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(quality, .init = enter, .fini = leave, .timeout = 60);

static void join(enum tb_from from)
{
	subscription = scene_subscribe(subscriber, "t", from, &notes);
}

static void state(enum tb_quality quality, uint32_t cause)
{
	cr_assert_eq(tb_topic_quality(topic, quality, cause), 0, "%s", tb_error());
}

static void read_to(uint64_t sequence)
{
	cr_assert(scene_poll_until(subscriber, &notes.last, sequence), "%s", notes.text);
}

static void read_to_the_end(void)
{
	cr_assert_eq(tb_topic_end(topic), 0);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
}

static uint64_t counter(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

Test(quality, change_is_an_event_at_its_place)
{
	scene_publish(topic, 1, 2);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_END);
	scene_publish(topic, 4, 4);
	state(TB_QUALITY_REBUILDING, 200);
	state(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	join(TB_FROM_OLDEST);
	read_to_the_end();
	cr_expect_str_eq(notes.text,
			 "appeared t 1\n1 A update 1\n2 B update 2\nquality 1 2 at 3\n"
			 "4 B update 4\nquality 2 200 at 5\nquality 0 0 at 6\nended 6\n",
			 "%s", notes.text);
	cr_expect_eq(notes.records, 3);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 6, "those of kind quality count as delivered");
}

Test(quality, same_quality_again_writes_no_record)
{
	state(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	cr_expect_eq(tb_topic_sequence(topic), 0);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_START);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_START);
	cr_expect_eq(tb_topic_sequence(topic), 1);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_END);
	cr_expect_eq(tb_topic_sequence(topic), 2);
}

Test(quality, late_subscriber_learns_state_after_its_join)
{
	scene_publish(topic, 1, 2);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_END);
	join(TB_FROM_NEWEST);
	scene_publish(topic, 4, 4);
	read_to(4);
	cr_expect_str_eq(notes.text, "appeared t 4\nquality 1 0 at 0\n4 B update 4\n", "%s",
			 notes.text);
}

Test(quality, late_subscriber_of_good_topic_gets_no_event)
{
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_END);
	state(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	join(TB_FROM_NEWEST);
	scene_publish(topic, 3, 3);
	read_to(3);
	cr_expect_str_eq(notes.text, "appeared t 3\n3 A update 3\n", "%s", notes.text);
}

Test(quality, start_at_sequence_behind_the_change_learns_state)
{
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = notes_record,
						   .on_event = notes_event,
						   .user = &notes,
						   .from = TB_FROM_SEQUENCE,
						   .sequence = 2 };

	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_START);
	scene_publish(topic, 2, 3);
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	read_to(3);
	cr_expect_str_eq(notes.text, "appeared t 2\nquality 1 0 at 0\n2 B update 2\n3 A update 3\n",
			 "%s", notes.text);
}

/* Begins 3 records beyond the head, in the second lap of the ring. The change lies before the
 * start. The names are known before the first record comes. */
static void start_beyond_the_head(struct tb_subscription_options *options)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	const struct tb_source *source;

	options->size = sizeof(*options);
	options->on_event = notes_event;
	options->user = &notes;
	options->from = TB_FROM_SEQUENCE;
	options->sequence = 84;
	scene_publish(topic, 1, 80);
	cr_assert_eq(tb_subscribe(subscriber, "t", options, &subscription), 0, "%s", tb_error());
	source = tb_subscription_source(subscription, "t");
	cr_assert_not_null(source);
	while (tb_source_instruments(source) < 2)
		cr_assert_lt(scene_now_ms(), until_ms, "%s", tb_error());
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_START);
	scene_publish(topic, 82, 87);
	while (notes.quality != TB_QUALITY_SUSPECT) {
		cr_assert_lt(scene_now_ms(), until_ms, "found no quality: %s", notes.text);
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	}
}

Test(quality, start_beyond_the_head_learns_state_with_known_names)
{
	struct tb_subscription_options options = { .on_record = notes_record };

	start_beyond_the_head(&options);
	read_to(87);
}

static void batch_counted(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	struct notes *const counted = user;

	(void)source;
	counted->records += batch->count;
}

Test(quality, start_beyond_the_head_learns_state_by_batches)
{
	struct tb_subscription_options options = { .on_batch = batch_counted };

	start_beyond_the_head(&options);
	cr_assert(scene_poll_until(subscriber, &notes.records, 4), "%s", notes.text);
}

Test(quality, lapped_subscriber_learns_bad_state_after_its_gap)
{
	scene_publish(topic, 1, 1);
	join(TB_FROM_OLDEST);
	read_to(1);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	scene_publish(topic, 3, 200);
	read_to_the_end();
	cr_expect(strstr(notes.text, " overrun\nquality 1 0 at 0\n"), "%s", notes.text);
	cr_expect_eq(notes.quality, TB_QUALITY_SUSPECT);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS) + notes.lost, 200);
	cr_expect_null(strstr(notes.text, "quality 0"), "%s", notes.text);
}

/* The change to good may still be ahead, so data before the head counts as it was known. */
Test(quality, lapped_subscriber_learns_good_state_at_the_head)
{
	state(TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	join(TB_FROM_OLDEST);
	read_to(1);
	state(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	scene_publish(topic, 3, 200);
	read_to_the_end();
	cr_expect(strstr(notes.text, "200 B update 200\nquality 0 0 at 0\nended 200\n"), "%s",
		  notes.text);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS) + notes.lost, 200);
}

static void spoil(uint64_t sequence)
{
	struct slot *slot = (struct slot *)(void *)(topic->ring + (sequence & topic->slot_mask) *
									  topic->slot_bytes);

	atomic_store(&slot->word[3], atomic_load(&slot->word[3]) ^ 1);
}

/* Without an end, and without a sleep whose wake would cause a look. A torn copy in between causes
 * a look before the head is reached. */
Test(quality, lapped_subscriber_of_a_resting_topic_learns_good_state)
{
	state(TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	join(TB_FROM_OLDEST);
	read_to(1);
	state(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	scene_publish(topic, 3, 200);
	spoil(180);
	while (counter(SUBSCRIPTION_TORN) == 0)
		cr_assert_geq(tb_poll(subscriber, 1000), 0, "%s", tb_error());
	spoil(180); /* right again */
	for (int i = 0; i < 200000 && notes.changes < 2; i++)
		cr_assert_geq(tb_poll(subscriber, 1000), 0, "%s", tb_error());
	cr_expect_eq(notes.changes, 2, "the state at the head was not reported");
	cr_expect_eq(notes.quality, TB_QUALITY_GOOD);
}

/* The line at the gap says good: the record that ends the bad state shows that state. */
Test(quality, bad_state_that_began_in_a_gap_and_is_over_shows_by_its_end)
{
	scene_publish(topic, 1, 1);
	join(TB_FROM_OLDEST);
	read_to(1);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	scene_publish(topic, 3, 194);
	state(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	scene_publish(topic, 196, 200);
	read_to_the_end();
	cr_expect(strstr(notes.text, "194 B update 194\nquality 0 0 at 195\n196 "), "%s",
		  notes.text);
	cr_expect_eq(notes.changes, 1, "%s", notes.text);
}

/* Each look at the line finds records that were not read yet. */
Test(quality, lapped_subscriber_of_a_busy_topic_learns_good_state)
{
	uint64_t last = 200;

	state(TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	join(TB_FROM_OLDEST);
	read_to(1);
	state(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	scene_publish(topic, 3, last);
	for (int i = 0; i < 2000 && notes.changes < 2; i++) {
		scene_publish(topic, last + 1, last + 1);
		last++;
		while (notes.last + 8 < last)
			cr_assert_geq(tb_poll(subscriber, 1000), 0, "%s", tb_error());
	}
	cr_expect_eq(notes.changes, 2, "the state was not reported");
	cr_expect_eq(notes.quality, TB_QUALITY_GOOD);
}

/* The corrupt record may have been the change: records behind it do not count as good. */
Test(quality, bad_state_is_reported_right_after_a_corrupt_record)
{
	scene_publish(topic, 1, 1);
	join(TB_FROM_OLDEST);
	read_to(1);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	scene_publish(topic, 3, 5);
	spoil(2);
	read_to_the_end();
	cr_expect(strstr(notes.text, "\ngap 2 2 corrupt\nquality 1 0 at 0\n3 "), "%s", notes.text);
	cr_expect_eq(notes.changes, 1);
}

Test(quality, lapped_subscriber_gets_change_ahead_at_its_place)
{
	state(TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	join(TB_FROM_OLDEST);
	read_to(1);
	scene_publish(topic, 2, 199);
	state(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	read_to_the_end();
	cr_expect(strstr(notes.text, "199 A update 199\nquality 0 0 at 200\nended 200\n"), "%s",
		  notes.text);
	cr_expect_null(strstr(notes.text, "at 0"), "%s", notes.text);
}

Test(quality, new_epoch_begins_good)
{
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_END);
	join(TB_FROM_OLDEST);
	read_to(1);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	scene_publish(topic, 1, 1);
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_END);
	read_to_the_end();
	cr_expect_str_eq(notes.text,
			 "appeared t 1\nquality 1 2 at 1\nrestart 1 1\n1 A update 1\n"
			 "quality 1 2 at 2\nended 2\n",
			 "%s", notes.text);
}

Test(quality, new_epoch_forgets_the_state_of_the_old)
{
	state(TB_QUALITY_SUSPECT, TB_QUALITY_NO_END);
	join(TB_FROM_OLDEST);
	read_to(1);
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	scene_publish(topic, 1, 1);
	read_to_the_end();
	cr_expect_str_eq(notes.text,
			 "appeared t 1\nquality 1 2 at 1\nrestart 1 1\n1 A update 1\nended 1\n",
			 "%s", notes.text);
}

Test(quality, holes_before_a_change_are_reported_first)
{
	const struct tb_update hole = { .size = sizeof(hole), .kind = TB_KIND_HOLE, .time_ns = 1 };

	scene_publish(topic, 1, 1);
	cr_assert_eq(tb_publish(topic, &hole), 0, "%s", tb_error());
	state(TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	join(TB_FROM_OLDEST);
	read_to_the_end();
	cr_expect_str_eq(notes.text,
			 "appeared t 1\n1 A update 1\ngap 2 2 upstream\nquality 1 4 at 3\n"
			 "ended 3\n",
			 "%s", notes.text);
}

Test(quality, change_wakes_a_sleeper)
{
	join(TB_FROM_OLDEST);
	while (tb_poll(subscriber, 10) > 0 || !notes.events)
		;
	for (uint32_t cause = 200; cause < 210; cause++) {
		state(TB_QUALITY_SUSPECT, cause);
		read_to(cause - 199); /* sleeps in between */
	}
}

Test(quality, every_step_of_the_ring_can_hold_a_change)
{
	notes.quiet = true;
	join(TB_FROM_OLDEST);
	for (uint32_t i = 1; i <= 300; i++) {
		state(i % 2 ? TB_QUALITY_SUSPECT : TB_QUALITY_GOOD, 128);
		cr_expect_geq(topic->progress.reserved, i, "record %u is not reserved", i);
		read_to(i);
		cr_expect_eq(notes.quality, i % 2);
	}
	cr_expect_eq(notes.lost, 0);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 300);
}

Test(quality, wrong_state_or_cause_and_ended_topic_are_refused)
{
	cr_expect_eq(tb_topic_quality(topic, 3, 0), -EINVAL);
	cr_expect_str_eq(tb_error(), "topic t: found quality 3 with cause 0, expected 0 to 2 with "
				     "cause 0 to 255");
	cr_expect_eq(tb_topic_quality(topic, 256, 0), -EINVAL);
	cr_expect_eq(tb_topic_quality(topic, 1, 256), -EINVAL);
	cr_expect_eq(tb_topic_quality(topic, 1, 77), -EINVAL);
	cr_expect_str_eq(tb_error(), "topic t: found quality 1 with cause 77, which is reserved, "
				     "expected cause 0 to 4, or 128 to 255: your own causes");
	cr_expect_eq(tb_topic_quality(topic, 1, 5), -EINVAL);
	cr_expect_eq(tb_topic_quality(topic, 1, 127), -EINVAL);
	cr_expect_eq(tb_topic_sequence(topic), 0);
	for (uint32_t cause = 0; cause < 256; cause += cause == 4 ? 124 : 1)
		state(TB_QUALITY_SUSPECT, cause);
	tb_topic_end(topic);
	cr_expect_eq(tb_topic_quality(topic, 1, 1), -ESHUTDOWN);
	cr_expect_str_eq(tb_error(), "topic t has ended");
}

static void quality_seen(void *user, const struct tb_source *source, const struct tb_record *record)
{
	uint32_t *seen = user;

	(void)record;
	*seen = *seen * 10 + tb_source_quality(source) + 1;
}

Test(quality, handler_of_records_can_ask_for_the_state)
{
	uint32_t seen = 0;
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = quality_seen,
						   .user = &seen,
						   .from = TB_FROM_OLDEST };

	scene_publish(topic, 1, 1);
	state(TB_QUALITY_SUSPECT, 128);
	scene_publish(topic, 3, 3);
	state(TB_QUALITY_REBUILDING, 128);
	scene_publish(topic, 5, 5);
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	while (seen < 123)
		if (tb_poll(subscriber, 10) == 0)
			tb_wait(subscriber, 10);
	cr_expect_eq(seen, 123);
}

static void close_in_handler(void *user, const struct tb_event *event)
{
	if (event->kind == TB_EVENT_QUALITY)
		tb_subscriber_close(user);
}

/* At the record, from the line after a join, and from the line at the head. */
static void close_at_quality(enum tb_from from)
{
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = notes_record,
						   .on_event = close_in_handler,
						   .user = subscriber,
						   .from = from,
						   .flags = TB_WAIT };
	int result = 0;

	result = tb_subscribe(subscriber, "t", &options, &subscription);
	while (result >= 0)
		result = tb_poll(subscriber, 10);
	cr_expect_eq(result, -ECANCELED);
	subscriber = NULL;
}

Test(quality, handler_can_close_its_subscriber_at_the_record)
{
	state(TB_QUALITY_SUSPECT, 128);
	close_at_quality(TB_FROM_OLDEST);
}

Test(quality, handler_can_close_its_subscriber_after_the_join)
{
	state(TB_QUALITY_SUSPECT, 128);
	close_at_quality(TB_FROM_NEWEST);
}

/* -- what no publisher writes -------------------------------------------------------------------
 */

/* Writes record 2 of kind quality as given, with a right check, and records 1 and 3. */
static void write_wrong(uint32_t instrument, uint16_t length, uint32_t quality, uint32_t cause)
{
	const uint64_t payload = quality | (uint64_t)cause << 32;
	struct record record = { .sequence = 2,
				 .time_ns = 1,
				 .instrument = instrument,
				 .length = length,
				 .kind = TB_KIND_QUALITY };

	scene_publish(topic, 1, 3);
	memcpy(record.payload, &payload, sizeof(payload));
	record_store((struct slot *)(void *)(topic->ring + (size_t)2 * topic->slot_bytes), &record,
		     true, topic->salt);
}

static void expect_corrupt(void)
{
	join(TB_FROM_OLDEST);
	read_to_the_end();
	cr_expect_str_eq(notes.text,
			 "appeared t 1\n1 A update 1\ngap 2 2 corrupt\n3 A update 3\nended 3\n",
			 "%s", notes.text);
}

Test(quality, record_of_unknown_state_is_corrupt)
{
	write_wrong(QUALITY_INSTRUMENT, 8, 3, 0);
	expect_corrupt();
}

Test(quality, record_of_cause_out_of_range_is_corrupt)
{
	write_wrong(QUALITY_INSTRUMENT, 8, 1, 256);
	expect_corrupt();
}

Test(quality, record_of_another_length_is_corrupt)
{
	write_wrong(QUALITY_INSTRUMENT, 4, 1, 0);
	expect_corrupt();
}

Test(quality, record_of_an_instrument_is_corrupt)
{
	write_wrong(0, 8, 1, 0);
	expect_corrupt();
}

/* A corrupt record may have been the change: the line has the state at the head. */
Test(quality, state_of_a_corrupt_record_comes_from_the_line)
{
	scene_publish(topic, 1, 1);
	join(TB_FROM_OLDEST);
	read_to(1);
	topic->progress.quality = TB_QUALITY_SUSPECT; /* as if record 2 had stated it */
	scene_publish(topic, 2, 2);
	spoil(2);
	scene_publish(topic, 3, 3);
	read_to(3);
	cr_assert(scene_poll_until(subscriber, &notes.changes, 1), "%s", notes.text);
	cr_expect_eq(notes.quality, TB_QUALITY_SUSPECT);
}
