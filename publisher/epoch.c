/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/epoch.h"

#include <assert.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/directory.h"
#include "bus/progress.h"
#include "bus/random.h"
#include "bus/record.h"
#include "publisher/endpoint.h"
#include "publisher/pin.h"
#include "publisher/writer.h"

#define STEP_MAX 1024

/* -- making -------------------------------------------------------------------------------------
 */

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
				      const struct tb_group *group, uint32_t instruments)
{
	return (struct progress){ .epoch = shape->epoch,
				  .first = 1,
				  .instruments = instruments,
				  .state = TOPIC_LIVE,
				  .complete_ns = group ? group->done_ns : 0 };
}

/* The directory comes before the line that counts its names (D-I1). */
static int memory_make(struct epoch *epoch, const struct tb_topic *topic)
{
	const struct region_shape *shape = &epoch->shape;
	const uint64_t salt = record_salt(shape->epoch, shape->topic_id, TAG_DIRECTORY);
	struct progress progress = first_progress(shape, topic->group, epoch->instruments);
	struct region_layout layout;
	int result = region_layout(shape, &layout);
	char *base;

	if (result == 0)
		result = memory_create_on(&epoch->memory, topic->name, layout.bytes,
					  topic->publisher->node);
	if (result < 0)
		return result;
	base = epoch->memory.base;
	region_header_write(base, shape, topic->name);
	for (uint32_t i = 0; i < epoch->instruments; i++)
		directory_store(base + layout.directory, i, topic->names.entries[i].name, salt);
	progress_store((struct progress_line *)(base + layout.progress), &progress,
		       shape->flags & REGION_FLAG_CHECKED,
		       record_salt(shape->epoch, shape->topic_id, TAG_PROGRESS));
	return 0;
}

int epoch_make(struct epoch *epoch, const struct tb_topic *topic, uint32_t instruments)
{
	int result;

	*epoch = (struct epoch){ .shape = topic->shape, /* written by this thread only */
				 .memory = { .fd = -1 },
				 .instruments = instruments };
	if (topic->group)
		epoch->shape.group = topic->group->id;
	result = random_epoch(&epoch->shape.epoch);
	if (result == 0)
		result = random_key(epoch->notice_key);
	if (result == 0)
		result = memory_make(epoch, topic);
	return result;
}

int epoch_expose(struct epoch *epoch, const struct tb_topic *topic)
{
	return endpoints_expose(topic->publisher, &epoch->shape, &epoch->memory, topic->realms,
				&epoch->exposures);
}

void epoch_drop(struct epoch *epoch)
{
	endpoints_withdraw(&epoch->exposures);
	memory_free(&epoch->memory);
}

/* -- switching ----------------------------------------------------------------------------------
 */

void epoch_take(struct tb_topic *topic, const struct epoch *epoch)
{
	topic->shape = epoch->shape;
	topic->memory = epoch->memory;
	topic->exposures = epoch->exposures;
	memcpy(topic->notice_key, epoch->notice_key, sizeof(topic->notice_key));
}

void epoch_aim(struct tb_topic *topic, uint32_t instruments)
{
	const struct region_shape *shape = &topic->shape;
	char *base = topic->memory.base;
	struct region_layout layout;

	region_layout(shape, &layout);
	topic->ring = base + layout.ring;
	topic->last_value = layout.last_value ? base + layout.last_value : NULL;
	topic->line = (struct progress_line *)(base + layout.progress);
	topic->directory = base + layout.directory;
	topic->progress = first_progress(shape, topic->group, instruments);
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

void epoch_end_message(struct tb_topic *topic)
{
	if (topic->marks_messages)
		topic->whole = topic->sequence;
}

/* Readers of the old memory find its last head there, and nothing reserved behind it. */
void epoch_begin(struct tb_topic *topic, struct epoch *epoch)
{
	const struct memory old = topic->memory;

	epoch->quality = (struct quality){ topic->progress.quality, topic->quality_cause };
	epoch_end_message(topic);
	topic->progress.reserved = topic->sequence;
	writer_line(topic);
	endpoints_withdraw(&topic->exposures);
	epoch_take(topic, epoch);
	epoch->exposures = (struct exposures){ 0 };
	epoch->memory = old;
	pin_memory(topic->publisher, &topic->memory);
	if (epoch->instruments == 0)
		names_clear(&topic->names);
	epoch_aim(topic, epoch->instruments);
	atomic_store_explicit(&topic->end_due, 0, memory_order_relaxed);
	topic->end_sent = false;
	topic->head_ticked = topic->head_repeated = 0;
	counter_add(&topic->restarts, 1);
}
