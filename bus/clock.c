/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/clock.h"

#include <stdatomic.h>

/* Replaced before the threads that read it begin; atomic, since a test may replace it later. */
static _Atomic(clock_reader *) reader = clock_gettime;

void clock_replace(clock_reader *replacement)
{
	atomic_store_explicit(&reader, replacement ? replacement : clock_gettime,
			      memory_order_relaxed);
}

static struct timespec clock_read(clockid_t clock)
{
	struct timespec now;

	atomic_load_explicit(&reader, memory_order_relaxed)(clock, &now);
	return now;
}

static uint64_t to_ns(struct timespec time)
{
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t to_ms(struct timespec time)
{
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

uint64_t clock_ns(void)
{
	return to_ns(clock_read(CLOCK_MONOTONIC));
}

uint64_t clock_ms(void)
{
	return to_ms(clock_read(CLOCK_MONOTONIC));
}

uint64_t clock_coarse_ms(void)
{
	return to_ms(clock_read(CLOCK_MONOTONIC_COARSE));
}

uint64_t clock_real_ns(void)
{
	return to_ns(clock_read(CLOCK_REALTIME));
}
