/* SPDX-License-Identifier: Apache-2.0 */
/* What subscribers ask and what they are answered. By the control thread, under the lock. A message
 * was decoded, so its numbers are within the protocol's bounds; whether they name something that is
 * there is decided here. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bus/error.h"
#include "bus/pattern.h"
#include "bus/bounds.h"
#include "publisher/publisher.h"

/* A topic of another realm is as one that is not there. */
static struct tb_topic *topic_of(const struct session *session, uint32_t id)
{
	const struct tb_publisher *publisher = session->publisher;

	if (id < 1 || id > publisher->topic_count ||
	    !realm_has(session->realm, publisher->topics[id - 1]))
		return NULL;
	return publisher->topics[id - 1];
}

/* Keeps of a topic whether its join was refused last; whether it had been before. Of ids that no
 * topic can have once for all, since none of them is ever granted. */
static bool refused_before(struct session *session, uint32_t topic_id, bool refused)
{
	const uint32_t place = topic_id <= BOUND_TOPICS_MAX ? topic_id : 0;
	uint64_t *word = &session->refused[place / 64];
	const uint64_t bit = UINT64_C(1) << place % 64, before = *word & bit;

	*word = refused ? *word | bit : *word & ~bit;
	return before;
}

/* For the log, once until it works: what is short is asked for again with each pulse. */
static void join_refused(struct session *session, uint32_t topic_id, const char *words)
{
	char who[64], line[sizeof(who) + CONTROL_WORDS_MAX + 32];

	if (refused_before(session, topic_id, true))
		return;
	session->peer->ops->peer_text(session->peer, who, sizeof(who));
	snprintf(line, sizeof(line), "%s was refused a join: %s", who, words);
	server_calls.log(&session->publisher->endpoints[session->listener], FABRIC_LOG_INFO, line);
}

static int refuse(struct session *session, const struct control_message *asked, uint32_t topic_id,
		  int code, const char *format, ...) __attribute__((format(printf, 5, 6)));

static int refuse(struct session *session, const struct control_message *asked, uint32_t topic_id,
		  int code, const char *format, ...)
{
	struct control_message answer = { .type = CONTROL_REFUSE, .request = asked->request };
	va_list args;

	answer.refuse.topic_id = topic_id;
	answer.refuse.code = (uint32_t)code;
	va_start(args, format);
	vsnprintf(answer.refuse.words, sizeof(answer.refuse.words), format, args);
	va_end(args);
	counter_add(&session->publisher->counters[BUS_REFUSALS], 1);
	if (asked->type == CONTROL_JOIN && code != ESTALE) /* which happens to anyone */
		join_refused(session, topic_id, answer.refuse.words);
	return session_send(session, &answer, NULL);
}

static int refuse_topic(struct session *session, const struct control_message *asked, uint32_t id)
{
	return refuse(session, asked, id, ENOENT,
		      "bus %s: found topic id %u, expected one that the catalogue tells",
		      session->publisher->name, id);
}

static void topic_describe(const struct session *session, const struct tb_topic *topic,
			   struct control_topic *told)
{
	size_t length;

	tb_schema_text(topic->schema, &length);
	told->shape = topic->shape;
	told->state = atomic_load_explicit(&topic->end_due, memory_order_acquire) ? TOPIC_ENDED
										  : TOPIC_LIVE;
	told->schema_version = tb_schema_version(topic->schema);
	told->schema_bytes = (uint32_t)length;
	announce_told(&session->publisher->endpoints[session->listener], topic, &told->notices);
	snprintf(told->name, sizeof(told->name), "%s", topic->name);
	snprintf(told->schema, sizeof(told->schema), "%s", tb_schema_name(topic->schema));
}

static int answer_catalogue(struct session *session, const struct control_message *asked)
{
	const struct tb_publisher *publisher = session->publisher;
	struct control_message answer = { .type = CONTROL_TOPICS, .request = asked->request };
	uint32_t count = 0;

	if (pattern_check(asked->catalogue.pattern) < 0)
		return refuse(session, asked, 0, EINVAL, "%s", tb_error());
	for (uint32_t i = asked->catalogue.after; i < publisher->topic_count; i++) {
		if (!realm_has(session->realm, publisher->topics[i]) ||
		    !pattern_match(asked->catalogue.pattern, publisher->topics[i]->name))
			continue;
		if (count == CONTROL_TOPICS_PAGE) {
			answer.topics.more = 1;
			break;
		}
		topic_describe(session, publisher->topics[i], &answer.topics.topic[count++]);
	}
	answer.topics.count = count;
	return session_send(session, &answer, NULL);
}

static int answer_schema(struct session *session, const struct control_message *asked)
{
	const uint32_t id = asked->schema.topic_id, offset = asked->schema.offset;
	const struct tb_topic *topic = topic_of(session, id);
	struct control_message answer = { .type = CONTROL_SCHEMA_BYTES, .request = asked->request };
	const char *text;
	size_t total, part;

	if (!topic)
		return refuse_topic(session, asked, id);
	text = tb_schema_text(topic->schema, &total);
	if (offset > total)
		return refuse(session, asked, id, ERANGE,
			      "topic %s: found offset %u, expected at most the schema's %zu bytes",
			      topic->name, offset, total);
	part = total - offset < CONTROL_SCHEMA_PART ? total - offset : CONTROL_SCHEMA_PART;
	answer.schema_bytes.topic_id = id;
	answer.schema_bytes.offset = offset;
	answer.schema_bytes.total = (uint32_t)total;
	answer.schema_bytes.bytes = (uint32_t)part;
	memcpy(answer.schema_bytes.part, text + offset, part);
	return session_send(session, &answer, NULL);
}

/* The topic's exposure on the session's listener, for its realm. Shared memory has one for all,
 * made when the first one joins there. 0 or -errno. */
static int exposure_of(struct session *session, struct tb_topic *topic, struct exposure **given)
{
	struct listener *listener = session->publisher->endpoints[session->listener].listener;
	const uint32_t realm = listener->ops->network ? session->realm->index : 0;
	struct exposure **exposure = &topic->exposures.of[session->listener][realm];
	int result = 0;

	if (!*exposure)
		result = listener->ops->expose(listener, &topic->memory, realm, exposure);
	*given = *exposure;
	return result;
}

static int answer_join(struct session *session, const struct control_message *asked)
{
	struct tb_topic *topic = topic_of(session, asked->join.topic_id);
	struct control_message answer = { .type = CONTROL_GRANT, .request = asked->request };
	struct exposure *exposure;
	struct join *join;
	int result;

	if (!topic)
		return refuse_topic(session, asked, asked->join.topic_id);
	if (asked->join.epoch != topic->shape.epoch)
		return refuse(session, asked, asked->join.topic_id, ESTALE,
			      "topic %s: found epoch %016" PRIx64 ", expected %016" PRIx64
			      ": it began again meanwhile",
			      topic->name, asked->join.epoch, topic->shape.epoch);
	if (session->peer->ops->network && !(topic->shape.flags & REGION_FLAG_CHECKED))
		return refuse(
			session, asked, asked->join.topic_id, EPROTONOSUPPORT,
			"topic %s: its records have no check, so only shared memory serves it",
			topic->name);
	result = exposure_of(session, topic, &exposure);
	if (result < 0)
		return refuse(session, asked, asked->join.topic_id, -result,
			      "topic %s: at the publisher: %s", topic->name, tb_error());
	/* First the head: who waits for joins publishes what the newest begins with. */
	answer.grant.head = topic_head(topic);
	join = session_find(session, topic);
	/* A second grant of the same memory is for another of its readers: one may sleep. */
	if (join && join->epoch != topic->shape.epoch)
		join->armed = false;
	if (!join)
		join = session_join(session, topic);
	if (!join)
		return refuse(session, asked, asked->join.topic_id, ENOMEM,
			      "topic %s: the publisher has no memory for another join",
			      topic->name);
	join->epoch = topic->shape.epoch;
	refused_before(session, topic->shape.topic_id, false);
	topic_describe(session, topic, &answer.grant.topic);
	answer.grant.region_bytes = topic->memory.bytes;
	answer.grant.key = exposure->ops->key(exposure);
	return session_send(session, &answer, exposure);
}

static int answer_leave(struct session *session, const struct control_message *asked)
{
	struct tb_topic *topic = topic_of(session, asked->topic.topic_id);
	struct join *join = topic ? session_find(session, topic) : NULL;

	/* A leave may cross a revoke: what is gone already is no error. */
	if (join && join->epoch == asked->topic.epoch)
		session_leave(join);
	return 0;
}

/* Of an epoch that is gone there is no head to tell: the revoke says the rest. */
static int wake(struct join *join)
{
	struct control_message message = { .type = CONTROL_WAKE };
	struct tb_publisher *publisher = join->session->publisher;
	const struct tb_topic *topic = join->topic;
	int result;

	message.topic.topic_id = topic->shape.topic_id;
	message.topic.epoch = join->epoch;
	message.topic.head = join->epoch == topic->shape.epoch ? topic_head(topic) : 0;
	result = session_offer(join->session, &message);
	if (result == -EAGAIN)
		return 0; /* a queue full of news wakes it; of this one it is told later */
	if (result < 0)
		return result;
	join->armed = false;
	counter_add(&publisher->counters[BUS_WAKES], 1);
	return 0;
}

/* Wakes those that have something to read; whether anyone sleeps on. Who could not be told, since
 * its queue is full, is none of those: one that never reads it would cost the writer a call with
 * each flush. */
static bool wake_due(struct tb_topic *topic)
{
	const uint64_t head = topic_head(topic);
	bool sleepers = false;

	for (struct join *join = topic->joins, *next; join; join = next) {
		next = join->next_of_topic; /* a failed send ends one session: this join's, not
					       next's */
		if (!join->armed)
			continue;
		if (head > join->head_seen || join->epoch != topic->shape.epoch)
			wake(join);
		else
			sleepers = true;
	}
	return sleepers;
}

/* Arming interrupts the publishing thread (membarrier). A word that is still set was taken by no
 * flush since it was armed; one that is cleared after this load is followed by a signal, and so by
 * another look. */
static void topic_arm(struct tb_topic *topic)
{
	if (atomic_load_explicit(&topic->wakeup.armed, memory_order_relaxed) == 0)
		wakeup_arm(&topic->wakeup);
}

void answers_wake(struct tb_topic *topic)
{
	if (!wake_due(topic))
		return;
	topic_arm(topic);
	wake_due(topic);
}

static int answer_arm(struct session *session, const struct control_message *asked)
{
	struct tb_topic *topic = topic_of(session, asked->topic.topic_id);
	struct join *join = topic ? session_find(session, topic) : NULL;

	if (!join || join->epoch != asked->topic.epoch)
		return 0; /* it crossed a revoke */
	/* Its subscriptions have one join in common: the one that has read least is to be woken. */
	if (!join->armed || asked->topic.head < join->head_seen)
		join->head_seen = asked->topic.head;
	join->armed = true;
	topic_arm(topic);
	if (topic_head(topic) > join->head_seen || join->epoch != topic->shape.epoch)
		return wake(join);
	return 0;
}

/* -- counters -----------------------------------------------------------------------------------
 */

struct block {
	const char *name;
	const struct tb_counter *table;
	uint64_t value[64];
	size_t count, blocks;
};

static uint64_t sleepers(const struct tb_topic *topic)
{
	uint64_t count = 0;

	for (const struct join *join = topic->joins; join; join = join->next_of_topic)
		count += join->armed;
	return count;
}

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
	value[TOPIC_SLEEPERS] = sleepers(topic);
	pthread_mutex_lock(&topic->unpublished_lock);
	value[TOPIC_UNPUBLISHED] = topic->unpublished_total;
	pthread_mutex_unlock(&topic->unpublished_lock);
	value[TOPIC_RESTARTS] = atomic_load_explicit(&topic->restarts, memory_order_relaxed);
	value[TOPIC_NOTICES] = atomic_load_explicit(&topic->announced, memory_order_relaxed);
	value[TOPIC_NOTICES_UNSENT] =
		atomic_load_explicit(&topic->unannounced, memory_order_relaxed);
}

/* The index-th of the topics that the session sees. */
static bool topic_block(const struct session *session, uint32_t index, struct block *block)
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

/* Fills the index-th block of a scope; false if there is none. */
static bool block_fill(const struct session *session, uint32_t scope, uint32_t index,
		       struct block *block)
{
	const struct tb_publisher *publisher = session->publisher;

	memset(block, 0, sizeof(*block));
	if (scope == TB_SCOPE_BUS && index == 0) {
		block->blocks = 1;
		block->name = publisher->name;
		block->table = tb_counters(TB_SCOPE_BUS, &block->count);
		for (size_t i = 0; i < block->count; i++)
			block->value[i] =
				atomic_load_explicit(&publisher->counters[i], memory_order_relaxed);
		return true;
	}
	if (scope == TB_SCOPE_TOPIC)
		return topic_block(session, index, block);
	/* A feed is of no realm: its counters are for who sees everything. */
	if (scope == TB_SCOPE_FEED && session->realm->whole && index < publisher->feed_count) {
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

static int answer_counters(struct session *session, const struct control_message *asked)
{
	struct control_message answer = { .type = CONTROL_VALUES, .request = asked->request };
	struct block block;
	uint32_t count = 0;

	if (!block_fill(session, asked->counters.scope, asked->counters.index, &block))
		return refuse(session, asked, 0, ENOENT, "no block %u of counters in scope %u",
			      asked->counters.index, asked->counters.scope);
	answer.values.scope = asked->counters.scope;
	answer.values.index = asked->counters.index;
	answer.values.blocks = (uint32_t)block.blocks;
	answer.values.total = (uint32_t)block.count;
	snprintf(answer.values.name, sizeof(answer.values.name), "%s", block.name);
	for (size_t i = asked->counters.after; i < block.count && count < CONTROL_COUNTERS_PAGE;
	     i++) {
		snprintf(answer.values.entry[count].name, sizeof(answer.values.entry[count].name),
			 "%s", block.table[i].name);
		snprintf(answer.values.entry[count].unit, sizeof(answer.values.entry[count].unit),
			 "%s", block.table[i].unit);
		answer.values.entry[count++].value = block.value[i];
	}
	answer.values.count = count;
	return session_send(session, &answer, NULL);
}

static int answer_unpublished(struct session *session, const struct control_message *asked)
{
	const uint32_t id = asked->unpublished.topic_id;
	struct tb_topic *topic = topic_of(session, id);
	struct control_message answer = { .type = CONTROL_UNPUBLISHED_NAMES,
					  .request = asked->request };
	uint32_t count = 0;

	if (!topic)
		return refuse_topic(session, asked, id);
	answer.unpublished_names.topic_id = id;
	pthread_mutex_lock(&topic->unpublished_lock);
	answer.unpublished_names.total = topic->unpublished.count;
	for (uint32_t i = asked->unpublished.after;
	     i < topic->unpublished.count && count < CONTROL_UNPUBLISHED_PAGE; i++, count++) {
		memcpy(answer.unpublished_names.entry[count].name,
		       topic->unpublished.entries[i].name, TB_INSTRUMENT_NAME_MAX + 1);
		answer.unpublished_names.entry[count].records = topic->unpublished.entries[i].value;
	}
	pthread_mutex_unlock(&topic->unpublished_lock);
	answer.unpublished_names.count = count;
	return session_send(session, &answer, NULL);
}

int answers_give(struct session *session, const struct control_message *asked)
{
	switch (asked->type) {
	case CONTROL_CATALOGUE:
		return answer_catalogue(session, asked);
	case CONTROL_SCHEMA:
		return answer_schema(session, asked);
	case CONTROL_JOIN:
		return answer_join(session, asked);
	case CONTROL_LEAVE:
		return answer_leave(session, asked);
	case CONTROL_ARM:
		return answer_arm(session, asked);
	case CONTROL_COUNTERS:
		return answer_counters(session, asked);
	case CONTROL_UNPUBLISHED:
		return answer_unpublished(session, asked);
	default:
		return error_set(EPROTO, "found a message of type %d, expected a request",
				 asked->type);
	}
}
