/* SPDX-License-Identifier: Apache-2.0 */
/* Pulling by READ: given a head H, [next, H] comes in few READs, several under way, into the
 * landing; each copy is checked and delivered in order.
 *
 * N1  Copies of a batch are looked at only when all its READs have completed: nothing lands any
 * more. N2  What learns of new heads is the progress line alone, read at most once in POLL_PAGE_MS
 * while there is nothing else to do; no hint can make it more often. N3  No order among READs is
 * relied on: a copy is what its own check says.
 * N4  Strict: head was READ before the batch was posted, and the progress line is READ again when
 * it has landed. No slot of record m is touched before a line with reserved >= m was written, so a
 *     copy of record n >= reserved - slots + 1 was made of a slot that held n all the while. What
 * is below that is told as overrun, whole or not. */
#include <errno.h>
#include <string.h>

#include "subscriber/deliver.h"

static struct fabric_read chunk_read(const struct tb_source *source, uint64_t first, uint64_t count)
{
	const struct place *place = &source->place;

	return (struct fabric_read){
		.remote = place->remote,
		.offset = place->layout.ring +
			  (first & (place->shape.slots - 1)) * place->shape.slot_bytes,
		.bytes = (uint32_t)(count * place->shape.slot_bytes),
		.into = source->landing + (first - source->batch_first) * place->shape.slot_bytes,
		.tag = (uint64_t)source->slot << 8 | FETCH_SLOTS,
	};
}

static bool is_strict(const struct tb_source *source)
{
	return source->subscription->options.flags & TB_STRICT;
}

/* How far records are said to be: what is only hinted at is read as well (M1), but not under N4. */
static uint64_t target(const struct tb_source *source)
{
	if (is_strict(source))
		return source->head;
	return source->hint > source->head ? source->hint : source->head;
}

/* Posts a list of READs for as much of [next, head] as the landing takes and the fabric has room
 * for. */
static void batch_post(struct tb_source *source)
{
	const struct place *place = &source->place;
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	struct fabric_read reads[CHUNKS_MAX];
	uint64_t ends[CHUNKS_MAX];
	const uint64_t room = source->batch_bytes / place->shape.slot_bytes;
	const uint64_t part = source->batch_bytes / CHUNKS_MAX;
	const uint64_t chunk = (part > CHUNK_BYTES ? part : CHUNK_BYTES) / place->shape.slot_bytes;
	const uint64_t slots = place->shape.slots;
	uint64_t wanted = target(source) - source->next + 1;
	int chunks = 0, posted;

	wanted = wanted < room ? wanted : room;
	wanted = wanted < slots ? wanted : slots;
	source->batch_first = source->next;
	source->batch_count = 0;
	source->proven = false;
	source->failed = 0;
	for (uint64_t got = 0; got < wanted && chunks < CHUNKS_MAX; chunks++) {
		const uint64_t first = source->batch_first + got;
		const uint64_t to_wrap = slots - (first & (slots - 1));
		uint64_t count = wanted - got;

		count = count < chunk ? count : chunk;
		count = count < to_wrap ? count : to_wrap;
		reads[chunks] = chunk_read(source, first, count);
		ends[chunks] = got += count;
	}
	posted = subscriber->ops->read(subscriber->link, reads, (unsigned int)chunks);
	if (posted <= 0)
		return;
	source->batch_count = ends[posted - 1];
	source->under_way += (unsigned int)posted;
	source->subscription->counters[SUBSCRIPTION_READS] += (uint64_t)posted;
}

static void look_post(struct tb_source *source, uint64_t now)
{
	source->fetched_ms = now;
	source_fetch(source, FETCH_PROGRESS, source->place.layout.progress,
		     sizeof(struct progress));
}

/* N2. A copy that failed is looked into at once. Whom notices or the publisher wake need not look
 * by itself: the bus page tells, too, if a topic moved. What a hint is worth under N4 only the line
 * says. */
static bool look_due(const struct tb_source *source, uint64_t now)
{
	if (source->copy_failed)
		return true;
	if (!source->look && source->hint <= source->head &&
	    (source->armed || notices_alive(source->subscription->subscriber)))
		return false;
	return now - source->fetched_ms >= POLL_PAGE_MS;
}

/* The copies that have landed, in order from `next` on. */
static int batch_deliver(struct tb_source *source, int max)
{
	const struct place *place = &source->place;
	int count = 0, result = 1;

	while (count < max && source->next < source->batch_first + source->batch_count) {
		char *copy = source->landing +
			     (source->next - source->batch_first) * place->shape.slot_bytes;

		memcpy(&source->record, copy, place->shape.slot_bytes);
		result = record_verify(&source->record, place->shape.slot_bytes, source->next, true,
				       place->record_salt);
		if (result == 0)
			result = deliver_record(source, &source->record);
		if (result != 1)
			break;
		count++;
		if (deliver_stopped(source))
			return count;
	}
	if (result < 0) {
		source->subscription->counters[SUBSCRIPTION_TORN]++;
		source->batch_count = 0;
		source->look = true;
		source->copy_failed = true; /* the look decides: overrun, or one more failed try */
	} else if (source->next >= source->batch_first + source->batch_count) {
		source->batch_count = 0;
	}
	deliver_holes(source);
	return count;
}

bool pull_read_due(const struct tb_source *source)
{
	return source->state == SOURCE_RUNNING && source->place.remote && source->under_way == 0 &&
	       (source->batch_count > 0 || source->copy_failed || source->next <= target(source));
}

int pull_read(struct tb_source *source, int max)
{
	const uint64_t now = subscriber_now_ms();
	int count = 0;

	if (source->under_way > 0) /* N1 */
		return 0;
	if (source->failed > 0)
		source->batch_count = 0;
	if (source->batch_count > 0 && is_strict(source) && !source->proven) {
		source->failed = 0;
		look_post(source, now); /* N4 */
		return 0;
	}
	if (source->batch_count > 0)
		count = batch_deliver(source, max);
	if (source->under_way > 0 || source->batch_count > 0 || deliver_stopped(source) ||
	    source->state != SOURCE_RUNNING || !source->place.remote)
		return count;
	/* What is known to be there comes first: else hints could keep us looking for ever. */
	if (!source->copy_failed && source->next <= target(source)) {
		batch_post(source);
	} else if (look_due(source, now)) {
		if (is_strict(source))
			source->hint = 0; /* true or false, the line answers it */
		look_post(source, now);
	}
	return count;
}
