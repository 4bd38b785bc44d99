/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a subscription's handlers: records, gaps and events, in the order of the sequences.
 *
 * A handler may close the subscriber or end its subscription. After each call of a handler, the
 * caller checks deliver_stopped() before it uses the position again. */
#include "subscriber/deliver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/hash.h"
#include "bus/quality.h"
#include "subscriber/choice.h"
#include "subscriber/collect.h"
#include "subscriber/conflate.h"
#include "subscriber/image.h"
#include "subscriber/names.h"
#include "tickbus/record.h"
#include "tickbus/subscriber.h"

static void count(struct tb_source *source, enum subscription_counter counter, uint64_t more)
{
	source->subscription->counters[counter] += more;
}

static void event_deliver(struct tb_subscription *subscription, struct tb_event *event)
{
	if (!subscription->options.on_event || subscription->closing ||
	    subscription->subscriber->closing)
		return;
	event->size = sizeof(*event);
	event->user = subscription->subscriber->user;
	subscription->options.on_event(subscription->options.user, event);
}

/* The last sequence before the held records: some of those between them may be skipped. */
uint64_t deliver_position(const struct tb_source *source)
{
	const struct record *held = (const struct record *)(const void *)source->collected.memory;
	const uint64_t last = (source->collected.held > 0 ? held->sequence : source->next) - 1;

	return last < source->head ? last : source->head; /* also before the start, with next 0 */
}

static struct tb_event event_of(const struct tb_source *source, enum tb_event_kind kind)
{
	const struct conflate *conflate = source->mapping.conflate;

	return (struct tb_event){ .kind = kind,
				  .topic = source->name,
				  .epoch = source->mapping.shape.epoch,
				  .delivered = deliver_position(source),
				  .head = source->head,
				  .quality = source->quality,
				  .held = conflate ? conflate->held_count : 0 };
}

/* A topic whose connection was lost says why. */
static void stale_fill(struct tb_source *source, struct tb_event *event)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;

	count(source, SUBSCRIPTION_STALES, 1);
	if (!subscriber->lost)
		return;
	source->stale_code = event->code = subscriber->lost_code;
	event->words = subscriber->lost_text;
}

void deliver_event(struct tb_source *source, enum tb_event_kind kind)
{
	struct tb_event event = event_of(source, kind);

	event.first = source->next;
	if (kind == TB_EVENT_APPEARED)
		event.time_ns = source->skip_ns;
	if (kind == TB_EVENT_STALE)
		stale_fill(source, &event);
	event_deliver(source->subscription, &event);
}

void deliver_stale_reason(struct tb_source *source, int code, const char *text)
{
	struct tb_event event = event_of(source, TB_EVENT_STALE);

	if (!source->stale || source->stale_code == code || source->state >= SOURCE_ENDED)
		return;
	source->stale_code = code;
	event.first = source->next;
	event.code = code;
	event.words = text;
	event_deliver(source->subscription, &event);
}

static const enum subscription_counter lost_counters[] = {
	[TB_CAUSE_OVERRUN] = SUBSCRIPTION_LOST_OVERRUN,
	[TB_CAUSE_BEFORE_JOIN] = SUBSCRIPTION_LOST_BEFORE_JOIN,
	[TB_CAUSE_UPSTREAM] = SUBSCRIPTION_LOST_UPSTREAM,
	[TB_CAUSE_CORRUPT] = SUBSCRIPTION_LOST_CORRUPT,
};

void deliver_gap(struct tb_source *source, uint64_t first, uint64_t last, enum tb_cause cause,
		 uint64_t skipped)
{
	const struct conflate *conflate = source->mapping.conflate;
	const uint64_t kept =
		conflate ? conflate_delivered_in(conflate, first, last) : 0; /* Z-I3 */
	struct tb_event event = event_of(source, TB_EVENT_GAP);

	event.cause = cause;
	event.first = first;
	event.last = last;
	event.lost = last - first + 1 - kept;
	event.delivered = last + skipped;
	event.skipped = skipped;
	count(source, lost_counters[cause], event.lost);
	count(source, SUBSCRIPTION_RECORDS, kept);
	count(source, SUBSCRIPTION_SKIPPED, skipped);
	if (event.lost > 0)
		event_deliver(source->subscription, &event);
}

void deliver_given_up(struct tb_source *source, enum tb_cause cause)
{
	struct tb_event event = event_of(source, TB_EVENT_GAP);

	if (!source->mapping.conflate)
		return;
	event.held = 0;
	event.cause = cause;
	event.lost = conflate_give_up(source->mapping.conflate, &event.first, &event.last);
	count(source, lost_counters[cause], event.lost);
	if (event.lost > 0)
		event_deliver(source->subscription, &event);
}

/* -- images ------------------------------------------------------------------------------------
 */

/* Whether records of some instruments are skipped. */
static bool filters(const struct tb_source *source)
{
	return source->mapping.choice && source_reads_records(source);
}

void deliver_detour(struct tb_source *source)
{
	const struct image *image = source->mapping.image;

	source->detour = source->hole_first != 0 || source->ahead || source->skip_ns != 0 ||
			 filters(source) || conflate_is_active(source->mapping.conflate) ||
			 (image && (image_is_busy(image) ||
				    source->subscription->options.gap == TB_GAP_IMAGE));
}

void deliver_image(struct tb_source *source, uint64_t base)
{
	struct tb_event event = event_of(source, TB_EVENT_IMAGE);

	event.first = base;
	if (image_begin(source->mapping.image, base)) {
		event.code = EOVERFLOW;
		event.words = "this reader is lapped again and again before the image is complete: "
			      "it needs fewer records or a faster host";
	}
	deliver_detour(source);
	count(source, SUBSCRIPTION_IMAGES, 1);
	event_deliver(source->subscription, &event);
}

void deliver_batch(struct tb_source *source, const void *records, uint32_t count)
{
	struct tb_subscription *subscription = source->subscription;
	const struct tb_batch batch = { .size = sizeof(batch),
					.epoch = source->mapping.shape.epoch,
					.records = records,
					.stride = source->mapping.shape.slot_bytes,
					.count = count };

	subscription->options.on_batch(subscription->options.user, source, &batch);
}

/* Calls the handler with a value, which does not move the position. */
static void value_show(struct tb_source *source, const struct record *copy)
{
	struct tb_subscription *subscription = source->subscription;
	struct tb_record record;

	if (subscription->options.on_batch) {
		deliver_batch(source, copy, 1);
		return;
	}
	record = (struct tb_record){ .size = sizeof(record),
				     .epoch = source->mapping.shape.epoch,
				     .sequence = copy->sequence,
				     .time_ns = copy->time_ns,
				     .instrument = copy->instrument,
				     .length = copy->length,
				     .kind = copy->kind,
				     .flags = copy->flags,
				     .name = source->mapping.names[copy->instrument],
				     .data = copy->payload };
	subscription->options.on_record(subscription->options.user, source, &record);
}

void deliver_value(struct tb_source *source, struct record *copy)
{
	copy->flags |= TB_FLAG_IMAGE;
	count(source, source->mapping.watch ? SUBSCRIPTION_VALUES : SUBSCRIPTION_IMAGE_RECORDS, 1);
	value_show(source, copy);
}

int deliver_newest(struct tb_source *source, struct record *copy)
{
	const struct conflate_verdict verdict =
		conflate_takes(source->mapping.conflate, copy, source->next - 1);

	count(source, SUBSCRIPTION_RECORDS, verdict.records);
	count(source, SUBSCRIPTION_SKIPPED, verdict.skipped);
	if (!verdict.deliver)
		return 0;
	if (verdict.image)
		deliver_value(source, copy);
	else
		value_show(source, copy);
	return 1;
}

void deliver_jump(struct tb_source *source)
{
	struct conflate *conflate = source->mapping.conflate;
	const uint64_t kept = conflate_delivered_in(conflate, source->next, conflate->target);

	count(source, SUBSCRIPTION_RECORDS, kept);
	count(source, SUBSCRIPTION_SKIPPED, conflate->target + 1 - source->next - kept);
	source->next = conflate->target + 1;
	source->tries = 0;
	source->quality_head = 0;
	conflate->replaced = 0;
	conflate->jumps = false;
}

void deliver_no_value(struct tb_source *source, uint32_t instrument)
{
	struct tb_event event = event_of(source, TB_EVENT_NO_VALUE);
	char number[16];

	event.words = source->mapping.names[instrument];
	if (!event.words[0]) {
		snprintf(number, sizeof(number), "#%u", instrument);
		event.words = number;
	}
	event_deliver(source->subscription, &event);
}

void deliver_no_instrument(struct tb_source *source, const char *name)
{
	struct tb_event event = event_of(source, TB_EVENT_NO_INSTRUMENT);

	event.words = name;
	event_deliver(source->subscription, &event);
}

void deliver_complete(struct tb_source *source)
{
	struct image *image = source->mapping.image;

	if (!image || source->subscription->merge || !image_may_complete(image, source->next - 1) ||
	    collect_interrupt(source))
		return;
	image_completes(image);
	if (source->mapping.conflate)
		conflate_begin_imaged(source->mapping.conflate, image->seen, image->delivered);
	deliver_holes(source);
	deliver_detour(source);
	if (!deliver_stopped(source))
		deliver_event(source, TB_EVENT_COMPLETE);
}

/* The cut of a merge: of all its topics, or of a topic that joined later. */
void deliver_cut(struct tb_subscription *subscription, const struct tb_source *source,
		 uint64_t time_ns)
{
	struct tb_event event = { .topic = subscription->pattern };

	if (source)
		event = event_of(source, TB_EVENT_COMPLETE);
	event.kind = TB_EVENT_COMPLETE;
	event.time_ns = time_ns;
	event_deliver(subscription, &event);
}

void deliver_left(struct tb_source *source, int code, const char *text)
{
	struct tb_event event = event_of(source, TB_EVENT_LEFT);

	event.code = code;
	event.words = text;
	event_deliver(source->subscription, &event);
}

/* -- events ------------------------------------------------------------------------------------
 */

void deliver_restart(struct tb_source *source, uint64_t old_epoch, uint64_t delivered,
		     uint64_t head)
{
	struct tb_event event = event_of(source, TB_EVENT_RESTART);

	event.old_epoch = old_epoch;
	event.delivered = delivered;
	event.head = head;
	count(source, SUBSCRIPTION_RESTARTS, 1);
	event_deliver(source->subscription, &event);
}

void deliver_refused(struct tb_subscription *subscription, const char *topic, int code,
		     const char *text)
{
	struct tb_event event = {
		.kind = TB_EVENT_REFUSED, .topic = topic, .code = code, .words = text
	};

	event_deliver(subscription, &event);
}

bool deliver_refusal_differs(struct tb_subscription *subscription, uint32_t topic_id,
			     const char *text)
{
	uint64_t *hash = &subscription->refusal_hash[topic_id];
	const uint64_t before = *hash;

	*hash = XXH3_64bits(text, strlen(text));
	return *hash != before;
}

/* The last refusal stands. ENOSPC is kept, since it ends the call. */
void deliver_outcome(struct tb_subscription *subscription, int code, const char *text)
{
	if (!subscription->fresh || subscription->error == -ENOSPC)
		return;
	subscription->error = -code;
	subscription->waits = false;
	strncpy(subscription->error_text, text, sizeof(subscription->error_text) - 1);
}

void deliver_holes(struct tb_source *source)
{
	const uint64_t first = source->hole_first;

	if (first == 0)
		return;
	source->hole_first = 0;
	deliver_detour(source);
	deliver_gap(source, first, source->hole_last, TB_CAUSE_UPSTREAM, 0);
}

static void quality_report(struct tb_source *source, const struct quality *quality, uint64_t first)
{
	struct tb_event event;

	source->quality = quality->state;
	source->quality_head = 0;
	event = event_of(source, TB_EVENT_QUALITY);
	event.first = first;
	event.quality_cause = quality->cause;
	event_deliver(source->subscription, &event);
}

void deliver_quality(struct tb_source *source, uint32_t state)
{
	const struct quality quality = { state, TB_QUALITY_CAUSE_NONE };

	source->quality_head = 0;
	if (state != source->quality)
		quality_report(source, &quality, 0);
}

void deliver_passed(struct tb_source *source, const struct record *copy)
{
	if (source->mapping.image)
		image_passed(source->mapping.image, copy->sequence, copy->instrument, copy->kind,
			     copy->flags);
}

/* Counts as delivered, although the handler of records does not get it. */
static int quality_record(struct tb_source *source, const struct record *copy)
{
	struct quality quality;
	const int result = quality_take(copy, &quality);

	if (result < 0)
		return result;
	deliver_holes(source);
	if (deliver_stopped(source))
		return 0;
	deliver_move(source, copy->sequence);
	count(source, SUBSCRIPTION_RECORDS, 1);
	deliver_passed(source, copy);
	quality_report(source, &quality, copy->sequence);
	if (!deliver_stopped(source))
		deliver_complete(source);
	return 1;
}

int deliver_skipped(struct tb_source *source, const struct record *copy)
{
	struct collection *collected = &source->collected;

	deliver_holes(source);
	if (deliver_stopped(source))
		return 0;
	deliver_move(source, copy->sequence);
	if (source->mapping.conflate && conflate_came(source->mapping.conflate, copy))
		count(source, SUBSCRIPTION_RECORDS, 1); /* before its name was removed */
	else
		count(source, SUBSCRIPTION_SKIPPED, 1);
	if (source->mapping.conflate)
		source->mapping.conflate->quiet++;
	if (collects(source) && collect_ends(source, copy))
		collected->whole = collected->held;
	if (source->mapping.image) {
		/* The image learns only where a message ends. */
		image_passed(source->mapping.image, copy->sequence, UINT32_MAX, copy->kind,
			     copy->flags);
		deliver_complete(source);
	}
	return 1;
}

/* Whether the merge was past this record when its topic joined (MG2). Holes and qualities are of
 * the topic, and always come. */
static bool is_behind(struct tb_source *source, const struct record *copy)
{
	if (copy->kind == TB_KIND_HOLE || copy->kind == TB_KIND_QUALITY)
		return false;
	if (copy->time_ns > source->skip_ns) {
		source->skip_ns = 0;
		deliver_detour(source);
		return false;
	}
	return true;
}

/* A record of a conflated topic, of an instrument that has a name and is chosen. */
static int conflated(struct tb_source *source, const struct record *copy)
{
	struct conflate_verdict verdict;

	deliver_holes(source);
	if (deliver_stopped(source))
		return 0;
	verdict = conflate_passes(source->mapping.conflate, copy);
	count(source, SUBSCRIPTION_RECORDS, verdict.records);
	count(source, SUBSCRIPTION_SKIPPED, verdict.skipped);
	if (verdict.deliver)
		return deliver_named(source, copy);
	deliver_move(source, copy->sequence);
	return 1;
}

void deliver_first(struct tb_source *source)
{
	if (!source->ahead)
		return;
	source->ahead = false;
	source->look = true;
	deliver_detour(source);
}

int deliver_unusual(struct tb_source *source, const struct record *copy)
{
	const struct choice *choice = source->mapping.choice;
	int result;

	deliver_first(source);
	if (source->skip_ns != 0 && is_behind(source, copy))
		return deliver_skipped(source, copy);
	if (choice && !deliver_kind_is_unusual(copy->kind)) {
		if (choice_is_left(choice, copy->instrument))
			return deliver_skipped(source, copy);
		if (choice_is_taken(choice, copy->instrument) && !source->hole_first &&
		    !source->mapping.image && !source->mapping.conflate)
			return deliver_named(source, copy);
	}
	if (copy->kind == TB_KIND_HOLE) {
		if (source->hole_first == 0)
			source->hole_first = source->next;
		source->hole_last = source->next;
		source->detour = true;
		deliver_move(source, copy->sequence);
		deliver_passed(source, copy);
		return 1;
	}
	if (copy->kind == TB_KIND_QUALITY)
		return quality_record(source, copy);
	result = names_fetch(source, copy->instrument);
	if (result != 1)
		return result;
	if (!choice_has(source, copy->instrument))
		return deliver_skipped(source, copy);
	if (conflate_is_active(source->mapping.conflate))
		return conflated(source, copy);
	deliver_holes(source);
	if (deliver_stopped(source))
		return 0;
	deliver_passed(source, copy);
	deliver_named(source, copy);
	if (!deliver_stopped(source))
		deliver_complete(source);
	return 1;
}
