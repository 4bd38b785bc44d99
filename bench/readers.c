/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that read. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/run.h"

#define WINDOW_NS   100000.0
#define WINDOWS_MAX 100000

static const double lates[LATES] = { 0.5, 0.99, 0.999, 1 };

/* A shared machine takes the core away now and then. That affects few windows and so not the
 * median; a mean would measure it. */
struct window {
	uint64_t from, received;
	bool open;
	size_t count;
	double rates[WINDOWS_MAX];
};

void readers_spawn(struct run *run, const char *role)
{
	extern char **environ;

	for (unsigned int i = 0; i < run->readers; i++) {
		char payload[16], index[16], ring[16];
		const char *args[] = { run->program, run->folder, role, run->transport->name,
				       payload,      index,       "0",  ring,
				       NULL };
		int code;

		snprintf(payload, sizeof(payload), "%u", run->shape.payload_words * 8);
		snprintf(index, sizeof(index), "%u", i);
		snprintf(ring, sizeof(ring), "%u", run->shape.slots * run->shape.slot_bytes);
		code = posix_spawn(&run->children[i], run->program, NULL, NULL,
				   (char *const *)(uintptr_t)args, environ);
		if (code)
			machine_fail("%s: %s", run->program, strerror(code));
	}
	while (atomic_load_explicit(&run->desk->ready, memory_order_acquire) < run->readers) {
		if (waitpid(-1, NULL, WNOHANG) > 0)
			machine_fail("a reader ended before it was ready");
		usleep(200);
	}
	machine_pin(0); /* after the library has started its threads, which thus are not pinned */
}

void readers_phase(struct run *run, enum phase phase)
{
	atomic_store_explicit(&run->desk->phase, phase, memory_order_release);
}

void readers_join(struct run *run)
{
	readers_phase(run, DONE);
	for (unsigned int i = 0; i < run->readers; i++) {
		int status;

		waitpid(run->children[i], &status, 0);
		if (status)
			machine_fail("reader %u ended with status 0x%x", i, (unsigned int)status);
		if (run->desk->outcomes[i].tally.wrong)
			machine_fail("reader %u got %llu wrong messages", i,
				     (unsigned long long)run->desk->outcomes[i].tally.wrong);
	}
}

/* Records the rate of the window if it is over, and begins the next. */
static void window_close(const struct run *run, struct window *window, const struct tally *tally)
{
	const uint64_t now = machine_ticks();
	const double ns = (double)(now - window->from) / run->scale;

	if (ns < WINDOW_NS)
		return;
	if (window->count < WINDOWS_MAX && window->open)
		window->rates[window->count++] =
			(double)(tally->received - window->received) / ns * 1e3;
	window->open = true;
	window->from = now;
	window->received = tally->received;
}

int readers_read(struct run *run)
{
	static struct window window;
	struct outcome *outcome = &run->desk->outcomes[run->readers];
	struct credit *credit = &run->desk->credits[run->readers];
	struct tally tally = { 0 }, begin = { 0 };
	uint32_t phase = WARM;
	uint64_t taken = 0;
	void *reader;

	run->transport->reader_open(&reader, &run->shape, 0);
	machine_pin(run->readers + 1);
	atomic_fetch_add(&run->desk->ready, 1);
	while (phase != DONE) {
		run->transport->read(reader, &tally);
		if (tally.received + tally.lost != taken) {
			taken = tally.received + tally.lost;
			atomic_store_explicit(&credit->taken, taken, memory_order_release);
		}
		phase = atomic_load_explicit(&run->desk->phase, memory_order_relaxed);
		if (phase == WARM)
			begin = tally;
		else
			window_close(run, &window, &tally);
	}
	if (window.count)
		outcome->rate = machine_quantile(window.rates, window.count, 0.5);
	outcome->tally.received = tally.received - begin.received;
	outcome->tally.lost = tally.lost - begin.lost;
	outcome->tally.wrong = tally.wrong;
	run->transport->reader_close(reader);
	return 0;
}

uint64_t readers_interval(const struct run *run)
{
	return (uint64_t)(INTERVAL_NS * run->scale);
}

/* Records the quantiles of the delays. */
static void lates_note(const struct run *run, struct outcome *outcome, const struct tally *tally)
{
	for (size_t i = 0; i < LATES; i++)
		outcome->late_ns[i] =
			machine_quantile(tally->late, tally->late_count, lates[i]) / run->scale;
	if (tally->late[0] < 0)
		machine_fail("a message came %.0f ns before it was due: the counters of two cores "
			     "differ",
			     -tally->late[0] / run->scale);
}

int readers_late(struct run *run)
{
	struct outcome *outcome = &run->desk->outcomes[run->readers];
	struct tally tally = { .late = samples_make(),
			       .late_max = SAMPLES_MAX,
			       .interval = readers_interval(run) };
	uint64_t lost = 0;
	uint32_t phase;
	void *reader;

	run->shape.timed = true;
	run->transport->reader_open(&reader, &run->shape, 0);
	machine_pin(run->readers + 1);
	atomic_fetch_add(&run->desk->ready, 1);
	do {
		phase = atomic_load_explicit(&run->desk->phase, memory_order_acquire);
		run->transport->read(reader, &tally);
		if (phase == WARM) {
			tally.late_count = 0;
			lost = tally.lost;
		}
	} while (phase != DONE || tally.received + tally.lost < run->desk->sent);
	outcome->tally = tally;
	outcome->tally.lost -= lost;
	lates_note(run, outcome, &tally);
	free(tally.late);
	run->transport->reader_close(reader);
	return 0;
}

int readers_echo(struct run *run)
{
	struct maker *maker = maker_open(run);
	struct tally tally = { 0 };
	void *reader, *writer;
	uint64_t sent = 0;

	run->transport->writer_open(&writer, &run->shape, 1);
	run->transport->reader_open(&reader, &run->shape, 0);
	machine_pin(1);
	atomic_fetch_add(&run->desk->ready, 1);
	while (atomic_load_explicit(&run->desk->phase, memory_order_relaxed) != DONE) {
		run->transport->read(reader, &tally);
		for (; sent < tally.received; sent++)
			run->transport->write(writer, maker_make(maker, 1), 1);
	}
	free(maker);
	run->desk->outcomes[0].tally = tally;
	run->transport->reader_close(reader);
	run->transport->writer_close(writer);
	return 0;
}
