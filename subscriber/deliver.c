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
#include "bus/quality.h"
#include "subscriber/collect.h"
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

static struct tb_event event_of(const struct tb_source *source, enum tb_event_kind kind)
{
	return (struct tb_event){ .kind = kind,
				  .topic = source->name,
				  .epoch = source->mapping.shape.epoch,
				  .delivered = source->next - 1 - source->collected.held,
				  .head = source->head,
				  .quality = source->quality };
}

void deliver_event(struct tb_source *source, enum tb_event_kind kind)
{
	struct tb_event event = event_of(source, kind);

	event.first = source->next;
	if (kind == TB_EVENT_STALE)
		count(source, SUBSCRIPTION_STALES, 1);
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

void deliver_gap(struct tb_source *source, uint64_t first, uint64_t last, enum tb_cause cause,
		 uint64_t skipped)
{
	static const enum subscription_counter counters[] = {
		[TB_CAUSE_OVERRUN] = SUBSCRIPTION_LOST_OVERRUN,
		[TB_CAUSE_BEFORE_JOIN] = SUBSCRIPTION_LOST_BEFORE_JOIN,
		[TB_CAUSE_UPSTREAM] = SUBSCRIPTION_LOST_UPSTREAM,
		[TB_CAUSE_CORRUPT] = SUBSCRIPTION_LOST_CORRUPT,
	};
	struct tb_event event = event_of(source, TB_EVENT_GAP);

	event.cause = cause;
	event.first = first;
	event.last = last;
	event.delivered = last + skipped;
	event.skipped = skipped;
	count(source, counters[cause], last - first + 1);
	count(source, SUBSCRIPTION_SKIPPED, skipped);
	event_deliver(source->subscription, &event);
}

/* -- images ------------------------------------------------------------------------------------
 */

void deliver_detour(struct tb_source *source)
{
	const struct image *image = source->mapping.image;

	source->detour = source->hole_first != 0 || source->ahead ||
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

void deliver_value(struct tb_source *source, struct record *copy)
{
	struct tb_subscription *subscription = source->subscription;
	struct tb_record record;

	copy->flags |= TB_FLAG_IMAGE;
	count(source, SUBSCRIPTION_IMAGE_RECORDS, 1);
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

void deliver_complete(struct tb_source *source)
{
	struct image *image = source->mapping.image;

	if (!image || !image_may_complete(image, source->next - 1) || collect_interrupt(source))
		return;
	image_completes(image);
	deliver_holes(source);
	deliver_detour(source);
	if (!deliver_stopped(source))
		deliver_event(source, TB_EVENT_COMPLETE);
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
	source->next++;
	if (source->head < copy->sequence)
		source->head = copy->sequence;
	source->tries = 0;
	count(source, SUBSCRIPTION_RECORDS, 1);
	deliver_passed(source, copy);
	quality_report(source, &quality, copy->sequence);
	if (!deliver_stopped(source))
		deliver_complete(source);
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
	int result;

	deliver_first(source);
	if (copy->kind == TB_KIND_HOLE) {
		if (source->hole_first == 0)
			source->hole_first = source->next;
		source->hole_last = source->next++;
		source->detour = true;
		source->tries = 0;
		deliver_passed(source, copy);
		return 1;
	}
	if (copy->kind == TB_KIND_QUALITY)
		return quality_record(source, copy);
	result = names_fetch(source, copy->instrument);
	if (result != 1)
		return result;
	deliver_holes(source);
	if (deliver_stopped(source))
		return 0;
	deliver_passed(source, copy);
	deliver_named(source, copy);
	if (!deliver_stopped(source))
		deliver_complete(source);
	return 1;
}
