/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench: a measurement, printed as a line of JSON. scripts/bench runs and compares many.
 *
 *   tickbus-bench FOLDER MEASURE TRANSPORT PAYLOAD READERS MS [RING [FLUSH [lossless]]]
 *
 *   PAYLOAD     bytes of a message; with its header it takes a multiple of 64
 *   RING        bytes of the ring, default 262144: the slots are the power of two that it holds
 *   FLUSH       messages of a flush, 1 to 64, default 64
 *
 *   transfer, stream, hiccups, clock  the machine's own limits (TRANSPORT is ignored)
 *   publish     ns per message of 64, while readers spin on the next slot, having read all earlier
 *               messages. Median of all.
 *   throughput  million messages per second of the slowest reader, and the share that it lost. The
 *               writer never waits; or with `lossless` it waits until the slowest reader left
 *               room, as buses with back-pressure do: readers tell how many they have read.
 *   latency     ns one way: half of a round trip through two rings between two processes
 *   open        ns from the time a message was due, every INTERVAL_NS, until it was read. Messages
 *               due while the writer stood still are late. A lost message is late until the next
 *               message comes.
 *   drain       ns per message of reading a batch, in the process that wrote it. Median of all.
 *   peers       the peers that this program has
 *   count       MS thousand messages written inside bench_counted(), for callgrind
 *
 * The writer runs on the first core, the readers on the next cores, each in a process of its own.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

#define SAMPLES_MAX 1000000
#define GIVE_UP_S   120
#define REST_NS     10000.0 /* between two batches, so that readers are idle again */
#define WINDOW_NS   100000.0
#define WINDOWS_MAX 100000
#define FIRST_PEER  7      /* of the transports */
#define RING_BYTES  262144 /* fits a second-level cache */
#define INTERVAL_NS 2000.0 /* of an open loop: at most a tenth of these transports' capacity */

enum phase { WARM, MEASURE, DONE };

static const double lates[] = { 0.5, 0.99, 0.999, 1 }; /* quantiles */
#define LATES (sizeof(lates) / sizeof(lates[0]))

struct outcome {
	_Alignas(128) struct tally tally;
	double rate; /* million messages per second, median of all windows */
	double late_ns[LATES];
};

/* A shared machine takes the core away now and then. That affects few windows and so not the
 * median; a mean would measure it. */
struct window {
	uint64_t from, received;
	bool open;
	size_t count;
	double rates[WINDOWS_MAX];
};

/* Shared by the processes of a measurement. */
struct desk {
	_Alignas(128) _Atomic uint32_t ready;
	_Alignas(128) _Atomic uint32_t phase;
	uint64_t sent; /* set before the phase is DONE */
	double scale;  /* for all processes */
	struct credit {
		_Alignas(128) _Atomic uint64_t
			taken; /* messages that this reader has read or lost */
	} credits[READERS_MAX];
	struct outcome outcomes[READERS_MAX];
};

struct run {
	const char *program, *folder, *measure;
	const struct transport *transport;
	struct shape shape;
	unsigned int readers, ms, flush;
	bool lossless;
	struct desk *desk;
	pid_t children[READERS_MAX];
	double scale; /* ticks per ns */
};

static const struct transport *const transports[] = {
	&bare_transport,
	&log_transport,
	&local_transport,
	&checked_transport,
	&marked_transport,
	&local_batches_transport,
	&checked_batches_transport,
#ifdef BENCH_ZMQ
	&zmq_transport,
#endif
#ifdef BENCH_ICEORYX
	&iceoryx_transport,
#endif
#ifdef BENCH_AERON
	&aeron_transport,
#endif
};

/* -- messages -----------------------------------------------------------------------------------
 */

/* The payloads of the next messages, made before they are written. */
struct maker {
	uint64_t next;
	uint32_t words;
	uint64_t payloads[BATCH * PAYLOAD_WORDS];
};

static struct maker *maker_open(const struct run *run)
{
	struct maker *maker = malloc(sizeof(*maker));

	if (!maker)
		machine_fail("no memory");
	maker->next = 1;
	maker->words = run->shape.payload_words;
	return maker;
}

static const uint64_t *make(struct maker *maker, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		payload_fill(maker->payloads + (size_t)i * maker->words, maker->words,
			     maker->next++);
	return maker->payloads;
}

/* Touches all pages, so that page faults are not measured. */
static double *samples_make(void)
{
	double *samples = malloc(SAMPLES_MAX * sizeof(*samples));

	if (!samples)
		machine_fail("no memory");
	for (size_t i = 0; i < SAMPLES_MAX; i++)
		((volatile double *)samples)[i] = 0;
	return samples;
}

/* -- the other processes ------------------------------------------------------------------------
 */

static void spawn(struct run *run, const char *role)
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

static void phase_set(struct run *run, enum phase phase)
{
	atomic_store_explicit(&run->desk->phase, phase, memory_order_release);
}

/* Waits for the readers. Fails if a reader saw a word that was never written. */
static void join(struct run *run)
{
	phase_set(run, DONE);
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

static int reader_main(struct run *run)
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

/* Ticks between two messages of an open loop. */
static uint64_t interval(const struct run *run)
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

/* The reader of an open loop. It reads up to the last message sent. */
static int late_main(struct run *run)
{
	struct outcome *outcome = &run->desk->outcomes[run->readers];
	struct tally tally = { .late = samples_make(),
			       .late_max = SAMPLES_MAX,
			       .interval = interval(run) };
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

static int echo_main(struct run *run)
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
			run->transport->write(writer, make(maker, 1), 1);
	}
	free(maker);
	run->desk->outcomes[0].tally = tally;
	run->transport->reader_close(reader);
	run->transport->writer_close(writer);
	return 0;
}

/* -- measurements -------------------------------------------------------------------------------
 */

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

static int publish_main(struct run *run)
{
	struct maker *maker = maker_open(run);
	double *samples = samples_make();
	uint64_t warm, until, from, to;
	const uint64_t *payloads;
	size_t count = 0;
	void *writer;

	run->transport->writer_open(&writer, &run->shape, 0);
	spawn(run, "reader");
	warm = machine_ticks() + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	do {
		payloads = make(maker, BATCH);
		rest(run, REST_NS);
		from = machine_ticks();
		write_batch(run, writer, payloads);
		to = machine_ticks();
		if (from >= warm)
			samples[count++] = (double)(to - from) / run->scale / BATCH;
	} while ((to < until || count == 0) && count < SAMPLES_MAX);
	join(run);
	printf("{\"value\": %.3f}\n", machine_quantile(samples, count, 0.5));
	run->transport->writer_close(writer);
	free(samples);
	free(maker);
	return 0;
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

/* Writes batches until this time. *taken: what the slowest reader had read when it was looked at. A
 * quarter of the ring stays free, as a publisher may claim slots ahead. */
static void write_until(struct run *run, struct maker *maker, void *writer, uint64_t until,
			uint64_t *taken)
{
	const unsigned int window = run->transport->window;
	const uint64_t room = window ? window : run->shape.slots - run->shape.slots / 4;
	const uint64_t *payloads;

	while (machine_ticks() < until) {
		payloads = make(maker, BATCH);
		while (run->lossless && maker->next - 1 - *taken > room) {
			*taken = taken_by_all(run);
			machine_pause();
		}
		write_batch(run, writer, payloads);
	}
}

static int throughput_main(struct run *run)
{
	struct maker *maker = maker_open(run);
	double slowest = 0, mean = 0, lost = 0;
	uint64_t warm, until, taken = 0;
	void *writer;

	run->transport->writer_open(&writer, &run->shape, 0);
	spawn(run, "reader");
	warm = machine_ticks() + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	write_until(run, maker, writer, warm, &taken);
	phase_set(run, MEASURE);
	write_until(run, maker, writer, until, &taken);
	join(run);
	for (unsigned int i = 0; i < run->readers; i++) {
		const struct outcome *outcome = &run->desk->outcomes[i];

		if (run->lossless && outcome->tally.lost)
			machine_fail("reader %u lost %llu messages, although the writer waited", i,
				     (unsigned long long)outcome->tally.lost);
		if (i > 0 && outcome->rate >= slowest)
			continue;
		slowest = outcome->rate;
		mean = (double)outcome->tally.received / run->ms / 1e3;
		lost = (double)outcome->tally.lost /
		       (double)(outcome->tally.lost + outcome->tally.received + 1);
	}
	printf("{\"value\": %.4f, \"mean\": %.4f, \"lost\": %.4f}\n", slowest, mean, lost);
	run->transport->writer_close(writer);
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
	run->transport->writer_open(&writer, &run->shape, 0);
	spawn(run, "echo");
	run->transport->reader_open(&reader, &run->shape, 1);
	from = machine_ticks();
	warm = from + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	for (uint64_t sent = 1; (from < until || count == 0) && count < SAMPLES_MAX; sent++) {
		payload = make(maker, 1);
		from = machine_ticks();
		run->transport->write(writer, payload, 1);
		while (tally.received < sent)
			run->transport->read(reader, &tally);
		to = machine_ticks();
		if (from >= warm)
			samples[count++] = (double)(to - from) / run->scale / 2;
	}
	join(run);
	if (tally.wrong)
		machine_fail("the answers had wrong words");
	printf("{\"value\": %.2f, ", machine_quantile(samples, count, 0.5));
	printf("\"p99\": %.2f}\n", machine_quantile(samples, count, 0.99));
	run->transport->reader_close(reader);
	run->transport->writer_close(writer);
	free(samples);
	free(maker);
	return 0;
}

/* Writes each message when it is due, or as soon as possible. *due: the time of the next message.
 */
static void write_due(struct run *run, struct maker *maker, void *writer, uint64_t *due,
		      uint64_t until)
{
	for (; *due < until; *due += interval(run)) {
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
	run->transport->writer_open(&writer, &run->shape, 0);
	spawn(run, "late");
	due = machine_ticks();
	warm = due + (uint64_t)(run->scale * 1e6 * run->ms / 4);
	until = warm + (uint64_t)(run->scale * 1e6 * run->ms);
	write_due(run, maker, writer, &due, warm);
	phase_set(run, MEASURE);
	write_due(run, maker, writer, &due, until);
	run->desk->sent = maker->next - 1;
	join(run);
	printf("{\"value\": %.2f, \"p99\": %.2f, \"p999\": %.2f, \"longest\": %.2f, \"lost\": "
	       "%.6f}\n",
	       outcome->late_ns[0], outcome->late_ns[1], outcome->late_ns[2], outcome->late_ns[3],
	       (double)outcome->tally.lost / (double)run->desk->sent);
	run->transport->writer_close(writer);
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

	run->transport->writer_open(&writer, &run->shape, 0);
	spawn(run, "reader");
	run->transport->write(writer, make(maker, BATCH), BATCH);
	for (unsigned int i = 0; i < batches; i++)
		bench_counted(run->transport, writer, make(maker, BATCH));
	join(run);
	printf("{\"value\": %u}\n", batches * BATCH);
	run->transport->writer_close(writer);
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

	run->transport->writer_open(&writer, &run->shape, 0);
	run->transport->reader_open(&reader, &run->shape, 0);
	machine_pin(0);
	until = machine_ticks() + (uint64_t)(run->scale * 1e6 * run->ms);
	do {
		run->transport->write(writer, make(maker, BATCH), BATCH);
		from = machine_ticks();
		bench_drained(run->transport, reader, &tally, maker->next - 1);
		to = machine_ticks();
		samples[count++] = (double)(to - from) / run->scale / BATCH;
	} while (to < until && count < SAMPLES_MAX);
	if (tally.wrong || tally.lost)
		machine_fail("the reader got wrong messages");
	printf("{\"value\": %.3f, \"messages\": %zu}\n", machine_quantile(samples, count, 0.5),
	       count * BATCH);
	run->transport->reader_close(reader);
	run->transport->writer_close(writer);
	free(samples);
	free(maker);
	return 0;
}

/* -- the command --------------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	int (*run)(struct run *);
} measures[] = {
	{ "publish", publish_main }, { "throughput", throughput_main },
	{ "latency", latency_main }, { "open", open_main },
	{ "count", count_main },     { "drain", drain_main },
	{ "reader", reader_main },   { "echo", echo_main },
	{ "late", late_main },
};

static unsigned int number(const char *text, unsigned long low, unsigned long high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || value < low || value > high)
		machine_fail("found %s, expected a number from %lu to %lu", text, low, high);
	return (unsigned int)value;
}

static void shape_fill(struct shape *shape, const char *folder, unsigned int payload,
		       unsigned int ring)
{
	shape->folder = folder;
	shape->payload_words = payload / 8;
	shape->slot_bytes = (HEADER_BYTES + payload + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	shape->slots = 1;
	while (shape->slots * 2 <= ring / shape->slot_bytes)
		shape->slots *= 2;
	if (shape->slots < 4 * BATCH)
		machine_fail("found a ring of %u bytes, expected room for %u messages of %u bytes",
			     ring, 4 * BATCH, payload);
}

static void run_fill(struct run *run, int argc, char **argv)
{
	run->program = argv[0];
	run->folder = argv[1];
	run->measure = argv[2];
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++)
		if (strcmp(transports[i]->name, argv[3]) == 0)
			run->transport = transports[i];
	run->readers = number(argv[5], 0, READERS_MAX);
	run->ms = number(argv[6], 0, 60000);
	shape_fill(&run->shape, run->folder, number(argv[4], 8, PAYLOAD_WORDS * 8) / 8 * 8,
		   argc > 7 ? number(argv[7], 0, 1u << 30) : RING_BYTES);
	run->flush = argc > 8 ? number(argv[8], 1, BATCH) : BATCH;
	run->lossless = argc > 9 && strcmp(argv[9], "lossless") == 0;
	if (argc > 9 && !run->lossless)
		machine_fail("found %s, expected lossless", argv[9]);
	run->desk = machine_share(run->folder, "desk", sizeof(*run->desk));
	if (run->desk->scale <= 0)
		run->desk->scale = machine_ticks_per_ns();
	run->scale = run->desk->scale;
	setenv("TICKBUS_RUNTIME_DIR", run->folder, 1);
}

/* The transports of bench/peers/. */
static int peers_print(void)
{
	printf("[");
	for (size_t i = FIRST_PEER; i < sizeof(transports) / sizeof(transports[0]); i++)
		printf("%s\"%s\"", i > FIRST_PEER ? ", " : "", transports[i]->name);
	puts("]");
	return 0;
}

int main(int argc, char **argv)
{
	struct run run = { 0 };

	if (argc < 7 || argc > 10) {
		fputs("usage: tickbus-bench FOLDER MEASURE TRANSPORT PAYLOAD READERS MS [RING "
		      "[FLUSH [lossless]]]\n",
		      stderr);
		return 2;
	}
	alarm(GIVE_UP_S); /* ends the program even if the other process never starts */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_fill(&run, argc, argv);
	if (strcmp(run.measure, "transfer") == 0)
		return lines_transfer(&run.shape, run.ms);
	if (strcmp(run.measure, "stream") == 0)
		return lines_stream(&run.shape, run.ms);
	if (strcmp(run.measure, "clock") == 0)
		return machine_clock(run.ms);
	if (strcmp(run.measure, "hiccups") == 0)
		return hiccups_watch(&run.shape, run.readers + 1, run.ms);
	if (strcmp(run.measure, "peers") == 0)
		return peers_print();
	if (!run.transport)
		machine_fail("found transport %s, expected bare, log, local, checked, marked or a "
			     "peer that is installed",
			     argv[3]);
	for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++)
		if (strcmp(measures[i].name, run.measure) == 0)
			return measures[i].run(&run);
	machine_fail("found measure %s", run.measure);
}
