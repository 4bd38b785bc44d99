/* SPDX-License-Identifier: Apache-2.0 */
/* READs of slots that go out with the line (N8), over a fabric whose READs land when the test says
 * so. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bus/progress.h"
#include "publisher/state.h"
#include "subscriber/landing.h"
#include "subscriber/notices.h"
#include "tests/support/random.h"
#include "tests/unit/subscriber/late.h"

#define RING 4096

TestSuite(read_ahead, .init = late_enter, .fini = late_leave, .timeout = 60);

/* Two records of a ring were read. The reader spins, and its line is outstanding. */
static void spin_on(uint32_t slots, uint32_t flags)
{
	late_read_on(slots, 2, flags);
	late.at_once = true;
	UNTIL(notes.records == 2);
	late.at_once = false;
	late.page_held = true;
	subscriber->poll_ns = 0;
	while (late.count >
	       0) /* a line may be outstanding that was READ at the reader's old pace */
		late_land(0, 0);
	late_poll_once();
	UNTIL(late_held(READ_PROGRESS) == 1);
}

static void land_first(enum read_kind kind)
{
	const unsigned int at = late_find(kind);

	cr_assert_lt(at, late.count, "no READ of kind %d is outstanding", kind);
	late_land(at, 0);
}

/* Slots that are READ ahead now. */
static uint32_t ahead(void)
{
	const unsigned int at = late_find(READ_SLOTS);

	cr_assert_eq(late_held(READ_PROGRESS), 1);
	cr_assert_leq(late_slots_held(), 1);
	return at < late.count ? late.held[at].bytes / 64 : 0;
}

/* Publishes records, and lands all READs until the next look. Returns what that READs ahead. */
static uint32_t look_brings(uint64_t count)
{
	const uint64_t last = notes.last + count;

	if (count > 0)
		scene_publish(topic, notes.last + 1, last);
	do {
		while (late.count > 0)
			late_land(0, 0);
		late_poll_once();
	} while (notes.last < last || late_held(READ_PROGRESS) == 0);
	return ahead();
}

Test(read_ahead, slot_goes_out_with_the_line)
{
	spin_on(RING, 0);
	late.lists = 0;
	for (uint64_t n = 3; n <= 10; n++) {
		cr_assert_eq(ahead(), 1);
		scene_publish(topic, n, n);
		late_land(0, 0);
		late_land(0, 0);
		late_poll_once();
		cr_assert_eq(notes.records, n, "a record needs more than one round trip");
	}
	cr_expect_eq(late.lists, 8, "found %u lists of READs, expected one for each record",
		     late.lists);
}

Test(read_ahead, unwritten_slot_is_no_failed_copy)
{
	spin_on(RING, 0);
	cr_assert_eq(ahead(), 1);
	cr_assert_eq(look_brings(0), 1);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 0);
	cr_expect_eq(source->tries, 0);
	cr_expect_eq(look_brings(1), 1);
	cr_expect_eq(notes.records, 3);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 0);
}

Test(read_ahead, record_beyond_the_line_is_delivered)
{
	spin_on(RING, 0);
	land_first(READ_PROGRESS);
	late_poll_once();
	cr_assert_eq(source->head, 2);
	scene_publish(topic, 3, 3);
	land_first(READ_SLOTS);
	late_poll_once();
	cr_expect_eq(notes.records, 3);
}

Test(read_ahead, counted_record_that_was_not_there_is_read_again)
{
	spin_on(RING, 0);
	land_first(READ_SLOTS);
	scene_publish(topic, 3, 3);
	land_first(READ_PROGRESS);
	late_poll_once();
	cr_expect_eq(notes.records, 2);
	cr_assert_eq(late_slots_held(), 1);
	cr_assert_eq(late_held(READ_PROGRESS), 0, "the line counts it already");
	land_first(READ_SLOTS);
	late_poll_once();
	cr_expect_eq(notes.records, 3);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 0);
}

Test(read_ahead, restarted_topic_is_left_for_its_next_epoch)
{
	spin_on(RING, 0);
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, 3);
	late.at_once = true;
	UNTIL(notes.restarted && notes.last == 3);
	cr_expect_eq(notes.records, 5);
	cr_expect(notes.lost == 0 && notes.wrong == 0);
}

Test(read_ahead, topic_that_ended_ends)
{
	spin_on(RING, 0);
	scene_publish(topic, 3, 3);
	tb_topic_end(topic);
	late.at_once = true;
	UNTIL(notes.ended);
	cr_expect_eq(notes.records, 3);
}

Test(read_ahead, lapped_reader_gets_exact_gap)
{
	spin_on(64, 0);
	scene_publish(topic, 3, 200);
	late.at_once = true;
	UNTIL(notes.last == 200);
	cr_expect_eq(notes.records + notes.lost, 200);
	cr_expect_eq(late_counted(SUBSCRIPTION_LOST_CORRUPT), 0);
}

/* -- how much --------------------------------------------------------------------------------- */

Test(read_ahead, size_is_what_the_last_two_looks_brought)
{
	static const struct {
		uint64_t brings;
		uint32_t ahead;
	} looks[] = { { 1, 1 }, { 3, 1 }, { 5, 3 }, { 9, 5 }, { 9, 9 },
		      { 0, 1 }, { 7, 1 }, { 0, 1 }, { 4, 1 }, { 4, 4 } };

	spin_on(RING, 0);
	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
		cr_expect_eq(look_brings(looks[i].brings), looks[i].ahead, "look %zu", i);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 0);
}

Test(read_ahead, size_is_at_most_one_read)
{
	spin_on(RING, 0);
	for (int i = 0; i < 4; i++)
		cr_expect_leq(look_brings(100), SLOTS_OF_READ);
	cr_expect_eq(ahead(), SLOTS_OF_READ);
}

Test(read_ahead, read_ends_with_the_ring)
{
	spin_on(64, 0);
	while (source->next + 9 < 64)
		look_brings(9);
	cr_assert_eq(ahead(), 64 - (source->next & 63));
	look_brings(9);
	cr_expect_eq(ahead(), 9);
	cr_expect_eq(notes.wrong, 0);
}

Test(read_ahead, pause_costs_at_most_one_read_of_slots)
{
	uint32_t in_vain = 0, slots;
	int looks = 0;

	spin_on(RING, 0);
	for (uint64_t burst = 1; burst <= 9; burst += 4) {
		look_brings(burst);
		slots = look_brings(burst);
		for (in_vain = 0, looks = 0; looks < 100; looks++) {
			in_vain += slots;
			slots = look_brings(0);
		}
		cr_expect_eq(in_vain, SLOTS_OF_READ, "found %u slots that were READ in vain",
			     in_vain);
		cr_expect_eq(slots, 0);
	}
	cr_expect_eq(look_brings(1), 1, "a record ends the pause");
}

/* -- readers that READ nothing ahead ---------------------------------------------------------- */

Test(read_ahead, strict_reader_reads_nothing_ahead)
{
	spin_on(RING, TB_STRICT);
	for (int i = 0; i < 5; i++)
		cr_expect_eq(look_brings(1), 0);
	cr_expect_eq(notes.records, 7);
}

Test(read_ahead, reader_with_an_interval_reads_nothing_ahead)
{
	spin_on(RING, 0);
	look_brings(1);
	subscriber->poll_ns = 1;
	for (int i = 0; i < 5; i++)
		cr_expect_eq(look_brings(1), 0);
	cr_expect_eq(notes.records, 8);
}

Test(read_ahead, many_topics_leave_the_places_to_lines)
{
	spin_on(RING, 0);
	cr_assert_eq(look_brings(1), 1);
	subscriber->table_used = 2;
	late.places = 5;
	cr_expect_eq(look_brings(1), 1);
	late.places = 4;
	cr_expect_eq(look_brings(1), 0);
}

/* Its repetition would wait for the slots. */
Test(read_ahead, invalid_line_is_read_again_alone)
{
	unsigned int line;

	spin_on(RING, 0);
	cr_assert_eq(look_brings(1), 1);
	line = late_find(READ_PROGRESS);
	late_land(line, 0);
	memset(landing_page(source), 0x5a, sizeof(struct progress));
	while (late.count > 0)
		late_land(0, 0);
	late_poll_once();
	cr_assert_eq(source->invalid, 1);
	cr_expect_eq(ahead(), 0);
	cr_expect_eq(look_brings(1), 1);
	cr_expect_eq(notes.records, 4);
}

/* It reads up to lines, at its intervals. */
Test(read_ahead, conflation_reads_nothing_ahead)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_NEWEST,
						     .conflate_us = TB_CONFLATE_POLL };
	uint64_t written = 0;

	late_two_read(0);
	tb_unsubscribe(subscription);
	subscriber->poll_ns = 0;
	late.at_once = true;
	topic = scene_topic(late.publisher, "u", 64, 0);
	scene_publish(topic, 1, ++written);
	cr_assert_eq(tb_subscribe(subscriber, "u", &how, &subscription), 0, "%s", tb_error());
	source = subscription->sources;
	UNTIL(source->state == SOURCE_RUNNING);
	for (int i = 0; i < 1000; i++) {
		scene_publish(topic, written + 1, written + 1);
		written++;
		late_poll_once();
		for (unsigned int half = 0; half < source->halves; half++)
			cr_assert_not(source->batches[half].end > 0 && source->batches[half].ahead);
	}
	UNTIL(source->next > written);
}

/* The line decides about a failed copy. Other looks are for new records. */
Test(read_ahead, look_at_a_failed_copy_reads_nothing_ahead)
{
	spin_on(RING, 0);
	cr_assert_eq(look_brings(1), 1);
	subscriber->poll_ns = UINT64_MAX;
	while (late.count > 0)
		late_land(0, 0);
	late_poll_once();
	cr_assert_eq(late.count, 0);
	subscriber->poll_ns = 0;
	source->head = source->next;
	source->copy_failed = true;
	late_poll_once();
	cr_expect_eq(ahead(), 0);
}

/* -- random completions ----------------------------------------------------------------------- */

/* READs land in any order, late, or fail, while the writer goes on and laps. */
Test(read_ahead, random_completions_account_for_every_record)
{
	const uint64_t total = 20000;
	uint64_t random = scene_seed(), written = 2;

	notes.quiet = true;
	spin_on(256, 0);
	while (!notes.ended) {
		const uint64_t draw = random_draw(&random);
		uint64_t more = draw % 8 ? draw / 8 % 20 : draw / 8 % 512;

		more = more < total - written ? more : total - written;
		if (more > 0 && draw >> 40 & 1) {
			scene_publish(topic, written + 1, written + more);
			written += more;
			if (draw >> 41 & 1)
				notices_hint(source, written + (draw >> 42) % 3);
		}
		for (uint64_t lands = draw >> 51 & 7; lands > 0 && late.count > 0; lands--)
			late_land((unsigned int)(random_draw(&random) % late.count),
				  random_draw(&random) % 64 ? 0 : -EIO);
		cr_assert_geq(tb_poll(subscriber, 1 + (int)(draw >> 54) % 100), 0, "%s",
			      tb_error());
		if (written == total && !topic->ended)
			tb_topic_end(topic);
	}
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.records + notes.lost, total, "%" PRIu64 " and %" PRIu64 " lost",
		     notes.records, notes.lost);
	cr_expect_eq(late_counted(SUBSCRIPTION_LOST_CORRUPT), 0);
}
