/* SPDX-License-Identifier: Apache-2.0 */
/* Giving a record to its handler: inlined where records are read, since this is done for each. */
#ifndef TICKBUS_SUBSCRIBER_DELIVER_H
#define TICKBUS_SUBSCRIBER_DELIVER_H

#include <string.h>

#include "subscriber/subscriber.h"

/* Whether a handler closed or ended what is being read. */
static inline bool deliver_stopped(const struct tb_source *source)
{
	return __builtin_expect(source->subscription->subscriber->untidy, 0) &&
	       (source->subscription->closing || source->subscription->subscriber->closing ||
		source->state == SOURCE_DEAD);
}

/* What a slot has as one word is one word for the handler. */
static_assert(offsetof(struct tb_record, flags) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, flags) -
				      offsetof(struct record, instrument) &&
		      offsetof(struct tb_record, length) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, length) -
				      offsetof(struct record, instrument) &&
		      offsetof(struct tb_record, kind) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, kind) - offsetof(struct record, instrument),
	      "instrument, length, kind, flags");

/* A hole, or the first record after some, or the first of its instrument. */
int deliver_unusual(struct tb_source *, const struct record *);
/* 1 delivered or taken as a hole, 0 not now (its name is being fetched), -EAGAIN not a valid
 * record. */
static inline int deliver_record(struct tb_source *source, const struct record *copy)
{
	struct tb_subscription *subscription = source->subscription;
	struct tb_record record;

	if (__builtin_expect(copy->kind == TB_KIND_HOLE || source->hole_first != 0 ||
				     copy->instrument >= source->place.shape.capacity ||
				     !source->place.names[copy->instrument][0],
			     0))
		return deliver_unusual(source, copy);
	record = (struct tb_record){ .size = sizeof(record),
				     .epoch = source->place.shape.epoch,
				     .sequence = copy->sequence,
				     .time_ns = copy->time_ns,
				     .name = source->place.names[copy->instrument],
				     .data = copy->payload };
	memcpy(&record.instrument, &copy->instrument, sizeof(uint64_t));
	source->next++;
	if (source->head < copy->sequence)
		source->head = copy->sequence;
	source->tries = 0;
	subscription->counters[SUBSCRIPTION_RECORDS]++;
	subscription->options.on_record(subscription->options.user, source, &record);
	return 1;
}

#endif
