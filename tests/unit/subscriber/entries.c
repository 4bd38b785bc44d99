/* SPDX-License-Identifier: Apache-2.0 */
/* Which entries of the bus page one READ fetches. */
#include "subscriber/entries.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/random.h"

static struct entries entries;

TestSuite(entries);

static void expect_run(const struct entry_run *run, uint32_t first, uint32_t count)
{
	cr_expect_eq(run->first, first, "found %u, expected %u", run->first, first);
	cr_expect_eq(run->count, count, "found %u, expected %u", run->count, count);
}

Test(entries, all_entries_of_a_page_are_one_run)
{
	struct entry_run runs[2];

	for (uint32_t i = 0; i < BOUND_TOPICS_MAX; i++)
		entries_want(&entries, i);
	cr_assert_eq(entries_runs(&entries, runs, 2), 1);
	expect_run(&runs[0], 0, BOUND_TOPICS_MAX);
}

Test(entries, hole_is_bridged_only_if_small)
{
	struct entry_run runs[4];

	entries_want(&entries, 60);
	entries_want(&entries, 61 + ENTRIES_HOLE_MAX);
	entries_want(&entries, 62 + ENTRIES_HOLE_MAX + ENTRIES_HOLE_MAX + 1);
	cr_assert_eq(entries_runs(&entries, runs, 4), 2);
	expect_run(&runs[0], 60, ENTRIES_HOLE_MAX + 2);
	expect_run(&runs[1], 63 + 2 * ENTRIES_HOLE_MAX, 1);
}

/* The queue takes a single READ at a time, and all entries are always wanted again. */
Test(entries, runs_take_turns_if_few_are_posted)
{
	struct entry_run run;

	for (uint32_t turn = 0; turn < 9; turn++) {
		entries_begin(&entries);
		for (uint32_t i = 0; i < 3; i++)
			entries_want(&entries, 500 * i);
		cr_assert_eq(entries_runs(&entries, &run, 1), 1);
		expect_run(&run, turn % 3 * 500, 1);
		entries_posted(&entries, &run);
	}
}

/* Entries 0 to 2 were READ, then 3 came. */
Test(entries, look_after_a_complete_one_begins_at_the_first_entry)
{
	struct entry_run run;

	for (uint32_t count = 3; count <= 4; count++) {
		entries_begin(&entries);
		for (uint32_t i = 0; i < count; i++)
			entries_want(&entries, i);
		cr_assert_eq(entries_runs(&entries, &run, 1), 1);
		expect_run(&run, 0, count);
		entries_posted(&entries, &run);
	}
}

Test(entries, each_wanted_entry_is_in_one_run)
{
	uint64_t random = random_seed();

	for (int round = 0; round < 1000; round++) {
		uint8_t wanted[BOUND_TOPICS_MAX] = { 0 }, seen[BOUND_TOPICS_MAX] = { 0 };
		const size_t count = random_below(&random, BOUND_TOPICS_MAX);
		struct entry_run runs[3];
		unsigned int found;

		for (size_t i = 0; i < count; i++) {
			const uint32_t index = (uint32_t)random_below(&random, BOUND_TOPICS_MAX);

			wanted[index] = 1;
			entries_want(&entries, index);
		}
		while ((found = entries_runs(&entries, runs, 3)) > 0) {
			const unsigned int posted = 1 + (unsigned int)random_below(&random, found);

			for (unsigned int i = 0; i < posted; i++) {
				cr_assert_leq(runs[i].first + runs[i].count, BOUND_TOPICS_MAX);
				for (uint32_t at = 0; at < runs[i].count; at++)
					seen[runs[i].first + at]++;
				entries_posted(&entries, &runs[i]);
			}
		}
		for (uint32_t i = 0; i < BOUND_TOPICS_MAX; i++) {
			cr_assert_leq(seen[i], 1, "entry %u was in %u runs", i, seen[i]);
			cr_assert(seen[i] || !wanted[i], "entry %u was in no run", i);
		}
	}
}
