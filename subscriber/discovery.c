/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and joins topics: catalogue, schema, join, one request at a time.
 *
 * A subscription with `discover` set is served next. A topic that matches its pattern is joined if
 * it is not joined yet, has a new epoch, or lost its connection. If its schema is not known by its
 * fingerprint, the schema is fetched first. */
#include "subscriber/discovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/bounds.h"
#include "bus/error.h"
#include "bus/hash.h"
#include "bus/pattern.h"
#include "subscriber/advance.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/pulse.h"
#include "subscriber/schemas.h"
#include "subscriber/source.h"
#include "subscriber/topic_index.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"
#include "tickbus/subscriber.h"

int discovery_open(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;

	discovery->topics = calloc(BOUND_TOPICS_MAX, sizeof(*discovery->topics));
	discovery->text = calloc(1, CONTROL_SCHEMA_MAX + 1);
	if (discovery->topics && discovery->text)
		return 0;
	return error_set(ENOMEM, "subscriber: no memory for a catalogue");
}

void discovery_close(struct tb_subscriber *subscriber)
{
	free(subscriber->discovery.topics);
	free(subscriber->discovery.text);
	schemas_forget(subscriber);
}

void discovery_reset(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;

	if (discovery->phase != DISCOVERY_IDLE && discovery->subscription) {
		discovery->subscription->discover = true;
		discovery->subscription->changed |= discovery->changed;
	}
	discovery->phase = DISCOVERY_IDLE;
	discovery->subscription = NULL;
}

/* -- requests --------------------------------------------------------------------------------- */

static void request(struct tb_subscriber *subscriber, enum discovery_phase phase,
		    struct control_message *message)
{
	struct discovery *discovery = &subscriber->discovery;

	message->request = ++discovery->request;
	discovery->phase = phase;
	if (connection_send(subscriber, message) < 0)
		discovery_reset(subscriber); /* requested again with the next step */
}

static void ask_catalogue(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;
	struct control_message message = { .type = CONTROL_CATALOGUE };

	message.catalogue.after = discovery->after;
	memcpy(message.catalogue.pattern, discovery->subscription->pattern,
	       sizeof(message.catalogue.pattern));
	request(subscriber, DISCOVERY_CATALOGUE, &message);
}

static void ask_schema(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;
	struct control_message message = { .type = CONTROL_SCHEMA };

	message.schema.topic_id = discovery->topics[discovery->at].shape.topic_id;
	message.schema.offset = discovery->text_bytes;
	request(subscriber, DISCOVERY_SCHEMA, &message);
}

static void ask_join(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;
	struct control_message message = { .type = CONTROL_JOIN };

	message.join.topic_id = discovery->topics[discovery->at].shape.topic_id;
	message.join.epoch = discovery->topics[discovery->at].shape.epoch;
	request(subscriber, DISCOVERY_JOIN, &message);
}

/* A shortage here or at the publisher; it may be over with the next pulse. */
static bool is_shortage(int code)
{
	return code == ENOMEM || code == EMFILE || code == ENFILE || code == EAGAIN;
}

/* The topic of the outstanding request; NULL: it is for the catalogue. */
static const struct control_topic *asked_for(const struct discovery *discovery)
{
	return discovery->phase == DISCOVERY_CATALOGUE ? NULL : &discovery->topics[discovery->at];
}

/* Whether a refusal is reported now. While a shortage lasts, requests are refused again with each
 * pulse. */
static bool is_news(const struct discovery *discovery, uint32_t topic_id, int code,
		    const char *text)
{
	uint64_t *hash = &discovery->subscription->refusal_hash[topic_id];
	const uint64_t before = *hash;

	*hash = XXH3_64bits(text, strlen(text));
	return *hash != before || (discovery->changed && !is_shortage(code));
}

/* topic: NULL if the catalogue is refused. */
static void refused(struct tb_subscriber *subscriber, const struct control_topic *topic, int code,
		    const char *text)
{
	struct tb_subscription *subscription = subscriber->discovery.subscription;
	const uint32_t id = topic ? topic->shape.topic_id : 0;
	const bool news = is_news(&subscriber->discovery, id, code, text);

	subscription->retry |= is_shortage(code);
	deliver_outcome(subscription, code, text);
	if (subscription->fresh && pattern_is_name(subscription->pattern))
		return; /* tb_subscribe() returns it */
	if (news)
		deliver_refused(subscription, topic ? topic->name : subscription->pattern, code,
				text);
}

/* Whether the topic's schema fits the caller's. Checked before the join, which the publisher
 * counts. */
static bool topic_fits(struct tb_subscriber *subscriber, const struct control_topic *topic,
		       const struct tb_schema *schema)
{
	const struct tb_schema *wanted = subscriber->discovery.subscription->options.schema;

	if (!wanted || tb_schema_compatible(schema, wanted) == 0)
		return true;
	error_prefix(-EPROTO, "topic %s: ", topic->name);
	refused(subscriber, topic, EPROTO, tb_error());
	return false;
}

static bool is_listed(const struct discovery *discovery, const char *name)
{
	for (uint32_t i = 0; i < discovery->count; i++)
		if (strcmp(discovery->topics[i].name, name) == 0)
			return true;
	return false;
}

/* Reports topics that an earlier connection had and the publisher does not have now. */
static void missing_report(struct tb_subscriber *subscriber, struct tb_subscription *subscription)
{
	char text[CONTROL_NAME_MAX + TB_TOPIC_NAME_MAX + 32];

	for (struct tb_source *s = subscription->sources; s; s = s->next_source) {
		if (!s->orphan || s->state >= SOURCE_ENDED ||
		    is_listed(&subscriber->discovery, s->name))
			continue;
		snprintf(text, sizeof(text), "bus %s has no topic %s", subscriber->welcome.name,
			 s->name);
		subscription->retry |= !pulse_topic_missing(s, text);
	}
}

/* Joins the next topic of the catalogue. If no topic is left, the subscription is served. */
static void next_topic(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;

	for (; discovery->at < discovery->count; discovery->at++) {
		const struct control_topic *topic = &discovery->topics[discovery->at];
		const struct tb_source *source =
			topic_index_find(discovery->subscription, topic->name);
		const struct tb_schema *schema = schemas_find(subscriber, topic->shape.fingerprint);

		if (source && (!source->orphan || source->state == SOURCE_ENDED) &&
		    (source->mapping.shape.epoch == topic->shape.epoch ||
		     (source->has_successor &&
		      source->successor.shape.epoch == topic->shape.epoch)))
			continue;
		discovery->text_bytes = 0;
		if (!schema)
			ask_schema(subscriber);
		else if (topic_fits(subscriber, topic, schema))
			ask_join(subscriber);
		else
			continue;
		return;
	}
	missing_report(subscriber, discovery->subscription);
	discovery->phase = DISCOVERY_IDLE;
	discovery->subscription = NULL;
}

static void skip_topic(struct tb_subscriber *subscriber)
{
	subscriber->discovery.at++;
	next_topic(subscriber);
}

bool discovery_waits(const struct tb_subscriber *subscriber)
{
	if (!subscriber->welcomed)
		return false;
	if (subscriber->discovery.phase != DISCOVERY_IDLE)
		return true;
	for (const struct tb_subscription *s = subscriber->subscriptions; s;
	     s = s->next_subscription)
		if (s->discover && !s->closing)
			return true;
	return false;
}

void discovery_step(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;

	if (discovery->phase != DISCOVERY_IDLE || !subscriber->welcomed)
		return;
	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription) {
		if (!s->discover || s->closing)
			continue;
		if (!s->retry) /* a join that is tried with each pulse needs its schema */
			schemas_forget(subscriber);
		discovery->changed = s->changed;
		s->discover = s->changed = s->retry = false;
		discovery->subscription = s;
		discovery->after = discovery->count = discovery->at = 0;
		ask_catalogue(subscriber);
		return;
	}
}

/* -- answers ---------------------------------------------------------------------------------- */

static void catalogue_answered(struct tb_subscriber *subscriber,
			       const struct control_message *message)
{
	struct discovery *discovery = &subscriber->discovery;
	const uint32_t before = discovery->after;

	for (uint32_t i = 0; i < message->topics.count; i++) {
		const struct control_topic *topic = &message->topics.topic[i];

		/* Ids only rise, so no page repeats: each topic is taken once. */
		if (topic->shape.topic_id <= discovery->after)
			continue;
		discovery->after = topic->shape.topic_id;
		if (discovery->count < BOUND_TOPICS_MAX &&
		    pattern_match(discovery->subscription->pattern, topic->name))
			discovery->topics[discovery->count++] = *topic;
	}
	discovery->subscription->refusal_hash[0] = 0;
	if (discovery->count == 0)
		deliver_outcome(discovery->subscription, 0, "");
	if (message->topics.more && discovery->after > before)
		ask_catalogue(subscriber);
	else
		next_topic(subscriber);
}

static void schema_answered(struct tb_subscriber *subscriber, const struct control_message *message)
{
	struct discovery *discovery = &subscriber->discovery;
	const struct control_topic *topic = &discovery->topics[discovery->at];
	int result;

	if (message->schema_bytes.topic_id != topic->shape.topic_id ||
	    message->schema_bytes.offset != discovery->text_bytes ||
	    message->schema_bytes.total != topic->schema_bytes ||
	    message->schema_bytes.bytes == 0) {
		refused(subscriber, topic, EPROTO,
			"the publisher sent a different part of the schema than requested");
		skip_topic(subscriber);
		return;
	}
	memcpy(discovery->text + discovery->text_bytes, message->schema_bytes.part,
	       message->schema_bytes.bytes); /* offset + bytes <= total <= CONTROL_SCHEMA_MAX */
	discovery->text_bytes += message->schema_bytes.bytes;
	if (discovery->text_bytes < topic->schema_bytes) {
		ask_schema(subscriber);
		return;
	}
	result = schemas_learn(subscriber, topic);
	if (result < 0) {
		refused(subscriber, topic, result == -ENOMEM ? ENOMEM : EPROTO, tb_error());
		skip_topic(subscriber);
		return;
	}
	next_topic(subscriber); /* the same topic, now with its schema */
}

static void grant_answered(struct tb_subscriber *subscriber, const struct control_message *message)
{
	struct discovery *discovery = &subscriber->discovery;
	struct tb_subscription *subscription = discovery->subscription;
	const struct control_topic *topic = &discovery->topics[discovery->at];
	const struct tb_schema *schema = schemas_find(subscriber, topic->shape.fingerprint);
	int result;

	deliver_outcome(subscription, 0, "");
	if (strcmp(message->grant.topic.name, topic->name) != 0 ||
	    message->grant.topic.shape.topic_id != topic->shape.topic_id ||
	    message->grant.topic.shape.epoch != topic->shape.epoch ||
	    message->grant.topic.shape.fingerprint != topic->shape.fingerprint)
		result = error_set(
			EPROTO, "topic %s: the publisher granted a different topic than requested",
			topic->name);
	else
		result = advance_grant(subscription, schema, message);
	if (result < 0) {
		refused(subscriber, topic, -result, tb_error());
		source_decline(subscriber, topic);
	} else {
		subscription->refusal_hash[topic->shape.topic_id] = 0;
	}
	skip_topic(subscriber);
}

/* The outstanding request failed: its topic is skipped. */
static void request_over(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;

	if (discovery->phase == DISCOVERY_CATALOGUE) {
		discovery->phase = DISCOVERY_IDLE;
		discovery->subscription = NULL;
		return;
	}
	skip_topic(subscriber);
}

/* A shortage of the publisher is transient; tb_subscribe() waits for its end as
 * tb_subscriber_open() does. */
static bool is_waited_for(const struct tb_subscription *subscription, int code)
{
	return is_shortage(code) && pattern_is_name(subscription->pattern) &&
	       (subscription->options.flags | subscription->subscriber->flags) & TB_WAIT;
}

static void refusal_answered(struct tb_subscriber *subscriber,
			     const struct control_message *message)
{
	const struct discovery *discovery = &subscriber->discovery;
	struct tb_subscription *subscription = discovery->subscription;
	const int code = (int)message->refuse.code;

	if (discovery->phase == DISCOVERY_JOIN && code == ESTALE) {
		subscription->discover = true; /* it began a new epoch, which the catalogue has */
	} else {
		refused(subscriber, asked_for(discovery), code, message->refuse.text);
		subscription->waits = is_waited_for(subscription, code);
	}
	request_over(subscriber);
}

bool discovery_answer(struct tb_subscriber *subscriber, const struct control_message *message)
{
	struct discovery *discovery = &subscriber->discovery;
	const bool ours =
		discovery->phase != DISCOVERY_IDLE && message->request == discovery->request;

	if (!ours || discovery->subscription->closing) {
		if (message->type == CONTROL_GRANT) /* its subscription has ended */
			source_decline(subscriber, &message->grant.topic);
		if (ours) {
			discovery->phase = DISCOVERY_IDLE;
			discovery->subscription = NULL;
		}
		return ours;
	}
	if (message->type == CONTROL_REFUSE) {
		refusal_answered(subscriber, message);
	} else if (message->type == CONTROL_TOPICS && discovery->phase == DISCOVERY_CATALOGUE) {
		catalogue_answered(subscriber, message);
	} else if (message->type == CONTROL_SCHEMA_BYTES && discovery->phase == DISCOVERY_SCHEMA) {
		schema_answered(subscriber, message);
	} else if (message->type == CONTROL_GRANT && discovery->phase == DISCOVERY_JOIN) {
		grant_answered(subscriber, message);
	} else {
		refused(subscriber, asked_for(discovery), EPROTO,
			"the publisher's answer does not match the request");
		request_over(subscriber);
	}
	return true;
}
