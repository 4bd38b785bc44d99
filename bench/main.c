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
 *   publish     ns per message of 64, after the readers have read all earlier messages and have
 *               waited a little for the next. Median of all.
 *   caught      ns per message of 64, shortly after the batch before, while the reader looks for
 *               it. Also the share of looks that brought no message, and the messages between
 *               writer and reader (median).
 *   throughput  million messages per second of the slowest reader, and the share that it lost. The
 *               writer never waits. With `lossless` it waits until the slowest reader left room,
 *               as buses with back-pressure do: readers store how many they have read. Also the
 *               looks and the distance, as in `caught`.
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
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bench/run.h"

#define GIVE_UP_S  120
#define RING_BYTES 262144 /* fits a second-level cache */

static const struct transport *const own[] = {
	&bare_transport,   &log_transport,           &local_transport,           &checked_transport,
	&marked_transport, &local_batches_transport, &checked_batches_transport,
};

/* Those of bench/peers/ that this program was built with. The end is NULL. */
static const struct transport *const peers[] = {
#ifdef BENCH_ZMQ
	&zmq_transport,
#endif
#ifdef BENCH_ICEORYX
	&iceoryx_transport,
#endif
#ifdef BENCH_AERON
	&aeron_transport,
#endif
	NULL,
};

/* NULL: there is no transport with this name. */
static const struct transport *transport_find(const char *name)
{
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strcmp(own[i]->name, name) == 0)
			return own[i];
	for (size_t i = 0; peers[i]; i++)
		if (strcmp(peers[i]->name, name) == 0)
			return peers[i];
	return NULL;
}

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
	run->transport = transport_find(argv[3]);
	run->readers = number(argv[5], 0, READERS_MAX);
	run->ms = number(argv[6], 0, 60000);
	shape_fill(&run->shape, run->folder, number(argv[4], 8, PAYLOAD_WORDS * 8) / 8 * 8,
		   argc > 7 ? number(argv[7], 0, 1u << 30) : RING_BYTES);
	run->flush = argc > 8 ? number(argv[8], 1, BATCH) : BATCH;
	run->lossless = argc > 9 && strcmp(argv[9], "lossless") == 0;
	if (argc > 9 && !run->lossless)
		machine_fail("found %s, expected lossless", argv[9]);
	if (run->lossless && run->readers == 0)
		machine_fail("found lossless and 0 readers, expected at least 1 reader, for which "
			     "the writer waits");
	run->desk = machine_share(run->folder, "desk", sizeof(*run->desk));
	if (run->desk->scale <= 0)
		run->desk->scale = machine_ticks_per_ns();
	run->scale = run->desk->scale;
	setenv("TICKBUS_RUNTIME_DIR", run->folder, 1);
}

static int peers_print(void)
{
	printf("[");
	for (size_t i = 0; peers[i]; i++)
		printf("%s\"%s\"", i > 0 ? ", " : "", peers[i]->name);
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
	return measures_run(&run);
}
