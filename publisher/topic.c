/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/topic.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "bus/pattern.h"
#include "bus/record.h"
#include "bus/region.h"
#include "publisher/endpoint.h"
#include "publisher/epoch.h"
#include "publisher/group.h"
#include "publisher/names.h"
#include "publisher/wakeup.h"
#include "publisher/writer.h"

/* -- making and ending --------------------------------------------------------------------------
 */

static int topic_schema_copy(const struct tb_schema *schema, struct tb_schema **copy)
{
	size_t length;
	const char *text = tb_schema_text(schema, &length);

	return tb_schema_parse(copy, text, length, tb_schema_name(schema));
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
	struct epoch first = { 0 };
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
	result = topic_schema_copy(options->schema, &topic->schema);
	if (result == 0)
		result = epoch_make(&first, topic, 0);
	if (result == 0)
		epoch_take(topic, &first);
	if (result == 0)
		result = names_open(&topic->names, topic->shape.capacity);
	if (result == 0)
		result = names_open(&topic->unpublished, TOPIC_UNPUBLISHED_MAX);
	if (result < 0) {
		topic_close(topic);
		return error_prefix(result, "topic %s: ", options->name);
	}
	epoch_aim(topic, 0);
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

TB_API int tb_topic_end(struct tb_topic *topic)
{
	if (!topic)
		return error_null("topic");
	if (topic->ended)
		return 0;
	group_settle(topic->group);
	topic->ended = true;
	epoch_end_message(topic);
	topic->progress.reserved = topic->sequence;
	writer_line(topic); /* W7: the last head is visible before the end */
	topic->progress.state = TOPIC_ENDED;
	writer_line(topic);
	atomic_store_explicit(&topic->end_due, 1, memory_order_release);
	wakeup_signal(&topic->wakeup);
	return 0;
}

TB_API int tb_topic_restart(struct tb_topic *topic)
{
	struct epoch next;
	int result;

	if (!topic)
		return error_null("topic");
	group_settle(topic->group);
	result = epoch_make(&next, topic, 0);
	if (result < 0)
		return error_prefix(result, "topic %s: ", topic->name);
	publisher_lock(topic->publisher);
	result = epoch_expose(&next, topic);
	if (result == 0)
		epoch_begin(topic, &next);
	publisher_unlock(topic->publisher);
	epoch_drop(&next);
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
