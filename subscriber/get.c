/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that ask for values instead of records: instruments by name, last values.
 *
 * V-I1  A value is copied as a record is, and proven alone, by its own check. So a subscription
 *       with TB_STRICT gets none: no progress line bounds a value.
 * V-I2  Only instruments with a known name have values to show. So a number is bounded before it
 *       becomes an offset.
 * V-I3  What is shown is a private copy. It stays as it is until the next of these calls, or the
 *       next poll. A handler of tb_get_many may call tb_get: each has a copy and a half of the
 *       landing. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "bus/barrier.h"
#include "bus/counters.h"
#include "bus/directory.h"
#include "bus/error.h"
#include "bus/record_take.h"
#include "subscriber/ask.h"
#include "subscriber/get_read.h"
#include "subscriber/instruments.h"
#include "subscriber/state.h"
#include "subscriber/topic_index.h"
#include "tickbus/subscriber.h"

#define COPIES_MAX 8 /* of a value that is not valid */

/* -- refusals --------------------------------------------------------------------------------- */

static __attribute__((noinline)) int values_check(const struct tb_source *source, const char *call)
{
	const int result = ask_ready(source, call);

	if (result < 0)
		return result;
	if (!(source->mapping.shape.flags & REGION_FLAG_LAST_VALUE))
		return error_set(EOPNOTSUPP,
				 "topic %s has no last values; its publisher decides that "
				 "(last_value, TB_TOPIC_NO_LAST_VALUE)",
				 source->name);
	if (source->subscription->options.flags & TB_STRICT)
		return error_set(EINVAL,
				 "%s: found a subscription with TB_STRICT, expected another: only "
				 "its own check proves a value",
				 call);
	return 0;
}

/* -- instruments ------------------------------------------------------------------------------ */

TB_API const struct tb_source *tb_subscription_source(const struct tb_subscription *subscription,
						      const char *topic)
{
	if (!subscription) {
		error_null("subscription");
		return NULL;
	}
	return topic ? topic_index_find(subscription, topic) : NULL;
}

TB_API int tb_source_instruments(const struct tb_source *source)
{
	const int result = ask_ready(source, "tb_source_instruments");

	return result < 0 ? result : instruments_update(ask_own(source));
}

TB_API int tb_source_instrument(const struct tb_source *source, const char *name)
{
	int result = ask_ready(source, "tb_source_instrument"), count;

	if (result < 0)
		return result;
	if (!name)
		return error_set(EINVAL, "topic %s: found no instrument name", source->name);
	result = directory_name_check(name);
	if (result < 0)
		return error_prefix(result, "topic %s: ", source->name);
	result = instruments_find(ask_own(source), name);
	if (result != -ENOENT)
		return result;
	count = instruments_update(ask_own(source));
	if (count < 0)
		return count;
	result = instruments_find(ask_own(source), name);
	if (result != -ENOENT)
		return result;
	return error_set(ENOENT, "topic %s: found no instrument %s among its %d", source->name,
			 name, count);
}

/* -- copies ----------------------------------------------------------------------------------- */

static uint64_t value_offset(const struct mapping *mapping, uint32_t instrument)
{
	return mapping->layout.last_value + (uint64_t)instrument * mapping->shape.slot_bytes;
}

static inline const struct slot *slot_at(const char *slots, uint32_t slot_bytes,
					 uint32_t instrument)
{
	return (const struct slot *)(const void *)(slots + (uint64_t)instrument * slot_bytes);
}

static int value_view(const struct tb_source *source, uint32_t instrument, struct record *copy)
{
	const struct mapping *mapping = &source->mapping;
	const struct slot *slot = slot_at(mapping->view + mapping->layout.last_value,
					  mapping->shape.slot_bytes, instrument);
	const uint64_t *salt = mapping->checked ? &mapping->record_salt : NULL;
	int result = -EAGAIN;

	for (int i = 0; i < COPIES_MAX && result < 0; i++) {
		if (i > 0)
			barrier_pause();
		result = record_take_value(slot, mapping->shape.slot_bytes, instrument, copy, salt);
	}
	return result;
}

static int value_landed(struct tb_source *source, uint32_t instrument, const char *landed,
			struct record *copy)
{
	const int result = record_take_landed_value(landed, source->mapping.shape.slot_bytes,
						    instrument, copy, source->mapping.record_salt);

	source->subscription->counters[SUBSCRIPTION_TORN] += result < 0;
	return result;
}

/* READs a value into a place of the landing until a copy is valid, at most `copies` times. *failed
 * if the READs themselves failed. */
static int value_read(struct tb_source *source, uint32_t instrument, char *into, int copies,
		      struct record *copy, bool *failed)
{
	const struct mapping *mapping = &source->mapping;
	const struct fabric_read read = get_part(source, value_offset(mapping, instrument),
						 mapping->shape.slot_bytes, into);
	int result = -EAGAIN;

	for (int i = 0; i < copies && result == -EAGAIN; i++) {
		result = get_reads(source, &read, 1);
		*failed = result < 0;
		if (*failed)
			return result;
		result = value_landed(source, instrument, into, copy);
	}
	return result;
}

static int value_torn(const struct tb_source *source, uint32_t instrument)
{
	return error_set(EAGAIN, "topic %s: no copy of the value of %s was whole, of %d",
			 source->name, source->mapping.names[instrument], COPIES_MAX);
}

/* Instrument, length, kind and flags are copied as one 64-bit word. */
static_assert(offsetof(struct tb_record, length) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, length) -
				      offsetof(struct record, instrument) &&
		      offsetof(struct tb_record, kind) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, kind) - offsetof(struct record, instrument) &&
		      offsetof(struct tb_record, flags) - offsetof(struct tb_record, instrument) ==
			      offsetof(struct record, flags) - offsetof(struct record, instrument),
	      "the order of fields");

/* A value that was removed is shown as the record that removed it. Returns whether it is a value.
 */
static inline int copy_show(struct tb_record *shown, const struct record *copy)
{
	shown->sequence = copy->sequence;
	/* The words were stored one by one. A load of two at once would wait for the cache. */
	atomic_signal_fence(memory_order_seq_cst);
	shown->time_ns = copy->time_ns;
	memcpy(&shown->instrument, &copy->instrument, sizeof(uint64_t));
	return copy->kind != TB_KIND_CLEAR;
}

/* The record that is shown for a result of a copy. Without a value it names its instrument only. */
static int value_show(const struct tb_source *source, uint32_t instrument, int result,
		      const struct record *copy, struct tb_record *shown)
{
	*shown = (struct tb_record){ .size = sizeof(*shown),
				     .epoch = source->mapping.shape.epoch,
				     .instrument = instrument,
				     .name = source->mapping.names[instrument],
				     .data = copy->payload };
	return result == 1 ? copy_show(shown, copy) : result;
}

/* -- a value ---------------------------------------------------------------------------------- */

static int get_remote(struct tb_source *source, uint32_t instrument, struct record *copy)
{
	bool failed = false;
	int result = get_open(source);

	if (result == 0)
		result = value_read(source, instrument, get_half(source, GET_SINGLE), COPIES_MAX,
				    copy, &failed);
	else
		failed = true;
	return result == -EAGAIN && !failed ? value_torn(source, instrument) : result;
}

/* All cases but a value that is whole at the first look, in place, in a topic with checks. */
static __attribute__((noinline)) int get_any(struct tb_source *source, uint32_t instrument,
					     const struct tb_record **record)
{
	struct mapping *mapping = &source->mapping;
	struct record *copy = &source->subscription->subscriber->get.copy;
	int result = values_check(source, "tb_get");

	*record = NULL;
	if (result == 0 && instrument >= mapping->names_known)
		result = ask_instrument(source, instrument);
	if (result < 0)
		return result;
	if (mapping->view) {
		result = value_view(source, instrument, copy);
		if (result < 0)
			return value_torn(source, instrument);
		if (mapping->checked)
			mapping->values = mapping->view + mapping->layout.last_value;
	} else {
		result = get_remote(source, instrument, copy);
		if (result < 0)
			return result;
	}
	*record = &mapping->shown;
	return value_show(source, instrument, result, copy, &mapping->shown);
}

TB_API int tb_get(const struct tb_source *source, uint32_t instrument,
		  const struct tb_record **record)
{
	const struct mapping *mapping;
	struct tb_record *shown;
	struct record *copy;

	if (__builtin_expect(!source, 0)) {
		*record = NULL;
		return error_null("source");
	}
	mapping = &source->mapping;
	copy = &source->subscription->subscriber->get.copy;
	shown = &ask_own(source)->mapping.shown;
	if (__builtin_expect(!mapping->values || instrument >= mapping->names_known ||
				     source->state == SOURCE_HEADER || source->state == SOURCE_DEAD,
			     0) ||
	    __builtin_expect(
		    value_take(slot_at(mapping->values, mapping->shape.slot_bytes, instrument),
			       mapping->shape.slot_bytes, instrument, copy, true,
			       mapping->record_salt) != 1,
		    0))
		return get_any(ask_own(source), instrument, record);
	shown->name = mapping->names[instrument];
	*record = shown;
	return copy_show(shown, copy);
}

/* -- many values ------------------------------------------------------------------------------ */

struct many {
	struct tb_source *source;
	const uint32_t *instruments;
	size_t count;
	tb_value_handler *handler;
	void *user;
	struct record *copy;
	int values;
};

/* Calls the handler for the result of a copy. */
static int many_show(struct many *many, uint32_t instrument, int result)
{
	struct tb_record shown;

	result = value_show(many->source, instrument, result, many->copy, &shown);
	many->values += result == 1;
	many->handler(many->user, many->source, result, &shown);
	return ask_stopped(many->source, "tb_get_many");
}

static int many_view(struct many *many)
{
	int result = 0;

	for (size_t i = 0; i < many->count && result == 0; i++)
		result = many_show(many, many->instruments[i],
				   value_view(many->source, many->instruments[i], many->copy));
	return result;
}

/* Makes READs of the first instruments of a list, as far as the landing and the array of READs go.
 * Neighbours share a READ, up to the size of a READ. Returns how many instruments have a place. */
static size_t many_reads(const struct tb_source *source, const uint32_t *instruments, size_t count,
			 struct fabric_read reads[FABRIC_DEPTH_MAX], unsigned int *read_count)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;
	const uint32_t slot_bytes = source->mapping.shape.slot_bytes;
	const size_t room = get_half_bytes(subscriber) / slot_bytes;
	struct fabric_read *last = NULL;
	size_t i;

	*read_count = 0;
	for (i = 0; i < count && i < room; i++) {
		const uint64_t offset = value_offset(&source->mapping, instruments[i]);

		if (last && last->offset + last->bytes == offset &&
		    last->bytes + slot_bytes <= subscriber->read_bytes) {
			last->bytes += slot_bytes;
			continue;
		}
		if (*read_count == FABRIC_DEPTH_MAX)
			break;
		last = &reads[(*read_count)++];
		*last = get_part(source, offset, slot_bytes,
				 get_half(source, GET_LIST) + i * slot_bytes);
	}
	return i;
}

/* A copy that is not valid is READ again before its handler is called: the order is kept. */
static int many_landed(struct many *many, uint32_t instrument, char *landed)
{
	bool failed = false;
	int result = value_landed(many->source, instrument, landed, many->copy);

	if (result == -EAGAIN)
		result = value_read(many->source, instrument, landed, COPIES_MAX - 1, many->copy,
				    &failed);
	return failed ? result : many_show(many, instrument, result);
}

static int many_remote(struct many *many)
{
	const uint32_t slot_bytes = many->source->mapping.shape.slot_bytes;
	struct fabric_read reads[FABRIC_DEPTH_MAX];
	unsigned int read_count;
	int result = get_open(many->source);

	for (size_t at = 0, end; result == 0 && at < many->count; at = end) {
		char *landed = get_half(many->source, GET_LIST);

		end = at + many_reads(many->source, many->instruments + at, many->count - at, reads,
				      &read_count);
		result = get_reads(many->source, reads, read_count);
		for (size_t i = at; i < end && result == 0; i++, landed += slot_bytes)
			result = many_landed(many, many->instruments[i], landed);
	}
	return result;
}

static int many_run(void *user)
{
	struct many *many = user;

	return many->source->mapping.view ? many_view(many) : many_remote(many);
}

static int list_check(struct tb_source *source, const uint32_t *instruments, size_t count,
		      tb_value_handler *handler)
{
	int result = 0;

	if (!handler)
		return error_set(EINVAL, "tb_get_many: found no handler");
	if (count == 0 || !instruments)
		return error_set(
			EINVAL, "tb_get_many: found an empty list of instruments, expected 1 to %d",
			BOUND_INSTRUMENTS_MAX);
	if (count > BOUND_INSTRUMENTS_MAX)
		return error_set(EINVAL, "tb_get_many: found %zu instruments, expected 1 to %d",
				 count, BOUND_INSTRUMENTS_MAX);
	for (size_t i = 0; i < count && result == 0; i++)
		if (!ask_is_known(source, instruments[i]))
			result = ask_instrument(source, instruments[i]);
	return result;
}

TB_API int tb_get_many(const struct tb_source *source, const uint32_t *instruments, size_t count,
		       tb_value_handler *handler, void *user)
{
	struct many many = { ask_own(source), instruments, count, handler, user, NULL, 0 };
	int result = ask_free(source, "tb_get_many");

	if (result == 0)
		result = values_check(source, "tb_get_many");
	if (result == 0)
		result = list_check(many.source, instruments, count, handler);
	if (result < 0)
		return result;
	many.copy = &source->subscription->subscriber->get.listed;
	result = ask_run(many.source, many_run, &many);
	return result < 0 ? result : many.values;
}
