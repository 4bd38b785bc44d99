/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a subscription's handlers: records, gaps and events, in the order of the sequences.
 *
 * A handler may close the subscriber or end its subscription. After each call of a handler, the
 * caller checks deliver_stopped() before it uses the position again. */
#include "subscriber/deliver.h"

#include <errno.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/quality.h"
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

void deliver_gap(struct tb_source *source, uint64_t first, uint64_t last, enum tb_cause cause)
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
	event.delivered = last;
	count(source, counters[cause], last - first + 1);
	event_deliver(source->subscription, &event);
}

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
	deliver_gap(source, first, source->hole_last, TB_CAUSE_UPSTREAM);
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
	quality_report(source, &quality, copy->sequence);
	return 1;
}

int deliver_unusual(struct tb_source *source, const struct record *copy)
{
	int result;

	if (copy->kind == TB_KIND_HOLE) {
		if (source->hole_first == 0)
			source->hole_first = source->next;
		source->hole_last = source->next++;
		source->tries = 0;
		return 1;
	}
	if (copy->kind == TB_KIND_QUALITY)
		return quality_record(source, copy);
	result = names_fetch(source, copy->instrument);
	if (result != 1)
		return result;
	deliver_holes(source);
	return deliver_stopped(source) ? 0 : deliver_named(source, copy);
}
