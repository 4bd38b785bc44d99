/* SPDX-License-Identifier: Apache-2.0 */
/* The bisection equals a scan, over rings with equal times and with corrupt records. A writer
 * overwrites slots while they are copied. The times of a hostile publisher fall. */
#include "subscriber/find.h"

#include <criterion/criterion.h>
#include <errno.h>

#include "tests/support/random.h"

#define SLOTS  64
#define LAST   4096 /* sequences that a ring ever has */
#define ROUNDS 20000

/* A ring, as a reader may see it. */
static struct {
	uint64_t head, reserved;
	uint64_t times[LAST + 1];
	bool corrupt[LAST + 1];
	unsigned int copies;
} ring;

static struct progress line(void)
{
	return (struct progress){ .head = ring.head, .reserved = ring.reserved, .first = 1 };
}

static uint64_t oldest(void)
{
	const struct progress now = line();

	return progress_oldest(&now, SLOTS);
}

/* Copies what the bisection asks for, to its end. Between copies the writer writes up to `most`
 * records. */
static int run(uint64_t time_ns, uint64_t *random, size_t most, struct find *find,
	       uint64_t *sequence)
{
	struct progress now = line();

	find_begin(find, time_ns, &now, SLOTS);
	ring.copies = 0;
	while (find_next(find, sequence)) {
		cr_assert_leq(*sequence, ring.head);
		cr_assert_geq(*sequence, 1);
		ring.copies++;
		if (most > 0)
			ring.head += random_below(random, most + 1);
		cr_assert_leq(ring.head, LAST);
		ring.reserved = ring.head;
		now = line();
		if (*sequence >= oldest() && !ring.corrupt[*sequence])
			find_copied(find, ring.times[*sequence]);
		else
			find_failed(find, &now);
	}
	return find_result(find, sequence);
}

/* The last record that is held, whole, and not later. 0: there is no record. */
static uint64_t scan(uint64_t time_ns)
{
	for (uint64_t s = ring.head; s >= oldest(); s--)
		if (!ring.corrupt[s] && ring.times[s] <= time_ns)
			return s;
	return 0;
}

static void times_rise(uint64_t *random)
{
	memset(&ring, 0, sizeof(ring));
	ring.times[0] = 100;
	for (uint64_t s = 1; s <= LAST; s++)
		ring.times[s] = ring.times[s - 1] + (random_below(random, 3) == 0);
}

static void head_set(uint64_t head)
{
	ring.head = ring.reserved = head;
}

Test(find, result_equals_a_scan)
{
	uint64_t random = random_seed(), sequence;
	struct find find;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t time_ns, expected;
		int result;

		if (round % 1000 == 0)
			times_rise(&random);
		head_set(1 + random_below(&random, 200));
		time_ns = ring.times[oldest()] + random_below(&random, 40) - 5;
		expected = scan(time_ns);
		result = run(time_ns, &random, 0, &find, &sequence);
		cr_assert_eq(result, expected ? 0 : -ERANGE, "round %d", round);
		if (expected)
			cr_assert_eq(sequence, expected, "round %d", round);
		else
			cr_assert(find.above == oldest() && find.above_ns == ring.times[oldest()]);
		cr_assert_leq(ring.copies, 7, "64 records, 7 halves: %u copies", ring.copies);
	}
}

Test(find, last_of_equal_times_is_found)
{
	uint64_t random = random_seed(), sequence;
	struct find find;

	times_rise(&random);
	for (uint64_t s = 10; s <= 20; s++)
		ring.times[s] = 7000;
	for (uint64_t s = 21; s <= 60; s++)
		ring.times[s] = 8000;
	head_set(60);
	cr_expect_eq(run(7000, &random, 0, &find, &sequence), 0);
	cr_expect_eq(sequence, 20);
	cr_expect_eq(run(7999, &random, 0, &find, &sequence), 0);
	cr_expect_eq(sequence, 20);
	cr_expect_eq(run(UINT64_MAX, &random, 0, &find, &sequence), 0);
	cr_expect_eq(sequence, 60);
}

Test(find, corrupt_records_are_left_out)
{
	uint64_t random = random_seed(), sequence;
	struct find find;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t time_ns, expected;
		int result;

		if (round % 100 == 0)
			times_rise(&random);
		memset(ring.corrupt, 0, sizeof(ring.corrupt));
		head_set(1 + random_below(&random, 200));
		for (size_t i = random_below(&random, 12); i > 0; i--)
			ring.corrupt[oldest() + random_below(&random, SLOTS)] = true;
		time_ns = ring.times[oldest()] + random_below(&random, 40) - 5;
		expected = scan(time_ns);
		result = run(time_ns, &random, 0, &find, &sequence);
		cr_assert(result == 0 || result == -ERANGE || scan(UINT64_MAX) == 0, "round %d",
			  round);
		if (expected)
			cr_assert(result == 0 && sequence == expected, "round %d: %d", round,
				  result);
		else
			cr_assert_neq(result, 0, "round %d", round);
		cr_assert_leq(ring.copies, 7 + 12 * FIND_TRIES);
	}
}

Test(find, run_of_corrupt_records_is_copied_once)
{
	uint64_t random = random_seed(), sequence;
	struct find find;

	times_rise(&random);
	for (uint64_t s = 1; s <= 39; s++)
		ring.times[s] = s;
	for (uint64_t s = 24; s <= 31; s++)
		ring.corrupt[s] = true;
	head_set(39);
	cr_expect_eq(run(23, &random, 0, &find, &sequence), 0);
	cr_expect_eq(sequence, 23);
	cr_expect_leq(ring.copies, 8 * FIND_TRIES + 6, "%u copies", ring.copies);
}

Test(find, ring_without_a_whole_record_ends_the_search)
{
	uint64_t random = random_seed(), sequence;
	struct find find;

	times_rise(&random);
	head_set(200);
	memset(ring.corrupt, true, sizeof(ring.corrupt));
	cr_expect_eq(run(200, &random, 0, &find, &sequence), -EAGAIN);
	cr_expect_eq(ring.copies, FIND_COPIES);
	head_set(3);
	cr_expect_eq(run(200, &random, 0, &find, &sequence), -EAGAIN);
	cr_expect_eq(ring.copies, 3 * FIND_TRIES);
}

/* The result was right at some time between the first line and the last copy. */
Test(find, overwritten_slots_move_the_lower_bound)
{
	uint64_t random = random_seed(), sequence, moved = 0, late = 0;
	struct find find;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t time_ns, before, after;
		int result;

		if (round % 100 == 0)
			times_rise(&random);
		head_set(1 + random_below(&random, 2000));
		time_ns = ring.times[oldest()] + random_below(&random, 40) - 5;
		before = scan(time_ns);
		result = run(time_ns, &random, random_below(&random, SLOTS), &find, &sequence);
		after = scan(time_ns);
		cr_assert_neq(result, -EAGAIN, "round %d", round);
		if (result == 0) {
			cr_assert(sequence >= before && ring.times[sequence] <= time_ns &&
					  (sequence == ring.head || sequence == before ||
					   ring.times[sequence + 1] > time_ns || sequence < after),
				  "round %d", round);
			moved += sequence != before;
		} else {
			cr_assert_lt(time_ns, ring.times[oldest()], "round %d", round);
			late += before > 0;
		}
		cr_assert_leq(ring.copies, 30, "%u copies", ring.copies);
	}
	cr_expect_gt(moved, 10);
	cr_expect_gt(late, 10);
}

/* Times that fall are against the promise. The search ends, and its result has a time up to T. */
Test(find, times_that_fall_end_the_search)
{
	uint64_t random = random_seed(), sequence;
	struct find find;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t time_ns;
		int result;

		for (uint64_t s = 0; s <= 200; s++)
			ring.times[s] = random_draw(&random);
		head_set(1 + random_below(&random, 200));
		time_ns = random_draw(&random);
		result = run(time_ns, &random, 0, &find, &sequence);
		cr_assert_leq(ring.copies, 7);
		cr_assert(result == 0 || result == -ERANGE);
		if (result == -ERANGE)
			cr_assert_gt(ring.times[find.above], time_ns);
		else
			cr_assert(ring.times[sequence] <= time_ns &&
				  (sequence == ring.head || ring.times[sequence + 1] > time_ns));
	}
}

/* A line that reserves the whole ring, or whose words do not belong together, holds no record for
 * certain. */
Test(find, line_without_a_record_ends_the_search)
{
	uint64_t random = random_seed(), sequence;
	struct find find;

	times_rise(&random);
	head_set(0);
	cr_expect_eq(run(200, &random, 0, &find, &sequence), -EAGAIN);
	cr_expect_eq(ring.copies, 0);
	ring.head = 100;
	ring.reserved = 300;
	cr_expect_eq(run(200, &random, 0, &find, &sequence), -EAGAIN);
	cr_expect_eq(ring.copies, 0);
}
