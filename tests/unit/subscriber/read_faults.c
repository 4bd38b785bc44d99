/* SPDX-License-Identifier: Apache-2.0 */
/* READs that fail or land late, READs that never land, and invalid copies. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "bus/record.h"
#include "publisher/state.h"
#include "subscriber/fetch.h"
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
		clock_pass(POLL_PAGE_MS);
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
	clock_pass(POLL_PAGE_MS);
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
			clock_pass(POLL_PAGE_MS);
	}
	looks = late_counted(SUBSCRIPTION_LOOKS) - looks;
	cr_expect_leq(looks, 100 / 20 + 2, "%" PRIu64 " looks in 5 ms", looks);
	for (int ms = 0; ms < 1000 && notes.last < 102; ms++) {
		clock_pass(POLL_PAGE_MS);
		late_poll_once();
	}
	late_expect_all(102);
}

/* Strict: only the line can confirm a hint, and only the hint causes its READ. */
Test(read_faults, strict_hint_is_kept_until_the_line_can_be_read)
{
	uint64_t asked_ms;

	late_two_read(TB_STRICT);
	source->armed = true;
	UNTIL(late_is_discovered() && late.count == 0 && !source->look);
	late.places = 0;
	asked_ms = source->fetched_ms;
	scene_publish(topic, 3, 3);
	cr_assert(notices_hint(source, 3));
	UNTIL(source->fetched_ms > asked_ms);
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
