/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/synthetic/synthetic_clock.h"

#define MS   UINT64_C(1000000)
#define HOUR (3600 * SYNTHETIC_SECOND)

void synthetic_clock_init(struct synthetic_clock *clock, uint64_t seed, uint64_t rate,
			  uint64_t burst)
{
	uint64_t in_burst = burst * rate / 1000;

	in_burst += in_burst / 16; /* so that no burst falls short by chance */
	if (in_burst < 16)
		in_burst = 16;
	if (in_burst > MS) /* otherwise the clock would stand still */
		in_burst = MS;
	synthetic_random_seed(&clock->random, seed);
	clock->burst_gap = MS / in_burst;
	clock->period_ms = 8000 * in_burst / rate;
	clock->calm_gap = (8 * in_burst * SYNTHETIC_SECOND / rate - MS) / (7 * in_burst);
}

void synthetic_clock_begin(struct synthetic_clock *clock, uint64_t rate, uint64_t messages)
{
	uint64_t gap = SYNTHETIC_SECOND / rate;

	clock->early_gap = gap < HOUR / messages ? gap : HOUR / messages;
	clock->now = SYNTHETIC_OPEN - messages * clock->early_gap;
	clock->open = false;
}

void synthetic_clock_open(struct synthetic_clock *clock)
{
	clock->now = SYNTHETIC_OPEN;
	clock->period_start = SYNTHETIC_OPEN;
	clock->burst_start = SYNTHETIC_OPEN;
	clock->open = true;
}

static void next_period(struct synthetic_clock *clock)
{
	uint32_t within = synthetic_random_below(&clock->random, (uint32_t)clock->period_ms);

	clock->period_start += clock->period_ms * MS;
	clock->burst_start = clock->period_start + within * MS;
}

/* 0 to four times the mean, small values more often: the product of two random numbers. */
static uint64_t uneven(struct synthetic_clock *clock, uint64_t mean)
{
	uint64_t word = synthetic_random_next(&clock->random);
	uint64_t product = (word & 0xffff) * (word >> 16 & 0xffff);

	/* Keeps 14 bits of the product: a mean of an hour still fits. */
	return mean * (product >> 18) >> 12;
}

void synthetic_clock_tick(struct synthetic_clock *clock)
{
	if (!clock->open) {
		clock->now += clock->early_gap;
		return;
	}
	if (clock->now >= clock->burst_start) {
		uint32_t spread = (uint32_t)clock->burst_gap + 1;

		clock->now += clock->burst_gap / 2 + synthetic_random_below(&clock->random, spread);
		if (clock->now >= clock->burst_start + MS)
			next_period(clock);
		return;
	}
	clock->now += uneven(clock, clock->calm_gap);
	if (clock->now > clock->burst_start)
		clock->now = clock->burst_start;
}
