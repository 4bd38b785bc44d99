/* SPDX-License-Identifier: Apache-2.0 */
/* The window of missing numbers equals a plain list of the last 1,000 numbers. */
#include "subscriber/loss_window.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/random.h"

#define ROUNDS 20000

/* missing[i]: whether the number i below the last that came is missing. */
static bool missing[LOSS_WINDOW_NUMBERS];

static unsigned int plain_pass(uint64_t step)
{
	unsigned int count = 0;

	for (; step > 0; step = step > 2 * LOSS_WINDOW_NUMBERS ? LOSS_WINDOW_NUMBERS : step - 1) {
		memmove(missing + 1, missing, sizeof(missing) - sizeof(missing[0]));
		missing[0] = step > 1;
	}
	for (int i = 0; i < LOSS_WINDOW_NUMBERS; i++)
		count += missing[i];
	return count;
}

static uint64_t a_step(uint64_t *random)
{
	const uint64_t draw = random_draw(random);

	if (draw % 100 < 90)
		return 1;
	if (draw % 100 < 98)
		return 1 + (draw >> 32) % 5;
	if (draw % 1000 < 995)
		return 1 + (draw >> 32) % 1100;
	return UINT64_MAX - (draw >> 40);
}

Test(loss_window, count_equals_a_plain_list)
{
	struct loss_window window = { 0 };
	uint64_t random = random_seed();

	for (int round = 0; round < ROUNDS; round++) {
		const uint64_t step = a_step(&random);
		const unsigned int expected = plain_pass(step);

		loss_window_pass(&window, step);
		cr_assert_eq(window.count, expected, "round %d, step %llu: %u, expected %u", round,
			     (unsigned long long)step, window.count, expected);
		cr_assert_eq(loss_window_lossy(&window), expected > 10);
	}
}

Test(loss_window, loss_is_forgotten_after_a_thousand_numbers)
{
	struct loss_window window = { 0 };

	loss_window_pass(&window, 11);
	cr_expect_not(loss_window_lossy(&window), "10 of 1,000 are missing");
	loss_window_pass(&window, 2);
	cr_expect(loss_window_lossy(&window), "11 of 1,000 are missing");
	for (int i = 0; i < 987; i++)
		loss_window_pass(&window, 1);
	cr_expect(loss_window_lossy(&window));
	for (int i = 0; i < 3; i++)
		loss_window_pass(&window, 1);
	cr_expect_not(loss_window_lossy(&window), "%u are missing", window.count);
	for (int i = 0; i < 20; i++)
		loss_window_pass(&window, 1);
	cr_expect_eq(window.count, 0);
}
