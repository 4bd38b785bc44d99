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

#define WINDOW_NS   1000000.0
#define WINDOWS_MAX 100000

static const double lates[LATES] = { 0.5, 0.99, 0.999, 1 };

/* A shared machine takes the core away now and then. That affects few windows and so not the
 * median; a mean would measure it. A window is long enough for the bursts of transports with
 * threads of their own. Windows of 0.1 ms gave ZeroMQ and Aeron from 0 to twice their mean. */
struct window {
	uint64_t from, received;
	bool open;
	size_t count;
	double rates[WINDOWS_MAX];
};

static const struct desk *watched; /* by reader_ended */

/* A writer may wait for a reader that ended, at real-time priority. So it ends with its reader. */
static void reader_ended(int signal)
{
	static const char words[] = "tickbus-bench: a reader ended before the writer\n";

	(void)signal;
	if (atomic_load_explicit(&watched->phase, memory_order_relaxed) == DONE)
		return;
	if (write(STDERR_FILENO, words, sizeof(words) - 1) < 0)
		_exit(2);
	_exit(1);
}

void readers_spawn(struct run *run, const char *role)
{
	extern char **environ;

	watched = run->desk;
	sigaction(SIGCHLD,
		  &(struct sigaction){ .sa_handler = reader_ended,
				       .sa_flags = SA_NOCLDSTOP | SA_RESTART },
		  NULL);
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
	while (atomic_load_explicit(&run->desk->ready, memory_order_acquire) < run->readers)
		usleep(200);
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

/* How far the writer is ahead is looked at rarely: a look takes the line away from the writer. */
#define DISTANCE_LOOKS 256
#define DISTANCES_MAX  100000

static struct {
	size_t count;
	double messages[DISTANCES_MAX];
} distances;

static void look_count(const struct run *run, struct outcome *outcome, uint64_t before,
		       uint64_t taken)
{
	uint64_t written;

	outcome->looks++;
	outcome->empty += taken == before;
	if (outcome->looks % DISTANCE_LOOKS != 0 || distances.count == DISTANCES_MAX)
		return;
	written = atomic_load_explicit(&run->desk->written, memory_order_relaxed);
	distances.messages[distances.count++] = written > taken ? (double)(written - taken) : 0;
}

int readers_read(struct run *run)
{
	static struct window window;
	struct outcome *outcome = &run->desk->outcomes[run->readers];
	struct credit *credit = &run->desk->credits[run->readers];
	struct tally tally = { 0 }, begin = { 0 };
	uint32_t phase = WARM;
	uint64_t taken = 0, before;
	void *reader;

	reader = run->transport->reader_open(&run->shape, 0);
	machine_pin(run->readers + 1);
	atomic_fetch_add(&run->desk->ready, 1);
	while (phase != DONE) {
		run->transport->read(reader, &tally);
		before = taken;
		if (tally.received + tally.lost != taken) {
			taken = tally.received + tally.lost;
			atomic_store_explicit(&credit->taken, taken, memory_order_release);
		}
		phase = atomic_load_explicit(&run->desk->phase, memory_order_relaxed);
		if (phase == WARM) {
			begin = tally;
			continue;
		}
		look_count(run, outcome, before, taken);
		window_close(run, &window, &tally);
	}
	if (distances.count)
		outcome->distance = machine_quantile(distances.messages, distances.count, 0.5);
	outcome->rate = window.count ? machine_quantile(window.rates, window.count, 0.5) : -1;
	outcome->tally.received = tally.received - begin.received;
	outcome->tally.lost = tally.lost - begin.lost;
	outcome->tally.wrong = tally.wrong;
	run->transport->close(reader);
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
	reader = run->transport->reader_open(&run->shape, 0);
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
	run->transport->close(reader);
	return 0;
}

int readers_echo(struct run *run)
{
	struct maker *maker = maker_open(run);
	struct tally tally = { 0 };
	void *reader, *writer;
	uint64_t sent = 0;

	run->shape.readers = 1;
	writer = run->transport->writer_open(&run->shape, 1);
	reader = run->transport->reader_open(&run->shape, 0);
	machine_pin(1);
	atomic_fetch_add(&run->desk->ready, 1);
	while (atomic_load_explicit(&run->desk->phase, memory_order_relaxed) != DONE) {
		run->transport->read(reader, &tally);
		for (; sent < tally.received; sent++)
			run->transport->write(writer, maker_make(maker, 1), 1);
	}
	free(maker);
	run->desk->outcomes[0].tally = tally;
	run->transport->close(reader);
	run->transport->close(writer);
	return 0;
}
