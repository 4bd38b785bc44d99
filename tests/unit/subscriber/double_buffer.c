/* SPDX-License-Identifier: Apache-2.0 */
/* Two halves of a landing that take turns, over a fabric whose READs land when the test says so. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bus/clock.h"
#include "publisher/state.h"
#include "subscriber/discovery.h"
#include "subscriber/notices.h"
#include "subscriber/reader.h"
#include "subscriber/state.h"
#include "subscriber/turn.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/late.h"

TestSuite(double_buffer, .init = late_enter, .fini = late_leave, .timeout = 60);

static unsigned int under_way_while_delivered;

static void count_under_way(void *user, const struct tb_source *of, const struct tb_record *record)
{
	notes_record(user, of, record);
	under_way_while_delivered = late_slots_held();
}

Test(double_buffer, one_half_is_read_while_the_other_is_delivered)
{
	late_both_under_way(1000, 0);
	subscription->options.on_record = count_under_way;
	for (uint64_t turn = 1; turn <= 5; turn++) {
		late_land_half(0);
		late_poll_once();
		cr_assert_eq(notes.records, 2 + turn * HALF_SLOTS, "turn %" PRIu64, turn);
		cr_expect_eq(under_way_while_delivered, READS_OF_HALF);
		cr_expect_eq(late_slots_held(), 2 * READS_OF_HALF, "turn %" PRIu64, turn);
	}
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 0);
	late_expect_all(1000);
}

/* The publisher writes into the landing of a record that its handler is about to use. */
static void overwrite_landing(void *user, const struct tb_source *of,
			      const struct tb_record *record)
{
	for (unsigned int half = 0; half < of->halves; half++) {
		const struct batch *batch = &of->batches[half];

		if (record->sequence >= batch->first && record->sequence < batch->end)
			memset(of->landing + half * of->half_bytes +
				       (record->sequence - batch->first) * 64,
			       0x5a, 64);
	}
	notes_record(user, of, record);
}

Test(double_buffer, record_is_shown_from_a_copy_of_the_landing)
{
	late_two_read(0);
	subscription->options.on_record = overwrite_landing;
	scene_publish(topic, 3, 1000);
	late_expect_all(1000);
}

Test(double_buffer, halves_that_land_out_of_order_are_delivered_in_order)
{
	late_both_under_way(1000, 0);
	late_land_half(READS_OF_HALF); /* the second half */
	for (int i = 0; i < 10; i++)
		late_poll_once();
	cr_expect_eq(notes.records, 2);
	late_land(1, 0);
	late_land(2, 0);
	late_land(0, 0);
	late_poll_once();
	cr_expect_eq(notes.records, 2, "one READ of it is under way");
	late_land(0, 0);
	UNTIL(notes.records == 2 + 2 * HALF_SLOTS);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 0);
	late_expect_all(1000);
}

Test(double_buffer, hint_posts_second_half_while_first_is_under_way)
{
	late_two_read(0);
	for (uint64_t n = 3; n <= 5; n++) {
		scene_publish(topic, n, n);
		cr_assert(notices_hint(source, n));
		late_poll_once();
	}
	cr_assert_eq(late_slots_held(), 2, "the third waits for one of them");
	cr_expect_eq(late.held[0].bytes, 64, "a record that is alone is READ alone");
	cr_expect_eq(late.held[1].bytes, 64);
	late_expect_all(5);
}

/* Periodic work is postponed while a READ is outstanding, for TURN_MS at most. */
Test(double_buffer, periodic_work_waits_for_outstanding_reads)
{
	late_two_read(0);
	UNTIL(late_is_discovered());
	clock_stop();
	scene_publish(topic, 3, 3);
	cr_assert(notices_hint(source, 3));
	subscriber->turn_ms = clock_coarse_ms();
	subscriber->woken = true;
	late.polls = 0;
	late_poll_once();
	cr_assert_eq(late_slots_held(), 1);
	for (int ms = 1; ms < TURN_MS; ms++) {
		clock_pass(1);
		late_poll_once();
	}
	cr_expect_eq(late.polls, 0);
	clock_pass(1);
	late_poll_once();
	cr_expect_eq(late.polls, 1, "a READ that never completes would keep us from all else");
	late_land(0, 0);
	clock_pass(1);
	late_poll_once();
	cr_expect_eq(notes.records, 3);
	cr_expect_eq(late.polls, 1);
	late_poll_once();
	cr_expect_eq(late.polls, 2);
}

/* Joining 256 topics one by one would take long otherwise. */
Test(double_buffer, joins_do_not_wait_for_outstanding_reads)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	unsigned int turns = 0;

	late_two_read(0);
	UNTIL(late_is_discovered());
	scene_publish(topic, 3, 3);
	cr_assert(notices_hint(source, 3));
	late_poll_once();
	cr_assert_eq(late_slots_held(), 1);
	subscription->discover = true;
	late.polls = 0;
	while (discovery_waits(subscriber)) {
		cr_assert_lt(scene_now_ms(), until_ms, "no answer");
		subscriber->turn_ms = clock_coarse_ms() - 1;
		late_poll_once();
		cr_assert_geq(late.polls, ++turns, "no turn was taken");
	}
	cr_expect_gt(turns, 1, "it was asked, and answered");
	late_expect_all(3);
}

Test(double_buffer, lapped_reader_reads_at_most_one_ring)
{
	uint32_t bytes = 0;

	late_read_on(64, 64, 0);
	reader_head(source, 1000); /* it was lapped since it read the line */
	for (int i = 0; i < 10; i++)
		late_poll_once();
	for (unsigned int i = 0; i < late.count; i++)
		bytes += late.held[i].bytes;
	cr_expect_eq(bytes, 64 * 64);
}

/* -- how much a READ fetches ------------------------------------------------------------------ */

static int open_with(uint32_t batch_bytes, uint32_t read_bytes)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "late:test",
						       .connect_ms = deadline_ms(),
						       .batch_bytes = batch_bytes,
						       .read_bytes = read_bytes };

	tb_subscriber_close(subscriber);
	return tb_subscriber_open(&subscriber, &options);
}

Test(double_buffer, read_bytes_out_of_bounds_are_refused)
{
	cr_expect_eq(open_with(65536, 2047), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscriber options: read_bytes: found 2047, expected 2048 to "
				     "65536");
	cr_expect_eq(open_with(65536, 65537), -EINVAL);
	cr_expect_eq(open_with(65536, 2048), 0, "%s", tb_error());
	cr_expect_eq(open_with(65536, 65536), 0, "%s", tb_error());
	cr_assert_eq(open_with(65536, 0), 0, "%s", tb_error());
	cr_expect_eq(subscriber->read_bytes, 8192);
	cr_assert_eq(open_with(16 << 20, 0), 0, "%s", tb_error());
	cr_expect_eq(subscriber->read_bytes, 1 << 19);
}

/* A landing with room for one READ is a single half. */
Test(double_buffer, landing_that_one_read_fills_is_not_halved)
{
	scene_publish(topic = scene_topic(late.publisher, "t", 1024, 0), 1, 500);
	cr_assert_eq(open_with(8192, 8192), 0, "%s", tb_error());
	source = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes)->sources;
	subscription = source->subscription;
	cr_expect_eq(source->halves, 1);
	UNTIL(late.count > 0);
	cr_expect_eq(late.held[0].bytes, 8192);
	late_expect_all(500);
}

static void on_large(void *user, const struct tb_source *of, const struct tb_record *record)
{
	notes_record(user, of, record);
	cr_expect_eq(record->length, 800);
}

Test(double_buffer, slots_larger_than_a_read_are_read_one_by_one)
{
	struct tb_schema *schema =
		scene_schema("large", 1, "- {name: x, type: 'u64[100]', doc: d}\n");
	const struct tb_topic_options large = {
		.size = sizeof(large), .name = "t", .schema = schema, .slots = 64, .instruments = 1
	};
	uint64_t payload[100] = { 0 };
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(payload),
					  .data = payload };

	cr_assert_eq(tb_topic_create(late.publisher, &large, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	cr_assert_eq(tb_instrument(topic, "A"), 0);
	for (payload[0] = 1; payload[0] <= 20; payload[0]++)
		cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	cr_assert_eq(open_with(8192, 256), 0, "%s", tb_error());
	subscription = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	source = subscription->sources;
	subscription->options.on_record = on_large;
	UNTIL(late.count == 2 * (4096 / 832));
	for (unsigned int i = 0; i < late.count; i++)
		cr_expect_eq(late.held[i].bytes, 832);
	late_expect_all(20);
}

/* -- ends ------------------------------------------------------------------------------------- */

Test(double_buffer, outstanding_batches_are_read_again_after_reconnect)
{
	late_both_under_way(1000, 0);
	late_land_half(0);
	late.cut = true;
	UNTIL(!late.cut && subscriber->welcomed && !source->orphan);
	late_expect_all(1000);
}

Test(double_buffer, subscriber_closes_with_reads_outstanding)
{
	late_both_under_way(1000, 0);
	tb_subscriber_close(subscriber);
	subscriber = NULL;
	cr_expect_eq(late.count, 0);
}

static void end_it(void *user, const struct tb_source *of, const struct tb_record *record)
{
	notes_record(user, of, record);
	tb_unsubscribe(subscription);
}

Test(double_buffer, source_ended_in_handler_is_freed_after_reads_land)
{
	late_both_under_way(1000, 0);
	subscription->options.on_record = end_it;
	late_land_half(0);
	late_poll_once();
	cr_expect_eq(notes.records, 3);
	cr_assert(subscriber->table[0], "it was freed while READs into it are under way");
	late_land_half(0);
	UNTIL(!subscriber->table[0]);
}

Test(double_buffer, old_epoch_is_read_to_its_end_before_the_next)
{
	late_both_under_way(1000, 0);
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, 3);
	UNTIL(source->has_successor);
	late_land_half(READS_OF_HALF);
	for (int i = 0; i < 10; i++)
		late_poll_once();
	cr_expect_not(notes.restarted);
	late.at_once = true;
	UNTIL(notes.restarted && notes.last == 3);
	cr_expect_eq(notes.records, 1003);
	cr_expect(notes.lost == 0 && notes.wrong == 0);
}

/* -- random completions ----------------------------------------------------------------------- */

/* How many records the writer may add so that the reader is at most `most` behind. */
static uint64_t room_for(uint64_t most, uint64_t written)
{
	const uint64_t behind = written - notes.records - notes.lost;

	return behind < most ? most - behind : 0;
}

/* READs land in any order, late, or fail. The writer laps the reader, but not in the first half:
 * its records have to be delivered, whatever the seed. Polls take few or many. */
static void anything(uint32_t slots, uint32_t flags, uint64_t *random)
{
	const uint64_t total = 20000;
	uint64_t written = 10;

	notes.quiet = true;
	late_read_on(slots, written, flags);
	while (!notes.ended) {
		const uint64_t draw = random_draw(random);
		uint64_t more = draw % 8 ? draw / 8 % 40 : draw / 8 % (2 * slots);

		more = more < total - written ? more : total - written;
		if (written < total / 2 && more > room_for(slots / 2, written))
			more = room_for(slots / 2, written);
		if (more > 0 && draw >> 40 & 1) {
			scene_publish(topic, written + 1, written + more);
			written += more;
			notices_hint(source, written + (draw >> 41) % 3);
		}
		source->look |= draw >> 50 & 1;
		for (uint64_t lands = draw >> 51 & 7; lands > 0 && late.count > 0; lands--)
			late_land((unsigned int)(random_draw(random) % late.count),
				  random_draw(random) % 64 ? 0 : -EIO);
		cr_assert_geq(tb_poll(subscriber, 1 + (int)(draw >> 54) % 100), 0, "%s",
			      tb_error());
		if (written == total && !topic->ended)
			tb_topic_end(topic);
	}
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.records + notes.lost, total, "%" PRIu64 " and %" PRIu64 " lost",
		     notes.records, notes.lost);
	cr_expect_geq(notes.records, total / 2 - slots / 2);
	cr_expect_eq(late_counted(SUBSCRIPTION_LOST_CORRUPT), 0);
}

Test(double_buffer, random_completions_account_for_every_record)
{
	uint64_t random = scene_seed();

	anything(1024, 0, &random);
}

Test(double_buffer, random_completions_account_for_a_small_ring)
{
	uint64_t random = scene_seed();

	anything(64, 0, &random);
}

Test(double_buffer, random_completions_account_for_every_strict_record)
{
	uint64_t random = scene_seed();

	anything(1024, TB_STRICT, &random);
}
