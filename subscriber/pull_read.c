/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers records by READ. Up to the known head, records come in few READs, several of them
 * outstanding. Each copy is checked, and delivered in order. The landing has two halves: while
 * records of one half are delivered, READs into the other half are outstanding. A landing without
 * room for two READs is one half.
 *
 * N1  Copies of a batch are used only when all its READs have completed. A half is used again only
 *     when all READs into it have completed, and all its records were delivered or discarded.
 * N2  New heads come from the progress line alone. While there is nothing else to do, it is READ
 *     at most once per polling interval. A hint, a failed copy or the bus page makes it at most
 *     once per millisecond, or per polling interval if that is shorter.
 * N3  The order of READs does not matter: a copy is valid if its own check is.
 * N4  Strict: the head was READ before the batch was posted, and the progress line is READ again
 *     when the batch has landed. The writer changes the slot of record m only after it has written
 *     a line with reserved >= m. So the slot of a record n >= reserved - slots + 1 held n during
 *     the whole READ. Records below that are reported as overrun, whole or not.
 * N5  Held batches follow each other without a gap, and the first holds next. A batch begins where
 *     the last batch ends; if a batch fails, all are discarded.
 * N6  While a READ into the landing's page (line, names) is outstanding, nothing is delivered or
 *     posted. Only the slots of N8 go out with the line. So a failed copy is judged by a line that
 *     was requested afterwards.
 * N7  A record is copied out of the landing before it is proven, and shown from that copy. Over
 *     iWARP the publisher may write into landings, also after a check.
 * N8  A reader that spins READs slots ahead of the head: with the line, in one list, from `next`
 *     on. A record that is there then costs one round trip instead of two. As many slots are READ
 *     as each of the last two looks brought records, at least one. So READs ahead bring at most as
 *     many slots in vain as records came, and in pauses single slots. These have at most read_bytes
 *     between two records, then lines alone are READ. A slot without a proven record may still be
 *     written. It counts as no failed copy: the rest of the batch is dropped. If the line counts
 *     the record, it is READ as a known record is. Not under N4, and not in a merge: there only
 *     lines say which records are READ. Not by a conflation, which has intervals. Not after an
 *     invalid line: its repetition would wait for the slots. And only if the queue has two places
 *     for each topic: no READ ahead takes the place of another topic's line. */
#include "subscriber/pull_read.h"

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/progress.h"
#include "bus/record.h"
#include "bus/region.h"
#include "subscriber/choice_scan.h"
#include "subscriber/collect.h"
#include "subscriber/conflate.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/fetch.h"
#include "subscriber/image.h"
#include "subscriber/merge_state.h"
#include "subscriber/notices.h"
#include "subscriber/reader.h"
#include "subscriber/tag.h"
#include "tickbus/subscriber.h"

static bool is_strict(const struct tb_source *source)
{
	return source->subscription->options.flags & TB_STRICT;
}

/* Whether only lines say which records are READ. A merge delivers no record that no line counts. */
static bool follows_lines(const struct tb_source *source)
{
	return source->subscription->options.flags & (TB_STRICT | TB_MERGE);
}

/* The last record to READ: up to the head, and up to the hint (M1) unless only lines count (N4). At
 * most a ring ahead: further records would be in slots that still hold records not read yet. */
static uint64_t target(const struct tb_source *source)
{
	const uint64_t window = source->next + source->mapping.shape.slots - 1;
	uint64_t last = source->head;

	if (!follows_lines(source) && source->hint > last)
		last = source->hint;
	return last < window ? last : window;
}

/* -- batches ---------------------------------------------------------------------------------- */

static bool batch_held(const struct tb_source *source, const struct batch *batch)
{
	return batch->end > source->next;
}

/* The batch that holds next (N5), or NULL. */
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
	source->held = false;
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

/* -- posting ---------------------------------------------------------------------------------- */

/* The first record that was neither delivered nor requested. */
static uint64_t posted_end(const struct tb_source *source)
{
	uint64_t end = source->next;

	for (unsigned int i = 0; i < source->halves; i++)
		if (source->batches[i].end > end)
			end = source->batches[i].end;
	return end;
}

/* Where the slot of a record of the batch in this half lands. */
static char *slot_landing(const struct tb_source *source, unsigned int half, uint64_t sequence)
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
		.into = slot_landing(source, half, first),
		.tag = tag_pack(READ_SLOTS, source->slot, half),
	};
}

/* Posts READs for as much of [posted_end, target] as the half and the queue take. False: no READ
 * was posted. */
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

/* A half for the next batch (N1); -1: no half is free. */
static inline int half_free(const struct tb_source *source)
{
	for (unsigned int i = 0; i < source->halves; i++)
		if (source->batches[i].under_way == 0 && !batch_held(source, &source->batches[i]))
			return (int)i;
	return -1;
}

/* The same; -1 also if no record is to be READ. */
static inline int half_due(const struct tb_source *source)
{
	if (source->copy_failed || posted_end(source) > target(source))
		return -1;
	return half_free(source);
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
	source->fetched_ns = clock_ns();
	if (fetch(source, READ_PROGRESS, source->mapping.layout.progress,
		  sizeof(struct progress)) == 0 &&
	    source->mapping.image)
		image_line_asked(source->mapping.image);
}

/* Whether only a look can bring the next record. A batch that was READ ahead may have it. */
static bool has_read_all(const struct tb_source *source)
{
	const struct batch *oldest = batch_oldest(source);

	return source->next > target(source) && !(oldest && oldest->ahead);
}

static bool reads_ahead(const struct tb_source *source)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;

	return subscriber->poll_ns == 0 &&
	       2 * subscriber->table_used < subscriber->ops->depth(subscriber->link) &&
	       !follows_lines(source) && !conflate_is_active(source->mapping.conflate) &&
	       source->invalid == 0 && has_read_all(source);
}

/* How many slots this look READs ahead (N8), at most to the end of the ring. */
static uint64_t ahead_count(struct tb_source *source)
{
	const uint32_t read_bytes = source->subscription->subscriber->read_bytes;
	const struct region_shape *shape = &source->mapping.shape;
	struct ahead *ahead = &source->ahead_of_line;
	const uint64_t brought = source->next - ahead->next;
	const uint64_t to_wrap = shape->slots - (source->next & (shape->slots - 1));
	uint64_t count = brought < ahead->brought ? brought : ahead->brought, most;

	ahead->next = source->next;
	ahead->brought = brought;
	if (brought > 0)
		ahead->bytes = 0;
	most = (read_bytes - ahead->bytes) / shape->slot_bytes;
	most = most < to_wrap ? most : to_wrap;
	count = count > 0 ? count : 1;
	return count < most ? count : most;
}

/* Posts the READ of slots that goes out with the line's. */
static void ahead_post(struct tb_source *source)
{
	const uint64_t first = source->next, count = ahead_count(source);
	const int half = count > 0 && reads_ahead(source) ? half_free(source) : -1;
	struct fabric_read read;

	if (half < 0)
		return;
	source->batches[half].first = first;
	read = slots_read(source, (unsigned int)half, first, count);
	if (connection_read(source, &read, 1) != 1)
		return;
	source->batches[half] = (struct batch){
		.first = first, .end = first + count, .under_way = 1, .ahead = true
	};
	source->ahead_of_line.bytes += read.bytes;
}

/* The shortest time between two looks. A long polling interval does not delay a look with a cause:
 * a hint, a failed copy, the bus page. A short interval does not repeat the look all the time if
 * the line stays invalid: its writer may hang while writing it. */
static uint64_t pace_ns(const struct tb_source *source, bool has_cause)
{
	const uint64_t poll_ns = source->subscription->subscriber->poll_ns;

	if (source->invalid > TRIES_MAX)
		return RETRY_NS;
	return (has_cause || source->invalid > 0) && poll_ns > RETRY_NS ? RETRY_NS : poll_ns;
}

static bool pace_passed(const struct tb_source *source, bool has_cause)
{
	return clock_ns() - source->fetched_ns >= pace_ns(source, has_cause);
}

/* A reader that needs the line requests it at once, with two exceptions, which are paced. After an
 * invalid line, its writer may hang while writing it. After a hint alone, a stranger's hints ahead
 * of the records would cause a READ each. */
static bool line_due(const struct tb_source *source)
{
	return (source->invalid == 0 && source->next <= source->head) || pace_passed(source, true);
}

/* N2. A failed copy is judged at once. If notices or the publisher wake a reader, it need
 * not poll: the bus page also shows a topic that moved. A line that was invalid is READ until it is
 * valid, or the topic would stay stale. Under N4 only the line can confirm a hint. A topic that
 * leaves a merge needs no more lines than its last: a READ that is outstanding would keep it from
 * leaving. */
static bool look_due(const struct tb_source *source)
{
	const bool has_cause = source->look || source->hint > source->head || source->invalid > 0 ||
			       merge_state_wants_line(source);

	if (source->copy_failed)
		return line_due(source);
	if (!has_cause && (source->armed || source->final || notices_alive(source)))
		return false;
	return pace_passed(source, has_cause);
}

/* -- delivering ------------------------------------------------------------------------------- */

/* Delivers or collects records that have landed, in order from `next` (N7). Inlined twice. In a
 * merge, records beyond the head or after limit_ns wait. */
static inline __attribute__((always_inline)) int
batch_pull(struct tb_source *source, const struct batch *batch, int max, bool merged)
{
	const struct mapping *mapping = &source->mapping;
	const unsigned int half = (unsigned int)(batch - source->batches);
	const bool for_batch = collects(source);
	int count = 0, result = 1;

	while (count < max && batch_held(source, batch)) {
		struct record *copy = for_batch ? collect_place(source) : &source->record;

		if (merged && source->next > source->head)
			break;
		result = 0;
		if (!merged || !source->held)
			result = record_take_landed(slot_landing(source, half, source->next),
						    mapping->shape.slot_bytes, source->next, copy,
						    mapping->record_salt);
		if (merged && result == 0) {
			result = deliver_waits(source);
			if (result > 0)
				break;
		}
		if (result == 0)
			result = for_batch ? collect_record(source, copy)
					   : deliver_record(source, copy);
		if (result != 1)
			break;
		count++;
		if (deliver_stopped(source))
			return count;
		if (for_batch && source->collected.due)
			break;
	}
	if (result < 0 && batch->ahead) {
		pull_read_drop(source); /* N8 */
	} else if (result < 0) {
		source->subscription->counters[SUBSCRIPTION_TORN]++;
		pull_read_drop(source);
		source->look = true;
		source->copy_failed = true; /* the line decides: overrun, or one more failed try */
	}
	deliver_holes(source);
	return count;
}

static int batch_deliver(struct tb_source *source, const struct batch *batch, int max)
{
	connection_deliver(source->subscription->subscriber);
	return source->subscription->merge ? batch_pull(source, batch, max, true)
					   : batch_pull(source, batch, max, false);
}

/* Whether what has landed waits for other topics of a merge, or for the head. */
static bool waits(const struct tb_source *source)
{
	return source->held || (source->subscription->merge && source->next > source->head);
}

bool pull_read_due(const struct tb_source *source)
{
	const struct batch *oldest = batch_oldest(source);

	if (source->state != SOURCE_RUNNING || !source->mapping.remote || source->page_under_way)
		return false;
	if (!connection_may_read(source)) /* U1 */
		return oldest && oldest->under_way == 0 && !is_strict(source) && !waits(source);
	if (source->copy_failed)
		return line_due(source);
	if (half_due(source) >= 0)
		return true;
	if (!oldest || oldest->under_way > 0 || waits(source))
		return false;
	return !is_strict(source) || oldest->proven || line_due(source);
}

/* Few lines are needed beside those of records, but while records come faster than they are read.
 */
static bool needs_line(const struct tb_source *source)
{
	const struct mapping *mapping = &source->mapping;

	return source->look && ((mapping->image && image_wants_line(mapping->image)) ||
				choice_scan_wants_line(mapping->choice));
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
	/* Known records come first: otherwise hints could cause looks for ever. */
	if ((source->copy_failed || has_read_all(source) || needs_line(source) ||
	     merge_state_needs_line(source)) &&
	    look_due(source) && !choice_scan_takes_turn(source)) {
		look_post(source);
		if (source->page_under_way)
			ahead_post(source);
		if (follows_lines(source) && source->page_under_way)
			source->hint = 0; /* true or false, the line answers it */
	}
	return count;
}
