/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/topic_names.h"

#include <string.h>

#include "bus/hash.h"

static size_t list_of(const char *name)
{
	return XXH3_64bits(name, strlen(name)) % TOPIC_NAME_LISTS;
}

void topic_names_add(struct tb_publisher *publisher, struct tb_topic *topic)
{
	struct tb_topic **list = &publisher->named[list_of(topic->name)];

	topic->next_named = *list;
	*list = topic;
}

struct tb_topic *topic_names_find(const struct tb_publisher *publisher, const char *name)
{
	struct tb_topic *topic = publisher->named[list_of(name)];

	while (topic && strcmp(topic->name, name) != 0)
		topic = topic->next_named;
	return topic;
}
