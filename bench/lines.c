/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's own limits between two cores, which no ring can beat.
 *
 *   transfer  a word in a cache line goes to the other core, a word in another line comes back
 *   stream    a core writes a block of lines while the other reads the block before it; the cores
 *             synchronise once per block */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

#define SAMPLES_MAX 1000000
#define BLOCK_LINES 1024
#define BLOCKS      2

struct word {
	_Alignas(128) _Atomic uint64_t value;
};

struct line {
	_Alignas(LINE_BYTES) _Atomic uint64_t value;
};

struct lines {
	struct word forth, back;
	struct line block[BLOCKS][BLOCK_LINES];
};

static void await(const struct word *word, uint64_t value)
{
	while (atomic_load_explicit(&word->value, memory_order_acquire) < value)
		machine_pause();
}

static void store(struct word *word, uint64_t value)
{
	atomic_store_explicit(&word->value, value, memory_order_release);
}

/* Runs `other` in a second process on the second core. */
static pid_t run_on_second_core(struct lines *lines, void (*other)(struct lines *))
{
	pid_t child = fork();

	if (child < 0)
		machine_fail("cannot start a process");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		machine_pin(1);
		other(lines);
		_exit(0);
	}
	machine_pin(0);
	return child;
}

static void echo(struct lines *lines)
{
	for (uint64_t n = 1;; n++) {
		await(&lines->forth, n);
		store(&lines->back, n);
	}
}

int lines_transfer(const struct shape *shape, unsigned int ms)
{
	struct lines *lines = machine_share(shape->folder, "lines", sizeof(*lines));
	double *samples = calloc(SAMPLES_MAX, sizeof(*samples));
	const double scale = machine_ticks_per_ns();
	const pid_t child = run_on_second_core(lines, echo);
	uint64_t warm, until, from, to;
	size_t count = 0;

	if (!samples)
		machine_fail("no memory");
	store(&lines->forth, 1);
	await(&lines->back, 1); /* the other side runs */
	from = machine_ticks();
	warm = from + (uint64_t)(scale * 1e6 * ms / 4);
	until = warm + (uint64_t)(scale * 1e6 * ms);
	for (uint64_t n = 2; (from < until || count == 0) && count < SAMPLES_MAX; n++, from = to) {
		store(&lines->forth, n);
		await(&lines->back, n);
		to = machine_ticks();
		if (from >= warm)
			samples[count++] = (double)(to - from) / scale / 2;
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("{\"value\": %.2f}\n", machine_quantile(samples, count, 0.5));
	free(samples);
	return 0;
}

/* Reads each block once it is written, and confirms it. */
static void take(struct lines *lines)
{
	for (uint64_t n = 1;; n++) {
		uint64_t wrong = 0;

		await(&lines->forth, n);
		for (size_t i = 0; i < BLOCK_LINES; i++)
			wrong |= n ^ atomic_load_explicit(&lines->block[n % BLOCKS][i].value,
							  memory_order_relaxed);
		if (wrong)
			_exit(1);
		store(&lines->back, n);
	}
}

static void fill(struct lines *lines, uint64_t n)
{
	for (size_t i = 0; i < BLOCK_LINES; i++)
		atomic_store_explicit(&lines->block[n % BLOCKS][i].value, n, memory_order_relaxed);
	store(&lines->forth, n);
}

int lines_stream(const struct shape *shape, unsigned int ms)
{
	struct lines *lines = machine_share(shape->folder, "lines", sizeof(*lines));
	const double scale = machine_ticks_per_ns();
	const pid_t child = run_on_second_core(lines, take);
	uint64_t n = 1, now, from, until, before;

	fill(lines, n);
	await(&lines->back, n); /* the other side runs */
	for (until = machine_ticks() + (uint64_t)(scale * 1e6 * ms / 4); machine_ticks() < until;) {
		n++;
		await(&lines->back, n > BLOCKS ? n - BLOCKS : 0);
		fill(lines, n);
	}
	from = now = machine_ticks();
	until = from + (uint64_t)(scale * 1e6 * ms);
	for (before = n; now < until; now = machine_ticks()) {
		n++;
		await(&lines->back, n > BLOCKS ? n - BLOCKS : 0);
		fill(lines, n);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("{\"value\": %.3f}\n",
	       (double)((n - before) * BLOCK_LINES) / ((double)(now - from) / scale) * 1e3);
	return 0;
}
