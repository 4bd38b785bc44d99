/* SPDX-License-Identifier: Apache-2.0 */
/* A pass over last-value slots of a topic.
 *
 * By READ, names that are not known come first, then the values. Neighbours share a READ. READs of
 * records come first: a pass takes at most half of the queue's places.
 *
 * I9  A value is copied, checked and shown like a record. In place it is copied under the sequence
 *     lock. After a READ it is copied out of the landing before its check.
 * VR1  A chunk has the number of the pass that posted it. What lands for an earlier pass is thrown
 *      away: each copy was made after its pass began.
 * VR2  At most a quarter of a READ's slots are not wanted. They are READ along where their bytes
 *      cost less than the headers of one more READ. So a pass over a few instruments of many, with
 *      the line before it, moves at most 1.5 times the bytes of their slots. */
#include "subscriber/value_reads.h"

#include <errno.h>
#include <string.h>

#include "bus/directory.h"
#include "bus/fabric.h"
#include "bus/record.h"
#include "bus/region.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/landing.h"
#include "subscriber/names.h"
#include "subscriber/tag.h"

#define SLOTS_MAX 512 /* slots that one call looks at */

static bool is_wanted(const struct value_reads *reads, uint32_t instrument)
{
	return reads->wanted[instrument / 64] >> instrument % 64 & 1;
}

uint32_t value_reads_next(const uint64_t *bits, uint32_t from, uint32_t range)
{
	uint32_t word = from / 64, found;
	uint64_t rest;

	if (from >= range)
		return range;
	rest = bits[word] & UINT64_MAX << from % 64;
	while (!rest && ++word < (range + 63) / 64)
		rest = bits[word];
	found = rest ? word * 64 + (uint32_t)__builtin_ctzll(rest) : range;
	return found < range ? found : range;
}

static uint32_t next_wanted(const struct value_reads *reads, uint32_t from)
{
	return value_reads_next(reads->wanted, from, reads->range);
}

void value_reads_begin(struct value_reads *reads, const uint64_t *wanted, uint32_t range,
		       bool names)
{
	reads->wanted = wanted;
	reads->range = range;
	reads->at = 0;
	reads->names = names;
	reads->names_at = 0;
	reads->unread = false;
	reads->number++;
}

void value_reads_interrupted(struct value_reads *reads)
{
	memset(reads->chunks, 0, sizeof(reads->chunks));
	reads->at = reads->names_at = 0;
}

/* -- chunks ----------------------------------------------------------------------------------- */

static struct fabric_read chunk_read(const struct tb_source *source, unsigned int at)
{
	const struct mapping *mapping = &source->mapping;
	const struct value_chunk *chunk = &source->value_reads.chunks[at];
	const uint64_t offset =
		chunk->names ? mapping->layout.directory : mapping->layout.last_value;
	const uint32_t each = chunk->names ? DIRECTORY_ENTRY_BYTES : mapping->shape.slot_bytes;

	return (struct fabric_read){ .remote = mapping->remote,
				     .tag = tag_pack(READ_VALUES, source->slot, at),
				     .offset = offset + (uint64_t)chunk->first * each,
				     .bytes = chunk->count * each,
				     .into = landing_chunk(source, at) };
}

/* How many entries or slots of these bytes a READ brings. */
static uint32_t chunk_most(const struct tb_source *source, uint32_t bytes)
{
	const uint32_t read_bytes = source->subscription->subscriber->read_bytes;

	return read_bytes > bytes ? read_bytes / bytes : 1;
}

/* Takes the next names that are not known into a free chunk. False: the pass has no more. */
static bool names_begin(struct tb_source *source, struct value_chunk *chunk)
{
	const uint32_t each = chunk_most(source, DIRECTORY_ENTRY_BYTES);
	struct value_reads *reads = &source->value_reads;
	uint32_t first = reads->names_at;

	while (reads->names && first < reads->range && source->mapping.names[first][0])
		first++;
	reads->names_at = first;
	if (!reads->names || first == reads->range)
		return false;
	*chunk = (struct value_chunk){ .first = first, .names = true, .number = reads->number };
	chunk->count = reads->range - first < each ? reads->range - first : each;
	reads->names_at = first + chunk->count;
	return true;
}

/* The end of the run of slots from `first` on that share a READ (VR2). */
static uint32_t run_end(const struct value_reads *reads, uint32_t first, uint32_t most)
{
	uint32_t end = first + 1, wanted = 1, next = next_wanted(reads, end);

	while (next < reads->range && next - first < most &&
	       3 * (next + 1 - first) <= 4 * (wanted + 1)) {
		end = next + 1;
		wanted++;
		next = next_wanted(reads, end);
	}
	return end;
}

/* Takes the next run of wanted slots into a free chunk. False: the pass has no more. */
static bool values_begin(struct tb_source *source, struct value_chunk *chunk)
{
	struct value_reads *reads = &source->value_reads;
	const uint32_t first = next_wanted(reads, reads->at);

	if (first >= reads->range)
		return false;
	*chunk = (struct value_chunk){ .first = first, .number = reads->number };
	reads->at = run_end(reads, first, chunk_most(source, source->mapping.shape.slot_bytes));
	chunk->count = reads->at - first;
	return true;
}

static unsigned int under_way(const struct value_reads *reads)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < VALUE_CHUNKS; i++)
		count += reads->chunks[i].under_way;
	return count;
}

/* READs that leave room for those of records. */
static unsigned int queue_room(const struct tb_source *source)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;
	const unsigned int depth = subscriber->ops->depth(subscriber->link);
	const unsigned int most = depth > 3 ? depth / 2 : 1;
	const unsigned int taken = under_way(&source->value_reads);

	return taken < most ? most - taken : 0;
}

/* One call for all of them: a call may be a system call. */
static void chunks_post(struct tb_source *source)
{
	struct fabric_read posts[VALUE_CHUNKS];
	struct value_chunk *posting[VALUE_CHUNKS];
	struct value_reads *reads = &source->value_reads;
	const unsigned int room = queue_room(source);
	unsigned int count = 0;
	int posted;

	for (unsigned int at = 0; at < VALUE_CHUNKS && count < room; at++) {
		struct value_chunk *chunk = &reads->chunks[at];

		if (chunk->count == 0 && !names_begin(source, chunk) &&
		    !values_begin(source, chunk))
			continue; /* a later chunk may lack its READ */
		if (chunk->posted || chunk->number != reads->number)
			continue;
		posts[count] = chunk_read(source, at);
		posting[count++] = chunk;
	}
	posted = count > 0 ? connection_read(source, posts, count) : 0;
	for (int i = 0; i < posted; i++)
		posting[i]->posted = posting[i]->under_way = true;
}

void value_reads_landed(struct tb_source *source, unsigned int at, int status)
{
	struct value_reads *reads = &source->value_reads;

	if (at >= VALUE_CHUNKS)
		return;
	reads->chunks[at].under_way = false;
	if (status < 0)
		reads->chunks[at].failed = true;
}

static bool chunk_is_landed(const struct value_chunk *chunk)
{
	return chunk->count > 0 && chunk->posted && !chunk->under_way;
}

/* Frees landed chunks that failed, or that belong to an earlier pass (VR1). */
static void chunks_sort_out(struct value_reads *reads)
{
	for (unsigned int i = 0; i < VALUE_CHUNKS; i++) {
		struct value_chunk *chunk = &reads->chunks[i];

		if (chunk->number != reads->number && !chunk->under_way)
			chunk->count = 0;
		if (chunk->failed && chunk_is_landed(chunk)) {
			chunk->count = 0;
			reads->unread = true;
		}
	}
}

static bool chunks_are_free(const struct value_reads *reads)
{
	for (unsigned int i = 0; i < VALUE_CHUNKS; i++)
		if (reads->chunks[i].count > 0)
			return false;
	return true;
}

/* -- slots ------------------------------------------------------------------------------------ */

/* The copy counts as failed if it is no value, or of an instrument without a name. */
static int slot_result(struct tb_source *source, int result)
{
	const struct record *copy = &source->record;

	if (result != 1)
		return result;
	if (!record_is_value(copy->kind, copy->flags) ||
	    (source->mapping.view && names_fetch(source, copy->instrument) != 1) ||
	    !source->mapping.names[copy->instrument][0])
		return -EAGAIN;
	return 1;
}

static int slot_use(struct tb_source *source, uint32_t instrument, int result, value_taken *taken)
{
	if (result < 0)
		source->subscription->counters[SUBSCRIPTION_TORN]++;
	return taken(source, instrument, slot_result(source, result));
}

static int pass_view(struct tb_source *source, int max, value_taken *taken)
{
	const struct mapping *mapping = &source->mapping;
	struct value_reads *reads = &source->value_reads;
	const uint64_t *salt = mapping->checked ? &mapping->record_salt : NULL;
	int count = 0;

	for (int looked = 0; looked < SLOTS_MAX && count < max; looked++) {
		const uint32_t at = next_wanted(reads, reads->at);
		const char *slot = mapping->view + mapping->layout.last_value +
				   (size_t)at * mapping->shape.slot_bytes;

		reads->at = at;
		if (at >= reads->range)
			break;
		reads->at = at + 1;
		count += slot_use(source, at,
				  record_take_value((const struct slot *)(const void *)slot,
						    mapping->shape.slot_bytes, at, &source->record,
						    salt),
				  taken);
		if (deliver_stopped(source))
			break;
	}
	return count;
}

/* Uses what a landed chunk has; frees it at its end. */
static int chunk_take(struct tb_source *source, unsigned int at, int max, int *looked,
		      value_taken *taken)
{
	const struct mapping *mapping = &source->mapping;
	struct value_reads *reads = &source->value_reads;
	struct value_chunk *chunk = &reads->chunks[at];
	int count = 0;

	connection_deliver(source->subscription->subscriber);
	for (; chunk->taken < chunk->count && count < max && *looked < SLOTS_MAX; (*looked)++) {
		const uint32_t i = chunk->taken++, instrument = chunk->first + i;
		const char *landed =
			landing_chunk(source, at) + (size_t)i * mapping->shape.slot_bytes;

		if (!is_wanted(reads, instrument))
			continue;
		count += slot_use(source, instrument,
				  record_take_landed_value(landed, mapping->shape.slot_bytes,
							   instrument, &source->record,
							   mapping->record_salt),
				  taken);
		if (deliver_stopped(source))
			return count;
	}
	if (chunk->taken == chunk->count)
		chunk->count = 0;
	return count;
}

/* Keeps the names that have landed. Returns whether more are to come. */
static bool names_come(struct tb_source *source)
{
	bool come = false;

	for (unsigned int at = 0; at < VALUE_CHUNKS; at++) {
		struct value_chunk *chunk = &source->value_reads.chunks[at];

		if (!chunk->names || chunk->count == 0)
			continue;
		if (chunk_is_landed(chunk)) {
			names_take_run(source, chunk->first, chunk->count,
				       landing_chunk(source, at));
			chunk->count = 0;
		} else {
			come = true;
		}
	}
	return come;
}

/* Values wait for all names of the pass. */
static int pass_read(struct tb_source *source, int max, value_taken *taken)
{
	struct value_reads *reads = &source->value_reads;
	int count = 0, looked = 0;

	chunks_sort_out(reads);
	chunks_post(source);
	if (!names_come(source))
		for (unsigned int at = 0; at < VALUE_CHUNKS && !deliver_stopped(source); at++)
			if (chunk_is_landed(&reads->chunks[at]))
				count += chunk_take(source, at, max - count, &looked, taken);
	if (!deliver_stopped(source))
		chunks_post(source);
	return count;
}

int value_reads_pass(struct tb_source *source, int max, value_taken *taken)
{
	return source->mapping.view ? pass_view(source, max, taken) : pass_read(source, max, taken);
}

bool value_reads_over(const struct value_reads *reads)
{
	return chunks_are_free(reads) && next_wanted(reads, reads->at) >= reads->range;
}

enum value_work value_reads_work(const struct tb_source *source)
{
	const struct value_reads *reads = &source->value_reads;

	if (source->mapping.view)
		return VALUE_WORK_NOW;
	for (unsigned int i = 0; i < VALUE_CHUNKS; i++)
		if (chunk_is_landed(&reads->chunks[i]))
			return VALUE_WORK_NOW;
	return under_way(reads) > 0 ? VALUE_WORK_NONE : VALUE_WORK_SOON;
}
