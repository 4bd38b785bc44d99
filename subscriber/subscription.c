/* SPDX-License-Identifier: Apache-2.0 */
/* Subscriptions: their public calls, and what tb_subscribe() waits for and returns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/error.h"
#include "bus/pattern.h"
#include "subscriber/call.h"
#include "subscriber/exempt.h"
#include "subscriber/image.h"
#include "subscriber/merge_state.h"
#include "subscriber/name_list.h"
#include "subscriber/source.h"
#include "subscriber/state.h"
#include "subscriber/subscriber.h"
#include "subscriber/subscription_check.h"
#include "subscriber/wait.h"
#include "tickbus/error.h"
#include "tickbus/record.h"
#include "tickbus/subscriber.h"
#include "tickbus/ticket.h"

/* A refused topic of a pattern is reported by an event. The call fails if there is no room for all
 * topics. It also fails if a single named topic is refused, unless its shortage is waited out. */
static bool subscribe_failed(const struct tb_subscription *subscription)
{
	return subscription->error == -ENOSPC ||
	       (subscription->error != 0 && pattern_is_name(subscription->pattern) &&
		!subscription->waits);
}

/* Every matching topic of the catalogue is joined, and every join has its start. */
static bool subscribe_done(const struct tb_subscriber *subscriber,
			   const struct tb_subscription *subscription)
{
	if (subscriber->closing || subscription->closing || subscribe_failed(subscription))
		return true;
	if (subscription->discover || subscriber->discovery.subscription == subscription)
		return false;
	for (const struct tb_source *s = subscriber->settling; s; s = s->next_settling)
		if (s->subscription == subscription && source_is_settling(s))
			return false;
	return true;
}

static int subscribe_wait(struct tb_subscriber *subscriber,
			  const struct tb_subscription *subscription)
{
	const uint64_t until_ms = clock_coarse_ms() + subscriber->connect_ms;
	int result = 0;

	wait_turn(subscriber);
	while (result == 0 && !subscribe_done(subscriber, subscription))
		result = wait_more(subscriber, until_ms);
	return result;
}

/* A topic of another realm is answered as a missing topic: a correct name may need a ticket. */
static int topic_missing(const struct tb_subscriber *subscriber,
			 const struct tb_subscription *subscription)
{
	static const uint8_t none[TB_TICKET_BYTES];
	const bool shown = memcmp(subscriber->ticket, none, sizeof(none)) != 0;
	const bool realms = subscriber->welcome.features & CONTROL_FEATURE_REALMS;
	const bool exact = pattern_is_name(subscription->pattern);

	return error_set(ENOENT, "%s: bus %s has no topic %s%s%s", subscriber->address,
			 subscriber->welcome.name, exact ? "" : "that matches ",
			 subscription->pattern,
			 !realms ? ""
			 : shown ? " for this ticket"
				 : " for clients without a ticket");
}

/* Sets tb_error() to what a waiting subscription waits for. It is "" if topics are joined, or if
 * all topics of a pattern were refused, which events reported. */
static void wait_report(const struct tb_subscriber *subscriber,
			const struct tb_subscription *subscription, int pumped)
{
	if (subscription->waits)
		error_set(0, "%s: %s", subscriber->address, subscription->error_text);
	else if (subscription->sources || subscription->error != 0)
		error_set(0, "%s", "");
	else if (pumped < 0 || !subscriber->welcomed)
		error_set(0, "%s: no answer yet", subscriber->address);
	else
		topic_missing(subscriber, subscription);
}

static int subscribe_result(struct tb_subscriber *subscriber, struct tb_subscription *subscription,
			    int pumped)
{
	const bool exact = pattern_is_name(subscription->pattern);
	const bool patient = subscription->waits || (subscription->options.flags & TB_WAIT) ||
			     (subscriber->flags & TB_WAIT && !subscriber->welcomed);

	if (subscription->closing)
		return error_set(ECANCELED, "tb_subscribe: a handler ended the subscription");
	if (subscribe_failed(subscription))
		return error_set(-subscription->error, "%s", subscription->error_text);
	if (pumped < 0 && !patient)
		return error_set(ETIMEDOUT, "%s: topic %s: no answer within %u ms",
				 subscriber->address, subscription->pattern,
				 subscriber->connect_ms);
	if (exact && !subscription->sources && !patient)
		return topic_missing(subscriber, subscription);
	if (!exact || patient)
		wait_report(subscriber, subscription, pumped);
	return 0;
}

/* The program's own names need not outlive the call. */
static int list_take(struct tb_subscription *subscription)
{
	struct tb_subscription_options *options = &subscription->options;
	int result = 0;

	if (options->names)
		result = name_list_open(&subscription->list);
	if (result == 0 && options->names)
		result = name_list_add(subscription->list, options->names, options->name_count);
	options->names = NULL;
	options->name_count = 0;
	return result < 0 ? result : 0;
}

TB_API int tb_subscribe(struct tb_subscriber *subscriber, const char *pattern,
			const struct tb_subscription_options *options, struct tb_subscription **out)
{
	struct tb_subscription *subscription;
	int result;

	*out = NULL;
	if (!subscriber)
		return error_null("subscriber");
	result = subscription_check(pattern, options);
	if (result < 0)
		return result;
	if (subscriber->call.running)
		return call_refuse(&subscriber->call, "tb_subscribe");
	subscription = calloc(1, sizeof(*subscription));
	if (!subscription)
		return error_set(ENOMEM, "subscription %s: no memory", pattern);
	if (options->flags & TB_MERGE) {
		subscription->merge = merge_state_new(subscriber->topics_max);
		if (!subscription->merge) {
			free(subscription);
			return error_set(ENOMEM, "subscription %s: no memory", pattern);
		}
	}
	subscription->subscriber = subscriber;
	subscription->datagrams_before = subscriber->datagrams;
	subscription->options = *options;
	result = list_take(subscription);
	if (result == 0)
		result = exempt_open(options, &subscription->exempt);
	if (result < 0) {
		name_list_close(subscription->list);
		free(subscription->merge);
		free(subscription);
		return result;
	}
	strncpy(subscription->pattern, pattern, TB_PATTERN_MAX);
	subscription->discover = subscription->fresh = true;
	subscription->next_subscription = subscriber->subscriptions;
	subscriber->subscriptions = subscription;
	*out = subscription; /* from here on, handlers may be called */
	if (subscriber->welcomed || !(subscriber->flags & TB_WAIT))
		result = subscribe_wait(subscriber, subscription);
	subscription->fresh = false;
	result = subscribe_result(subscriber, subscription, result);
	if (subscriber->closing) {
		subscriber_free(subscriber);
		*out = NULL;
		return error_set(ECANCELED, "tb_subscribe: a handler closed the subscriber");
	}
	if (result < 0) {
		subscription->closing = true;
		*out = NULL;
	}
	subscriber_cleanup(subscriber);
	return result;
}

TB_API void tb_unsubscribe(struct tb_subscription *subscription)
{
	if (!subscription || subscriber_in_forked_child(subscription->subscriber))
		return;
	subscription->closing = subscription->subscriber->untidy = true;
	if (!subscription->subscriber->call.running)
		subscriber_cleanup(subscription->subscriber);
}

TB_API size_t tb_subscription_counters(const struct tb_subscription *subscription, uint64_t *values,
				       size_t max)
{
	const size_t count = max < SUBSCRIPTION_COUNTERS ? max : SUBSCRIPTION_COUNTERS;

	if (!subscription) {
		error_null("subscription");
		return 0;
	}
	memcpy(values, subscription->counters, count * sizeof(*values));
	if (count > SUBSCRIPTION_NOTICES_OTHERS) /* it grows with each datagram for others */
		values[SUBSCRIPTION_NOTICES_OTHERS] = subscription->subscriber->datagrams -
						      subscription->datagrams_before -
						      subscription->datagrams_named;
	return count;
}

TB_API const char *tb_source_topic(const struct tb_source *source)
{
	if (!source) {
		error_null("source");
		return NULL;
	}
	return source->name;
}

TB_API const struct tb_schema *tb_source_schema(const struct tb_source *source)
{
	if (!source) {
		error_null("source");
		return NULL;
	}
	return source->mapping.schema;
}

TB_API const char *tb_source_name(const struct tb_source *source, uint32_t instrument)
{
	const struct mapping *mapping;

	if (!source) {
		error_null("source");
		return NULL;
	}
	mapping = &source->mapping;
	return instrument < mapping->shape.capacity && mapping->names[instrument][0]
		       ? mapping->names[instrument]
		       : NULL;
}

TB_API uint32_t tb_source_quality(const struct tb_source *source)
{
	if (!source) {
		error_null("source");
		return 0;
	}
	return source->quality;
}

TB_API uint64_t tb_source_epoch(const struct tb_source *source)
{
	if (!source) {
		error_null("source");
		return 0;
	}
	return source->mapping.shape.epoch;
}
