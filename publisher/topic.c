/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/topic.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/error.h"
#include "bus/pattern.h"
#include "bus/progress.h"
#include "bus/random.h"
#include "bus/record.h"
#include "bus/region.h"
#include "publisher/endpoint.h"
#include "publisher/group.h"
#include "publisher/names.h"
#include "publisher/pin.h"
#include "publisher/wakeup.h"
#include "publisher/writer.h"

#define STEP_MAX 1024

/* -- making and ending --------------------------------------------------------------------------
 */

static int topic_schema_copy(const struct tb_schema *schema, struct tb_schema **copy)
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

static int random_key(uint8_t key[NOTICE_KEY_BYTES])
{
	uint64_t halves[2];
	int result = random_u64(&halves[0]);

	static_assert(sizeof(halves) == NOTICE_KEY_BYTES, "two numbers are a key");
	if (result == 0)
		result = random_u64(&halves[1]);
	memcpy(key, halves, sizeof(halves));
	return result;
}

/* In a group, W goes on where it is (P-I6). */
static struct progress first_progress(const struct region_shape *shape,
				      const struct tb_group *group)
{
	return (struct progress){ .epoch = shape->epoch,
				  .first = 1,
				  .state = TOPIC_LIVE,
				  .complete_ns = group ? group->done_ns : 0 };
}

/* Memory for a new epoch, with its header and first progress line. */
static int topic_memory(const struct tb_topic *topic, const struct region_shape *shape,
			struct memory *memory)
{
	struct region_layout layout;
	struct progress progress = first_progress(shape, topic->group);
	int result = region_layout(shape, &layout);

	if (result == 0)
		result =
			memory_create_on(memory, topic->name, layout.bytes, topic->publisher->node);
	if (result < 0)
		return result;
	region_header_write(memory->base, shape, topic->name);
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
	topic->progress = first_progress(shape, topic->group);
	topic->sequence = topic->whole = 0;
	topic->quality_cause = TB_QUALITY_CAUSE_NONE;
	topic->slot_mask = shape->slots - 1;
	topic->slot_bytes = shape->slot_bytes;
	topic->step = shape->slots / 8 < STEP_MAX ? shape->slots / 8 : STEP_MAX;
	topic->checked = shape->flags & REGION_FLAG_CHECKED;
	topic->marks_messages = shape->flags & REGION_FLAG_MARKS_MESSAGES;
	topic->salt = record_salt(shape->epoch, shape->topic_id, TAG_RECORD);
	topic->progress_salt = record_salt(shape->epoch, shape->topic_id, TAG_PROGRESS);
	topic->directory_salt = record_salt(shape->epoch, shape->topic_id, TAG_DIRECTORY);
	topic->ended = false;
}

int topic_options_check(const struct tb_topic_options *options)
{
	const uint32_t known = TB_TOPIC_UNCHECKED | TB_TOPIC_NO_LAST_VALUE | TB_TOPIC_MANUAL_FLUSH |
			       TB_TOPIC_WATCHED | TB_TOPIC_MARKS_MESSAGES;

	if (!options || options->size < sizeof(*options))
		return error_set(EINVAL, "topic options: found size %zu, expected %zu or more",
				 options ? options->size : 0, sizeof(*options));
	if (!options->name)
		return error_set(EINVAL, "topic options: found no name");
	if (!options->schema)
		return error_set(EINVAL, "topic %s: found no schema", options->name);
	if (options->fingerprint && options->fingerprint != tb_schema_fingerprint(options->schema))
		return error_set(EINVAL,
				 "topic %s: found schema %s with fingerprint %016" PRIx64
				 ", expected %016" PRIx64
				 ", that of the program's struct: print the schema's header again "
				 "(tickbus schema header) and compile",
				 options->name, tb_schema_name(options->schema),
				 tb_schema_fingerprint(options->schema), options->fingerprint);
	if (options->flags & ~known)
		return error_set(EINVAL, "topic %s: found flags 0x%x, expected flags of 0x%x only",
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
	if (options->flags & TB_TOPIC_MARKS_MESSAGES)
		shape->flags |= REGION_FLAG_MARKS_MESSAGES;
	if (options->group) {
		shape->flags |= REGION_FLAG_TIME_RISES;
		shape->group = options->group->id;
	}
}

int topic_open(struct tb_topic **out, struct tb_publisher *publisher,
	       const struct tb_topic_options *options, uint32_t id, int event_fd,
	       bool fence_in_flush)
{
	struct tb_topic *topic;
	int result;

	*out = NULL;
	topic = calloc(1, sizeof(*topic));
	if (!topic)
		return error_set(ENOMEM, "topic %s: no memory", options->name);
	topic->memory.fd = -1;
	topic->publisher = publisher;
	pthread_mutex_init(&topic->unpublished_lock, NULL);
	topic->wakeup.event_fd = event_fd;
	topic->wakeup.fence_in_flush = fence_in_flush;
	topic->flags = options->flags;
	topic->group = options->group;
	topic->manual_flush = (options->flags & TB_TOPIC_MANUAL_FLUSH) || options->group;
	topic->payload_max = (uint32_t)tb_schema_bytes(options->schema);
	memcpy(topic->name, options->name, strlen(options->name));
	shape_fill(&topic->shape, options, id);
	result = random_epoch(&topic->shape.epoch);
	if (result == 0)
		result = random_key(topic->notice_key);
	if (result == 0)
		result = topic_schema_copy(options->schema, &topic->schema);
	if (result == 0)
		result = topic_memory(topic, &topic->shape, &topic->memory);
	if (result == 0)
		result = names_open(&topic->names, topic->shape.capacity);
	if (result == 0)
		result = names_open(&topic->unpublished, TOPIC_UNPUBLISHED_MAX);
	if (result < 0) {
		topic_close(topic);
		return error_prefix(result, "topic %s: ", options->name);
	}
	topic_aim(topic);
	writer_aim(topic);
	*out = topic;
	return 0;
}

void topic_close(struct tb_topic *topic)
{
	if (!topic)
		return;
	endpoints_withdraw(&topic->exposures);
	memory_free(&topic->memory);
	names_close(&topic->names);
	names_close(&topic->unpublished);
	pthread_mutex_destroy(&topic->unpublished_lock);
	tb_schema_free(topic->schema);
	free(topic);
}

/* -- end and restart ----------------------------------------------------------------------------
 */

/* The end of a topic or epoch ends the open message (P-I5). */
static void message_end(struct tb_topic *topic)
{
	if (topic->marks_messages)
		topic->whole = topic->sequence;
}

TB_API int tb_topic_end(struct tb_topic *topic)
{
	if (!topic)
		return error_null("topic");
	if (topic->ended)
		return 0;
	group_settle(topic->group);
	topic->ended = true;
	message_end(topic);
	topic->progress.reserved = topic->sequence;
	writer_line(topic); /* W7: the last head is visible before the end */
	topic->progress.state = TOPIC_ENDED;
	writer_line(topic);
	atomic_store_explicit(&topic->end_due, 1, memory_order_release);
	wakeup_signal(&topic->wakeup);
	return 0;
}

/* Under the publisher's lock. Readers of the old memory find its last head there, and nothing
 * reserved behind it. */
static void epoch_swap(struct tb_topic *topic, const struct region_shape *shape,
		       const struct memory *memory, const struct exposures *exposures,
		       const uint8_t notice_key[NOTICE_KEY_BYTES])
{
	message_end(topic);
	topic->progress.reserved = topic->sequence;
	writer_line(topic);
	endpoints_withdraw(&topic->exposures);
	topic->exposures = *exposures;
	topic->memory = *memory;
	topic->shape = *shape;
	pin_memory(topic->publisher, &topic->memory);
	names_clear(&topic->names);
	topic_aim(topic);
	atomic_store_explicit(&topic->end_due, 0, memory_order_relaxed);
	topic->end_sent = false;
	memcpy(topic->notice_key, notice_key, sizeof(topic->notice_key));
	topic->head_ticked = topic->head_repeated = 0;
	counter_add(&topic->restarts, 1);
}

TB_API int tb_topic_restart(struct tb_topic *topic)
{
	struct region_shape shape;
	struct exposures exposures = { 0 };
	struct memory fresh = { .fd = -1 }, old = { .fd = -1 };
	uint8_t notice_key[NOTICE_KEY_BYTES] = { 0 };
	int result;

	if (!topic)
		return error_null("topic");
	shape = topic->shape; /* written by this thread only */
	result = random_epoch(&shape.epoch);
	group_settle(topic->group);
	if (result == 0)
		result = random_key(notice_key);
	if (result == 0)
		result = topic_memory(topic, &shape, &fresh);
	if (result < 0)
		return error_prefix(result, "topic %s: ", topic->name);
	publisher_lock(topic->publisher);
	result = endpoints_expose(topic->publisher, &shape, &fresh, topic->realms, &exposures);
	if (result == 0) {
		old = topic->memory;
		epoch_swap(topic, &shape, &fresh, &exposures, notice_key);
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

	if (!topic) {
		error_null("topic");
		return;
	}
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
