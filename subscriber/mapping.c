/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's memory, opened from a grant.
 *
 * A grant is not trusted: the layout is computed from its shape, and the region must have that
 * layout's size. The header in the memory is compared later (advance.c). */
#include "subscriber/mapping.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "bus/record.h"
#include "bus/region.h"
#include "bus/sparse.h"
#include "subscriber/choice.h"
#include "subscriber/conflate.h"
#include "subscriber/glance.h"
#include "subscriber/image.h"
#include "subscriber/pull_watch.h"
#include "tickbus/schema.h"

void mapping_names_free(struct mapping *mapping)
{
	sparse_free(mapping->names, mapping->shape.capacity, sizeof(*mapping->names));
	mapping->names = NULL;
}

void mapping_close(struct tb_subscriber *subscriber, struct mapping *mapping)
{
	if (mapping->view)
		glance_wake_all(subscriber); /* L-I4 */
	if (mapping->remote)
		subscriber->ops->remote_close(mapping->remote);
	mapping_names_free(mapping);
	name_index_close(&mapping->name_index);
	image_free(mapping->image);
	choice_close(mapping->choice);
	conflate_free(mapping->conflate);
	pull_watch_close(mapping->watch);
	memset(mapping, 0, sizeof(*mapping));
}

int mapping_open(struct tb_subscriber *subscriber, const struct tb_schema *schema,
		 const struct control_message *grant, struct mapping *mapping)
{
	const struct control_topic *topic = &grant->grant.topic;
	int result;

	memset(mapping, 0, sizeof(*mapping));
	mapping->shape = topic->shape;
	mapping->schema = schema;
	memcpy(mapping->notice_key, grant->grant.notice_key, sizeof(mapping->notice_key));
	mapping->notice_numbers[NOTICE_WRITER] = grant->grant.topic_notices;
	mapping->notice_numbers[NOTICE_HEADS] = grant->grant.heads_notices;
	mapping->checked = topic->shape.flags & REGION_FLAG_CHECKED;
	mapping->take = record_taker_of(tb_schema_bytes(schema), mapping->checked);
	mapping->shown_ms = subscriber->heard_ms;
	result = region_layout(&mapping->shape, &mapping->layout);
	if (result < 0)
		return error_prefix(-EPROTO, "topic %s: the publisher's grant: ", topic->name);
	if (grant->grant.region_bytes != mapping->layout.bytes)
		return error_set(EPROTO,
				 "topic %s: the publisher's grant: found %" PRIu64
				 " bytes of memory, expected %" PRIu64,
				 topic->name, grant->grant.region_bytes, mapping->layout.bytes);
	if (mapping->shape.slot_bytes != region_slot_bytes(tb_schema_bytes(schema)))
		return error_set(EPROTO,
				 "topic %s: the publisher's grant: found slots of %" PRIu32
				 " bytes, expected %" PRIu32 " for schema %s",
				 topic->name, mapping->shape.slot_bytes,
				 region_slot_bytes(tb_schema_bytes(schema)),
				 tb_schema_name(schema));
	if (subscriber->ops->network && !mapping->checked)
		return error_set(
			EPROTO,
			"topic %s: its records have no check, so only shared memory serves it",
			topic->name);
	mapping->names = sparse_new(mapping->shape.capacity, sizeof(*mapping->names));
	if (!mapping->names)
		return error_set(ENOMEM, "topic %s: no memory for %" PRIu32 " names", topic->name,
				 mapping->shape.capacity);
	result = subscriber->ops->remote_open(subscriber->link, grant->grant.key,
					      mapping->layout.bytes, &mapping->remote);
	if (result < 0) {
		mapping_close(subscriber, mapping);
		return error_prefix(result, "topic %s: ", topic->name);
	}
	mapping->view = subscriber->ops->view(mapping->remote);
	mapping->record_salt =
		record_salt(mapping->shape.epoch, mapping->shape.topic_id, TAG_RECORD);
	mapping->progress_salt =
		record_salt(mapping->shape.epoch, mapping->shape.topic_id, TAG_PROGRESS);
	mapping->directory_salt =
		record_salt(mapping->shape.epoch, mapping->shape.topic_id, TAG_DIRECTORY);
	return 0;
}
