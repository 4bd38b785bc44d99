/* SPDX-License-Identifier: Apache-2.0 */
/* A measurement: what its processes share. */
#ifndef TICKBUS_BENCH_RUN_H
#define TICKBUS_BENCH_RUN_H

#include <stdatomic.h>
#include <sys/types.h>

#include "bench/bench.h"

#define SAMPLES_MAX 1000000
#define INTERVAL_NS 2000.0 /* of an open loop: at most a tenth of these transports' capacity */

enum phase { WARM, MEASURE, DONE };

#define LATES 4 /* quantiles: p50, p99, p99.9, the longest */

struct outcome {
	_Alignas(128) struct tally tally;
	double rate; /* million messages per second, median of all windows; -1: no window */
	uint64_t looks, empty; /* calls of read, and those that brought no message */
	double distance;       /* messages that were written and not yet read, the median */
	double late_ns[LATES];
};

/* Shared by the processes of a measurement. */
struct desk {
	_Alignas(128) _Atomic uint32_t ready;
	_Alignas(128) _Atomic uint32_t phase;
	uint64_t sent;                          /* set before the phase is DONE */
	double scale;                           /* for all processes */
	_Alignas(128) _Atomic uint64_t written; /* messages, stored after each batch */
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

/* -- messages.c -------------------------------------------------------------------------------- */

/* The payloads of the next messages, made before they are written. */
struct maker {
	uint64_t next;
	uint32_t words;
	uint64_t payloads[BATCH * PAYLOAD_WORDS];
};

struct maker *maker_open(const struct run *);
const uint64_t *maker_make(struct maker *, unsigned int count); /* at most BATCH */

/* SAMPLES_MAX samples. Touches all pages, so that page faults are not measured. */
double *samples_make(void);

/* -- readers.c --------------------------------------------------------------------------------- */

/* Starts run->readers processes with this role, and waits until they are ready. The caller then
 * pins itself, after the library has started all its threads, which thus are not pinned. */
void readers_spawn(struct run *, const char *role);

void readers_phase(struct run *, enum phase);

/* Waits for the readers. Fails if a reader saw a word that was never written. */
void readers_join(struct run *);

/* Ticks between two messages of an open loop. */
uint64_t readers_interval(const struct run *);

/* The roles; each returns the status of its process. */
int readers_read(struct run *); /* counts, and measures the rate */
int readers_late(
	struct run *); /* the reader of an open loop; it reads up to the last message sent */
int readers_echo(struct run *); /* writes as many messages into the second ring as it reads */

/* -- measures.c -------------------------------------------------------------------------------- */

/* Runs run->measure and prints its line. Returns the status of the process. */
int measures_run(struct run *);

#endif
