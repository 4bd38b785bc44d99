/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a core the measurements really have. A loop on each measured core reads the counter.
 * Its gaps show the time that interrupts, the host and other processes took.
 *
 * Prints the largest share of time lost by a core, in percent, and the longest gap in ns. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

#define GAP_NS 1000.0 /* the shortest gap that counts */

struct core {
	_Alignas(128) _Atomic uint64_t all; /* so far */
	uint64_t away, longest;
};

struct watch {
	_Atomic uint32_t ready;
	struct core cores[READERS_MAX + 1];
};

static void core_watch(struct core *core, uint64_t ticks, double scale)
{
	const uint64_t from = machine_ticks(), least = (uint64_t)(GAP_NS * scale);
	uint64_t before = from, now;

	for (; before - from < ticks; before = now) {
		now = machine_ticks();
		atomic_store_explicit(&core->all, now - from, memory_order_relaxed);
		if (now - before < least)
			continue;
		core->away += now - before;
		if (now - before > core->longest)
			core->longest = now - before;
	}
}

/* Begins when all loops run on their cores. */
static void watch_together(struct watch *watch, unsigned int index, unsigned int cores,
			   uint64_t ticks, double scale)
{
	machine_pin(index);
	atomic_fetch_add(&watch->ready, 1);
	while (atomic_load(&watch->ready) < cores)
		machine_pause();
	core_watch(&watch->cores[index], ticks, scale);
}

int hiccups_watch(const struct shape *shape, unsigned int cores, unsigned int ms)
{
	struct watch *watch = machine_share(shape->folder, "hiccups", sizeof(*watch));
	const double scale = machine_ticks_per_ns();
	const uint64_t ticks = (uint64_t)(scale * 1e6 * ms);
	double most = 0, longest = 0;

	for (unsigned int i = 1; i < cores; i++) {
		const pid_t child = fork();

		if (child < 0)
			machine_fail("cannot start a process");
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			watch_together(watch, i, cores, ticks, scale);
			_exit(0);
		}
	}
	watch_together(watch, 0, cores, ticks, scale);
	while (wait(NULL) > 0)
		;
	for (unsigned int i = 0; i < cores; i++) {
		const struct core *core = &watch->cores[i];
		const double share = (double)core->away / (double)core->all * 100;
		const double gap = (double)core->longest / scale;

		most = share > most ? share : most;
		longest = gap > longest ? gap : longest;
	}
	printf("{\"value\": %.4f, \"longest\": %.0f}\n", most, longest);
	return 0;
}
