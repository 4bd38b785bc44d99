/* SPDX-License-Identifier: Apache-2.0 */
/* The log, the second yardstick: records in a row, and the position up to which they are written.
 *
 * Aeron's log buffer moves messages so: a record has its length and its payload, and the writer
 * publishes a batch by storing one position. The ring has the bytes of the other transports' rings.
 * Before a batch the writer stores the position up to which it will write. So a reader knows when
 * it was lapped, and goes on at the writer's position. No record crosses the ring's end. It has no
 * timed shape. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"

#define AHEAD_BYTES 2048
#define LOOK        256 /* messages that a reader takes at a time */

struct log_head {
	_Alignas(128) _Atomic uint64_t written; /* records */
	_Alignas(128) _Atomic uint64_t claimed;
};

struct log {
	struct log_head *head;
	_Atomic uint64_t *ring;
	uint64_t next;  /* of the messages, from 0 */
	uint32_t place; /* of the next message in the ring, in records */
	uint32_t records, record_words, words;
};

static void *log_open(const struct shape *shape, unsigned int channel)
{
	struct log *log = calloc(1, sizeof(*log));
	const size_t bytes = (size_t)shape->slots * shape->slot_bytes;
	char name[32];

	if (!log)
		machine_fail("no memory");
	snprintf(name, sizeof(name), "log-%u", channel);
	log->head = machine_share(shape->folder, name, sizeof(*log->head) + bytes);
	log->ring = (_Atomic uint64_t *)(log->head + 1);
	log->words = shape->payload_words;
	log->record_words = log->words + 1;
	log->records = (uint32_t)(bytes / 8 / log->record_words);
	return log;
}

static void log_close(void *log)
{
	free(log);
}

static inline void append(struct log *log, const uint64_t *payload)
{
	_Atomic uint64_t *record = log->ring + (size_t)log->place * log->record_words;

	machine_prefetch_write((const char *)record + AHEAD_BYTES);
	atomic_store_explicit(&record[0], log->words * 8, memory_order_relaxed);
	for (uint32_t i = 0; i < log->words; i++)
		atomic_store_explicit(&record[1 + i], payload[i], memory_order_relaxed);
	log->next++;
	if (++log->place == log->records)
		log->place = 0;
}

static void log_write(void *writer, const uint64_t *payloads, unsigned int count)
{
	struct log *log = writer;

	atomic_store_explicit(&log->head->claimed, log->next + count, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (; count > 0; count--, payloads += log->words)
		append(log, payloads);
	atomic_store_explicit(&log->head->written, log->next, memory_order_release);
}

static inline void take(struct log *log, struct tally *tally)
{
	const _Atomic uint64_t *record = log->ring + (size_t)log->place * log->record_words;
	uint64_t payload[PAYLOAD_WORDS];

	for (uint32_t i = 0; i < log->words; i++)
		payload[i] = atomic_load_explicit(&record[1 + i], memory_order_relaxed);
	tally->wrong += atomic_load_explicit(&record[0], memory_order_relaxed) != log->words * 8 ||
			payload_wrong(payload, log->words, log->next + 1);
	if (++log->place == log->records)
		log->place = 0;
	log->next++;
}

static void log_read(void *reader, struct tally *tally)
{
	struct log *log = reader;
	const uint64_t written = atomic_load_explicit(&log->head->written, memory_order_acquire);
	const uint64_t first = log->next, wrong = tally->wrong;

	if (written == first) {
		machine_pause();
		return;
	}
	while (log->next < written && log->next - first < LOOK)
		take(log, tally);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&log->head->claimed, memory_order_relaxed) - first <=
	    log->records) {
		tally->received += log->next - first;
		return;
	}
	/* Lapped: what was read may be of later records. */
	tally->wrong = wrong;
	tally->lost += written - first;
	log->next = written;
	log->place = (uint32_t)(written % log->records);
}

const struct transport log_transport = {
	.name = "log",
	.writer_open = log_open,
	.write = log_write,
	.reader_open = log_open,
	.read = log_read,
	.close = log_close,
};
