/* SPDX-License-Identifier: Apache-2.0 */
/* What the measuring program and the transports share.
 *
 * A transport moves messages from one writer process to reader processes, through a ring of
 * `slots` slots of `slot_bytes`. Each transport is one file that fills one table; to compare with
 * another bus, add a file and a line in transports[].
 *
 * Every message is made of words that its number decides, and a reader checks every word. Of a
 * timed shape the first word is the moment at which the message was due, which decides the others.
 */
#ifndef TICKBUS_BENCH_H
#define TICKBUS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define HEADER_BYTES  32     /* of a slot that are not payload, for all transports alike */
#define PAYLOAD_WORDS 508    /* at most */
#define RING_BYTES    262144 /* fits a second-level cache */
#define READERS_MAX   15
#define LINE_BYTES    64
#define BATCH         64 /* messages that a feed has at once: one flush, one look at the clock */

struct shape {
	const char *folder; /* for files and sockets, gone afterwards */
	uint32_t slot_bytes;
	uint32_t payload_words;
	uint32_t slots;
	bool timed;
};

struct tally {
	uint64_t received, lost, wrong;
	/* Of a timed shape: ticks from when each message was due to when it was read; of one that
	 * was lost, to when the next one was. */
	double *late;
	size_t late_count, late_max;
	uint64_t due, interval; /* of the next message; 0: of any */
};

struct transport {
	const char *name;
	/* The writer of a channel, 0 or 1, made before its readers. 0, or -1 after words on stderr.
	 */
	int (*writer_open)(void **writer, const struct shape *, unsigned int channel);
	/* Writes the next `count` messages as one batch, and makes them known. Their payloads are
	 * there, one behind the other: making them is not what is measured. */
	void (*write)(void *writer, const uint64_t *payloads, unsigned int count);
	void (*writer_close)(void *writer);
	/* Ready to get every message that is written after it returned. */
	int (*reader_open)(void **reader, const struct shape *, unsigned int channel);
	/* One look for messages, without waiting; adds to the tally. */
	void (*read)(void *reader, struct tally *);
	void (*reader_close)(void *reader);
};

extern const struct transport bare_transport, local_transport, checked_transport;

/* lines.c: what the machine itself can do, between two cores. */
int lines_transfer(const struct shape *, unsigned int ms); /* two lines, to and fro */
int lines_stream(const struct shape *, unsigned int ms);   /* lines in bulk, one way */

/* hiccups.c: what a loop is kept away from each of the first cores. */
int hiccups_watch(const struct shape *, unsigned int cores, unsigned int ms);

/* machine.c */
void machine_pin(unsigned int place); /* the calling thread, to the place-th core we may use */
void *machine_share(const char *folder, const char *name, size_t bytes); /* file mapped, or exit */
double machine_ticks_per_ns(void);
/* The middle of values, which it sorts. */
double machine_quantile(double *values, size_t count, double quantile);
_Noreturn void machine_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline uint64_t machine_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* The same, when all that was loaded before is there. */
static inline uint64_t machine_ticks_behind(void)
{
#if defined(__x86_64__)
	__builtin_ia32_lfence();
#endif
	return machine_ticks();
}

static inline void machine_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

static inline void machine_prefetch_write(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

static inline void payload_fill(uint64_t *payload, uint32_t words, uint64_t number)
{
	for (uint32_t i = 0; i < words; i++)
		payload[i] = number * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static inline uint64_t payload_wrong(const uint64_t *payload, uint32_t words, uint64_t number)
{
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < words; i++)
		wrong |= payload[i] ^ (number * UINT64_C(0x9e3779b97f4a7c15) + i);
	return wrong != 0;
}

static inline void payload_time(uint64_t *payload, uint32_t words, uint64_t due)
{
	payload[0] = due;
	payload_fill(payload + 1, words - 1, due);
}

/* Counts a message of a timed shape. */
static inline void tally_timed(struct tally *tally, const uint64_t *payload, uint32_t words)
{
	const uint64_t now = machine_ticks_behind(), due = payload[0];

	if (tally->due == 0)
		tally->due = due;
	for (; tally->due <= due; tally->due += tally->interval)
		if (tally->late_count < tally->late_max)
			tally->late[tally->late_count++] = (double)(int64_t)(now - tally->due);
	tally->wrong +=
		tally->due != due + tally->interval || payload_wrong(payload + 1, words - 1, due);
	tally->received++;
}

#endif
