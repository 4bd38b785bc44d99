/* SPDX-License-Identifier: Apache-2.0 */
/* One joined topic, from its grant until it is left: whether its join is needed, and what remains
 * of it when the connection is lost. */
#include "subscriber/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/region.h"
#include "subscriber/choice.h"
#include "subscriber/collect.h"
#include "subscriber/conflate.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/exempt.h"
#include "subscriber/glance.h"
#include "subscriber/image.h"
#include "subscriber/landing.h"
#include "subscriber/mapping.h"
#include "subscriber/notices.h"
#include "subscriber/pull_read.h"
#include "subscriber/pull_watch.h"
#include "subscriber/topic_index.h"
#include "subscriber/value_reads.h"
#include "tickbus/subscriber.h"

bool source_is_settling(const struct tb_source *source)
{
	return source->state < SOURCE_RUNNING;
}

void source_settling(struct tb_source *source)
{
	struct tb_source **first = &source->subscription->subscriber->settling;

	if (source->link_of_settling)
		return;
	source->next_settling = *first;
	source->link_of_settling = first;
	if (*first)
		(*first)->link_of_settling = &source->next_settling;
	*first = source;
}

void source_settled(struct tb_source *source)
{
	if (!source->link_of_settling)
		return;
	*source->link_of_settling = source->next_settling;
	if (source->next_settling)
		source->next_settling->link_of_settling = source->link_of_settling;
	source->link_of_settling = NULL;
}

static void source_free(struct tb_source *source)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	mapping_close(subscriber, &source->mapping);
	mapping_close(subscriber, &source->successor);
	landing_close(source);
	collect_close(source);
	topic_index_remove(source);
	source_settled(source);
	subscriber->table[source->slot] = NULL;
	if (subscriber->slots_full > source->slot)
		subscriber->slots_full = source->slot;
	free(source);
}

void source_reap(struct tb_source *source)
{
	struct tb_source **link = &source->subscription->sources;

	if (source->state != SOURCE_DEAD)
		return;
	if (source->under_way > 0) {
		source->subscription->subscriber->untidy = true;
		return;
	}
	while (*link != source)
		link = &(*link)->next_source;
	*link = source->next_source;
	source_free(source);
}

/* -- the join of an epoch --------------------------------------------------------------------- */

/* Whether a source needs this connection's join of an epoch. */
static bool source_holds(const struct tb_source *source, uint64_t epoch)
{
	if (source->orphan || source->state == SOURCE_DEAD)
		return false;
	if (source->has_successor)
		return source->successor.shape.epoch == epoch;
	return source->state != SOURCE_ENDED && source->mapping.shape.epoch == epoch;
}

/* The outstanding request for the join of an epoch, or NULL. */
static struct discovery_request *join_request(struct tb_subscriber *subscriber, uint32_t topic_id,
					      uint64_t epoch)
{
	for (unsigned int i = 0; i < FABRIC_UNANSWERED; i++) {
		struct discovery_request *request = &subscriber->discovery.requests[i];

		if (request->number != 0 && request->type == CONTROL_JOIN &&
		    request->topic_id == topic_id && request->epoch == epoch)
			return request;
	}
	return NULL;
}

/* Ends the join of an epoch, which all subscriptions share, unless another source needs it. The
 * publisher takes messages in order: a leave would end a join that is requested already. */
static void join_end(struct tb_subscriber *subscriber, uint32_t topic_id, uint64_t epoch)
{
	struct control_message leave = { .type = CONTROL_LEAVE };
	struct discovery_request *request = join_request(subscriber, topic_id, epoch);

	for (const struct tb_source *s = topic_index_first(subscriber, topic_id); s;
	     s = s->next_of_id)
		if (source_holds(s, epoch))
			return;
	if (request) {
		request->leave = true;
		return;
	}
	leave.topic.topic_id = topic_id;
	leave.topic.epoch = epoch;
	if (connection_send(subscriber, &leave) < 0)
		subscriber->leaves[topic_id] = epoch;
	subscriber->leaves_owed |= subscriber->leaves[topic_id] != 0;
}

void source_leaves_send(struct tb_subscriber *subscriber)
{
	if (!subscriber->leaves_owed)
		return;
	subscriber->leaves_owed = false;
	for (uint32_t id = 1; id <= BOUND_TOPICS_MAX; id++) {
		const uint64_t epoch = subscriber->leaves[id];

		subscriber->leaves[id] = 0;
		if (epoch != 0)
			join_end(subscriber, id, epoch);
	}
}

void source_leaves_forget(struct tb_subscriber *subscriber)
{
	subscriber->leaves_owed = false;
	memset(subscriber->leaves, 0, sizeof(subscriber->leaves));
}

void source_decline(struct tb_subscriber *subscriber, uint32_t topic_id, uint64_t epoch)
{
	join_end(subscriber, topic_id, epoch);
}

static void source_become(struct tb_source *source, enum source_state state)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const struct mapping *last = source->has_successor ? &source->successor : &source->mapping;
	const bool held = source_holds(source, last->shape.epoch);

	source->state = state;
	if (!held || !subscriber->welcomed)
		return;
	join_end(subscriber, last->shape.topic_id, last->shape.epoch);
	notices_leave(source);
}

void source_leave(struct tb_source *source)
{
	source_become(source, SOURCE_DEAD);
	source->subscription->subscriber->untidy = true;
}

void source_end(struct tb_source *source)
{
	if (collect_interrupt(source))
		return;
	deliver_holes(source);
	pull_read_drop(source);
	source_become(source, SOURCE_ENDED);
	deliver_event(source, TB_EVENT_ENDED);
}

void source_orphan(struct tb_source *source)
{
	source->orphan = true;
	source->armed = false;
	glance_look(source);
	source->noticed_ms = source->entry_count = source->entry_lost_ms = 0;
	if (source->mapping.view)
		return;
	/* Memory that only READs reach was lost with the connection. */
	if (source->mapping.remote)
		source->subscription->subscriber->ops->remote_close(source->mapping.remote);
	source->mapping.remote = NULL;
	mapping_close(source->subscription->subscriber, &source->successor);
	source->has_successor = false;
	pull_read_drop(source);
	value_reads_interrupted(&source->value_reads);
	pull_watch_interrupted(source->mapping.watch);
	if (source->mapping.image)
		image_interrupted(source->mapping.image);
	if (source->mapping.conflate)
		conflate_interrupted(source->mapping.conflate);
	landing_close(source);
}

/* -- grants ----------------------------------------------------------------------------------- */

static int source_new(struct tb_subscription *subscription, const struct control_topic *topic,
		      bool local, struct tb_source **out)
{
	struct tb_subscriber *subscriber = subscription->subscriber;
	struct tb_source *source;
	uint32_t slot = subscriber->slots_full;
	int result;

	while (slot < subscriber->topics_max && subscriber->table[slot])
		slot++;
	subscriber->slots_full = slot;
	if (slot == subscriber->topics_max)
		return error_set(ENOSPC,
				 "topic %s: %" PRIu32
				 " topics are joined already, as many as topics_max allows",
				 topic->name, subscriber->topics_max);
	source = calloc(1, sizeof(*source));
	if (!source)
		return error_set(ENOMEM, "topic %s: no memory", topic->name);
	source->subscription = subscription;
	source->slot = slot;
	memcpy(source->name, topic->name, sizeof(source->name));
	result = landing_open(source, local);
	if (result == 0)
		result = collect_open(source);
	if (result < 0) {
		landing_close(source);
		free(source);
		return result;
	}
	topic_index_add(source, topic->shape.topic_id);
	subscriber->table[slot] = source;
	glance_wake(&subscriber->glances[slot]); /* L-I3 */
	if (subscriber->table_used <= slot)
		subscriber->table_used = slot + 1;
	source->next_source = subscription->sources;
	subscription->sources = source;
	*out = source;
	return 0;
}

/* The same epoch over a new connection: the position is kept, and the header is compared again. An
 * epoch that was read to its end meanwhile needs no join. */
static int source_adopt(struct tb_source *source, struct mapping *mapping)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;

	if (memcmp(&source->mapping.shape, &mapping->shape, sizeof(mapping->shape)) != 0) {
		mapping_close(subscriber, mapping);
		return error_set(EPROTO,
				 "topic %s: the publisher grants epoch %016" PRIx64
				 " with a different layout than before",
				 source->name, source->mapping.shape.epoch);
	}
	if (source->state == SOURCE_ENDED) {
		mapping_close(subscriber, mapping);
		join_end(subscriber, source->mapping.shape.topic_id, source->mapping.shape.epoch);
		return 0;
	}
	mapping_names_free(mapping);
	mapping->names = source->mapping.names; /* held records need theirs (C-I4) */
	source->mapping.names = NULL;
	image_free(mapping->image); /* the program's table is that of the epoch */
	mapping->image = source->mapping.image;
	source->mapping.image = NULL;
	choice_close(mapping->choice); /* the names are those of the epoch, too */
	mapping->choice = source->mapping.choice;
	source->mapping.choice = NULL;
	conflate_free(mapping->conflate); /* and the accounts */
	mapping->conflate = source->mapping.conflate;
	source->mapping.conflate = NULL;
	pull_watch_close(mapping->watch);
	mapping->watch = source->mapping.watch;
	source->mapping.watch = NULL;
	mapping_close(subscriber, &source->mapping);
	source->mapping = *mapping;
	source->orphan = false;
	glance_look(source);
	source->stale_code = 0;
	source->state = SOURCE_HEADER;
	return 1;
}

/* The same memory over a new connection is mapped already. The header is compared again. */
static bool source_keep(struct tb_source *source, const struct control_topic *topic)
{
	struct tb_subscriber *subscriber = source->subscription->subscriber;
	const struct mapping *mapping = &source->mapping;

	if (!source->orphan || source->state > SOURCE_RUNNING || source->has_successor ||
	    !mapping->view || memcmp(&mapping->shape, &topic->shape, sizeof(topic->shape)) != 0 ||
	    !subscriber->ops->remote_keep(subscriber->link, mapping->remote))
		return false;
	source->orphan = false;
	glance_look(source);
	source->stale_code = 0;
	source->state = SOURCE_HEADER;
	return true;
}

/* The program's table of an epoch begins empty. */
static int source_image(const struct tb_subscription *subscription,
			const struct control_topic *topic, struct mapping *mapping)
{
	if (!image_is_wanted(&subscription->options))
		return 0;
	if (!(topic->shape.flags & REGION_FLAG_LAST_VALUE))
		return error_set(EOPNOTSUPP,
				 "topic %s: it has no last values, which an image needs",
				 topic->name);
	mapping->image = image_new(&topic->shape);
	if (!mapping->image)
		return error_set(ENOMEM,
				 "topic %s: no memory for an image of %" PRIu32 " instruments",
				 topic->name, topic->shape.capacity);
	return 0;
}

static int source_conflate(const struct tb_subscription *subscription,
			   const struct control_topic *topic, struct mapping *mapping)
{
	const uint32_t us = subscription->options.conflate_us;

	if (!subscription->exempt || exempt_has_topic(subscription->exempt, topic->name))
		return 0;
	if (!(topic->shape.flags & REGION_FLAG_LAST_VALUE))
		return error_set(EOPNOTSUPP,
				 "topic %s: it has no last values, which conflation needs: exempt "
				 "the topic",
				 topic->name);
	mapping->conflate =
		conflate_new(&topic->shape, exempt_kinds(subscription->exempt),
			     us == TB_CONFLATE_POLL ? 0 : us * UINT64_C(1000), clock_ns());
	if (!mapping->conflate)
		return error_set(ENOMEM, "topic %s: no memory to conflate %" PRIu32 " instruments",
				 topic->name, topic->shape.capacity);
	if (!mapping->image)
		conflate_begin(mapping->conflate, 0, false);
	return 0;
}

/* Only the first epoch that is read begins by time. */
static int source_by_time(const struct tb_subscription *subscription,
			  const struct control_topic *topic, const struct tb_source *source)
{
	if (subscription->options.from != TB_FROM_TIME || (source && source->next != 0) ||
	    (topic->shape.flags & REGION_FLAG_TIME_RISES))
		return 0;
	return error_set(EOPNOTSUPP,
			 "topic %s: its times need not rise, because it belongs to no group, so it "
			 "has no start by time",
			 topic->name);
}

int source_grant(struct tb_subscription *subscription, const struct tb_schema *schema,
		 const struct control_message *grant, struct tb_source **out)
{
	struct tb_subscriber *subscriber = subscription->subscriber;
	const struct control_topic *topic = &grant->grant.topic;
	struct tb_source *source = topic_index_find(subscription, topic->name);
	struct mapping mapping;
	int result;

	if (source && source_keep(source, topic)) {
		topic_index_renumber(source, topic->shape.topic_id);
		*out = source;
		return 1;
	}
	result = source_by_time(subscription, topic, source);
	if (result == 0)
		result = mapping_open(subscriber, schema, grant, &mapping);
	if (result < 0)
		return result;
	result = source_image(subscription, topic, &mapping);
	if (result == 0)
		result = choice_open(subscription, &topic->shape, &mapping.choice);
	if (result == 0)
		result = source_conflate(subscription, topic, &mapping);
	if (result == 0)
		result = pull_watch_open(subscription, topic, &mapping.watch);
	if (result < 0) {
		mapping_close(subscriber, &mapping);
		return result;
	}
	if (source) {
		result = landing_open(source, mapping.view != NULL);
		if (result < 0) {
			mapping_close(subscriber, &mapping);
			return result;
		}
		topic_index_renumber(source, topic->shape.topic_id);
	}
	*out = source;
	if (source && source->mapping.shape.epoch == mapping.shape.epoch)
		return source_adopt(source, &mapping);
	if (source) {
		mapping_close(subscriber, &source->successor);
		source->successor = mapping;
		source->has_successor = true;
		source->orphan = false;
		source->successor_joined = grant->grant.head;
		source->invalid = 0;
		glance_look(source);
		return 0;
	}
	result = source_new(subscription, topic, mapping.view != NULL, &source);
	if (result < 0) {
		mapping_close(subscriber, &mapping);
		return result;
	}
	source->mapping = mapping;
	collect_begin(source);
	source->joined = grant->grant.head;
	source->state = SOURCE_HEADER;
	*out = source;
	return 1;
}
