/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers records from a ring that is mapped in place.
 *
 * Where records come one by one, the slot of the next sequence is watched: it shows a record first.
 * Where records come in batches, the head is watched, which is written once for each batch. Looking
 * at slots while they are written takes their cache lines away from the writer.
 *
 * The copy is made under the sequence lock (bus/record.c: R1, R2), then it is proven as after a
 * READ. A slot that stays busy is left for the next call; no call spins on it. */
#include "subscriber/pull_view.h"

#include <errno.h>
#include <stdatomic.h>

#include "bus/counters.h"
#include "bus/progress.h"
#include "bus/record.h"
#include "subscriber/collect.h"
#include "subscriber/deliver.h"
#include "subscriber/image.h"
#include "subscriber/reader.h"
#include "subscriber/source.h"

#define COPY_TRIES  64 /* copies of a line or slot that changes meanwhile */
#define IDLE_LOOKS  16 /* looks at a slot without `next` for each read of the head or line */
#define MOVES_MAX   8  /* moves past lost records in one call: handlers may be slow */
#define LINE_BYTES  64
#define AHEAD_BYTES 4096 /* of slots ahead of slot `next` are prefetched */
#define HEAD_EVERY  16   /* records between two reads of the head, while the slot is watched */
#define RUN_AFTER   2    /* records of a call before the head is read for a run */
#define BATCH       4    /* the head is watched once it moves by at least this many records */

bool pull_view_line(struct tb_source *source, struct progress *progress)
{
	const struct mapping *mapping = &source->mapping;
	const struct progress_line *line =
		(const struct progress_line *)(const void *)(mapping->view +
							     mapping->layout.progress);

	for (int i = 0; i < COPY_TRIES; i++) {
		progress_load(line, progress);
		if (progress_verify(progress, &mapping->shape, mapping->progress_salt) == 0)
			return reader_line(source, true);
	}
	return reader_line(source, false);
}

/* The slot does not hold `next`. Returns true if the position moved and reading goes on. A failed
 * copy counts against its slot only if a valid line shows the record as present (Q3). */
static bool look(struct tb_source *source, bool failed)
{
	struct progress progress;

	if (!pull_view_line(source, &progress))
		return false;
	if (source->mapping.image)
		image_line(source->mapping.image, &progress);
	switch (reader_look(source, &progress)) {
	case READER_LAPPED:
		reader_skip(source, &progress);
		return true;
	case READER_ENDED:
		reader_quality(source, &progress);
		if (!deliver_stopped(source))
			source_end(source);
		return true;
	case READER_STAYS:
		reader_quality(source, &progress);
		break;
	}
	return failed && !deliver_stopped(source) && reader_failed(source, &progress);
}

static inline const _Atomic uint64_t *head_word(const struct mapping *mapping)
{
	return (const _Atomic uint64_t *)(const void *)(mapping->view + mapping->layout.progress);
}

/* A hint; the slots decide what they hold. */
static inline uint64_t head_load(const struct tb_source *source)
{
	return atomic_load_explicit(head_word(&source->mapping), memory_order_acquire); /* R3 */
}

/* A slot behind `next` or a busy slot is usually not written yet. If a line that was read before
 * the copy counts its record, the copy failed. A slot ahead of it means that the reader was lapped.
 * A slot that holds `next` and was not copied has an invalid length. */
static bool slot_elsewhere(struct tb_source *source, uint64_t found)
{
	const bool counted = source->next <= source->head;
	const bool failed = found >= source->next;

	if (failed)
		source->subscription->counters[SUBSCRIPTION_TORN]++;
	if (failed || source->look)
		return look(source, failed || counted);
	/* In the first lap, a slot that was never written looks busy. */
	if (found == 0 && source->next > source->mapping.shape.slots)
		source->subscription->counters[SUBSCRIPTION_BUSY]++;
	if (counted)
		return look(source, true);
	if (++source->idle % IDLE_LOOKS != 0)
		return false;
	return (found == 0 || head_load(source) >= source->next) && look(source, false);
}

/* The slot held `next`, but its copy is not valid: the slot may have changed meanwhile. */
static __attribute__((noinline)) int take_again(const struct tb_source *source,
						const struct slot *slot, struct record *copy,
						uint64_t *found, const uint64_t *salt)
{
	int result = -EAGAIN;

	for (int i = 1; i < COPY_TRIES && result < 0 && *found == source->next; i++)
		result = record_take(slot, source->mapping.shape.slot_bytes, source->next, copy,
				     found, salt);
	return result;
}

/* The ring of a topic, for a loop that keeps it in registers. */
struct ring {
	const char *slots;
	uint64_t mask, ahead;
	uint32_t slot_bytes;
};

static inline struct ring ring_of(const struct mapping *mapping)
{
	return (struct ring){ .slots = mapping->view + mapping->layout.ring,
			      .mask = mapping->shape.slots - 1,
			      .ahead = AHEAD_BYTES / mapping->shape.slot_bytes,
			      .slot_bytes = mapping->shape.slot_bytes };
}

static inline const struct slot *ring_slot(const struct ring *ring, uint64_t sequence)
{
	return (const struct slot *)(const void *)(ring->slots +
						   (sequence & ring->mask) * ring->slot_bytes);
}

/* Prefetches the slot that will be read after the next AHEAD_BYTES, if it is written. Slots at the
 * head of the ring belong to the writer; a prefetch there would make it wait. */
static inline void fetch_ahead(const struct ring *ring, uint64_t next, uint64_t written)
{
	const char *slot = (const char *)ring_slot(ring, next + ring->ahead);
	const char *const end = slot + ring->slot_bytes;

	if (next + ring->ahead > written)
		return;
	do
		__builtin_prefetch(slot);
	while ((slot += LINE_BYTES) < end);
}

/* Whether to look at slot `next`. The head in the line is only a hint; the slot decides what it
 * holds. The head is watched while its writer is inside a batch or far ahead, until it moves by
 * less than a batch. */
static inline bool slot_due(struct tb_source *source)
{
	uint64_t head;

	if (source->next <= source->written || (!source->batched && source->next % HEAD_EVERY != 0))
		return true;
	head = head_load(source);
	source->written = head;
	if (!source->batched)
		source->batched = head + BATCH < source->next || head >= source->next + BATCH;
	else if (head >= source->next)
		source->batched = head >= source->next + BATCH;
	else
		return source->next <= source->head; /* a line that was read before counts it */
	return true;
}

/* After a look, which may have found the end or called a handler. Or it found what waits until the
 * held records are delivered. */
static bool may_go_on(const struct tb_source *source)
{
	return source->state == SOURCE_RUNNING && !source->collected.due &&
	       !deliver_stopped(source);
}

/* Collects records up to the head that was seen last, as long as they are usual: no handler is
 * called in between. So the state stays in registers. Returns how many. */
static inline int collect_run(struct tb_source *source, const struct ring *ring, int max)
{
	const uint64_t *salt = source->mapping.checked ? &source->mapping.record_salt : NULL;
	const uint64_t first = source->next;
	char *place = (char *)collect_place(source);
	uint64_t next = first, whole = 0, found;

	if (next > source->written)
		source->written = head_load(source);
	while (next <= source->written && next - first < (uint64_t)max) {
		struct record *copy = (struct record *)(void *)place;

		fetch_ahead(ring, next, source->written);
		if (source->mapping.take(ring_slot(ring, next), ring->slot_bytes, next, copy,
					 &found, salt) < 0 ||
		    deliver_is_unusual(source, copy))
			break;
		next++;
		place += ring->slot_bytes;
		if (collect_ends(source, copy))
			whole = next;
	}
	if (next > first)
		collect_taken(source, next, whole);
	return (int)(next - first);
}

/* Inlined three times: records are delivered, collected for on_batch, or merged. */
enum pull { PULL_RECORDS, PULL_BATCHES, PULL_MERGED };

/* In a merge the line was read before, and records beyond its head wait. */
static inline bool is_due(struct tb_source *source, enum pull how)
{
	return how == PULL_MERGED ? source->next <= source->head : slot_due(source);
}

static inline __attribute__((always_inline)) int pull(struct tb_source *source, int max,
						      enum pull how)
{
	const bool for_batch = how == PULL_BATCHES;
	const struct mapping *mapping = &source->mapping;
	const uint64_t *salt = mapping->checked ? &mapping->record_salt : NULL;
	const struct ring ring = ring_of(mapping);
	int count = 0, moves = 0, result;
	uint64_t found;

	while (count < max) {
		const struct slot *slot;
		struct record *copy;

		if (for_batch && count >= RUN_AFTER && source->detour == 0) {
			count += collect_run(source, &ring, max - count);
			if (count == max)
				break;
		}
		copy = for_batch ? collect_place(source) : &source->record;
		slot = ring_slot(&ring, source->next);

		if (!is_due(source, how)) {
			if (source->look && look(source, false) && may_go_on(source))
				continue;
			break;
		}
		result = 0;
		found = source->next; /* as a held copy was */
		if (how != PULL_MERGED || !source->held) {
			fetch_ahead(&ring, source->next, source->written);
			result = mapping->take(slot, ring.slot_bytes, source->next, copy, &found,
					       salt);
			if (result < 0 && found == source->next)
				result = take_again(source, slot, copy, &found, salt);
		}
		if (how == PULL_MERGED && result == 0) {
			result = deliver_waits(source);
			if (result > 0)
				break;
		}
		if (result == 0)
			result = for_batch ? collect_record(source, copy)
					   : deliver_record(source, copy);
		if (result < 0 && moves++ < MOVES_MAX && slot_elsewhere(source, found) &&
		    may_go_on(source))
			continue;
		if (result <= 0)
			break;
		count++;
		if (deliver_stopped(source))
			return count;
		if (for_batch && source->collected.due)
			break;
	}
	if (count > 0)
		source->idle = 0;
	if (__builtin_expect(source->hole_first != 0, 0) && !deliver_stopped(source))
		deliver_holes(source);
	return count;
}

uint64_t pull_view_head(const struct tb_source *source)
{
	return head_load(source);
}

int pull_view(struct tb_source *source, int max)
{
	return collects(source) ? pull(source, max, PULL_BATCHES) : pull(source, max, PULL_RECORDS);
}

int pull_view_merged(struct tb_source *source, int max)
{
	source->written = source->head; /* slots up to it may be prefetched */
	return pull(source, max, PULL_MERGED);
}

void pull_view_look(struct tb_source *source)
{
	look(source, false);
}

bool pull_view_moved(const struct tb_source *source)
{
	const struct mapping *mapping = &source->mapping;
	const struct progress_line *line =
		(const struct progress_line *)(const void *)(mapping->view +
							     mapping->layout.progress);

	return atomic_load_explicit(&line->word[offsetof(struct progress, complete_ns) / 8],
				    memory_order_relaxed) != source->complete_ns;
}

bool pull_view_glance(const struct tb_source *source, struct glance *glance)
{
	const struct mapping *mapping = &source->mapping;
	const struct ring ring = ring_of(mapping);

	if (source->batched)
		glance->word = head_word(mapping);
	else
		glance->word = ring_slot(&ring, source->next)->word;
	glance->expected = atomic_load_explicit(glance->word, memory_order_relaxed);
	if (glance->expected == 0 && source->next > mapping->shape.slots)
		return false;
	if (source->next <= source->head)
		return false; /* it is counted, and comes or is reported */
	return glance->expected < source->next;
}
