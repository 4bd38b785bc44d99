/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-sleepers: how late readers are that sleep until a message comes, and what
 * processors that takes. Prints a line of JSON.
 *
 *   tickbus-bench-sleepers FOLDER TRANSPORT WAY RATE READERS MS
 *
 * A writer writes RATE messages a second of 32 bytes, each at its time, and flushes those that are
 * due together. It sleeps until the next is due. READERS processes read until they find nothing,
 * then wait: WAY is `wait` or `epoll`. Nothing is pinned. A message is late by the time from when
 * it was due until it was read. Processor time is that of the writer's thread, of all other threads
 * of its process, and of a reader's process, in microseconds for each second. `flush` is the time
 * of the writer's thread for each flush, in ns. The first WARM_MS are not measured. */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

#define SLEEPERS_MAX 64
#define WORDS        4
#define WARM_MS      200
#define LATE_S       10 /* a reader that lacks messages for so long gives up */

static const struct transport *const transports[] = {
	&checked_transport,
#ifdef BENCH_ZMQ
	&zmq_transport,
#endif
#ifdef BENCH_AERON
	&aeron_transport,
#endif
};

struct desk {
	_Atomic uint32_t open, ready;
	uint64_t first, interval;
	struct result {
		uint64_t received, lost, wrong, cpu_ns;
		size_t samples;
	} results[SLEEPERS_MAX];
	double late[]; /* `samples` for each reader */
};

static struct desk *desk;
static const struct transport *transport;
static struct shape shape = { .slot_bytes = HEADER_BYTES + WORDS * 8,
			      .payload_words = WORDS,
			      .slots = 65536,
			      .timed = true };
static double scale; /* ticks per ns */
static uint64_t messages, warm;
static bool by_epoll;

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -- a reader -----------------------------------------------------------------------------------
 */

static int reader(unsigned int number)
{
	struct tally tally = { .late = desk->late + number * messages,
			       .late_max = messages,
			       .interval = desk->interval };
	struct result *result = &desk->results[number];
	uint64_t seen = 0, cpu = 0, given_up = 0;
	void *end;

	while (!atomic_load(&desk->open))
		usleep(1000);
	end = transport->reader_open(&shape, 0);
	atomic_fetch_add(&desk->ready, 1);
	while (tally.late_count < messages) {
		transport->read(end, &tally);
		if (tally.late_count != seen) {
			seen = tally.late_count;
			given_up = machine_ticks() + (uint64_t)(LATE_S * 1e9 * scale);
			if (cpu == 0 && seen >= warm)
				cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
			continue;
		}
		if (seen > 0 && machine_ticks() > given_up)
			break;
		transport->wait(end, by_epoll);
	}
	result->cpu_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	result->received = tally.received;
	result->lost = tally.lost;
	result->wrong = tally.wrong;
	result->samples = tally.late_count;
	transport->close(end);
	return 0;
}

/* -- the writer ---------------------------------------------------------------------------------
 */

static void sleep_until(uint64_t due)
{
	const int64_t left = (int64_t)(due - machine_ticks());
	const uint64_t ns = left > 0 ? (uint64_t)((double)left / scale) : 0;
	const struct timespec pause = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	if (left > 0)
		nanosleep(&pause, NULL);
}

/* Writes all messages at their times. Returns the processor time of this thread and of the others,
 * and how many flushes this thread made in it. */
static void write_all(void *end, uint64_t *thread, uint64_t *others, uint64_t *flushes)
{
	uint64_t payloads[BATCH * WORDS], written = 0, due = desk->first;

	*flushes = 0;

	while (written < messages) {
		const uint64_t now = machine_ticks();
		unsigned int count = 0;

		for (; count < BATCH && written + count < messages && due <= now; count++) {
			payload_time(payloads + count * WORDS, WORDS, due);
			due += desk->interval;
		}
		if (count > 0)
			transport->write(end, payloads, count);
		*flushes += written >= warm && count > 0;
		if (written < warm && written + count >= warm) {
			*thread = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
			*others = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - *thread;
		}
		written += count;
		if (due > now)
			sleep_until(due);
	}
	*others = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns(CLOCK_THREAD_CPUTIME_ID) - *others;
	*thread = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - *thread;
}

/* -- both ---------------------------------------------------------------------------------------
 */

static void print(unsigned int readers, double seconds, uint64_t thread, uint64_t others,
		  uint64_t flushes)
{
	double *all = malloc(readers * messages * sizeof(double));
	uint64_t lost = 0, wrong = 0, cpu = 0;
	size_t count = 0;

	if (!all)
		machine_fail("no memory");
	for (unsigned int i = 0; i < readers; i++) {
		const struct result *result = &desk->results[i];

		for (size_t at = warm; at < result->samples; at++)
			all[count++] = desk->late[i * messages + at] / scale / 1e3;
		lost += messages - result->received;
		wrong += result->wrong;
		cpu += result->cpu_ns;
	}
	if (wrong || count == 0)
		machine_fail("%s: found %" PRIu64 " wrong messages of %zu, expected none",
			     transport->name, wrong, count);
	printf("{\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, ", machine_quantile(all, count, 0.5),
	       machine_quantile(all, count, 0.9), machine_quantile(all, count, 0.99));
	printf("\"lost\": %" PRIu64 ", \"writer\": %.0f, \"others\": %.0f, \"reader\": %.0f, ",
	       lost, (double)thread / seconds / 1e3, (double)others / seconds / 1e3,
	       (double)cpu / readers / seconds / 1e3);
	printf("\"flush\": %.0f}\n", (double)thread / (double)flushes);
	free(all);
}

static void spawn(unsigned int readers)
{
	for (unsigned int i = 0; i < readers; i++) {
		const pid_t child = fork();

		if (child < 0)
			machine_fail("cannot start a reader");
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			exit(reader(i));
		}
	}
}

static void await(unsigned int readers)
{
	int status;

	for (unsigned int i = 0; i < readers; i++)
		if (wait(&status) < 0 || status != 0)
			machine_fail("a reader ended with status %d", status);
}

int main(int argc, char **argv)
{
	unsigned int readers, rate, ms;
	uint64_t thread = 0, others = 0, flushes;
	void *end;

	if (argc != 7)
		machine_fail("usage: %s FOLDER TRANSPORT WAY RATE READERS MS", argv[0]);
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++)
		if (strcmp(argv[2], transports[i]->name) == 0)
			transport = transports[i];
	by_epoll = strcmp(argv[3], "epoll") == 0;
	rate = (unsigned int)strtoul(argv[4], NULL, 10);
	readers = (unsigned int)strtoul(argv[5], NULL, 10);
	ms = (unsigned int)strtoul(argv[6], NULL, 10);
	if (!transport || rate < 1 || readers < 1 || readers > SLEEPERS_MAX || ms < 1)
		machine_fail("%s: wrong arguments; TRANSPORT is one that was built", argv[0]);
	shape.folder = argv[1];
	shape.readers = readers;
	scale = machine_ticks_per_ns();
	warm = (uint64_t)rate * WARM_MS / 1000;
	messages = warm + (uint64_t)rate * ms / 1000;
	desk = mmap(NULL, sizeof(*desk) + readers * messages * sizeof(double),
		    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (desk == MAP_FAILED)
		machine_fail("no memory");
	desk->interval = (uint64_t)(1e9 / rate * scale);
	spawn(readers); /* before the library has threads */
	end = transport->writer_open(&shape, 0);
	atomic_store(&desk->open, 1);
	prctl(PR_SET_TIMERSLACK, 1UL);
	while (atomic_load(&desk->ready) < readers)
		usleep(1000);
	desk->first = machine_ticks() + (uint64_t)(1e7 * scale);
	write_all(end, &thread, &others, &flushes);
	await(readers);
	print(readers, ms / 1e3, thread, others, flushes);
	transport->close(end);
	return 0;
}
