/* SPDX-License-Identifier: Apache-2.0 */
/* Watch lists: the newest values of chosen instruments. A look copies the slots of the chosen
 * instruments, and delivers those values whose sequence has grown.
 *
 * W-I1  A look begins after a line was loaded and verified, and covers its head: a value that this
 *       line counts was stored before. So after a look without torn copies the program has each
 *       chosen value up to that head, or a newer value. Without a newer head there is no look.
 * W-I2  A value is delivered if its sequence is above that of the last delivered value of its
 *       instrument. So no value goes back. A stored clear is delivered only after a value.
 * W-I3  A copy is torn by a record that no line counted when the look began. When that record is
 *       counted, the head has moved, and the next look copies the slot again. A READ may also be
 *       damaged on its way. So torn slots alone are copied again at a pace, TRIES_MAX times.
 * W-I4  A slot that was torn in TRIES_MAX looks in a row, each with a newer head, is reported.
 *       Later looks still copy it, and deliver it once it is whole.
 * W-I5  Only instruments that were judged as chosen are looked at, and the bit is tested again
 *       when the copy has come. A change of the list clears it. So a removed name comes no more. An
 *       instrument that is chosen while a look runs, or after it, makes the next look due. It never
 *       ends the look that runs.
 * W-I6  A look waits for no name but at the beginning: the first look comes when the names were
 *       read that the first line counts. The end of a topic waits for a whole look that began after
 *       it was known, and for TRIES_MAX more at the most.
 * W-I7  While a look is not due by its pace, a sleeper is neither armed nor woken for the line. The
 *       publisher would answer each arm at once with a head that brings no look. */
#include "subscriber/pull_watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/region.h"
#include "bus/sparse.h"
#include "subscriber/choice_scan.h"
#include "subscriber/deliver.h"
#include "subscriber/fetch.h"
#include "subscriber/notices.h"
#include "subscriber/reader.h"
#include "subscriber/value_reads.h"

static size_t words_of(uint32_t bits)
{
	return ((size_t)bits + 63) / 64;
}

/* -- memory ----------------------------------------------------------------------------------- */

int pull_watch_open(const struct tb_subscription *subscription, const struct control_topic *topic,
		    struct watch **out)
{
	const uint32_t capacity = topic->shape.capacity;
	struct watch *watch;

	*out = NULL;
	if (!(subscription->options.flags & TB_WATCH))
		return 0;
	if (!(topic->shape.flags & REGION_FLAG_LAST_VALUE))
		return error_set(EOPNOTSUPP,
				 "topic %s: it has no last values, which a watch list needs",
				 topic->name);
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return error_set(ENOMEM, "topic %s: no memory for a watch list", topic->name);
	watch->capacity = capacity;
	watch->torn = calloc(words_of(capacity), sizeof(*watch->torn));
	watch->seen = sparse_new(capacity, sizeof(*watch->seen));
	watch->tries = calloc(capacity, sizeof(*watch->tries));
	if (!watch->torn || !watch->seen || !watch->tries) {
		pull_watch_close(watch);
		return error_set(ENOMEM, "topic %s: no memory to watch %u instruments", topic->name,
				 capacity);
	}
	*out = watch;
	return 0;
}

void pull_watch_close(struct watch *watch)
{
	if (!watch)
		return;
	free(watch->torn);
	sparse_free(watch->seen, watch->capacity, sizeof(*watch->seen));
	free(watch->tries);
	free(watch);
}

void pull_watch_interrupted(struct watch *watch)
{
	if (watch && watch->running) {
		watch->running = false;
		watch->due = true;
	}
}

/* -- when ------------------------------------------------------------------------------------- */

static uint64_t look_ns(const struct tb_source *source)
{
	return UINT64_C(1000) * source->subscription->options.look_us;
}

static bool may_retry(const struct watch *watch)
{
	return watch->torn_count > 0 && watch->retries < TRIES_MAX;
}

bool pull_watch_is_idle(const struct tb_source *source)
{
	const struct watch *watch = source->mapping.watch;
	const struct choice *choice = source->mapping.choice;

	return !watch->running && !watch->due && !choice->reported && !choice->found &&
	       !watch->unread && !may_retry(watch) && watch->looked_head >= watch->head;
}

bool pull_watch_last(struct tb_source *source)
{
	struct watch *watch = source->mapping.watch;

	if (!watch)
		return false;
	watch->ending = true;
	return !pull_watch_is_idle(source) && watch->finals <= TRIES_MAX;
}

static bool may_go_on(const struct tb_source *source)
{
	return source->mapping.watch && source->state == SOURCE_RUNNING && !source->has_successor &&
	       source->mapping.remote;
}

/* When the next look may begin, by clock_ns(); UINT64_MAX: when the head has moved. */
static uint64_t due_ns(const struct tb_source *source)
{
	const struct watch *watch = source->mapping.watch;
	const uint64_t pace_ns = look_ns(source);

	if (watch->due || source->mapping.choice->reported)
		return 0;
	if (!watch->begun)
		return UINT64_MAX; /* the names come first: choice_scan_work() */
	if (watch->head > watch->looked_head || source->mapping.choice->found)
		return watch->looked_ns + pace_ns;
	if (watch->unread || may_retry(watch))
		return watch->looked_ns + (pace_ns > RETRY_NS ? pace_ns : RETRY_NS);
	return UINT64_MAX;
}

static uint64_t head_in_place(const struct mapping *mapping)
{
	return atomic_load_explicit(
		(const _Atomic uint64_t *)(const void *)(mapping->view + mapping->layout.progress),
		memory_order_acquire); /* a hint: the line is read whole then */
}

/* Whether the line is to be READ: for a hint at once, else at the polling interval. A hint that the
 * last line did not confirm was false. */
static bool line_due(struct tb_source *source, uint64_t now)
{
	struct watch *watch = source->mapping.watch;
	const uint64_t poll_ns = source->subscription->subscriber->poll_ns;

	if (source->page_under_way)
		return false;
	if (watch->hinted && source->hint > source->head)
		notices_false(source);
	watch->hinted = source->hint > source->head;
	if (watch->hinted)
		return now - source->fetched_ns >= (poll_ns < RETRY_NS ? poll_ns : RETRY_NS);
	return !source->armed && !notices_alive(source) && now - source->fetched_ns >= poll_ns;
}

bool pull_watch_holds(const struct tb_source *source)
{
	const struct watch *watch = source->mapping.watch;

	return may_go_on(source) && !watch->running && source->hint > source->head &&
	       clock_ns() - watch->looked_ns < look_ns(source);
}

void pull_watch_ask(struct tb_source *source)
{
	const struct watch *watch = source->mapping.watch;
	uint64_t now;

	if (!may_go_on(source) || source->look || watch->running ||
	    (source->mapping.view && head_in_place(&source->mapping) <= watch->head))
		return;
	now = clock_ns();
	if (now - watch->looked_ns < look_ns(source))
		return;
	source->look = source->mapping.view || line_due(source, now);
}

/* -- looks ------------------------------------------------------------------------------------ */

static bool look_begin(struct tb_source *source)
{
	struct watch *watch = source->mapping.watch;
	struct choice *choice = source->mapping.choice;
	const uint64_t due = due_ns(source);
	uint64_t now;

	if (due == UINT64_MAX)
		return false;
	now = clock_ns();
	if (now < due)
		return false;
	watch->again = !watch->due && !choice->reported && !choice->found && !watch->unread &&
		       watch->head <= watch->looked_head;
	watch->looked_ns = now;
	watch->looked_head = watch->head; /* W-I1 */
	watch->due = watch->unread = choice->reported = choice->found = false;
	watch->begun = true;
	watch->final = watch->ending;
	watch->retries = watch->again ? watch->retries + 1 : 0;
	if (!watch->again) {
		memset(watch->torn, 0, words_of(watch->capacity) * sizeof(*watch->torn));
		watch->torn_count = 0;
	}
	watch->running = true;
	source->subscription->counters[SUBSCRIPTION_VALUE_LOOKS]++;
	value_reads_begin(&source->value_reads, watch->again ? watch->torn : choice->chosen,
			  choice->at, false);
	return true;
}

static void torn_set(struct watch *watch, uint32_t instrument, bool torn)
{
	const uint64_t bit = UINT64_C(1) << instrument % 64;
	const bool was = watch->torn[instrument / 64] & bit;

	if (torn != was) {
		watch->torn[instrument / 64] ^= bit;
		watch->torn_count += torn ? 1 : UINT32_MAX;
	}
}

/* What the program no longer watches is new when it is watched again. */
void pull_watch_forget(struct watch *watch, uint32_t instrument)
{
	if (!watch)
		return;
	watch->seen[instrument] = 0;
	watch->tries[instrument] = 0;
	torn_set(watch, instrument, false);
}

/* W-I3, W-I4 */
static void slot_torn(struct tb_source *source, uint32_t instrument)
{
	struct watch *watch = source->mapping.watch;

	torn_set(watch, instrument, true);
	if (watch->again || watch->tries[instrument] == TRIES_MAX)
		return;
	if (++watch->tries[instrument] == TRIES_MAX)
		deliver_no_value(source, instrument);
}

/* The result of a copy. Returns 1 if its value was delivered. */
static int slot_taken(struct tb_source *source, uint32_t instrument, int result)
{
	struct watch *watch = source->mapping.watch;
	const struct record *copy = &source->record;
	uint64_t *seen = &watch->seen[instrument];

	if (!choice_is_taken(source->mapping.choice, instrument))
		return 0; /* it was removed meanwhile, while torn slots are copied again */
	if (result < 0) {
		slot_torn(source, instrument);
		return 0;
	}
	torn_set(watch, instrument, false);
	watch->tries[instrument] = 0;
	if (result == 0 || copy->sequence <= *seen) /* W-I2 */
		return 0;
	if (copy->kind == TB_KIND_CLEAR && *seen == 0)
		return 0;
	*seen = copy->sequence;
	deliver_value(source, &source->record);
	return 1;
}

int pull_watch(struct tb_source *source, int max)
{
	struct watch *watch = source->mapping.watch;
	int count;

	if (!may_go_on(source))
		return 0;
	if (!watch->running && !look_begin(source))
		return 0;
	count = value_reads_pass(source, max, slot_taken);
	if (!deliver_stopped(source) && watch->running && value_reads_over(&source->value_reads)) {
		watch->running = false;
		watch->unread = source->value_reads.unread;
		watch->finals += watch->final && !watch->unread;
	}
	return count;
}

/* -- sleeping --------------------------------------------------------------------------------- */

uint64_t pull_watch_due_ns(const struct tb_source *source)
{
	const struct watch *watch = source->mapping.watch;
	uint64_t due;

	if (!may_go_on(source))
		return UINT64_MAX;
	if (!watch->running) {
		due = due_ns(source);
		return due == UINT64_MAX && pull_watch_holds(source)
			       ? watch->looked_ns + look_ns(source)
			       : due;
	}
	switch (value_reads_work(source)) {
	case VALUE_WORK_NOW:
		return 0;
	case VALUE_WORK_SOON:
		return clock_ns() + RETRY_NS;
	case VALUE_WORK_NONE:
		break;
	}
	return UINT64_MAX;
}
