/* SPDX-License-Identifier: Apache-2.0 */
/* Writes records: the path of every update.
 *
 * A record writes its slot (sequence 0, body, sequence) and its last-value slot in the same way. A
 * flush writes the progress line and loads the armed word. The number of subscribers changes no
 * instruction. */
#include "publisher/writer.h"

#include <errno.h>
#include <inttypes.h>

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/directory.h"
#include "bus/error.h"
#include "bus/progress.h"
#include "bus/record_put.h"
#include "publisher/announce.h"
#include "publisher/names.h"
#include "publisher/wakeup.h"

#define PREFETCH_BYTES 4096       /* of slots ahead that are requested for writing */
#define NO_LENGTH      UINT32_MAX /* of any payload */

static inline void line_store(struct tb_topic *topic)
{
	progress_store(topic->line, &topic->progress, topic->checked, topic->progress_salt);
	counter_add(&topic->flushes, 1);
}

/* The reservation is kept a step ahead of head (P-I2). */
void writer_line(struct tb_topic *topic)
{
	topic->progress.head = topic->sequence;
	topic->progress.whole = topic->whole;
	line_store(topic);
}

static inline void touch(struct tb_topic *topic)
{
	atomic_store_explicit(&topic->touched, 1, memory_order_relaxed);
}

void writer_touch(struct tb_topic *topic)
{
	touch(topic);
}

RECORD_INLINE void announce(struct tb_topic *topic)
{
	wakeup_flush(&topic->wakeup);
	if (topic->announcer_count)
		announce_topic(topic);
}

void writer_announce(struct tb_topic *topic)
{
	announce(topic);
}

/* Writes the line with a head that has moved, wakes sleepers and notifies the network. */
static __attribute__((noinline)) int line_moved(struct tb_topic *topic)
{
	writer_line(topic);
	announce(topic);
	return 0;
}

static void line_publish(struct tb_topic *topic)
{
	if (topic->progress.head != topic->sequence)
		line_moved(topic);
	else
		writer_line(topic);
}

static __attribute__((noinline)) int flush_refused(const struct tb_topic *topic)
{
	return error_set(EINVAL,
			 "topic %s: found a flush of the topic alone; it belongs to group %s, so "
			 "call tb_group_flush",
			 topic->name, topic->group->name);
}

TB_API int tb_flush(struct tb_topic *topic)
{
	if (__builtin_expect(!topic, 0))
		return error_null("topic");
	if (__builtin_expect(topic->group != NULL, 0))
		return flush_refused(topic);
	touch(topic);
	return topic->progress.head == topic->sequence ? 0 : line_moved(topic);
}

/* Reserves the next step; a full step always flushes. */
static void step(struct tb_topic *topic)
{
	topic->progress.reserved = topic->sequence + topic->step;
	line_publish(topic);
}

/* Kinds between these and TB_KIND_USER are reserved for later versions. */
static inline bool kind_ours(uint8_t kind)
{
	return kind - 1u < TB_KIND_HOLE;
}

static bool flags_right(const struct tb_update *update)
{
	const unsigned int allowed =
		TB_FLAG_LAST | (update->kind == TB_KIND_CORRECTION ? TB_FLAG_PAST : 0);

	return (update->flags & ~allowed) == 0;
}

static int update_refused(const struct tb_topic *topic, const struct tb_update *update)
{
	if (topic->ended)
		return error_set(ESHUTDOWN, "topic %s has ended", topic->name);
	if (update->size < sizeof(*update))
		return error_set(EINVAL,
				 "topic %s: found an update of size %zu, expected %zu or more",
				 topic->name, update->size, sizeof(*update));
	if (!kind_ours(update->kind) && update->kind < TB_KIND_USER)
		return error_set(EINVAL, "topic %s: found kind %u, expected 1 to %d, or %d to 255",
				 topic->name, update->kind, TB_KIND_HOLE, TB_KIND_USER);
	if (update->instrument >= topic->names.count)
		return error_set(EINVAL,
				 "topic %s: found instrument %u, expected a number below %u",
				 topic->name, update->instrument, topic->names.count);
	if (!flags_right(update))
		return error_set(EINVAL,
				 "topic %s: found flags 0x%02x, expected TB_FLAG_LAST or 0, and "
				 "TB_FLAG_PAST in corrections only",
				 topic->name, update->flags);
	if (!update->data && update->length > 0)
		return error_set(EINVAL, "topic %s: found a payload of %u bytes at NULL",
				 topic->name, update->length);
	return error_set(EINVAL, "topic %s: found a payload of %u bytes, expected at most %u",
			 topic->name, update->length, topic->payload_max);
}

/* Without the flag past, which publish_past() serves. */
static bool is_value(uint8_t kind)
{
	return record_is_value(kind, 0);
}

static struct slot *ring_slot(const struct tb_topic *topic, uint64_t sequence)
{
	return (struct slot *)(topic->ring + (sequence & topic->slot_mask) * topic->slot_bytes);
}

static void value_put(const struct tb_topic *topic, const struct tb_update *update)
{
	char *const value = topic->last_value + (size_t)update->instrument * topic->slot_bytes;

	record_repeat((struct slot *)value, ring_slot(topic, topic->sequence), update->length);
}

/* The last value and the flush, behind a record. */
static __attribute__((noinline)) int publish_more(struct tb_topic *topic,
						  const struct tb_update *update)
{
	if (topic->last_value && is_value(update->kind))
		value_put(topic, update);
	if (topic->manual_flush)
		return 0;
	touch(topic);
	return line_moved(topic);
}

static int publish_marked(struct tb_topic *topic, const struct tb_update *update)
{
	if (update->flags & TB_FLAG_LAST)
		topic->whole = topic->sequence;
	return publish_more(topic, update);
}

static int publish_no_more(struct tb_topic *topic, const struct tb_update *update)
{
	(void)topic;
	(void)update;
	return 0;
}

/* Requests the lines that a record of this length will take some records later. Readers that have
 * caught up hold each of them. */
RECORD_INLINE void prefetch(const struct tb_topic *topic, uint64_t sequence, size_t length)
{
	const char *const slot = (const char *)ring_slot(topic, sequence + topic->prefetch_slots);

	for (size_t at = 0; at < RECORD_HEADER_BYTES + length; at += SLOT_BYTES_MIN)
		barrier_prefetch_write(slot + at);
}

/* Inlined for each fixed length, and for any other. */
RECORD_INLINE int publish(struct tb_topic *topic, const struct tb_update *update, uint64_t time_ns,
			  size_t length, bool checked, bool fixed)
{
	const struct record_head head = { .sequence = topic->sequence + 1,
					  .time_ns = time_ns,
					  .meta = record_meta(update->instrument, (uint16_t)length,
							      update->kind, update->flags) };

	prefetch(topic, head.sequence, length);
	record_put_as(ring_slot(topic, head.sequence), &head, update->data, length,
		      checked ? &topic->salt : NULL, fixed);
	topic->sequence = head.sequence;
	return topic->more(topic, update);
}

static int publish_any(struct tb_topic *topic, const struct tb_update *update, uint64_t time_ns)
{
	return publish(topic, update, time_ns, update->length, topic->checked, false);
}

#define PUBLISH(bytes)                                                                             \
	static int publish_##bytes(struct tb_topic *topic, const struct tb_update *update,         \
				   uint64_t time_ns)                                               \
	{                                                                                          \
		return publish(topic, update, time_ns, bytes, false, true);                        \
	}                                                                                          \
	static int publish_checked_##bytes(struct tb_topic *topic, const struct tb_update *update, \
					   uint64_t time_ns)                                       \
	{                                                                                          \
		return publish(topic, update, time_ns, bytes, true, true);                         \
	}
RECORD_EACH_FIXED(PUBLISH)

#define PUBLISH_ENTRY(bytes)         [bytes / 8] = publish_##bytes,
#define PUBLISH_CHECKED_ENTRY(bytes) [bytes / 8] = publish_checked_##bytes,
static writer_function *const publish_fixed[2][RECORD_FIXED_MAX / 8 + 1] = {
	{ RECORD_EACH_FIXED(PUBLISH_ENTRY) }, { RECORD_EACH_FIXED(PUBLISH_CHECKED_ENTRY) }
};

/* A correction of an older record leaves the value as it is. */
static int publish_past(struct tb_topic *topic, const struct tb_update *update, uint64_t time_ns)
{
	char *const last_value = topic->last_value;
	int result;

	topic->last_value = NULL;
	result = publish_any(topic, update, time_ns);
	topic->last_value = last_value;
	return result;
}

static __attribute__((noinline)) int publish_stepped(struct tb_topic *topic,
						     const struct tb_update *update)
{
	if (topic->ended)
		return update_refused(topic, update);
	step(topic);
	return tb_publish(topic, update);
}

static __attribute__((noinline)) int publish_now(struct tb_topic *topic,
						 const struct tb_update *update)
{
	struct tb_update timed = *update;

	timed.size = sizeof(timed);
	timed.time_ns = clock_real_ns();
	return tb_publish(topic, &timed);
}

static bool update_right(const struct tb_topic *topic, const struct tb_update *update)
{
	return update->size >= sizeof(*update) && update->instrument < topic->names.count &&
	       update->length <= topic->payload_max && (update->data || update->length == 0) &&
	       flags_right(update) && (kind_ours(update->kind) || update->kind >= TB_KIND_USER);
}

/* An ended topic has nothing reserved, so it comes here too. */
static __attribute__((noinline)) int publish_unusual(struct tb_topic *topic,
						     const struct tb_update *update)
{
	if (!update_right(topic, update))
		return update_refused(topic, update);
	if (topic->sequence >= topic->progress.reserved)
		return publish_stepped(topic, update);
	if (update->time_ns == 0)
		return publish_now(topic, update);
	if (update->flags & TB_FLAG_PAST)
		return publish_past(topic, update, update->time_ns);
	return publish_any(topic, update, update->time_ns);
}

/* -- topics of groups ---------------------------------------------------------------------------
 */

int writer_message_check(const struct tb_topic *topic)
{
	if (topic->group->open_ns)
		return 0;
	return error_set(EINVAL,
			 "topic %s: its group %s has no open message; call tb_group_message first",
			 topic->name, topic->group->name);
}

static __attribute__((noinline)) int grouped_refused(const struct tb_topic *topic,
						     const struct tb_update *update)
{
	if (topic->ended || !update_right(topic, update))
		return update_refused(topic, update);
	if (update->time_ns)
		return error_set(EINVAL,
				 "topic %s: found time_ns %" PRIu64
				 ", expected 0: its group %s stamps its records",
				 topic->name, update->time_ns, topic->group->name);
	return writer_message_check(topic);
}

static int publish_grouped(struct tb_topic *topic, const struct tb_update *update);

static __attribute__((noinline)) int publish_grouped_step(struct tb_topic *topic,
							  const struct tb_update *update)
{
	if (topic->ended)
		return update_refused(topic, update);
	step(topic);
	return publish_grouped(topic, update);
}

/* All records of these topics come here. The group's stamp is their time. */
static int publish_grouped(struct tb_topic *topic, const struct tb_update *update)
{
	const uint64_t time_ns = topic->group->open_ns;

	if (!update_right(topic, update) || update->time_ns || !time_ns)
		return grouped_refused(topic, update);
	if (topic->sequence >= topic->progress.reserved)
		return publish_grouped_step(topic, update);
	if (update->flags & TB_FLAG_PAST)
		return publish_past(topic, update, time_ns);
	if (update->length == topic->payload_max)
		return topic->usual(topic, update, time_ns);
	return publish_any(topic, update, time_ns);
}

void writer_aim(struct tb_topic *topic)
{
	topic->prefetch_slots = PREFETCH_BYTES / topic->slot_bytes;
	topic->more = publish_no_more;
	if (topic->last_value || !topic->manual_flush)
		topic->more = publish_more;
	if (topic->marks_messages)
		topic->more = publish_marked;
	topic->unusual = topic->group ? publish_grouped : publish_unusual;
	topic->usual = record_is_fixed(topic->payload_max)
			       ? publish_fixed[topic->checked][topic->payload_max / 8]
			       : publish_any;
	topic->usual_bytes = topic->group ? NO_LENGTH : topic->payload_max;
}

/* All unusual cases go elsewhere, so that this function saves no registers. */
TB_API int tb_publish(struct tb_topic *topic, const struct tb_update *update)
{
	if (__builtin_expect(!topic || !update, 0))
		return error_null(topic ? "struct tb_update" : "topic");
	if (__builtin_expect(
		    update->length != topic->usual_bytes || update->size < sizeof(*update) ||
			    !kind_ours(update->kind) || update->instrument >= topic->names.count ||
			    update->flags > TB_FLAG_LAST ||
			    topic->sequence >= topic->progress.reserved || update->time_ns == 0,
		    0))
		return topic->unusual(topic, update);
	return topic->usual(topic, update, update->time_ns);
}

TB_API int tb_instrument(struct tb_topic *topic, const char *name)
{
	int64_t index;
	int result;

	if (!topic)
		return error_null("topic");
	touch(topic);
	if (!name)
		return error_set(EINVAL, "topic %s: found no instrument name", topic->name);
	index = names_find(&topic->names, name);
	if (index >= 0)
		return (int)index;
	result = directory_name_check(name);
	if (result < 0)
		return error_prefix(result, "topic %s: ", topic->name);
	if (topic->ended)
		return error_set(ESHUTDOWN, "topic %s has ended", topic->name);
	index = names_add(&topic->names, name, 0);
	if (index < 0)
		return error_set(
			ENOSPC,
			"topic %s: cannot add instrument %s: the directory has its maximum of %u",
			topic->name, name, topic->names.capacity);
	directory_store(topic->directory, (uint32_t)index, name, topic->directory_salt);
	/* Shared-memory readers see a record before its flush and must find the name (D-I1). */
	topic->progress.instruments = topic->names.count;
	if (topic->group)
		line_store(topic); /* E-I1 */
	else
		line_publish(topic);
	return (int)index;
}

TB_API uint64_t tb_topic_sequence(const struct tb_topic *topic)
{
	if (!topic) {
		error_null("topic");
		return 0;
	}
	return topic->sequence;
}
