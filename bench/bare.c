/* SPDX-License-Identifier: Apache-2.0 */
/* The bare ring, which is the yardstick: the least that moves messages from a writer to many
 * readers.
 *
 * Each slot has a sequence, which is 0 while the slot is written. The writer prefetches the slot 32
 * positions ahead. A reader that finds no message pauses; otherwise it copies the message and
 * checks the sequence again. There is no check, time, name, join or progress line. A lapped reader
 * goes on at the writer's position. Everything is inlined into the measured loop. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"

#define AHEAD 32
#define LOOK  256 /* messages that a reader takes at a time */

struct bare {
	_Atomic uint64_t *ring;
	uint64_t next, mask;
	uint32_t slot_words, words;
	bool timed;
};

static void *bare_open(const struct shape *shape, unsigned int channel)
{
	struct bare *bare = calloc(1, sizeof(*bare));
	char name[32];

	if (!bare)
		machine_fail("no memory");
	snprintf(name, sizeof(name), "bare-%u", channel);
	bare->ring = machine_share(shape->folder, name, (size_t)shape->slots * shape->slot_bytes);
	bare->next = 1;
	bare->mask = shape->slots - 1;
	bare->slot_words = shape->slot_bytes / 8;
	bare->words = shape->payload_words;
	bare->timed = shape->timed;
	return bare;
}

static void bare_close(void *bare)
{
	free(bare);
}

static inline void put(struct bare *bare, const uint64_t *payload)
{
	const uint64_t next = bare->next++;
	_Atomic uint64_t *slot = bare->ring + (next & bare->mask) * bare->slot_words;

	machine_prefetch_write(
		(const void *)(bare->ring + ((next + AHEAD) & bare->mask) * bare->slot_words));
	atomic_store_explicit(&slot[0], 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (uint32_t i = 0; i < bare->words; i++)
		atomic_store_explicit(&slot[1 + i], payload[i], memory_order_relaxed);
	atomic_store_explicit(&slot[0], next, memory_order_release);
}

static void bare_write(void *writer, const uint64_t *payloads, unsigned int count)
{
	struct bare *bare = writer;

	for (; count > 0; count--, payloads += bare->words)
		put(bare, payloads);
}

/* Whether a message was copied. *found: the sequence in the slot. */
static inline int get(struct bare *bare, uint64_t *payload, uint64_t *found)
{
	const _Atomic uint64_t *slot = bare->ring + (bare->next & bare->mask) * bare->slot_words;

	*found = atomic_load_explicit(&slot[0], memory_order_acquire);
	if (*found != bare->next)
		return 0;
	for (uint32_t i = 0; i < bare->words; i++)
		payload[i] = atomic_load_explicit(&slot[1 + i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slot[0], memory_order_relaxed) == bare->next;
}

static inline __attribute__((always_inline)) void look(struct bare *bare, struct tally *tally,
						       bool timed)
{
	uint64_t payload[PAYLOAD_WORDS], found;

	for (unsigned int i = 0; i < LOOK; i++) {
		if (!get(bare, payload, &found)) {
			if (found > bare->next) { /* lapped */
				tally->lost += found - bare->next;
				bare->next = found;
			}
			machine_pause();
			return;
		}
		if (timed) {
			tally_timed(tally, payload, bare->words);
		} else {
			tally->wrong += payload_wrong(payload, bare->words, bare->next);
			tally->received++;
		}
		bare->next++;
	}
}

static void bare_read(void *reader, struct tally *tally)
{
	struct bare *bare = reader;

	if (bare->timed)
		look(bare, tally, true);
	else
		look(bare, tally, false);
}

const struct transport bare_transport = {
	.name = "bare",
	.writer_open = bare_open,
	.write = bare_write,
	.reader_open = bare_open,
	.read = bare_read,
	.close = bare_close,
};
