/* SPDX-License-Identifier: Apache-2.0 */
/* Collects records for on_batch: a batch has whole messages, in a topic that marks them.
 *
 * A record is copied once: into the memory of the batch, where it is proven and which the handler
 * gets. Records of a message that is not over are held between calls of tb_poll. They are private
 * copies, so a lap or a lost connection does not take them away. Only the rest of a batch whose
 * message is not over moves in the memory. */
#include "subscriber/collect.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/error.h"
#include "bus/region.h"
#include "subscriber/choice.h"
#include "subscriber/names.h"
#include "tickbus/record.h"

static_assert(sizeof(struct tb_slot) == RECORD_HEADER_BYTES, "layout 2");
static_assert(offsetof(struct tb_slot, sequence) == offsetof(struct record, sequence), "layout 2");
static_assert(offsetof(struct tb_slot, time_ns) == offsetof(struct record, time_ns), "layout 2");
static_assert(offsetof(struct tb_slot, instrument) == offsetof(struct record, instrument),
	      "layout 2");
static_assert(offsetof(struct tb_slot, length) == offsetof(struct record, length), "layout 2");
static_assert(offsetof(struct tb_slot, kind) == offsetof(struct record, kind), "layout 2");
static_assert(offsetof(struct tb_slot, flags) == offsetof(struct record, flags), "layout 2");
static_assert(offsetof(struct tb_slot, check) == offsetof(struct record, check), "layout 2");

/* The last place too has room for the largest record. */
static size_t memory_bytes(size_t bytes)
{
	return bytes + sizeof(struct record);
}

int collect_open(struct tb_source *source)
{
	struct collection *collected = &source->collected;

	if (!source->subscription->options.on_batch)
		return 0;
	collected->bytes = source->subscription->subscriber->batch_bytes;
	collected->memory =
		aligned_alloc(REGION_PAGE, (memory_bytes(collected->bytes) + REGION_PAGE - 1) /
						   REGION_PAGE * REGION_PAGE);
	if (!collected->memory)
		return error_set(ENOMEM, "topic %s: no memory for batches", source->name);
	memset(collected->memory, 0, memory_bytes(collected->bytes)); /* touches its pages */
	return 0;
}

void collect_close(struct tb_source *source)
{
	free(source->collected.memory);
	source->collected.memory = NULL;
}

void collect_begin(struct tb_source *source)
{
	const struct region_shape *shape = &source->mapping.shape;
	struct collection *collected = &source->collected;

	collected->stride = shape->slot_bytes;
	collected->places = (uint32_t)(collected->bytes / shape->slot_bytes);
	collected->each_ends = shape->flags & REGION_FLAG_MARKS_MESSAGES ? 0 : TB_FLAG_LAST;
}

/* How many held records the next batch has (C-I2, C-I3). If other topics used up a part of
 * records_max, an open message waits for a call that has room for more of it. */
static uint32_t batch_count(const struct tb_source *source, uint32_t max)
{
	const struct collection *collected = &source->collected;
	const uint32_t most = source->subscription->subscriber->records_max;
	uint32_t count = collected->due ? collected->held : collected->whole;

	if (count == 0 && (collected->held >= collected->places || collected->held >= most))
		count = collected->held;
	return count < max ? count : max;
}

/* An image may wait for the held records, to be complete behind them. */
static int batch_deliver(struct tb_source *source, int max)
{
	struct collection *collected = &source->collected;
	const uint32_t count = batch_count(source, (uint32_t)max);

	if (count == 0)
		return 0;
	source->subscription->counters[SUBSCRIPTION_RECORDS] += count;
	deliver_batch(source, collected->memory, count);
	collected->held -= count;
	collected->whole -= collected->whole < count ? collected->whole : count;
	collected->due = collected->due && collected->held > 0;
	if (collected->held > 0)
		memmove(collected->memory, collected->memory + (size_t)count * collected->stride,
			(size_t)collected->held * collected->stride);
	else if (!deliver_stopped(source))
		deliver_complete(source);
	return (int)count;
}

int collect_rest(struct tb_source *source, int max)
{
	return source->collected.due ? batch_deliver(source, max) : 0;
}

/* Records to take before the next batch is delivered. */
static int room_of(const struct tb_source *source, int max)
{
	const struct collection *collected = &source->collected;
	const int most = max < (int)collected->places ? max : (int)collected->places;

	return most - (int)collected->held;
}

/* Holes and qualities are taken, but not held. What is due after a take is delivered, and the loop
 * goes on with what waited for it. */
int collect_poll(struct tb_source *source, int max, collect_take *take)
{
	struct collection *collected = &source->collected;
	int count = collected->held > 0 ? batch_deliver(source, max) : 0, room, taken;
	uint32_t before;
	bool more;

	do {
		room = room_of(source, max - count);
		if (room <= 0 || collected->due || deliver_stopped(source))
			return count;
		before = collected->held;
		taken = take(source, room);
		count += taken - (int)(collected->held - before);
		more = taken == room || collected->due;
		if (taken > 0 || more)
			count += batch_deliver(source, max - count);
	} while (more && source->state == SOURCE_RUNNING);
	return count;
}

/* A hole or a quality is reported at its place, and is in no batch. */
int collect_unusual(struct tb_source *source, const struct record *copy)
{
	const struct choice *choice = source->mapping.choice;
	int result;

	if (copy->kind == TB_KIND_HOLE || copy->kind == TB_KIND_QUALITY)
		return collect_interrupt(source) ? 0 : deliver_unusual(source, copy);
	deliver_first(source);
	if (choice && choice_is_left(choice, copy->instrument))
		return deliver_skipped(source, copy);
	if (choice && choice_is_taken(choice, copy->instrument) && !source->hole_first &&
	    !source->mapping.image)
		return collect_named(source, copy);
	result = names_fetch(source, copy->instrument);
	if (result != 1)
		return result;
	if (!choice_has(source, copy->instrument))
		return deliver_skipped(source, copy);
	deliver_holes(source);
	if (deliver_stopped(source))
		return 0;
	deliver_passed(source, copy);
	collect_named(source, copy);
	deliver_complete(source);
	return 1;
}
