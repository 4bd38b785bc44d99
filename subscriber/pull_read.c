/* SPDX-License-Identifier: Apache-2.0 */
/* Pulling by READ: given a head H, [next, H] comes in few READs, several under way, into the
 * landing; each copy is checked and delivered in order. The landing has two halves that take turns,
 * so that READs into one are under way while what landed in the other is delivered; where it has no
 * room for two READs, it is one half.
 *
 * N1  Copies of a batch are looked at only when all its READs have completed, and nothing is posted
 *     into its half before they have and all of it was delivered or thrown away: nothing lands
 *     there any more.
 * N2  What learns of new heads is the progress line alone, read at most once in POLL_PAGE_MS while
 *     there is nothing else to do; no hint can make it more often.
 * N3  No order among READs is relied on: a copy is what its own check says.
 * N4  Strict: head was READ before the batch was posted, and the progress line is READ again when
 *     it has landed. No slot of record m is touched before a line with reserved >= m was written,
 *     so a copy of record n >= reserved - slots + 1 was made of a slot that held n all the while.
 *     What is below that is told as overrun, whole or not.
 * N5  Batches that are held follow each other without a gap, and the first of them holds next: a
 *     batch is posted from the end of the last one on, and with one that failed go all.
 * N6  While the landing's page is READ into (the line, names) nothing is delivered and nothing
 *     posted: a copy that failed is judged by a line that was asked for afterwards. */
#include "subscriber/pull_read.h"

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/progress.h"
#include "bus/record.h"
#include "bus/region.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/fetch.h"
#include "subscriber/notices.h"
#include "subscriber/tag.h"
#include "tickbus/subscriber.h"

static bool is_strict(const struct tb_source *source)
{
	return source->subscription->options.flags & TB_STRICT;
}

/* How far records are said to be: what is only hinted at is read as well (M1), but not under N4.
 * Beyond the ring they are in slots of those that are wanted first. */
static uint64_t target(const struct tb_source *source)
{
	const uint64_t window = source->next + source->mapping.shape.slots - 1;
	uint64_t last = source->head;

	if (!is_strict(source) && source->hint > last)
		last = source->hint;
	return last < window ? last : window;
}

/* -- batches ------------------------------------------------------------------------------------
 */

static bool batch_held(const struct tb_source *source, const struct batch *batch)
{
	return batch->end > source->next;
}

/* The one that holds next (N5), or NULL. */
static const struct batch *batch_oldest(const struct tb_source *source)
{
	const struct batch *oldest = NULL;

	for (unsigned int i = 0; i < source->halves; i++)
		if (batch_held(source, &source->batches[i]) &&
		    (!oldest || source->batches[i].first < oldest->first))
			oldest = &source->batches[i];
	return oldest;
}

bool pull_read_holds(const struct tb_source *source)
{
	return batch_oldest(source) != NULL;
}

void pull_read_drop(struct tb_source *source)
{
	for (unsigned int i = 0; i < source->halves; i++)
		source->batches[i].end = 0;
}

void pull_read_landed(struct tb_source *source, unsigned int half, int status)
{
	source->batches[half].under_way--;
	if (status < 0)
		source->batches[half].failed = true;
}

void pull_read_proven(struct tb_source *source)
{
	for (unsigned int i = 0; i < source->halves; i++)
		source->batches[i].proven = source->batches[i].asked;
}

/* -- posting ------------------------------------------------------------------------------------
 */

/* Where what was neither delivered nor asked for begins. */
static uint64_t posted_end(const struct tb_source *source)
{
	uint64_t end = source->next;

	for (unsigned int i = 0; i < source->halves; i++)
		if (source->batches[i].end > end)
			end = source->batches[i].end;
	return end;
}

/* Where the copy of a record of this half's batch is. */
static char *slot_copy(const struct tb_source *source, unsigned int half, uint64_t sequence)
{
	return source->landing + half * source->half_bytes +
	       (sequence - source->batches[half].first) * source->mapping.shape.slot_bytes;
}

static struct fabric_read slots_read(const struct tb_source *source, unsigned int half,
				     uint64_t first, uint64_t count)
{
	const struct mapping *mapping = &source->mapping;

	return (struct fabric_read){
		.remote = mapping->remote,
		.offset = mapping->layout.ring +
			  (first & (mapping->shape.slots - 1)) * mapping->shape.slot_bytes,
		.bytes = (uint32_t)(count * mapping->shape.slot_bytes),
		.into = slot_copy(source, half, first),
		.tag = tag_pack(READ_SLOTS, source->slot, half),
	};
}

/* Posts a list of READs for as much of [posted_end, target] as the half takes and the fabric has
 * room for; false: for nothing. */
static bool batch_post(struct tb_source *source, unsigned int half)
{
	const struct region_shape *shape = &source->mapping.shape;
	const struct tb_subscriber *subscriber = source->subscription->subscriber;
	struct fabric_read reads[READS_MAX];
	uint64_t ends[READS_MAX];
	const uint64_t room = source->half_bytes / shape->slot_bytes;
	const uint64_t each = subscriber->read_bytes > shape->slot_bytes
				      ? subscriber->read_bytes / shape->slot_bytes
				      : 1;
	const uint64_t first = posted_end(source);
	const uint64_t last = target(source) + 1 - first < room ? target(source) : first + room - 1;
	uint64_t at = first;
	int filled = 0, posted;

	source->batches[half].first = first;
	for (; at <= last && filled < READS_MAX; filled++) {
		const uint64_t to_wrap = shape->slots - (at & (shape->slots - 1));
		uint64_t count = last + 1 - at;

		count = count < each ? count : each;
		count = count < to_wrap ? count : to_wrap;
		reads[filled] = slots_read(source, half, at, count);
		ends[filled] = at += count;
	}
	posted = connection_read(source, reads, (unsigned int)filled);
	if (posted <= 0)
		return false;
	source->batches[half] = (struct batch){ .first = first,
						.end = ends[posted - 1],
						.under_way = (unsigned int)posted };
	return true;
}

/* The half for the next batch (N1), -1: none is free, or there is nothing to be READ. */
static int half_due(const struct tb_source *source)
{
	if (source->copy_failed || posted_end(source) > target(source))
		return -1;
	for (unsigned int i = 0; i < source->halves; i++)
		if (source->batches[i].under_way == 0 && !batch_held(source, &source->batches[i]))
			return (int)i;
	return -1;
}

static void batches_post(struct tb_source *source)
{
	int half = half_due(source);

	while (half >= 0 && batch_post(source, (unsigned int)half))
		half = half_due(source);
}

static void look_post(struct tb_source *source)
{
	for (unsigned int i = 0; i < source->halves; i++)
		source->batches[i].asked = source->batches[i].under_way == 0;
	source->fetched_ms = clock_coarse_ms();
	fetch(source, READ_PROGRESS, source->mapping.layout.progress, sizeof(struct progress));
}

/* What waits for the line asks at once. But not again at once for one that was not valid, whose
 * writer may hang in it, nor where nobody but a notice said that there is something: a stranger
 * who is always a little ahead of the records would have us ask for each of them. */
static bool line_due(const struct tb_source *source)
{
	return (source->invalid == 0 && source->next <= source->head) ||
	       clock_coarse_ms() - source->fetched_ms >= POLL_PAGE_MS;
}

/* N2. A copy that failed is looked into at once. Whom notices or the publisher wake need not look
 * by itself: the bus page tells, too, if a topic moved. What a hint is worth under N4 only the line
 * says. */
static bool look_due(const struct tb_source *source)
{
	if (source->copy_failed)
		return line_due(source);
	if (!source->look && source->hint <= source->head &&
	    (source->armed || notices_alive(source)))
		return false;
	return clock_coarse_ms() - source->fetched_ms >= POLL_PAGE_MS;
}

/* -- delivering ---------------------------------------------------------------------------------
 */

/* The copies that have landed, in order from `next` on. */
static int batch_deliver(struct tb_source *source, const struct batch *batch, int max)
{
	const struct mapping *mapping = &source->mapping;
	const unsigned int half = (unsigned int)(batch - source->batches);
	int count = 0, result = 1;

	while (count < max && batch_held(source, batch)) {
		struct record *copy = (void *)slot_copy(source, half, source->next);

		result = record_verify(copy, mapping->shape.slot_bytes, source->next, true,
				       mapping->record_salt);
		if (result == 0)
			result = deliver_record(source, copy);
		if (result != 1)
			break;
		count++;
		if (deliver_stopped(source))
			return count;
	}
	if (result < 0) {
		source->subscription->counters[SUBSCRIPTION_TORN]++;
		pull_read_drop(source);
		source->look = true;
		source->copy_failed = true; /* the look decides: overrun, or one more failed try */
	}
	deliver_holes(source);
	return count;
}

bool pull_read_due(const struct tb_source *source)
{
	const struct batch *oldest = batch_oldest(source);

	if (source->state != SOURCE_RUNNING || !source->mapping.remote || source->page_under_way)
		return false;
	if (source->copy_failed)
		return line_due(source);
	if (half_due(source) >= 0)
		return true;
	if (!oldest || oldest->under_way > 0)
		return false;
	return !is_strict(source) || oldest->proven || line_due(source);
}

int pull_read(struct tb_source *source, int max)
{
	const struct batch *oldest;
	int count = 0;

	if (source->page_under_way || !source->mapping.remote) /* N6 */
		return 0;
	batches_post(source);
	oldest = batch_oldest(source);
	if (oldest && oldest->under_way == 0) { /* N1 */
		if (oldest->failed) {
			pull_read_drop(source);
		} else if (is_strict(source) && !oldest->proven) {
			if (line_due(source))
				look_post(source); /* N4 */
			return 0;
		} else {
			count = batch_deliver(source, oldest, max);
		}
		if (source->page_under_way || deliver_stopped(source))
			return count;
		batches_post(source);
	}
	/* What is known to be there comes first: else hints could keep us looking for ever. */
	if ((source->copy_failed || source->next > target(source)) && look_due(source)) {
		look_post(source);
		if (is_strict(source) && source->page_under_way)
			source->hint = 0; /* true or false, the line answers it */
	}
	return count;
}
