/* SPDX-License-Identifier: Apache-2.0 */
/* Pulling where the ring can be looked at in place: the slot of the next sequence is watched
 * itself.
 *
 * The copy is made under the sequence lock (bus/record.c: R1, R2) and then proven like any other. A
 * slot that stays busy is left for the next call: nothing spins inside one. */
#include <errno.h>

#include "subscriber/subscriber.h"

#define COPY_TRIES 64 /* a line or slot that changes under the copy */
#define IDLE_LOOKS 16 /* empty looks at a busy slot between two looks at the progress line */

/* Reads the progress line whole; false when its writer did not let us. */
static bool line_read(struct tb_source *source, struct progress *progress)
{
	const struct place *place = &source->place;
	const struct progress_line *line =
		(const struct progress_line *)(const void *)(place->view + place->layout.progress);

	for (int i = 0; i < COPY_TRIES; i++) {
		progress_load(line, progress);
		if (progress_verify(progress, place->shape.epoch, place->shape.slots,
				    place->shape.capacity, place->checked,
				    place->progress_salt) == 0)
			return true;
	}
	return false;
}

/* The slot does not hold `next`: true when the position moved and it is worth looking again. A copy
 * that failed counts against its slot only when a valid line says that the record is there (Q3). */
static bool look(struct tb_source *source, bool failed)
{
	struct progress progress;

	if (!line_read(source, &progress))
		return false;
	return reader_look(source, &progress) || (failed && reader_failed(source));
}

/* A slot that is behind us or busy says nothing new; one that is ahead says that we were lapped,
 * one that holds `next` and yet was not copied has a length that cannot be. */
static bool slot_elsewhere(struct tb_source *source, uint64_t found)
{
	if (found >= source->next) {
		source->subscription->counters[SUBSCRIPTION_TORN]++;
		return look(source, true);
	}
	if (source->look)
		return look(source, false);
	if (found == 0) {
		source->subscription->counters[SUBSCRIPTION_BUSY]++;
		if (++source->idle % IDLE_LOOKS == 0)
			return look(source, false);
	}
	return false;
}

int pull_view(struct tb_source *source, int max)
{
	const struct place *place = &source->place;
	const char *ring = place->view + place->layout.ring;
	const uint64_t mask = place->shape.slots - 1;
	const uint32_t slot_bytes = place->shape.slot_bytes;
	int count = 0, again = 0, result;
	uint64_t found;

	while (count < max && source->state == SOURCE_RUNNING) {
		const struct slot *slot =
			(const struct slot *)(const void *)(ring +
							    (source->next & mask) * slot_bytes);

		result = record_copy(slot, slot_bytes, source->next, &source->record, &found);
		if (result < 0 && found == source->next && ++again < COPY_TRIES)
			continue;
		again = 0;
		if (result < 0) {
			if (slot_elsewhere(source, found) && !deliver_stopped(source))
				continue;
			break;
		}
		__builtin_prefetch(ring + ((source->next + 2) & mask) * slot_bytes);
		result = record_verify(&source->record, slot_bytes, source->next, place->checked,
				       place->record_salt);
		if (result == 0)
			result = deliver_record(source, &source->record);
		if (result < 0) {
			source->subscription->counters[SUBSCRIPTION_TORN]++;
			if (look(source, true) && !deliver_stopped(source))
				continue;
			break;
		}
		source->idle = 0;
		count++;
		if (deliver_stopped(source))
			return count;
	}
	if (!deliver_stopped(source))
		deliver_holes(source);
	return count;
}
