/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and joins topics: catalogue, schema, join.
 *
 * A subscription with `discover` set is served next. A topic that matches its pattern is joined if
 * it is not joined yet, has a new epoch, or lost its connection. If its schema is not known by its
 * fingerprint, the schema is fetched first.
 *
 * A3  At most FABRIC_UNANSWERED requests are outstanding, each in a place of its own. Answers come
 *     in any order and find their request by its number.
 * A4  A request of a subscription that has ended keeps its place until its answer comes. A grant
 *     that no subscription waits for is returned.
 * A5  Topics are requested in the order of the catalogue, while its next page is awaited. A topic
 *     whose schema is not known waits for the schema, and later topics wait behind it. A schema
 *     that comes after its topic was passed is ignored: a wrong catalogue may name a topic twice.
 * A6  While a join is requested, its leave waits: the publisher would take the leave after the
 *     request. If the request is refused and no source needs the join, the leave is sent then. */
#include "subscriber/discovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/bounds.h"
#include "bus/error.h"
#include "bus/pattern.h"
#include "subscriber/advance.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/merge_state.h"
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

	if (discovery->subscription) {
		discovery->subscription->discover = true;
		discovery->subscription->changed |= discovery->changed;
	}
	discovery->subscription = NULL;
	memset(discovery->requests, 0, sizeof(discovery->requests));
	discovery->outstanding = 0;
}

/* -- requests --------------------------------------------------------------------------------- */

/* The place of a request; number 0: a free place. NULL: there is none. */
static struct discovery_request *place_of(struct discovery *discovery, uint32_t number)
{
	for (unsigned int i = 0; i < FABRIC_UNANSWERED; i++)
		if (discovery->requests[i].number == number)
			return &discovery->requests[i];
	return NULL;
}

/* Whether a request of the present discovery is outstanding. */
static bool is_asked(const struct discovery *discovery, enum control_type type)
{
	for (unsigned int i = 0; i < FABRIC_UNANSWERED; i++)
		if (discovery->requests[i].number != 0 && discovery->requests[i].type == type &&
		    discovery->requests[i].pass == discovery->pass)
			return true;
	return false;
}

/* A3. False: there is no place now, or the message was not sent. The next step tries again. */
static bool request(struct tb_subscriber *subscriber, struct control_message *message,
		    const struct tb_schema *schema)
{
	struct discovery *discovery = &subscriber->discovery;
	struct discovery_request *place = place_of(discovery, 0);

	if (!place)
		return false;
	if (++discovery->number == 0)
		discovery->number = 1;
	message->request = discovery->number;
	if (connection_send(subscriber, message) < 0)
		return false;
	*place = (struct discovery_request){ .number = discovery->number,
					     .type = message->type,
					     .pass = discovery->pass,
					     .index = discovery->at,
					     .schema = schema };
	if (message->type == CONTROL_JOIN) {
		place->topic_id = message->join.topic_id;
		place->epoch = message->join.epoch;
	}
	discovery->outstanding++;
	return true;
}

static bool ask_catalogue(struct tb_subscriber *subscriber)
{
	const struct discovery *discovery = &subscriber->discovery;
	struct control_message message = { .type = CONTROL_CATALOGUE };

	message.catalogue.after = discovery->after;
	memcpy(message.catalogue.pattern, discovery->subscription->pattern,
	       sizeof(message.catalogue.pattern));
	return request(subscriber, &message, NULL);
}

static bool ask_schema(struct tb_subscriber *subscriber)
{
	const struct discovery *discovery = &subscriber->discovery;
	struct control_message message = { .type = CONTROL_SCHEMA };

	message.schema.topic_id = discovery->topics[discovery->at].shape.topic_id;
	message.schema.offset = discovery->text_bytes;
	return request(subscriber, &message, NULL);
}

static bool ask_join(struct tb_subscriber *subscriber, const struct tb_schema *schema)
{
	const struct discovery *discovery = &subscriber->discovery;
	struct control_message message = { .type = CONTROL_JOIN };

	message.join.topic_id = discovery->topics[discovery->at].shape.topic_id;
	message.join.epoch = discovery->topics[discovery->at].shape.epoch;
	return request(subscriber, &message, schema);
}

/* A shortage here or at the publisher; it may be over with the next pulse. */
static bool is_shortage(int code)
{
	return code == ENOMEM || code == EMFILE || code == ENFILE || code == EAGAIN;
}

/* The topic of a request; NULL: it is for the catalogue. */
static const struct control_topic *asked_for(const struct discovery *discovery,
					     const struct discovery_request *asked)
{
	return asked->type == CONTROL_CATALOGUE ? NULL : &discovery->topics[asked->index];
}

/* Whether a refusal is reported now. While a shortage lasts, requests are refused again with each
 * pulse. */
static bool is_news(const struct discovery *discovery, uint32_t topic_id, int code,
		    const char *text)
{
	const bool differs = deliver_refusal_differs(discovery->subscription, topic_id, text);

	return differs || (discovery->changed && !is_shortage(code));
}

/* topic: NULL if the catalogue is refused. */
static void refused(struct tb_subscriber *subscriber, const struct control_topic *topic, int code,
		    const char *text)
{
	struct tb_subscription *subscription = subscriber->discovery.subscription;
	const uint32_t id = topic ? topic->shape.topic_id : 0;
	const bool news = is_news(&subscriber->discovery, id, code, text);

	if (topic && subscription->merge && !is_shortage(code)) {
		struct tb_source *source = topic_index_find(subscription, topic->name);

		if (source)
			merge_state_refused(source, code);
	}
	subscription->retry |= is_shortage(code);
	deliver_outcome(subscription, code, text);
	if (subscription->fresh && pattern_is_name(subscription->pattern))
		return; /* tb_subscribe() returns it */
	if (news)
		deliver_refused(subscription, topic ? topic->name : subscription->pattern, code,
				text);
}

/* Whether the topic's schema fits the caller's, and in a merge its group. Checked before the join,
 * which the publisher counts. The schema comes first: a topic that is refused for it does not
 * decide the group. */
static bool topic_fits(struct tb_subscriber *subscriber, const struct control_topic *topic,
		       const struct tb_schema *schema)
{
	struct tb_subscription *subscription = subscriber->discovery.subscription;
	const struct tb_schema *wanted = subscription->options.schema;
	int result = 0;

	if (wanted && tb_schema_compatible(schema, wanted) != 0)
		result = error_prefix(-EPROTO, "topic %s: ", topic->name);
	if (result == 0)
		result = merge_state_fits(subscription, topic);
	if (result < 0)
		refused(subscriber, topic, -result, tb_error());
	return result == 0;
}

/* Reports topics that an earlier connection had and the publisher does not have now. */
static void missing_report(struct tb_subscriber *subscriber, struct tb_subscription *subscription)
{
	char text[CONTROL_NAME_MAX + TB_TOPIC_NAME_MAX + 32];

	for (struct tb_source *s = subscription->sources; s; s = s->next_source) {
		if (!s->orphan || s->state >= SOURCE_ENDED ||
		    s->listed == subscriber->discovery.pass)
			continue;
		snprintf(text, sizeof(text), "bus %s has no topic %s", subscriber->welcome.name,
			 s->name);
		subscription->retry |= !pulse_topic_missing(s, text);
	}
}

/* Whether a source has the topic's epoch, or does not need it. */
static bool is_joined(const struct discovery *discovery, const struct control_topic *topic)
{
	const struct tb_source *source = topic_index_find(discovery->subscription, topic->name);
	const uint64_t epoch = topic->shape.epoch;

	if (!source || (source->orphan && source->state != SOURCE_ENDED))
		return false;
	return source->mapping.shape.epoch == epoch ||
	       (source->has_successor && source->successor.shape.epoch == epoch);
}

/* Requests what topic `at` lacks: its join, or first its schema. False: it waits for that. */
static bool topic_request(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;
	const struct control_topic *topic = &discovery->topics[discovery->at];
	const struct tb_schema *schema;

	if (!is_joined(discovery, topic)) {
		schema = schemas_find(subscriber, topic->shape.fingerprint);
		if (!schema) {
			if (!is_asked(discovery, CONTROL_SCHEMA))
				ask_schema(subscriber);
			return false;
		}
		if (topic_fits(subscriber, topic, schema) && !ask_join(subscriber, schema))
			return false;
	}
	discovery->at++;
	discovery->text_bytes = 0;
	return true;
}

/* Makes all requests that can be made now. If nothing is left, the subscription is served. */
static void requests_make(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;
	const struct tb_subscription *subscription = discovery->subscription;

	if (!discovery->catalogued && !is_asked(discovery, CONTROL_CATALOGUE))
		ask_catalogue(subscriber);
	while (!subscription->closing && discovery->at < discovery->count &&
	       topic_request(subscriber))
		;
	if (!subscription->closing) {
		if (!discovery->catalogued || discovery->at < discovery->count ||
		    is_asked(discovery, CONTROL_JOIN))
			return;
		if (!discovery->refused)
			missing_report(subscriber, discovery->subscription);
	}
	discovery->subscription = NULL;
}

bool discovery_waits(const struct tb_subscriber *subscriber)
{
	if (!subscriber->welcomed)
		return false;
	if (subscriber->discovery.subscription)
		return true;
	for (const struct tb_subscription *s = subscriber->subscriptions; s;
	     s = s->next_subscription)
		if (s->discover && !s->closing)
			return true;
	return false;
}

static void subscription_begin(struct tb_subscriber *subscriber, struct tb_subscription *begun)
{
	struct discovery *discovery = &subscriber->discovery;

	if (!begun->retry) /* a join that is tried with each pulse needs its schema */
		schemas_forget(subscriber);
	merge_state_catalogue(begun);
	discovery->changed = begun->changed;
	begun->discover = begun->changed = begun->retry = false;
	discovery->subscription = begun;
	discovery->pass++;
	discovery->catalogued = discovery->refused = false;
	discovery->after = discovery->count = discovery->at = discovery->text_bytes = 0;
}

void discovery_step(struct tb_subscriber *subscriber)
{
	struct discovery *discovery = &subscriber->discovery;

	if (!subscriber->welcomed)
		return;
	for (struct tb_subscription *s = subscriber->subscriptions; s && !discovery->subscription;
	     s = s->next_subscription)
		if (s->discover && !s->closing)
			subscription_begin(subscriber, s);
	if (discovery->subscription)
		requests_make(subscriber);
}

/* -- answers ---------------------------------------------------------------------------------- */

static void catalogue_answered(struct tb_subscriber *subscriber,
			       const struct control_message *message)
{
	struct discovery *discovery = &subscriber->discovery;
	const uint32_t before = discovery->after;

	for (uint32_t i = 0; i < message->topics.count; i++) {
		const struct control_topic *topic = &message->topics.topic[i];
		struct tb_source *source;

		/* Ids only rise, so no page repeats: each topic is taken once. */
		if (topic->shape.topic_id <= discovery->after)
			continue;
		discovery->after = topic->shape.topic_id;
		if (discovery->count == BOUND_TOPICS_MAX ||
		    !pattern_match(discovery->subscription->pattern, topic->name))
			continue;
		discovery->topics[discovery->count++] = *topic;
		source = topic_index_find(discovery->subscription, topic->name);
		if (source)
			source->listed = discovery->pass;
	}
	discovery->catalogued = !message->topics.more || discovery->after == before;
	discovery->subscription->refusal_hash[0] = 0;
	if (discovery->catalogued && discovery->count == 0)
		deliver_outcome(discovery->subscription, 0, "");
}

/* Leaves topic `at` out; its schema cannot be used. */
static void schema_refused(struct tb_subscriber *subscriber, int code, const char *text)
{
	struct discovery *discovery = &subscriber->discovery;

	refused(subscriber, &discovery->topics[discovery->at++], code, text);
	discovery->text_bytes = 0;
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
		schema_refused(subscriber, EPROTO,
			       "the publisher sent a different part of the schema than requested");
		return;
	}
	memcpy(discovery->text + discovery->text_bytes, message->schema_bytes.part,
	       message->schema_bytes.bytes); /* offset + bytes <= total <= CONTROL_SCHEMA_MAX */
	discovery->text_bytes += message->schema_bytes.bytes;
	if (discovery->text_bytes < topic->schema_bytes)
		return;
	result = schemas_learn(subscriber, topic);
	if (result < 0)
		schema_refused(subscriber, result == -ENOMEM ? ENOMEM : EPROTO, tb_error());
}

static void grant_answered(struct tb_subscriber *subscriber, const struct discovery_request *asked,
			   const struct control_message *message)
{
	struct discovery *discovery = &subscriber->discovery;
	struct tb_subscription *subscription = discovery->subscription;
	const struct control_topic *topic = &discovery->topics[asked->index];
	int result;

	deliver_outcome(subscription, 0, "");
	if (strcmp(message->grant.topic.name, topic->name) != 0 ||
	    message->grant.topic.shape.topic_id != topic->shape.topic_id ||
	    message->grant.topic.shape.epoch != topic->shape.epoch ||
	    message->grant.topic.shape.fingerprint != topic->shape.fingerprint ||
	    (subscription->merge && message->grant.topic.shape.group != topic->shape.group))
		result = error_set(
			EPROTO, "topic %s: the publisher granted a different topic than requested",
			topic->name);
	else
		result = advance_grant(subscription, asked->schema, message);
	if (result < 0) {
		refused(subscriber, topic, -result, tb_error());
		source_decline(subscriber, topic->shape.topic_id, topic->shape.epoch);
	} else if (!(subscription->options.flags & TB_NAMES_REQUIRED)) {
		subscription->refusal_hash[topic->shape.topic_id] = 0; /* else the start says it */
	}
}

/* Reports that a request failed, and goes on without it. */
static void request_refused(struct tb_subscriber *subscriber, const struct discovery_request *asked,
			    int code, const char *text)
{
	struct discovery *discovery = &subscriber->discovery;

	if (asked->type == CONTROL_SCHEMA) {
		schema_refused(subscriber, code, text);
		return;
	}
	if (asked->type == CONTROL_CATALOGUE)
		discovery->catalogued = discovery->refused = true;
	refused(subscriber, asked_for(discovery, asked), code, text);
}

/* A shortage of the publisher is transient; tb_subscribe() waits for its end as
 * tb_subscriber_open() does. */
static bool is_waited_for(const struct tb_subscription *subscription, int code)
{
	return is_shortage(code) && pattern_is_name(subscription->pattern) &&
	       (subscription->options.flags | subscription->subscriber->flags) & TB_WAIT;
}

static void refusal_answered(struct tb_subscriber *subscriber,
			     const struct discovery_request *asked,
			     const struct control_message *message)
{
	struct tb_subscription *subscription = subscriber->discovery.subscription;
	const int code = (int)message->refuse.code;

	if (asked->type == CONTROL_JOIN && code == ESTALE) {
		subscription->discover = true; /* it began a new epoch, which the catalogue has */
		return;
	}
	request_refused(subscriber, asked, code, message->refuse.text);
	subscription->waits = is_waited_for(subscription, code);
}

static void request_answered(struct tb_subscriber *subscriber,
			     const struct discovery_request *asked,
			     const struct control_message *message)
{
	if (asked->type == CONTROL_SCHEMA && asked->index != subscriber->discovery.at)
		return; /* A5 */
	if (message->type == CONTROL_REFUSE)
		refusal_answered(subscriber, asked, message);
	else if (message->type == CONTROL_TOPICS && asked->type == CONTROL_CATALOGUE)
		catalogue_answered(subscriber, message);
	else if (message->type == CONTROL_SCHEMA_BYTES && asked->type == CONTROL_SCHEMA)
		schema_answered(subscriber, message);
	else if (message->type == CONTROL_GRANT && asked->type == CONTROL_JOIN)
		grant_answered(subscriber, asked, message);
	else
		request_refused(subscriber, asked, EPROTO,
				"the publisher's answer does not match the request");
}

bool discovery_answer(struct tb_subscriber *subscriber, const struct control_message *message)
{
	struct discovery *discovery = &subscriber->discovery;
	struct discovery_request *place =
		message->request ? place_of(discovery, message->request) : NULL;
	struct discovery_request asked = { 0 };

	if (place) {
		asked = *place;
		*place = (struct discovery_request){ 0 };
		discovery->outstanding--;
	}
	if (!place || asked.pass != discovery->pass || !discovery->subscription ||
	    discovery->subscription->closing) {
		if (message->type == CONTROL_GRANT) /* A4 */
			source_decline(subscriber, message->grant.topic.shape.topic_id,
				       message->grant.topic.shape.epoch);
	} else {
		request_answered(subscriber, &asked, message);
	}
	if (asked.leave && message->type != CONTROL_GRANT) /* A6 */
		source_decline(subscriber, asked.topic_id, asked.epoch);
	/* At once: while this side takes the other answers, the publisher has work and stays awake.
	 */
	if (place && discovery->subscription)
		requests_make(subscriber);
	return place;
}
