/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/describe.h"

#include <stdio.h>

#include "publisher/announce.h"

void describe_topic(const struct session *session, const struct tb_topic *topic,
		    struct control_topic *out)
{
	size_t length;

	tb_schema_text(topic->schema, &length);
	out->shape = topic->shape;
	out->state = atomic_load_explicit(&topic->end_due, memory_order_acquire) ? TOPIC_ENDED
										 : TOPIC_LIVE;
	out->quality = (uint8_t)topic_quality(topic);
	out->schema_version = tb_schema_version(topic->schema);
	out->schema_bytes = (uint32_t)length;
	announce_describe(&session->publisher->endpoints[session->listener], topic, &out->notices);
	snprintf(out->name, sizeof(out->name), "%s", topic->name);
	snprintf(out->schema, sizeof(out->schema), "%s", tb_schema_name(topic->schema));
}
