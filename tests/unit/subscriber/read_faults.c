/* SPDX-License-Identifier: Apache-2.0 */
/* READs that fail or land late, READs that never land, and invalid copies. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/record.h"
#include "publisher/state.h"
#include "subscriber/fetch.h"
#include "subscriber/image.h"
#include "subscriber/notices.h"
#include "subscriber/pull_read.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/late.h"

TestSuite(read_faults, .init = late_enter, .fini = late_leave, .timeout = 60);

/* -- liveness --------------------------------------------------------------------------------- */

/* No answer comes from here on; the clock advances with the polls. */
static void expect_stale_in_time(void)
{
	uint64_t passed = 0;

	clock_stop();
	while (!notes.stale && passed < 2 * subscriber->stale_ms) {
		clock_pass(50);
		passed += 50;
		late_poll_once();
	}
	cr_assert_leq(passed, subscriber->stale_ms, "stale was not reported within the bound");
	while (late.breaks == 0 && passed < 4 * subscriber->stale_ms) {
		clock_pass(50);
		passed += 50;
		late_poll_once();
	}
	cr_expect_geq(passed, 2 * subscriber->stale_ms);
	cr_expect_eq(late.breaks, 1, "the connection was not given up");
}

/* Nothing else makes the reader look: it has no cause, and sleeps. */
Test(read_faults, image_requests_its_line_again_after_a_failed_read)
{
	late_two_read(0);
	source->mapping.image = image_new(&source->mapping.shape);
	cr_assert_not_null(source->mapping.image);
	late.page_held = true;
	image_begin(source->mapping.image, 2);
	UNTIL(late_held(READ_PROGRESS) == 1 && !image_wants_line(source->mapping.image));
	source->look = false;
	source->armed = true;
	late_land(0, -EIO);
	UNTIL(late_held(READ_PROGRESS) == 1);
}

/* However much there is to read: otherwise a dead publisher would go undetected. */
Test(read_faults, topic_reads_leave_one_queue_slot_for_the_bus_page)
{
	late_two_read(0);
	scene_publish(topic, 3, 1000);
	late.places = 2 * READS_OF_HALF;
	source->look = true;
	UNTIL(late_slots_held() >= late.places - 1);
	late.silent = true;
	subscriber->page_ms = subscriber->turn_ms = 0;
	late_poll_once();
	cr_assert_eq(late_held(READ_PULSE), 1, "there was no place for the bus page");
	cr_expect_eq(late_slots_held(), late.places - 1);
	expect_stale_in_time();
}

/* The queue stays full of READs of records. */
Test(read_faults, entries_of_the_bus_page_are_read_from_a_full_queue)
{
	unsigned int before;

	late_two_read(0);
	scene_publish(topic, 3, 1000);
	late.places = 2 * READS_OF_HALF;
	source->look = true;
	UNTIL(late_slots_held() == late.places - 1);
	before = late.entries;
	clock_stop();
	for (int looks = 0; looks < 6; looks++) {
		clock_pass(subscriber->stale_ms / 10);
		late_poll_once(); /* requests the pulse */
		late_poll_once(); /* uses it, requests the entry */
		late_poll_once();
		cr_expect_eq(late_slots_held(), late.places - 1);
	}
	cr_expect_eq(late.entries - before, 6, "%u READs", late.entries - before);
	cr_expect_not(notes.stale);
}

/* The queue has a place for a single READ of the page. */
Test(read_faults, pulse_waits_for_one_read_of_entries_at_most)
{
	late_two_read(0);
	scene_publish(topic, 3, 1000);
	late.places = 2 * READS_OF_HALF;
	source->look = true;
	UNTIL(late_slots_held() == late.places - 1);
	clock_stop();
	clock_pass(subscriber->stale_ms / 10);
	late_poll_once(); /* requests the pulse, which lands */
	late.silent = true;
	while (late.done_count > 0)
		late_poll_once(); /* requests the entry, which stays */
	cr_assert_eq(late_held(READ_ENTRIES), 1);
	entries_want(&subscriber->entries, 100); /* as of another topic */
	clock_pass(subscriber->stale_ms / 10);
	late_poll_once();
	cr_expect_eq(late_held(READ_PULSE), 0, "more READs than the queue takes");
	late_land(late.count - 1, 0);
	late_poll_once();
	cr_expect_eq(late_held(READ_PULSE), 1, "the pulse did not follow the entry");
	cr_expect_eq(late_held(READ_ENTRIES), 0);
}

Test(read_faults, full_queue_does_not_hide_a_silent_publisher)
{
	late_both_under_way(1000, 0);
	late.places = late.count;
	late.silent = true;
	expect_stale_in_time();
	cr_expect_eq(late.done_count, 0);
}

Test(read_faults, answered_reads_do_not_hide_a_failing_bus_page)
{
	late_both_under_way(1000, 0);
	late.page_fails = true;
	expect_stale_in_time();
}

/* As behind long READs, requested after the caller was away. */
Test(read_faults, bus_page_behind_other_reads_does_not_go_stale)
{
	uint64_t passed = 0;

	late_both_under_way(1000, 0);
	clock_stop();
	late.silent = true;
	clock_pass(10 * subscriber->stale_ms);
	for (; passed < subscriber->stale_ms / 2; passed += 50) {
		late_poll_once();
		cr_assert_not(notes.stale, "stale although the page was only just requested");
		clock_pass(50);
	}
	cr_expect_eq(late_held(READ_PULSE), 1);
	late.silent = false;
	subscriber->pulse_count--; /* so that the page is new */
	late_poll_once();
	cr_expect_eq(late_held(READ_PULSE), 0);
	cr_expect_not(notes.stale);
	late.silent = true;
	clock_pass(10 * subscriber->stale_ms);
	late_poll_once();
	for (passed = 0; passed < subscriber->stale_ms * 5 / 8 && !notes.stale; passed += 50) {
		clock_pass(50);
		late_poll_once();
	}
	cr_expect(notes.stale, "it was the grace period is over half of the bound");
}

/* -- failures --------------------------------------------------------------------------------- */

Test(read_faults, failed_reads_are_repeated_and_delivered_once)
{
	late_both_under_way(4000, 0);
	for (unsigned int i = 0; i < 2 * READS_OF_HALF; i++) {
		UNTIL(late_slots_held() == 2 * READS_OF_HALF);
		late_land(i, -EIO);
		while (late.count > 0)
			late_land(0, 0);
	}
	late_expect_all(4000);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 0, "what did not land was looked at");
}

/* The second half was posted behind an invalid record. It is discarded, and used again only after
 * it has landed. */
Test(read_faults, failed_copy_discards_the_batches_behind_it)
{
	uint64_t before;

	late_both_under_way(1000, 0);
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	late_land_half(0);
	before = late_counted(SUBSCRIPTION_READS);
	for (int i = 0; i < 10; i++)
		late_poll_once();
	cr_expect_eq(notes.records, 9);
	cr_expect_eq(late_slots_held(), 2 * READS_OF_HALF);
	cr_expect_eq(late_counted(SUBSCRIPTION_READS) - before, READS_OF_HALF + 1,
		     "the line, and the first half again");
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	late_expect_all(1000);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 1);
}

/* No READ is posted and no record delivered until that READ lands; then all records come. */
static void wait_for_the_page(enum read_kind kind, uint64_t records)
{
	const uint64_t before = notes.records;
	uint64_t reads;

	UNTIL(late_held(kind) == 1);
	reads = late_counted(SUBSCRIPTION_READS);
	for (int i = 0; i < 10; i++)
		late_poll_once();
	cr_expect_eq(notes.records, before, "delivered while the page is READ into");
	cr_expect_eq(late_counted(SUBSCRIPTION_READS), reads, "posted while the page is READ into");
	cr_expect_eq(late_held(kind), 1);
	late.page_held = false;
	late_expect_all(records);
}

Test(read_faults, batches_wait_while_names_are_read)
{
	late_read_on(4096, 1000, 0);
	UNTIL(late_slots_held() == 2 * READS_OF_HALF);
	late.page_held = true;
	late_land_half(0);
	wait_for_the_page(READ_NAMES, 1000);
}

Test(read_faults, no_batch_is_posted_while_the_line_is_read)
{
	late_two_read(0);
	late.page_held = true;
	source->look = true;
	UNTIL(late_held(READ_PROGRESS) == 1);
	scene_publish(topic, 3, 5);
	cr_assert(notices_hint(source, 5));
	wait_for_the_page(READ_PROGRESS, 5);
}

Test(read_faults, strict_batches_wait_while_the_line_is_read)
{
	late_both_under_way(1000, TB_STRICT);
	late.page_held = true;
	late_land_half(0);
	wait_for_the_page(READ_PROGRESS, 1000);
}

/* The line is requested after the failure, and before records are READ again. */
Test(read_faults, failed_copy_is_judged_by_a_line_requested_later)
{
	late_both_under_way(1000, 0);
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	late.page_held = true;
	late_land_half(0);
	memset(late.story, 0, sizeof(late.story));
	late_poll_once();
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	cr_expect_eq(notes.records, 9);
	cr_expect_str_eq(late.story, "l");
	wait_for_the_page(READ_PROGRESS, 1000);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 1);
}

/* A full queue delays the name's READ; the record stays valid. */
Test(read_faults, name_waits_while_the_queue_is_full)
{
	uint64_t before;

	late_read_on(4096, 1000, 0);
	UNTIL(late_slots_held() == 2 * READS_OF_HALF);
	before = late_counted(SUBSCRIPTION_READS);
	late_land_half(0);
	late.places = late.count;
	for (int i = 0; i < 10; i++)
		late_poll_once();
	cr_expect_eq(notes.records, 0);
	cr_expect_eq(late_counted(SUBSCRIPTION_READS), before, "what had landed was thrown away");
	late.places = HELD_MAX;
	late_expect_all(1000);
	cr_expect_eq(late_counted(SUBSCRIPTION_TORN), 0);
}

/* The publisher hangs inside its line, and records that have landed wait for the line. */
static void wait_for_the_line(void)
{
	_Atomic uint64_t *check = &topic->line->word[7];
	const uint64_t right = atomic_load(check);
	uint64_t reads;

	atomic_store(check, right ^ 1);
	late.at_once = true;
	UNTIL(source->invalid > 2);
	clock_stop();
	for (int i = 0; i < 4; i++)
		late_poll_once(); /* earlier READs have landed */
	for (int looks = 0; looks < 100; looks++) {
		clock_pass(1);
		reads = late_counted(SUBSCRIPTION_READS);
		cr_expect(pull_read_due(source));
		late_poll_once(); /* requests the line */
		for (int i = 0; i < 100; i++) {
			late_poll_once();
			cr_expect_not(pull_read_due(source), "a waiting caller may sleep");
		}
		cr_expect_eq(late_counted(SUBSCRIPTION_READS) - reads, 1);
	}
	atomic_store(check, right);
	clock_pass(1);
}

Test(read_faults, invalid_line_after_failed_copy_is_read_at_its_pace)
{
	late_both_under_way(1000, 0);
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	late_land_half(0);
	wait_for_the_line();
	cr_expect_eq(notes.records, 9);
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	late_expect_all(1000);
}

Test(read_faults, invalid_line_for_strict_batch_is_read_at_its_pace)
{
	late_both_under_way(1000, TB_STRICT);
	late_land_half(0);
	wait_for_the_line();
	cr_expect_eq(notes.records, 2);
	late_expect_all(1000);
}

/* The looks of this many polls, with so much time between them. */
static uint64_t looks_of(unsigned int polls, uint64_t step_ns)
{
	const uint64_t before = late_counted(SUBSCRIPTION_LOOKS);

	for (unsigned int i = 0; i < polls; i++) {
		clock_pass_ns(step_ns);
		late_poll_once();
	}
	return late_counted(SUBSCRIPTION_LOOKS) - before;
}

/* An idle reader with nothing outstanding, and a stopped clock. */
static void read_idle(void)
{
	late_two_read(0);
	UNTIL(late_is_discovered());
	late.at_once = true;
	clock_stop();
	clock_pass(1);
	for (int i = 0; i < 4; i++)
		late_poll_once();
}

Test(read_faults, idle_line_is_read_once_per_polling_interval)
{
	static const unsigned int intervals_us[] = { 100, 130, 250, 1000, 5000 };

	read_idle();
	for (size_t i = 0; i < sizeof(intervals_us) / sizeof(intervals_us[0]); i++) {
		const unsigned int steps = intervals_us[i] / 10;
		uint64_t looks;

		subscriber->poll_ns = UINT64_C(1000) * intervals_us[i];
		looks_of(steps, 10000);
		looks = looks_of(20 * steps, 10000);
		cr_expect(looks >= 19 && looks <= 21, "%u us: %" PRIu64 " looks in 20 intervals",
			  intervals_us[i], looks);
	}
}

Test(read_faults, spinning_reader_reads_the_line_again_at_once)
{
	read_idle();
	subscriber->poll_ns = 0;
	looks_of(1, 0);
	cr_expect_eq(looks_of(500, 0), 500);
	scene_publish(topic, 3, 3);
	late_poll_once(); /* requests the line */
	late_poll_once(); /* finds the head and requests the record */
	late_poll_once();
	cr_expect_eq(notes.records, 3);
	late_expect_all(3);
}

/* A READ is always outstanding. The publisher's pulse comes each second, by another clock. */
Test(read_faults, spinning_reader_with_a_short_bound_reports_stale_in_time)
{
	uint64_t passed = 0;

	read_idle();
	subscriber->poll_ns = 0;
	subscriber->stale_ms = 80;
	subscriber->pulse_ms = subscriber->page_ms = subscriber->turn_ms = clock_coarse_ms();
	late.page_fails = true;
	for (; passed <= 80 && !notes.stale; passed++) {
		clock_pass(1);
		late_poll_once();
		late_poll_once();
	}
	cr_expect(notes.stale, "not stale after %" PRIu64 " ms", passed);
	cr_expect_geq(passed, 60);
}

/* The writer may hang inside its line for long. */
Test(read_faults, spinning_reader_reads_an_invalid_line_once_a_millisecond)
{
	_Atomic uint64_t *check;
	uint64_t looks;

	read_idle();
	subscriber->poll_ns = 0;
	check = &topic->line->word[7];
	atomic_store(check, atomic_load(check) ^ 1);
	looks_of(100, 0);
	looks = looks_of(2000, 10000);
	cr_expect_leq(looks, 20 + 1, "%" PRIu64 " looks in 20 ms", looks);
	cr_expect_geq(looks, 20 - 1, "%" PRIu64 " looks in 20 ms", looks);
	atomic_store(check, atomic_load(check) ^ 1);
	scene_publish(topic, 3, 3);
	looks_of(4, 1000000);
	late_expect_all(3);
}

/* A hint that is true is followed at once; a head that the bus page shows, within a millisecond. */
Test(read_faults, long_polling_interval_delays_no_look_with_a_cause)
{
	read_idle();
	subscriber->poll_ns = UINT64_C(1000000000);
	cr_expect_eq(looks_of(100, 100000), 0);
	scene_publish(topic, 3, 3);
	cr_assert(notices_hint(source, 3));
	looks_of(3, 0);
	cr_expect_eq(notes.records, 3);
	scene_publish(topic, 4, 4);
	source->look = true;
	looks_of(4, 1000000);
	cr_expect_eq(notes.records, 4);
	late_expect_all(4);
}

/* Hints are always a little ahead of the records, which keep coming. The hinted record is missing
 * when it is READ, and present when the line is read. */
Test(read_faults, false_hints_cost_one_look_per_millisecond)
{
	uint64_t looks;

	late_two_read(0);
	UNTIL(late_is_discovered());
	late.at_once = true;
	clock_stop();
	looks = late_counted(SUBSCRIPTION_LOOKS);
	notices_hint(source, 30);
	late_poll_once();
	for (uint64_t n = 3; n < 103; n++) {
		notices_hint(source, n + 30);
		late_poll_once();
		scene_publish(topic, n, n);
		late_poll_once();
		if (n % 20 == 0)
			clock_pass(1);
	}
	looks = late_counted(SUBSCRIPTION_LOOKS) - looks;
	cr_expect_leq(looks, 100 / 20 + 2, "%" PRIu64 " looks in 5 ms", looks);
	for (int ms = 0; ms < 1000 && notes.last < 102; ms++) {
		clock_pass(1);
		late_poll_once();
	}
	late_expect_all(102);
}

/* Strict: only the line can confirm a hint, and only the hint causes its READ. */
Test(read_faults, strict_hint_is_kept_until_the_line_can_be_read)
{
	uint64_t asked_ns;

	late_two_read(TB_STRICT);
	source->armed = true;
	UNTIL(late_is_discovered() && late.count == 0 && !source->look);
	late.places = 0;
	asked_ns = source->fetched_ns;
	scene_publish(topic, 3, 3);
	cr_assert(notices_hint(source, 3));
	UNTIL(source->fetched_ns > asked_ns);
	cr_expect_eq(source->hint, 3);
	late.places = HELD_MAX;
	late_expect_all(3);
	cr_expect_eq(source->hint, 0);
}

Test(read_faults, overwritten_batches_give_an_exact_gap)
{
	late_both_under_way(1000, 0);
	late_land_half(0);
	scene_publish(topic, 1001, 4200); /* up to slots of the second half */
	tb_topic_end(topic);
	late.at_once = true;
	UNTIL(notes.ended);
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.records, 4200 - (104 - HALF_SLOTS - 2), "%" PRIu64 " of %" PRIu64,
		     notes.records, notes.lost);
	cr_expect(strstr(notes.text, "66 B update 66\ngap 67 104 overrun\n105 A update 105\n"));
}

Test(read_faults, strict_batches_are_proven_by_lines_requested_later)
{
	const char *at;
	unsigned int line_for = 0;

	late_both_under_way(1000, TB_STRICT);
	memset(late.story, 0, sizeof(late.story));
	late_land_half(0);
	late_poll_once();
	cr_expect_eq(notes.records, 2, "delivered before it was proven");
	UNTIL(notes.records == 2 + HALF_SLOTS);
	late_land_half(0);
	late_poll_once();
	cr_expect_eq(notes.records, 2 + HALF_SLOTS, "the line was asked for before it had landed");
	UNTIL(notes.records == 2 + 2 * HALF_SLOTS);
	for (at = late.story; (at = strchr(at, 'l')); at++)
		line_for++;
	cr_expect_eq(line_for, 2, "one line for each: %s", late.story);
	late_expect_all(1000);
}
