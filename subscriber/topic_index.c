/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the sources of a subscriber by topic id and by topic name, without a walk of all sources.
 */
#include "subscriber/topic_index.h"

#include <string.h>

#include "bus/hash.h"

static uint32_t bucket_of(const char *name)
{
	return (uint32_t)(XXH3_64bits(name, strlen(name)) % BOUND_TOPICS_MAX);
}

static void id_list(struct tb_source *source, uint32_t topic_id)
{
	struct tb_source **first = &source->subscription->subscriber->index.by_id[topic_id];

	source->next_of_id = *first;
	source->link_of_id = first;
	if (*first)
		(*first)->link_of_id = &source->next_of_id;
	*first = source;
}

static void id_unlist(struct tb_source *source)
{
	*source->link_of_id = source->next_of_id;
	if (source->next_of_id)
		source->next_of_id->link_of_id = source->link_of_id;
}

void topic_index_add(struct tb_source *source, uint32_t topic_id)
{
	struct tb_source **first =
		&source->subscription->subscriber->index.by_name[bucket_of(source->name)];

	id_list(source, topic_id);
	source->next_of_name = *first;
	source->link_of_name = first;
	if (*first)
		(*first)->link_of_name = &source->next_of_name;
	*first = source;
}

void topic_index_renumber(struct tb_source *source, uint32_t topic_id)
{
	id_unlist(source);
	id_list(source, topic_id);
}

void topic_index_remove(struct tb_source *source)
{
	id_unlist(source);
	*source->link_of_name = source->next_of_name;
	if (source->next_of_name)
		source->next_of_name->link_of_name = source->link_of_name;
}

struct tb_source *topic_index_first(const struct tb_subscriber *subscriber, uint32_t topic_id)
{
	return topic_id <= BOUND_TOPICS_MAX ? subscriber->index.by_id[topic_id] : NULL;
}

struct tb_source *topic_index_find(const struct tb_subscription *subscription, const char *name)
{
	struct tb_source *source = subscription->subscriber->index.by_name[bucket_of(name)];

	while (source && (source->subscription != subscription || source->state == SOURCE_DEAD ||
			  strcmp(source->name, name) != 0))
		source = source->next_of_name;
	return source;
}
