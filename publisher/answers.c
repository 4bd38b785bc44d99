/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the requests of subscribers. Decoding has checked a request's numbers against the
 * protocol's bounds; here they are checked against what exists. */
#include "publisher/answers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/error.h"
#include "bus/pattern.h"
#include "publisher/announce.h"
#include "publisher/catalogue.h"
#include "publisher/counters.h"
#include "publisher/describe.h"
#include "publisher/log.h"
#include "publisher/realm.h"
#include "publisher/session.h"
#include "publisher/sleepers.h"

/* NULL for topics of other realms too: both get the same answer. */
static struct tb_topic *topic_of(const struct session *session, uint32_t id)
{
	const struct tb_publisher *publisher = session->publisher;

	if (id < 1 || id > publisher->topic_count ||
	    !realm_has(session->realm, publisher->topics[id - 1]))
		return NULL;
	return publisher->topics[id - 1];
}

/* Remembers whether the last join of a topic was refused; returns what was remembered before. Ids
 * that no topic can have share one bit, since their joins are always refused. */
static bool refused_before(struct session *session, uint32_t topic_id, bool refused)
{
	const uint32_t index = topic_id <= BOUND_TOPICS_MAX ? topic_id : 0;
	uint64_t *word = &session->refused[index / 64];
	const uint64_t bit = UINT64_C(1) << index % 64, before = *word & bit;

	*word = refused ? *word | bit : *word & ~bit;
	return before;
}

/* Logs once until a join succeeds: a subscriber asks again with each pulse. */
static void join_refused(struct session *session, uint32_t topic_id, const char *text)
{
	char name[64], line[sizeof(name) + CONTROL_TEXT_MAX + 32];

	if (refused_before(session, topic_id, true))
		return;
	session->peer->ops->peer_text(session->peer, name, sizeof(name));
	snprintf(line, sizeof(line), "%s was refused a join: %s", name, text);
	endpoint_log(&session->publisher->endpoints[session->listener], line);
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
	vsnprintf(answer.refuse.text, sizeof(answer.refuse.text), format, args);
	va_end(args);
	counter_add(&session->publisher->counters[BUS_REFUSALS], 1);
	if (asked->type == CONTROL_JOIN && code != ESTALE) /* ESTALE is normal after a restart */
		join_refused(session, topic_id, answer.refuse.text);
	return session_send(session, &answer, NULL);
}

static int refuse_topic(struct session *session, const struct control_message *asked, uint32_t id)
{
	return refuse(session, asked, id, ENOENT,
		      "bus %s: found topic id %u, expected an id from the catalogue",
		      session->publisher->name, id);
}

static int answer_catalogue(struct session *session, const struct control_message *asked)
{
	int result;

	if (pattern_check(asked->catalogue.pattern) < 0)
		return refuse(session, asked, 0, EINVAL, "%s", tb_error());
	result = catalogue_ask(session, asked);
	return result == -ENOMEM ? refuse(session, asked, 0, ENOMEM, "%s", tb_error()) : result;
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

/* The topic's exposure on the session's listener, for its realm. Shared memory has one exposure for
 * all realms, made at the first join. 0 or -errno. */
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

/* The join is of the present epoch now. A second grant of the same memory serves another reader of
 * this client. The first reader may sleep, and may have to learn of an end: both stay. */
static void join_begin(struct join *join)
{
	if (join->epoch == join->topic->shape.epoch)
		return;
	join->epoch = join->topic->shape.epoch;
	join_arm(join, false);
	/* The grant says that the topic has ended. */
	join->sent = join->topic->end_sent ? JOIN_SENT_ENDING : JOIN_SENT_NOTHING;
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
			      ": the topic was restarted",
			      topic->name, asked->join.epoch, topic->shape.epoch);
	if (session->peer->ops->network && !(topic->shape.flags & REGION_FLAG_CHECKED))
		return refuse(session, asked, asked->join.topic_id, EPROTONOSUPPORT,
			      "topic %s: unchecked topics are served over shared memory only",
			      topic->name);
	result = exposure_of(session, topic, &exposure);
	if (result == 0)
		result = exposure->ops->key(exposure, session->peer, &answer.grant.key);
	if (result < 0)
		return refuse(session, asked, asked->join.topic_id, -result,
			      "topic %s: at the publisher: %s", topic->name, tb_error());
	/* The head is taken before the join counts. A program that waits for the join and then
	 * publishes knows that this client reads those records. */
	answer.grant.head = topic_head(topic);
	join = session_find(session, topic);
	if (!join)
		join = session_join(session, topic);
	if (!join)
		return refuse(session, asked, asked->join.topic_id, ENOMEM,
			      "topic %s: the publisher has no memory for another join",
			      topic->name);
	join_begin(join);
	refused_before(session, topic->shape.topic_id, false);
	describe_topic(session, topic, &answer.grant.topic);
	announce_grant(&session->publisher->endpoints[session->listener], topic, &answer);
	answer.grant.region_bytes = topic->memory.bytes;
	return session_send(session, &answer, exposure);
}

static int answer_leave(struct session *session, const struct control_message *asked)
{
	struct tb_topic *topic = topic_of(session, asked->topic.topic_id);
	struct join *join = topic ? session_find(session, topic) : NULL;

	/* A leave may cross a revoke, so a missing join is no error. */
	if (join && join->epoch == asked->topic.epoch)
		session_leave(join);
	return 0;
}

static int answer_arm(struct session *session, const struct control_message *asked)
{
	struct tb_topic *topic = topic_of(session, asked->topic.topic_id);
	struct join *join = topic ? session_find(session, topic) : NULL;

	if (!join || join->epoch != asked->topic.epoch)
		return 0; /* the arm crossed a revoke */
	/* Every record that was read is reserved. A sleeper further ahead would cost each flush. */
	if (join->epoch == topic->shape.epoch && asked->topic.head > topic_reserved(topic))
		return error_set(EPROTO,
				 "topic %s: found an arm at record %" PRIu64
				 ", expected at most %" PRIu64 ", the last that may be written",
				 topic->name, asked->topic.head, topic_reserved(topic));
	/* A client's subscriptions share a join: keep the lowest head that any has read. */
	if (!join->armed || asked->topic.head < join->head_seen)
		join->head_seen = asked->topic.head;
	sleepers_add(join);
	return 0;
}

static int answer_counters(struct session *session, const struct control_message *asked)
{
	struct control_message answer = { .type = CONTROL_VALUES, .request = asked->request };
	struct counters_block block;
	uint32_t count = 0;

	if (!counters_fill(session, asked->counters.scope, asked->counters.index, &block))
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

/* A leave and an arm have no answer and cost little; a sleeper arms as often as it sleeps. */
static bool is_too_often(struct session *session, enum control_type type)
{
	const uint64_t now_ms = clock_coarse_ms();

	if (type == CONTROL_LEAVE || type == CONTROL_ARM)
		return false;
	if (now_ms - session->second_ms >= 1000) {
		session->second_ms = now_ms;
		session->requests = 0;
	}
	return ++session->requests > REQUESTS_OF_A_SECOND;
}

int answers_give(struct session *session, const struct control_message *asked)
{
	if (is_too_often(session, asked->type))
		return error_set(EPROTO,
				 "found more than %d requests within a second, expected fewer",
				 REQUESTS_OF_A_SECOND);
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
