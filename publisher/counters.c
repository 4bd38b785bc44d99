/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/counters.h"

#include <errno.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/error.h"
#include "publisher/group.h"
#include "publisher/realm.h"
#include "publisher/sleepers.h"

static void topic_counters(struct tb_topic *topic, uint64_t value[TOPIC_COUNTERS])
{
	struct progress progress;

	progress_load(topic->line, &progress);
	value[TOPIC_RECORDS] = progress.head;
	value[TOPIC_FLUSHES] = atomic_load_explicit(&topic->flushes, memory_order_relaxed);
	value[TOPIC_SIGNALS] = atomic_load_explicit(&topic->wakeup.signals, memory_order_relaxed);
	value[TOPIC_INSTRUMENTS] = progress.instruments;
	value[TOPIC_CAPACITY] = topic->shape.capacity;
	value[TOPIC_SUBSCRIBERS] = topic->join_count;
	value[TOPIC_SLEEPERS] = topic->sleepers;
	pthread_mutex_lock(&topic->unpublished_lock);
	value[TOPIC_UNPUBLISHED] = topic->unpublished_total;
	pthread_mutex_unlock(&topic->unpublished_lock);
	value[TOPIC_RESTARTS] = atomic_load_explicit(&topic->restarts, memory_order_relaxed);
	value[TOPIC_NOTICES] = atomic_load_explicit(&topic->announced, memory_order_relaxed);
	value[TOPIC_NOTICES_UNSENT] =
		atomic_load_explicit(&topic->unannounced, memory_order_relaxed);
	value[TOPIC_QUALITY] = progress.quality;
}

/* The block of the index-th topic that the session can see. */
static bool topic_block(const struct session *session, uint32_t index, struct counters_block *block)
{
	const struct tb_publisher *publisher = session->publisher;
	struct tb_topic *topic = NULL;

	for (uint32_t i = 0; i < publisher->topic_count; i++)
		if (realm_has(session->realm, publisher->topics[i]) && block->blocks++ == index)
			topic = publisher->topics[i];
	if (!topic)
		return false;
	block->name = topic->name;
	block->table = tb_counters(TB_SCOPE_TOPIC, &block->count);
	topic_counters(topic, block->value);
	return true;
}

bool counters_fill(const struct session *session, uint32_t scope, uint32_t index,
		   struct counters_block *block)
{
	const struct tb_publisher *publisher = session->publisher;

	memset(block, 0, sizeof(*block));
	/* Other blocks count for all realms, or for feeds, which belong to no realm: only clients
	 * that see all topics get them. */
	if (scope != TB_SCOPE_TOPIC && !session->realm->whole)
		return false;
	if (scope == TB_SCOPE_BUS && index == 0) {
		block->blocks = 1;
		block->name = publisher->name;
		block->table = tb_counters(TB_SCOPE_BUS, &block->count);
		for (size_t i = 0; i < block->count; i++)
			block->value[i] =
				atomic_load_explicit(&publisher->counters[i], memory_order_relaxed);
		block->value[BUS_CLOCK_SET_BACK] = groups_set_back(publisher);
		return true;
	}
	if (scope == TB_SCOPE_TOPIC)
		return topic_block(session, index, block);
	if (scope == TB_SCOPE_FEED && index < publisher->feed_count) {
		const struct feed_block *feed = &publisher->feeds[index];

		block->blocks = publisher->feed_count;
		block->name = feed->name;
		block->table = feed->table;
		block->count = feed->count;
		for (size_t i = 0; i < feed->count; i++)
			block->value[i] =
				atomic_load_explicit(&feed->values[i], memory_order_relaxed);
		return true;
	}
	return false;
}

/* -- a feed's block ------------------------------------------------------------------------------
 */

/* Whether a message can carry the text: at most max bytes of printable ASCII. */
static bool is_text(const char *text, size_t max)
{
	size_t length = 0;

	while (length <= max && text[length] >= ' ' && text[length] <= '~')
		length++;
	return length <= max && text[length] == '\0';
}

static int table_check(const struct tb_counter *table, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!is_text(table[i].name, CONTROL_COUNTER_NAME_MAX) ||
		    !is_text(table[i].unit, CONTROL_COUNTER_UNIT_MAX))
			return error_set(
				EINVAL,
				"counter %s (%s): expected a name of at most %d bytes of printable "
				"ASCII and a unit of at most %d",
				table[i].name, table[i].unit, CONTROL_COUNTER_NAME_MAX,
				CONTROL_COUNTER_UNIT_MAX);
	return 0;
}

TB_API int tb_publisher_count(struct tb_publisher *publisher, const char *name,
			      const struct tb_counter *table, const uint64_t *values, size_t count)
{
	int result;

	if (!publisher)
		return error_null("publisher");
	result = count >= 1 && count <= 64
			 ? table_check(table, count)
			 : error_set(EINVAL, "counters %s: found %zu, expected 1 to 64", name,
				     count);
	if (result == 0 && (!name[0] || !is_text(name, CONTROL_NAME_MAX)))
		result = error_set(EINVAL,
				   "counters: found the name \"%.64s\", expected 1 to %d bytes of "
				   "printable ASCII",
				   name, CONTROL_NAME_MAX);
	if (result < 0)
		return result;
	publisher_lock(publisher);
	if (publisher->feed_count == BOUND_FEEDS_MAX) {
		result = error_set(ENOSPC,
				   "counters %s: the bus already has its maximum of %d blocks",
				   name, BOUND_FEEDS_MAX);
	} else {
		struct feed_block *feed = &publisher->feeds[publisher->feed_count++];

		memcpy(feed->name, name, strlen(name) + 1);
		feed->table = table;
		feed->values = (const _Atomic uint64_t *)values;
		feed->count = count;
	}
	publisher_unlock(publisher);
	return result;
}
