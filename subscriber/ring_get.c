/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the ring, copied for calls that wait for them.
 *
 * H-I1  A copy is a record only if its own check proves it, or in place the sequence lock. A line
 *       that was loaded afterwards judges a copy that fails. The writer changes a slot only after
 *       it has written a line that reserves the new record (P-I2).
 * H-I2  With TB_STRICT a copy that was READ counts only if a line that was READ afterwards shows
 *       its slot as untouched (N4). So here too delivery does not rest on the check alone. */
#include "subscriber/ring_get.h"

#include "bus/barrier.h"
#include "bus/counters.h"
#include "subscriber/get_read.h"

uint64_t ring_get_offset(const struct mapping *mapping, uint64_t sequence)
{
	return mapping->layout.ring +
	       (sequence & (mapping->shape.slots - 1)) * mapping->shape.slot_bytes;
}

/* -- a copy ----------------------------------------------------------------------------------- */

static bool needs_line(const struct tb_source *source)
{
	return !source->mapping.view && (source->subscription->options.flags & TB_STRICT);
}

static bool copy_landed(struct tb_source *source, uint64_t sequence, const char *landed,
			struct record *copy)
{
	const struct mapping *mapping = &source->mapping;
	const bool whole = record_take_landed(landed, mapping->shape.slot_bytes, sequence, copy,
					      mapping->record_salt) == 0;

	source->subscription->counters[SUBSCRIPTION_TORN] += !whole;
	return whole;
}

/* Returns 1 if the copy is whole, 0 if it is not, or -errno. */
static int copy_once(struct tb_source *source, uint64_t sequence, struct record *copy)
{
	const struct mapping *mapping = &source->mapping;
	const uint64_t offset = ring_get_offset(mapping, sequence);
	struct fabric_read read;
	uint64_t found;
	int result;

	if (mapping->view)
		return record_take((const struct slot *)(const void *)(mapping->view + offset),
				   mapping->shape.slot_bytes, sequence, copy, &found,
				   mapping->checked ? &mapping->record_salt : NULL) == 0;
	read = get_part(source, offset, mapping->shape.slot_bytes, get_half(source, GET_SINGLE));
	result = get_reads(source, &read, 1);
	return result < 0 ? result : copy_landed(source, sequence, read.into, copy);
}

/* -- a record --------------------------------------------------------------------------------- */

/* Judges a copy. RING_GET_CORRUPT: it is not whole, and held. */
static int judge(struct tb_source *source, uint64_t sequence, bool whole, struct progress *line)
{
	int result;

	if (whole && !needs_line(source))
		return RING_GET_WHOLE;
	result = get_line(source, line);
	if (result < 0)
		return result;
	if (progress_oldest(line, source->mapping.shape.slots) > sequence) /* H-I1, H-I2 */
		return RING_GET_OVERWRITTEN;
	return whole ? RING_GET_WHOLE : RING_GET_CORRUPT;
}

int ring_get(struct tb_source *source, uint64_t sequence, int copies, struct record *copy)
{
	struct progress line;
	int result = RING_GET_CORRUPT;

	for (int i = 0; i < copies && result == RING_GET_CORRUPT; i++) {
		if (i > 0)
			barrier_pause();
		result = copy_once(source, sequence, copy);
		if (result >= 0)
			result = judge(source, sequence, result == 1, &line);
	}
	return result;
}

int ring_get_proof(struct tb_source *source, uint64_t *oldest)
{
	struct progress line;
	int result = 0;

	*oldest = 0;
	if (!needs_line(source))
		return 0;
	result = get_line(source, &line);
	if (result == 0)
		*oldest = progress_oldest(&line, source->mapping.shape.slots);
	return result;
}

int ring_get_landed(struct tb_source *source, uint64_t sequence, const char *landed,
		    uint64_t oldest, struct record *copy)
{
	if (sequence < oldest) /* H-I2 */
		return RING_GET_OVERWRITTEN;
	if (copy_landed(source, sequence, landed, copy))
		return RING_GET_WHOLE;
	return ring_get(source, sequence, RING_GET_COPIES - 1, copy);
}

int ring_get_find(struct tb_source *source, struct find *find)
{
	struct record copy;
	struct progress line;
	uint64_t sequence;
	int result;

	while (find_next(find, &sequence)) {
		result = copy_once(source, sequence, &copy);
		if (result >= 0)
			result = judge(source, sequence, result == 1, &line);
		if (result < 0)
			return result;
		if (result == RING_GET_WHOLE)
			find_copied(find, copy.time_ns);
		else
			find_failed(find, &line);
	}
	return 0;
}
