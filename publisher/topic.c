/* SPDX-License-Identifier: Apache-2.0 */
/* Writing records: the path that every update takes.
 *
 * Per record: the slot (sequence 0, body, sequence), the last-value slot the same way; per flush:
 * the progress line, one load of the armed word. The same instructions for no subscriber and for a
 * thousand. */
#include "publisher/topic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "bus/counters.h"
#include "bus/error.h"
#include "bus/pattern.h"
#include "bus/record_put.h"
#include "bus/clock.h"
#include "bus/random.h"
#include "bus/bounds.h"
#include "publisher/publisher.h"

#define STEP_MAX       1024
#define PREFETCH_SLOTS 32

/* -- making and ending --------------------------------------------------------------------------
 */

int topic_schema_copy(const struct tb_schema *schema, struct tb_schema **copy)
{
	size_t length;
	const char *text = tb_schema_text(schema, &length);

	return tb_schema_parse(copy, text, length, tb_schema_name(schema));
}

static int random_epoch(uint64_t *epoch)
{
	int result;

	do
		result = random_u64(epoch);
	while (result == 0 && *epoch == 0);
	return result;
}

/* Fresh memory of a new epoch, complete with its first progress line. */
static int topic_memory(const struct tb_publisher *publisher, const struct region_shape *shape,
			const char *name, struct memory *memory)
{
	struct region_layout layout;
	struct progress progress = { .epoch = shape->epoch, .first = 1, .state = TOPIC_LIVE };
	int result = region_layout(shape, &layout);

	if (result == 0)
		result = memory_create_on(memory, name, layout.bytes, publisher->node);
	if (result < 0)
		return result;
	region_header_write(memory->base, shape, name);
	progress_store((struct progress_line *)((char *)memory->base + layout.progress), &progress,
		       shape->flags & REGION_FLAG_CHECKED,
		       record_salt(shape->epoch, shape->topic_id, TAG_PROGRESS));
	return 0;
}

/* Points the writer at the memory. */
static void topic_aim(struct tb_topic *topic)
{
	const struct region_shape *shape = &topic->shape;
	char *base = topic->memory.base;
	struct region_layout layout;

	region_layout(shape, &layout);
	topic->ring = base + layout.ring;
	topic->last_value = layout.last_value ? base + layout.last_value : NULL;
	topic->line = (struct progress_line *)(base + layout.progress);
	topic->directory = base + layout.directory;
	topic->progress =
		(struct progress){ .epoch = shape->epoch, .first = 1, .state = TOPIC_LIVE };
	topic->sequence = 0;
	topic->slot_mask = shape->slots - 1;
	topic->slot_bytes = shape->slot_bytes;
	topic->step = shape->slots / 8 < STEP_MAX ? shape->slots / 8 : STEP_MAX;
	topic->checked = shape->flags & REGION_FLAG_CHECKED;
	topic->salt = record_salt(shape->epoch, shape->topic_id, TAG_RECORD);
	topic->progress_salt = record_salt(shape->epoch, shape->topic_id, TAG_PROGRESS);
	topic->directory_salt = record_salt(shape->epoch, shape->topic_id, TAG_DIRECTORY);
	topic->ended = false;
}

static int options_check(const struct tb_topic_options *options)
{
	const uint32_t known = TB_TOPIC_UNCHECKED | TB_TOPIC_NO_LAST_VALUE | TB_TOPIC_MANUAL_FLUSH |
			       TB_TOPIC_WATCHED;

	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL, "topic options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	if (!options->name)
		return error_set(EINVAL, "topic options: found no name");
	if (!options->schema)
		return error_set(EINVAL, "topic %s: found no schema", options->name);
	if (options->flags & ~known)
		return error_set(EINVAL, "topic %s: found flags 0x%x, expected none but 0x%x",
				 options->name, options->flags, known);
	return pattern_name_check(options->name);
}

static void shape_fill(struct region_shape *shape, const struct tb_topic_options *options,
		       uint32_t id)
{
	shape->slots = options->slots ? options->slots : BOUND_SLOTS;
	shape->capacity = options->instruments ? options->instruments : BOUND_INSTRUMENTS;
	shape->slot_bytes = region_slot_bytes(tb_schema_bytes(options->schema));
	shape->fingerprint = tb_schema_fingerprint(options->schema);
	shape->topic_id = id;
	if (!(options->flags & TB_TOPIC_UNCHECKED))
		shape->flags |= REGION_FLAG_CHECKED;
	if (!(options->flags & TB_TOPIC_NO_LAST_VALUE))
		shape->flags |= REGION_FLAG_LAST_VALUE;
}

int topic_open(struct tb_topic **out, struct tb_publisher *publisher,
	       const struct tb_topic_options *options, uint32_t id, int event_fd,
	       bool fence_in_flush)
{
	struct tb_topic *topic = NULL;
	int result = options_check(options);

	*out = NULL;
	if (result == 0)
		result = publisher_room(publisher, options->name);
	if (result < 0)
		return result;
	topic = calloc(1, sizeof(*topic));
	if (!topic)
		return error_set(ENOMEM, "topic %s: no memory", options->name);
	topic->memory.fd = -1;
	topic->publisher = publisher;
	pthread_mutex_init(&topic->unpublished_lock, NULL);
	topic->wakeup.event_fd = event_fd;
	topic->wakeup.fence_in_flush = fence_in_flush;
	topic->flags = options->flags;
	topic->manual_flush = options->flags & TB_TOPIC_MANUAL_FLUSH;
	topic->payload_max = (uint32_t)tb_schema_bytes(options->schema);
	memcpy(topic->name, options->name, strlen(options->name));
	shape_fill(&topic->shape, options, id);
	result = random_epoch(&topic->shape.epoch);
	if (result == 0)
		result = topic_schema_copy(options->schema, &topic->schema);
	if (result == 0)
		result = topic_memory(publisher, &topic->shape, topic->name, &topic->memory);
	if (result == 0)
		result = names_open(&topic->names, topic->shape.capacity);
	if (result == 0)
		result = names_open(&topic->unpublished, TOPIC_UNPUBLISHED_MAX);
	if (result < 0) {
		topic_close(topic);
		return error_prefix(result, "topic %s: ", options->name);
	}
	topic_aim(topic);
	topic->more = topic->last_value || !topic->manual_flush;
	*out = topic;
	return 0;
}

void topic_close(struct tb_topic *topic)
{
	if (!topic)
		return;
	publisher_withdraw(&topic->exposures);
	memory_free(&topic->memory);
	names_close(&topic->names);
	names_close(&topic->unpublished);
	pthread_mutex_destroy(&topic->unpublished_lock);
	tb_schema_free(topic->schema);
	free(topic);
}

uint64_t topic_head(const struct tb_topic *topic)
{
	return atomic_load_explicit(&topic->line->word[0], memory_order_acquire);
}

/* -- writing ------------------------------------------------------------------------------------
 */

/* One write of the progress line, with head at the last record and the reservation kept a step
 * ahead of it (P-I2). */
static void line_write(struct tb_topic *topic)
{
	topic->progress.head = topic->sequence;
	progress_store(topic->line, &topic->progress, topic->checked, topic->progress_salt);
	counter_add(&topic->flushes, 1);
}

static void touch(struct tb_topic *topic)
{
	atomic_store_explicit(&topic->touched, 1, memory_order_relaxed);
}

/* The line, and where it has a new head, who is told of it: sleepers, and the network where there
 * is one. */
static void line_tell(struct tb_topic *topic)
{
	const bool moved = topic->progress.head != topic->sequence;

	line_write(topic);
	if (!moved)
		return;
	wakeup_flush(&topic->wakeup);
	if (topic->announcer_count)
		announce_topic(topic);
}

TB_API int tb_flush(struct tb_topic *topic)
{
	touch(topic);
	if (topic->progress.head != topic->sequence)
		line_tell(topic);
	return 0;
}

/* Reserves the next step; a full step always flushes. */
static void step(struct tb_topic *topic)
{
	topic->progress.reserved = topic->sequence + topic->step;
	line_tell(topic);
}

/* Those between ours and the users' are left for later versions to give a meaning to. */
static inline bool kind_ours(uint8_t kind)
{
	return kind - 1u < TB_KIND_HOLE;
}

static int update_refused(const struct tb_topic *topic, const struct tb_update *update)
{
	if (topic->ended)
		return error_set(ESHUTDOWN, "topic %s: it has ended", topic->name);
	if (update->size < sizeof(*update))
		return error_set(EINVAL,
				 "topic %s: found an update of size %zu, expected %zu or more",
				 topic->name, update->size, sizeof(*update));
	if (!kind_ours(update->kind) && update->kind < TB_KIND_USER)
		return error_set(EINVAL, "topic %s: found kind %u, expected 1 to %d, or %d to 255",
				 topic->name, update->kind, TB_KIND_HOLE, TB_KIND_USER);
	if (update->instrument >= topic->names.count)
		return error_set(EINVAL, "topic %s: found instrument %u, expected one of %u",
				 topic->name, update->instrument, topic->names.count);
	if (!update->data && update->length > 0)
		return error_set(EINVAL, "topic %s: found a payload of %u bytes at NULL",
				 topic->name, update->length);
	return error_set(EINVAL, "topic %s: found a payload of %u bytes, expected at most %u",
			 topic->name, update->length, topic->payload_max);
}

static bool is_value(uint8_t kind)
{
	return kind == TB_KIND_UPDATE || kind == TB_KIND_CORRECTION || kind == TB_KIND_CLEAR ||
	       kind >= TB_KIND_USER;
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

static __attribute__((noinline)) int publish_more(struct tb_topic *topic,
						  const struct tb_update *update)
{
	if (topic->last_value && is_value(update->kind))
		value_put(topic, update);
	return topic->manual_flush ? 0 : tb_flush(topic);
}

/* Inlined for each kind of topic and length that is worth its own code, see RECORD_SMALL. */
RECORD_INLINE int publish(struct tb_topic *topic, const struct tb_update *update, size_t length,
			  bool checked)
{
	const struct record_head head = { .sequence = topic->sequence + 1,
					  .time_ns = update->time_ns,
					  .meta = record_meta(update->instrument, (uint16_t)length,
							      update->kind, update->flags) };

	barrier_prefetch_write(ring_slot(topic, head.sequence + PREFETCH_SLOTS));
	record_put(ring_slot(topic, head.sequence), &head, update->data, length,
		   checked ? &topic->salt : NULL);
	topic->sequence = head.sequence;
	return topic->more ? publish_more(topic, update) : 0;
}

static __attribute__((noinline)) int publish_any(struct tb_topic *topic,
						 const struct tb_update *update)
{
	return publish(topic, update, update->length, topic->checked);
}

static __attribute__((noinline)) int publish_checked(struct tb_topic *topic,
						     const struct tb_update *update)
{
	return publish(topic, update, RECORD_SMALL, true);
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
	       (kind_ours(update->kind) || update->kind >= TB_KIND_USER);
}

/* A topic that has ended has nothing reserved. */
static __attribute__((noinline)) int publish_unusual(struct tb_topic *topic,
						     const struct tb_update *update)
{
	if (!update_right(topic, update))
		return update_refused(topic, update);
	if (topic->sequence >= topic->progress.reserved)
		return publish_stepped(topic, update);
	if (update->time_ns == 0)
		return publish_now(topic, update);
	return publish_any(topic, update);
}

/* All that is unusual goes elsewhere, so that this saves no registers. */
TB_API int tb_publish(struct tb_topic *topic, const struct tb_update *update)
{
	if (__builtin_expect(update->size < sizeof(*update) || !kind_ours(update->kind) ||
				     update->instrument >= topic->names.count ||
				     update->length != topic->payload_max ||
				     topic->sequence >= topic->progress.reserved ||
				     update->time_ns == 0,
			     0))
		return publish_unusual(topic, update);
	if (update->length != RECORD_SMALL)
		return publish_any(topic, update);
	return topic->checked ? publish_checked(topic, update)
			      : publish(topic, update, RECORD_SMALL, false);
}

TB_API int tb_instrument(struct tb_topic *topic, const char *name)
{
	int64_t index;
	int result;

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
		return error_set(ESHUTDOWN, "topic %s: it has ended", topic->name);
	index = names_add(&topic->names, name, 0);
	if (index < 0)
		return error_set(ENOSPC,
				 "topic %s: no room for instrument %s: the directory has its %u",
				 topic->name, name, topic->names.capacity);
	directory_store(topic->directory, (uint32_t)index, name, topic->directory_salt);
	/* A reader of shared memory sees a record before its flush: it must find the name (D-I1).
	 */
	topic->progress.instruments = topic->names.count;
	line_tell(topic);
	return (int)index;
}

TB_API uint64_t tb_topic_sequence(const struct tb_topic *topic)
{
	return topic->sequence;
}

/* -- end and restart ----------------------------------------------------------------------------
 */

TB_API int tb_topic_end(struct tb_topic *topic)
{
	if (topic->ended)
		return 0;
	topic->ended = true;
	topic->progress.reserved = topic->sequence;
	line_write(topic); /* W7: the last head is there before the end is */
	topic->progress.state = TOPIC_ENDED;
	line_write(topic);
	atomic_store_explicit(&topic->end_due, 1, memory_order_release);
	wakeup_signal(&topic->wakeup);
	return 0;
}

/* Under the publisher's lock. Who still reads the old memory finds its last head there, and nothing
 * reserved behind it. */
static void epoch_swap(struct tb_topic *topic, const struct region_shape *shape,
		       const struct memory *memory, const struct exposures *exposures)
{
	topic->progress.reserved = topic->sequence;
	line_write(topic);
	publisher_withdraw(&topic->exposures);
	topic->exposures = *exposures;
	topic->memory = *memory;
	topic->shape = *shape;
	publisher_pin(topic->publisher, &topic->memory);
	names_clear(&topic->names);
	topic_aim(topic);
	atomic_store_explicit(&topic->end_due, 0, memory_order_relaxed);
	topic->end_told = false;
	counter_add(&topic->restarts, 1);
}

TB_API int tb_topic_restart(struct tb_topic *topic)
{
	struct region_shape shape = topic->shape; /* written by this thread only */
	struct exposures exposures = { 0 };
	struct memory fresh = { .fd = -1 }, old = { .fd = -1 };
	int result = random_epoch(&shape.epoch);

	if (result == 0)
		result = topic_memory(topic->publisher, &shape, topic->name, &fresh);
	if (result < 0)
		return error_prefix(result, "topic %s: ", topic->name);
	publisher_lock(topic->publisher);
	result = publisher_expose(topic->publisher, &shape, &fresh, topic->realms, &exposures);
	if (result == 0) {
		old = topic->memory;
		epoch_swap(topic, &shape, &fresh, &exposures);
	}
	publisher_unlock(topic->publisher);
	memory_free(result < 0 ? &fresh : &old);
	if (result < 0)
		return error_prefix(result, "topic %s: ", topic->name);
	wakeup_signal(&topic->wakeup);
	return 0;
}

TB_API void tb_topic_unpublished(struct tb_topic *topic, const char *name)
{
	char key[TB_INSTRUMENT_NAME_MAX + 1] = "";
	int64_t index;

	strncpy(key, name, TB_INSTRUMENT_NAME_MAX);
	pthread_mutex_lock(&topic->unpublished_lock);
	topic->unpublished_total++;
	index = names_find(&topic->unpublished, key);
	if (index < 0)
		index = names_add(&topic->unpublished, key, 0);
	if (index >= 0)
		topic->unpublished.entries[index].value++;
	pthread_mutex_unlock(&topic->unpublished_lock);
}
