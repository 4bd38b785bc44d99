/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "bus/clock.h"

static _Atomic bool stopped;
static _Atomic uint64_t stopped_ms; /* the stopped clock's time */
static _Atomic uint64_t ahead_ms;   /* added to the machine's clock while it runs */

static uint64_t machine_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int read_clock(clockid_t clock, struct timespec *now)
{
	uint64_t ms;

	if (clock != CLOCK_MONOTONIC_COARSE)
		return clock_gettime(clock, now);
	ms = stopped ? stopped_ms : machine_ms() + ahead_ms;
	now->tv_sec = (time_t)(ms / 1000);
	now->tv_nsec = (long)(ms % 1000) * 1000000;
	return 0;
}

void clock_stop(void)
{
	stopped_ms = machine_ms() + ahead_ms;
	stopped = true;
	clock_replace(read_clock);
}

void clock_pass(uint64_t ms)
{
	stopped_ms += ms;
	ahead_ms += ms;
	clock_replace(read_clock);
}
