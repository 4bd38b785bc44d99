/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "bus/clock.h"

#define MS UINT64_C(1000000)

static _Atomic bool stopped;
static _Atomic uint64_t stopped_ns; /* the stopped clock's time */
static _Atomic uint64_t ahead_ns;   /* added to the machine's clock while it runs */
static _Atomic uint64_t real_ns;    /* 0: the machine's */
/* The fine clock of other threads stays the machine's: a publisher in this process keeps its pulse.
 */
static _Thread_local bool is_mine;

static uint64_t machine_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static int read_clock(clockid_t clock, struct timespec *now)
{
	uint64_t ns;

	if (clock == CLOCK_REALTIME && real_ns)
		ns = real_ns;
	else if (clock == CLOCK_MONOTONIC_COARSE || (clock == CLOCK_MONOTONIC && is_mine))
		ns = stopped ? stopped_ns : machine_ns(clock) + ahead_ns;
	else
		return clock_gettime(clock, now);
	now->tv_sec = (time_t)(ns / (1000 * MS));
	now->tv_nsec = (long)(ns % (1000 * MS));
	return 0;
}

void clock_stop(void)
{
	stopped_ns = machine_ns(CLOCK_MONOTONIC) + ahead_ns;
	stopped = is_mine = true;
	clock_replace(read_clock);
}

void clock_go(void)
{
	stopped = false;
}

void clock_pass(uint64_t ms)
{
	clock_pass_ns(ms * MS);
}

void clock_pass_ns(uint64_t ns)
{
	stopped_ns += ns;
	ahead_ns += ns;
	is_mine = true;
	clock_replace(read_clock);
}

void clock_real_set(uint64_t ns)
{
	real_ns = ns;
	clock_replace(read_clock);
}
