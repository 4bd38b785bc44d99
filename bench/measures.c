/* SPDX-License-Identifier: Apache-2.0 */
/* The measurements, seen from the process that writes. main.c says what each measures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/run.h"

#define REST_NS       10000.0 /* between two batches, so that readers are idle again */
#define SHORT_REST_NS 2000.0  /* so that the reader has caught up, and is not idle for long */

static void rest(const struct run *run, double ns)
{
	const uint64_t until = machine_ticks() + (uint64_t)(ns * run->scale);

	while (machine_ticks() < until)
		machine_pause();
}

/* Writes BATCH messages, a part with each flush. */
static void write_batch(const struct run *run, void *writer, const uint64_t *payloads)
{
	for (unsigned int i = 0; i < BATCH; i += run->flush)
		run->transport->write(writer, payloads + (size_t)i * run->shape.payload_words,
				      run->flush < BATCH - i ? run->flush : BATCH - i);
}

/* Messages that the slowest reader has read. */
static uint64_t taken_by_all(const struct run *run)
{
	uint64_t least = UINT64_MAX, taken;

	for (unsigned int i = 0; i < run->readers; i++) {
		taken = atomic_load_explicit(&run->desk->credits[i].taken, memory_order_acquire);
		least = taken < least ? taken : least;
	}
	return least;
}

static void *writer_open(struct run *run)
{
	run->shape.readers = run->readers;
	return run->transport->writer_open(&run->shape, 0);
}

static int publish_main(struct run *run)
{
	struct maker *maker = maker_open(run);
	double *samples = samples_make();
	uint64_t warm, until, from, to;
	const uint64_t *payloads;
	size_t count = 0;
	void *writer;

	writer = writer_open(run);
	readers_spawn(run, "reader");
	machine_pin(0);
	warm = machine_ticks() + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	do {
		while (taken_by_all(run) < maker->next - 1)
			machine_pause();
		payloads = maker_make(maker, BATCH);
		rest(run, REST_NS);
		from = machine_ticks();
		write_batch(run, writer, payloads);
		to = machine_ticks();
		if (from >= warm)
			samples[count++] = (double)(to - from) / run->scale / BATCH;
	} while ((to < until || count == 0) && count < SAMPLES_MAX);
	readers_join(run);
	printf("{\"value\": %.3f}\n", machine_quantile(samples, count, 0.5));
	run->transport->close(writer);
	free(samples);
	free(maker);
	return 0;
}

/* Writes batches until this time. *taken: what the slowest reader had read when it was looked at. A
 * quarter of the ring stays free, as a publisher may claim slots ahead. */
static void write_until(struct run *run, struct maker *maker, void *writer, uint64_t until,
			uint64_t *taken)
{
	const unsigned int window = run->transport->window;
	const uint64_t room = window ? window : run->shape.slots - run->shape.slots / 4;
	const uint64_t *payloads;

	while (machine_ticks() < until) {
		payloads = maker_make(maker, BATCH);
		while (run->lossless && maker->next - 1 - *taken > room) {
			*taken = taken_by_all(run);
			machine_pause();
		}
		write_batch(run, writer, payloads);
		atomic_store_explicit(&run->desk->written, maker->next - 1, memory_order_relaxed);
	}
}

static double reader_mean(const struct run *run, const struct outcome *outcome)
{
	return (double)outcome->tally.received / run->ms / 1e3;
}

static int throughput_main(struct run *run)
{
	struct maker *maker = maker_open(run);
	double slowest = 0, lost = 0, empty = 0, distance = 0, rate;
	uint64_t warm, until, taken = 0;
	void *writer;

	writer = writer_open(run);
	readers_spawn(run, "reader");
	machine_pin(0);
	warm = machine_ticks() + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	write_until(run, maker, writer, warm, &taken);
	readers_phase(run, MEASURE);
	write_until(run, maker, writer, until, &taken);
	readers_join(run);
	for (unsigned int i = 0; i < run->readers; i++) {
		const struct outcome *outcome = &run->desk->outcomes[i];

		if (run->lossless && outcome->tally.lost)
			machine_fail("reader %u lost %llu messages, although the writer waited", i,
				     (unsigned long long)outcome->tally.lost);
		rate = outcome->rate < 0 ? reader_mean(run, outcome) : outcome->rate;
		if (i > 0 && rate >= slowest)
			continue;
		slowest = rate;
		lost = (double)outcome->tally.lost /
		       (double)(outcome->tally.lost + outcome->tally.received + 1);
		empty = (double)outcome->empty / (double)(outcome->looks + 1);
		distance = outcome->distance;
	}
	printf("{\"value\": %.4f, \"lost\": %.4f, \"empty\": %.3f, \"distance\": %.0f}\n", slowest,
	       lost, empty, distance);
	run->transport->close(writer);
	free(maker);
	return 0;
}

/* The writer rests between batches, so that the reader reads each batch while the next is written.
 */
static int caught_main(struct run *run)
{
	struct maker *maker = maker_open(run);
	double *samples = samples_make();
	const struct outcome *outcome = &run->desk->outcomes[0];
	uint64_t warm, until, from, to;
	const uint64_t *payloads;
	size_t count = 0;
	void *writer;

	run->readers = 1;
	writer = writer_open(run);
	readers_spawn(run, "reader");
	machine_pin(0);
	warm = machine_ticks() + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	readers_phase(run, MEASURE);
	do {
		payloads = maker_make(maker, BATCH);
		rest(run, SHORT_REST_NS);
		from = machine_ticks();
		write_batch(run, writer, payloads);
		to = machine_ticks();
		atomic_store_explicit(&run->desk->written, maker->next - 1, memory_order_relaxed);
		if (from >= warm)
			samples[count++] = (double)(to - from) / run->scale / BATCH;
	} while ((to < until || count == 0) && count < SAMPLES_MAX);
	readers_join(run);
	printf("{\"value\": %.3f, \"empty\": %.3f, \"distance\": %.0f}\n",
	       machine_quantile(samples, count, 0.5),
	       (double)outcome->empty / (double)(outcome->looks + 1), outcome->distance);
	run->transport->close(writer);
	free(samples);
	free(maker);
	return 0;
}

static int latency_main(struct run *run)
{
	struct maker *maker = maker_open(run);
	double *samples = samples_make();
	struct tally tally = { 0 };
	const uint64_t *payload;
	uint64_t warm, until, from, to;
	void *writer, *reader;
	size_t count = 0;

	run->readers = 1;
	writer = writer_open(run);
	readers_spawn(run, "echo");
	reader = run->transport->reader_open(&run->shape, 1);
	machine_pin(0);
	from = machine_ticks();
	warm = from + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	for (uint64_t sent = 1; (from < until || count == 0) && count < SAMPLES_MAX; sent++) {
		payload = maker_make(maker, 1);
		from = machine_ticks();
		run->transport->write(writer, payload, 1);
		while (tally.received < sent)
			run->transport->read(reader, &tally);
		to = machine_ticks();
		if (from >= warm)
			samples[count++] = (double)(to - from) / run->scale / 2;
	}
	readers_join(run);
	if (tally.wrong)
		machine_fail("the answers had wrong words");
	printf("{\"value\": %.2f, ", machine_quantile(samples, count, 0.5));
	printf("\"p99\": %.2f}\n", machine_quantile(samples, count, 0.99));
	run->transport->close(reader);
	run->transport->close(writer);
	free(samples);
	free(maker);
	return 0;
}

/* Writes each message when it is due, or as soon as possible. *due: the time of the next message.
 */
static void write_due(struct run *run, struct maker *maker, void *writer, uint64_t *due,
		      uint64_t until)
{
	for (; *due < until; *due += readers_interval(run)) {
		payload_time(maker->payloads, maker->words, *due);
		while (machine_ticks() < *due)
			;
		run->transport->write(writer, maker->payloads, 1);
		maker->next++;
	}
}

static int open_main(struct run *run)
{
	const struct outcome *outcome = &run->desk->outcomes[0];
	struct maker *maker = maker_open(run);
	uint64_t warm, until, due;
	void *writer;

	run->readers = 1;
	run->shape.timed = true;
	writer = writer_open(run);
	readers_spawn(run, "late");
	machine_pin(0);
	due = machine_ticks();
	warm = due + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	write_due(run, maker, writer, &due, warm);
	readers_phase(run, MEASURE);
	write_due(run, maker, writer, &due, until);
	run->desk->sent = maker->next - 1;
	readers_join(run);
	printf("{\"value\": %.2f, \"p99\": %.2f, \"p999\": %.2f, \"longest\": %.2f, \"lost\": "
	       "%.6f}\n",
	       outcome->late_ns[0], outcome->late_ns[1], outcome->late_ns[2], outcome->late_ns[3],
	       (double)outcome->tally.lost / (double)run->desk->sent);
	run->transport->close(writer);
	free(maker);
	return 0;
}

/* A function of its own, so that callgrind can select it by name. */
__attribute__((noinline)) void bench_counted(const struct transport *transport, void *writer,
					     const uint64_t *payloads);

void bench_counted(const struct transport *transport, void *writer, const uint64_t *payloads)
{
	transport->write(writer, payloads, BATCH);
	__asm__ volatile("" ::: "memory");
}

static int count_main(struct run *run)
{
	const unsigned int batches = run->ms * 1000 / BATCH;
	struct maker *maker = maker_open(run);
	void *writer;

	writer = writer_open(run);
	readers_spawn(run, "reader");
	machine_pin(0);
	run->transport->write(writer, maker_make(maker, BATCH), BATCH);
	for (unsigned int i = 0; i < batches; i++)
		bench_counted(run->transport, writer, maker_make(maker, BATCH));
	readers_join(run);
	printf("{\"value\": %u}\n", batches * BATCH);
	run->transport->close(writer);
	free(maker);
	return 0;
}

/* A function of its own, so that callgrind can select it by name. Reads all that was written. */
__attribute__((noinline)) void bench_drained(const struct transport *transport, void *reader,
					     struct tally *tally, uint64_t sent);

void bench_drained(const struct transport *transport, void *reader, struct tally *tally,
		   uint64_t sent)
{
	while (tally->received < sent)
		transport->read(reader, tally);
}

static int drain_main(struct run *run)
{
	struct maker *maker = maker_open(run);
	double *samples = samples_make();
	struct tally tally = { 0 };
	uint64_t until, from, to;
	void *writer, *reader;
	size_t count = 0;

	writer = writer_open(run);
	reader = run->transport->reader_open(&run->shape, 0);
	machine_pin(0);
	until = machine_ticks() + (uint64_t)(run->scale * 1e6 * run->ms);
	do {
		run->transport->write(writer, maker_make(maker, BATCH), BATCH);
		from = machine_ticks();
		bench_drained(run->transport, reader, &tally, maker->next - 1);
		to = machine_ticks();
		samples[count++] = (double)(to - from) / run->scale / BATCH;
	} while (to < until && count < SAMPLES_MAX);
	if (tally.wrong || tally.lost)
		machine_fail("the reader got wrong messages");
	printf("{\"value\": %.3f, \"messages\": %zu}\n", machine_quantile(samples, count, 0.5),
	       count * BATCH);
	run->transport->close(reader);
	run->transport->close(writer);
	free(samples);
	free(maker);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct run *);
} measures[] = {
	{ "publish", publish_main }, { "throughput", throughput_main },
	{ "latency", latency_main }, { "caught", caught_main },
	{ "open", open_main },       { "count", count_main },
	{ "drain", drain_main },     { "reader", readers_read },
	{ "echo", readers_echo },    { "late", readers_late },
};

int measures_run(struct run *run)
{
	for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++)
		if (strcmp(measures[i].name, run->measure) == 0)
			return measures[i].run(run);
	machine_fail("found measure %s", run->measure);
}
