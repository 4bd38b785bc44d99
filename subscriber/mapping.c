/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's memory, opened from a grant.
 *
 * Nothing of a grant is believed: the layout is computed from the shape, and the region's size must
 * be the layout's. */
#include "subscriber/mapping.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bus/directory.h"
#include "bus/error.h"
#include "bus/record.h"

void place_close(struct tb_subscriber *subscriber, struct place *place)
{
	if (place->remote)
		subscriber->ops->remote_close(place->remote);
	free(place->names);
	memset(place, 0, sizeof(*place));
}

int place_open(struct tb_subscriber *subscriber, const struct tb_schema *schema,
	       const struct control_message *grant, struct place *place)
{
	const struct control_topic *topic = &grant->grant.topic;
	int result;

	memset(place, 0, sizeof(*place));
	place->shape = topic->shape;
	place->schema = schema;
	place->checked = topic->shape.flags & REGION_FLAG_CHECKED;
	result = region_layout(&place->shape, &place->layout);
	if (result < 0)
		return error_prefix(-EPROTO, "topic %s: the publisher's grant: ", topic->name);
	if (grant->grant.region_bytes != place->layout.bytes)
		return error_set(EPROTO,
				 "topic %s: the publisher's grant: found %" PRIu64
				 " bytes of memory, expected %" PRIu64,
				 topic->name, grant->grant.region_bytes, place->layout.bytes);
	if (place->shape.slot_bytes != region_slot_bytes(tb_schema_bytes(schema)))
		return error_set(EPROTO,
				 "topic %s: the publisher's grant: found slots of %" PRIu32
				 " bytes, expected %" PRIu32 " for schema %s",
				 topic->name, place->shape.slot_bytes,
				 region_slot_bytes(tb_schema_bytes(schema)),
				 tb_schema_name(schema));
	if (subscriber->ops->network && !place->checked)
		return error_set(
			EPROTO,
			"topic %s: its records have no check: only shared memory can serve it",
			topic->name);
	place->names = calloc(place->shape.capacity, sizeof(*place->names));
	if (!place->names)
		return error_set(ENOMEM, "topic %s: no memory for %" PRIu32 " names", topic->name,
				 place->shape.capacity);
	result = subscriber->ops->remote_open(subscriber->link, grant->grant.key,
					      place->layout.bytes, &place->remote);
	if (result < 0) {
		place_close(subscriber, place);
		return error_prefix(result, "topic %s: ", topic->name);
	}
	place->view = subscriber->ops->view(place->remote);
	place->record_salt = record_salt(place->shape.epoch, place->shape.topic_id, TAG_RECORD);
	place->progress_salt = record_salt(place->shape.epoch, place->shape.topic_id, TAG_PROGRESS);
	place->directory_salt =
		record_salt(place->shape.epoch, place->shape.topic_id, TAG_DIRECTORY);
	return 0;
}
