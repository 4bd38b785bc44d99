/* SPDX-License-Identifier: Apache-2.0 */
/* Rates between two samples of counters. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tools/sample.h"

#define SECOND_NS UINT64_C(1000000000)

static struct sample before, now;
static double rate;

static void enter(void)
{
	before.bus_id = now.bus_id = 7;
	before.taken_ns = SECOND_NS;
	now.taken_ns = 3 * SECOND_NS;
}

static void leave(void)
{
	sample_free(&before);
	sample_free(&now);
}

TestSuite(sample, .init = enter, .fini = leave);

static void expect_word(size_t row, const char *word)
{
	cr_expect_str_eq(sample_note_word(sample_compare(&before, &now, row, &rate)), word);
}

Test(sample, rate_is_the_difference_per_second)
{
	sample_add(&before, "topic", "t", "records", 10, "records", true);
	sample_add(&now, "topic", "t", "records", 1010, "records", true);
	cr_expect_eq(sample_compare(&before, &now, 0, &rate), SAMPLE_RATE);
	cr_expect_eq(rate, 500);
}

Test(sample, rate_of_the_largest_counter_is_finite)
{
	sample_add(&before, "topic", "t", "records", 0, "records", true);
	sample_add(&now, "topic", "t", "records", UINT64_MAX, "records", true);
	now.taken_ns = before.taken_ns + 1;
	cr_expect_eq(sample_compare(&before, &now, 0, &rate), SAMPLE_RATE);
	cr_expect_gt(rate, 1e28);
	cr_expect_lt(rate, 2e28);
}

Test(sample, first_sample_has_no_rate)
{
	sample_add(&now, "topic", "t", "records", 5, "records", true);
	now.bus_id = 8;
	before = (struct sample){ 0 };
	expect_word(0, "first");
	cr_expect_eq(rate, 0);
}

Test(sample, two_looks_at_once_have_no_rate)
{
	sample_add(&before, "topic", "t", "records", 5, "records", true);
	sample_add(&now, "topic", "t", "records", 6, "records", true);
	now.taken_ns = before.taken_ns;
	expect_word(0, "first");
}

Test(sample, fallen_counter_has_no_rate)
{
	sample_add(&before, "topic", "t", "records", 5, "records", true);
	sample_add(&now, "topic", "t", "records", 4, "records", true);
	expect_word(0, "fell");
	cr_expect_eq(rate, 0);
}

Test(sample, restarted_publisher_has_no_rates)
{
	sample_add(&before, "topic", "t", "records", 5, "records", true);
	sample_add(&now, "topic", "t", "records", 900, "records", true);
	now.bus_id = 8;
	expect_word(0, "restart");
}

Test(sample, property_has_no_rate)
{
	sample_add(&before, "group", "t", "239.1.1.1:7471", 1024, "udp bytes", false);
	sample_add(&now, "group", "t", "239.1.1.1:7471", 2048, "udp bytes", false);
	cr_expect_eq(sample_compare(&before, &now, 0, &rate), SAMPLE_NONE);
	expect_word(0, "");
}

/* A topic appears between the others, so all later rows move. */
Test(sample, rows_are_found_by_their_names)
{
	char name[8];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		if (i == 500)
			sample_add(&now, "topic", "new", "records", 1, "records", true);
		sample_add(&before, "topic", name, "records", (uint64_t)i, "records", true);
		sample_add(&now, "topic", name, "records", 3 * (uint64_t)i, "records", true);
		sample_add(&now, "feed", name, "records", 0, "records", true);
	}
	for (size_t i = 0; i < now.count; i++) {
		const enum sample_note note = sample_compare(&before, &now, i, &rate);
		const bool known = now.rows[i].name[0] == 't' && now.rows[i].scope[0] == 't';

		cr_expect_eq(note, known ? SAMPLE_RATE : SAMPLE_FIRST);
		cr_expect_eq(rate, known ? (double)now.rows[i].value / 3 : 0);
	}
}

#define MANY 300000

/* A new topic comes before all unpublished names. Searching all rows for each takes minutes. */
Test(sample, rows_behind_a_new_row_are_found_at_once, .timeout = 60)
{
	char name[16];

	sample_add(&now, "topic", "new", "records", 1, "records", true);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "%d", i);
		sample_add(&before, "unpublished", "t", name, 1, "records", true);
		sample_add(&now, "unpublished", "t", name, 3, "records", true);
	}
	expect_word(0, "first");
	for (size_t row = 1; row <= MANY; row++) {
		cr_assert_eq(sample_compare(&before, &now, row, &rate), SAMPLE_RATE);
		cr_assert_eq(rate, 1);
	}
}
