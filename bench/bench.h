/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the measuring program and the transports.
 *
 * A transport moves messages from a writer process to reader processes, through a ring of `slots`
 * slots of `slot_bytes`. Each transport is a file that fills a table of five calls. To compare with
 * another bus, add a file to bench/peers/ and a line in peers[] of main.c.
 *
 * The words of a message follow from its number, and a reader checks every word. In a timed shape,
 * the first word is the time at which the message was due, and the others follow from it. */
#ifndef TICKBUS_BENCH_H
#define TICKBUS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define HEADER_BYTES  32  /* bytes of a slot without payload, the same for all transports */
#define PAYLOAD_WORDS 508 /* at most */
#define READERS_MAX   15
#define LINE_BYTES    64
#define BATCH         64 /* messages that a feed has at once: a single flush and clock read */

struct shape {
	const char *folder; /* for files and sockets, removed afterwards */
	uint32_t slot_bytes;
	uint32_t payload_words;
	uint32_t slots;
	bool timed;
	unsigned int readers; /* of a writer that opens */
};

struct tally {
	uint64_t received, lost, wrong;
	/* In a timed shape: ticks from the time a message was due until it was read. A lost message
	 * counts until the next message was read. */
	double *late;
	size_t late_count, late_max;
	uint64_t due, interval; /* of the next message; 0: any message */
};

struct transport {
	const char *name;
	/* Messages under way at most if nothing is to be lost; 0: three quarters of the slots. */
	unsigned int window;
	/* Opens the writer of channel 0 or 1, before its readers. Fails by machine_fail(). */
	void *(*writer_open)(const struct shape *, unsigned int channel);
	/* Writes the next `count` messages as a batch and flushes them. The payloads are made
	 * before, in a row, so that making them is not measured. */
	void (*write)(void *writer, const uint64_t *payloads, unsigned int count);
	/* Opens a reader, which gets every message that is written after this returns. */
	void *(*reader_open)(const struct shape *, unsigned int channel);
	/* Polls once for messages, checks every word, and adds them to the tally. If it finds no
	 * message, it returns within some milliseconds. */
	void (*read)(void *reader, struct tally *);
	/* Sleeps until a reader that found no message may find a message, by the library's own wait
	 * or by epoll. If `read` sleeps itself, this returns at once. NULL: the transport has no
	 * sleep.
	 */
	void (*wait)(void *reader, bool by_epoll);
	/* Closes a writer or a reader. */
	void (*close)(void *end);
};

extern const struct transport bare_transport, log_transport, local_transport, checked_transport,
	marked_transport, local_batches_transport, checked_batches_transport;
/* bench/peers/: those whose libraries are installed. */
extern const struct transport zmq_transport, iceoryx_transport, aeron_transport;

/* lines.c: the machine's own limits between two cores. */
int lines_transfer(const struct shape *, unsigned int ms); /* two lines, back and forth */
int lines_stream(const struct shape *, unsigned int ms);   /* lines in bulk, one way */

/* hiccups.c: how long a loop is interrupted on each of the first cores. */
int hiccups_watch(const struct shape *, unsigned int cores, unsigned int ms);

/* machine.c */
void machine_pin(unsigned int index); /* pins the calling thread to the index-th core that the
					 process may use */
void *machine_share(const char *folder, const char *name, size_t bytes); /* file mapped, or exit */
double machine_ticks_per_ns(void);
int machine_clock(unsigned int ms); /* prints what reading the clock costs */
/* A quantile of the values, which it sorts. */
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

/* The same, after all earlier loads. */
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

#define PAYLOAD_FACTOR UINT64_C(0x9e3779b97f4a7c15)

static inline void payload_fill(uint64_t *payload, uint32_t words, uint64_t number)
{
	for (uint32_t i = 0; i < words; i++)
		payload[i] = number * PAYLOAD_FACTOR + i;
}

static inline uint64_t payload_wrong(const uint64_t *payload, uint32_t words, uint64_t number)
{
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < words; i++)
		wrong |= payload[i] ^ (number * PAYLOAD_FACTOR + i);
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
