/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a subscription's handlers. Delivery of a record is inlined, since each record takes this
 * path. */
#ifndef TICKBUS_SUBSCRIBER_DELIVER_H
#define TICKBUS_SUBSCRIBER_DELIVER_H

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/record.h"
#include "subscriber/state.h"
#include "tickbus/record.h"
#include "tickbus/subscriber.h"

/* Reports the holes before `next` as a gap, once. */
void deliver_holes(struct tb_source *);
/* skipped: records behind last that the gap policy skips. */
void deliver_gap(struct tb_source *, uint64_t first, uint64_t last, enum tb_cause,
		 uint64_t skipped);
/* An image begins, or begins again, with this base. */
void deliver_image(struct tb_source *, uint64_t base);
/* Calls on_batch with records in slot layout. */
void deliver_batch(struct tb_source *, const void *records, uint32_t count);
/* A record passes: the image learns of it, before its handler is called or it is held. */
void deliver_passed(struct tb_source *, const struct record *);
/* A value of an image or a watch list; not a move of the position. */
void deliver_value(struct tb_source *, struct record *);
/* Conflation: the valid copy of a slot. Returns how many records were delivered, 0 or 1. */
int deliver_newest(struct tb_source *, struct record *);
/* Conflation: the position moves to the target of a jump. */
void deliver_jump(struct tb_source *);
/* Conflation: held values cannot be read any more, because their memory is gone (overrun), or they
 * are never whole (corrupt). Reports them as a gap. */
void deliver_given_up(struct tb_source *, enum tb_cause);
/* The value of an instrument was never readable. */
void deliver_no_value(struct tb_source *, uint32_t instrument);
/* No instrument has this name, or matches this pattern. */
void deliver_no_instrument(struct tb_source *, const char *name);
/* Reports the image as complete if it is. If records are held for a batch, it waits for their
 * delivery. */
void deliver_complete(struct tb_source *);
/* A merge's topics are complete at this time. source: only this topic; NULL: all of them. */
void deliver_cut(struct tb_subscription *, const struct tb_source *source, uint64_t time_ns);
/* A merge goes on without the topic. */
void deliver_left(struct tb_source *, int code, const char *text);
/* Sets whether records take the unusual path: after each change of what decides it. */
void deliver_detour(struct tb_source *);
void deliver_event(struct tb_source *, enum tb_event_kind);
/* The last sequence delivered, reported as a gap or skipped, as events say it. At most the head: a
 * start may lie beyond it. */
uint64_t deliver_position(const struct tb_source *);
/* Reports why a stale topic stays stale, once for each change of the code. The text may differ from
 * try to try. */
void deliver_stale_reason(struct tb_source *, int code, const char *text);
/* Reports the quality that a progress line states, if the program does not know it. */
void deliver_quality(struct tb_source *, uint32_t state);
void deliver_restart(struct tb_source *, uint64_t old_epoch, uint64_t delivered, uint64_t head);
void deliver_refused(struct tb_subscription *, const char *topic, int code, const char *text);
/* Keeps why a topic is refused. False: it was refused for this reason before. */
bool deliver_refusal_differs(struct tb_subscription *, uint32_t topic_id, const char *text);
/* Sets what tb_subscribe() returns for a refusal; code 0 clears it. */
void deliver_outcome(struct tb_subscription *, int code, const char *text);

/* Whether a handler has closed the subscriber, or ended the subscription or the source. */
static inline bool deliver_stopped(const struct tb_source *source)
{
	return __builtin_expect(source->subscription->subscriber->untidy, 0) &&
	       (source->subscription->closing || source->subscription->subscriber->closing ||
		source->state == SOURCE_DEAD);
}

/* Four fields are copied as one 64-bit word. */
static_assert(offsetof(struct tb_record, flags) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, flags) -
				      offsetof(struct record, instrument) &&
		      offsetof(struct tb_record, length) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, length) -
				      offsetof(struct record, instrument) &&
		      offsetof(struct tb_record, kind) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, kind) - offsetof(struct record, instrument),
	      "instrument, length, kind, flags");

/* The position moves over the next record. So the head is at least that. */
static inline void deliver_move(struct tb_source *source, uint64_t sequence)
{
	source->next++;
	if (source->head < sequence)
		source->head = sequence;
	source->tries = 0;
}

/* A record whose instrument has a name. */
static inline int deliver_named(struct tb_source *source, const struct record *copy)
{
	struct tb_subscription *subscription = source->subscription;
	struct tb_record record;

	record = (struct tb_record){ .size = sizeof(record),
				     .epoch = source->mapping.shape.epoch,
				     .sequence = copy->sequence,
				     .time_ns = copy->time_ns,
				     .name = source->mapping.names[copy->instrument],
				     .data = copy->payload };
	memcpy(&record.instrument, &copy->instrument, sizeof(uint64_t));
	deliver_move(source, copy->sequence);
	subscription->counters[SUBSCRIPTION_RECORDS]++;
	subscription->options.on_record(subscription->options.user, source, &record);
	return 1;
}

/* Passes a record of an instrument that is not chosen. Returns what deliver_record() returns. */
int deliver_skipped(struct tb_source *, const struct record *);
/* If reading began beyond the head, the first record makes the line be read again (Q4). */
void deliver_first(struct tb_source *);
/* A hole, a quality, a reserved kind, the first record after holes, or the first record of an
 * instrument. Also any record while an image is made, or while an image may follow a gap, or if
 * only some instruments are chosen. */
int deliver_unusual(struct tb_source *, const struct record *);

/* One comparison for kinds 6 to 127: as a signed byte, the program's own kinds are negative. */
static inline bool deliver_kind_is_unusual(uint8_t kind)
{
	return (int8_t)kind >= TB_KIND_HOLE;
}

static inline bool deliver_is_unusual(const struct tb_source *source, const struct record *copy)
{
	return deliver_kind_is_unusual(copy->kind) || source->detour != 0 ||
	       copy->instrument >= source->mapping.shape.capacity ||
	       !source->mapping.names[copy->instrument][0];
}

/* In a merge: 1 if the proven copy in `record` waits for its turn, 0 if its turn has come. The last
 * stamp that did not wait is kept. -EAGAIN: its place in the order was passed, or it has no stamp,
 * so it has no place. Not if it is skipped anyway. */
static inline int deliver_waits(struct tb_source *source)
{
	const uint64_t time_ns = source->record.time_ns;

	source->held = time_ns > source->limit_ns;
	if (source->held)
		return 1;
	if (__builtin_expect(time_ns < source->floor_ns, 0))
		return time_ns > 0 && time_ns <= source->skip_ns ? 0 : -EAGAIN;
	source->floor_ns = source->passed_ns = time_ns;
	return 0;
}

/* Returns 1 if the record was delivered, counted as a hole or reported as a quality, 0 if its name
 * must be fetched first. Returns -EAGAIN if it is not a valid record. */
static inline int deliver_record(struct tb_source *source, const struct record *copy)
{
	if (__builtin_expect(deliver_is_unusual(source, copy), 0))
		return deliver_unusual(source, copy);
	return deliver_named(source, copy);
}

#endif
