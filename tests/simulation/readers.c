/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/readers.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/sim_fabric.h"
#include "tests/simulation/order.h"
#include "tests/simulation/step.h"
#include "tests/simulation/writer.h"
#include "tests/support/batch_record.h"

struct model *readers_model(struct sim_subscriber *s, const char *topic)
{
	for (unsigned int i = 0; i < s->model_count; i++)
		if (strcmp(s->models[i].topic, topic) == 0)
			return &s->models[i];
	return NULL;
}

/* Adds a name or a pattern to the list, or removes a text. */
static void names_change(struct sim_subscriber *s)
{
	static const char *const texts[] = { "I0", "I1", "I2", "I5", "I7", "I1*", "I[3-6]", "I9" };
	const char *const text = texts[world_draw(sizeof(texts) / sizeof(texts[0]))];
	char removed[PICKS_TEXT];
	int result, right;

	counts[COUNT_NAMES_CHANGED]++;
	if (world_one_in(2)) {
		right = picks_add(&s->picks, text);
		world_say("subscriber %u adds %s", s->number, text);
		result = tb_names_add(s->subscription, &text, 1);
	} else {
		const bool known = s->picks.count > 0 && !world_one_in(4);
		const char *name = removed;

		snprintf(removed, sizeof(removed), "%s",
			 known ? s->picks.texts[world_draw(s->picks.count)] : text);
		right = picks_remove(&s->picks, removed) ? 1 : -ENOENT;
		world_say("subscriber %u removes %s", s->number, removed);
		result = tb_names_remove(s->subscription, &name, 1);
	}
	for (unsigned int i = 0; i < s->model_count; i++)
		model_choose(&s->models[i], text);
	if (result != right)
		model_complain(&s->models[0], "the list changes: found %d, expected %d (%s)",
			       result, right, result < 0 ? tb_error() : text);
}

void step_names(void)
{
	struct sim_subscriber *s = readers_any();

	if (s->subscriber && s->chooses && !s->polled)
		for (size_t i = world_draw(3) + 1; i > 0; i--)
			names_change(s);
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct model *m = readers_model(user, tb_source_topic(source));

	if (m)
		model_record(m, source, record);
	if (m && m->picks && world_one_in(64))
		names_change(user);
}

static void on_batch(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	struct model *m = readers_model(user, tb_source_topic(source));

	counts[COUNT_BATCHES] += batch->count > 1;
	for (uint32_t i = 0; m && i < batch->count; i++) {
		const struct tb_record record = batch_record(source, batch, i);

		if (record.name)
			model_record(m, source, &record);
		else
			model_complain(m, "record %" PRIu64 " of a batch lacks a name",
				       record.sequence);
	}
}

static uint64_t counter(const struct sim_subscriber *s, const char *name)
{
	uint64_t values[64];
	size_t count;
	const struct tb_counter *table = tb_counters(TB_SCOPE_SUBSCRIPTION, &count);

	tb_subscription_counters(s->subscription, values, count);
	for (size_t i = 0; i < count; i++)
		if (strcmp(table[i].name, name) == 0)
			return values[i];
	abort();
}

/* -- accounts of a conflation ------------------------------------------------------------------
 */

/* Delivered, skipped and lost. */
static uint64_t accounted(const struct sim_subscriber *s)
{
	static const char *const names[] = { "records",       "skipped",      "lost_overrun",
					     "lost_upstream", "lost_corrupt", "lost_before_join" };
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		sum += counter(s, names[i]);
	return sum;
}

/* V4 at an event. The counters are of all topics of the subscription, the position of a topic. */
static void accounts_check(const struct sim_subscriber *s, const struct tb_event *event)
{
	const struct model *m = &s->models[0];
	const bool restarts = event->kind == TB_EVENT_RESTART;
	uint64_t found, right;

	if (!m->conflates_ns || s->model_count > 1 || !m->epoch || !s->subscription)
		return;
	found = accounted(s) + event->held;
	right = m->accounted + (restarts ? 0 : model_behind(m, event->delivered));
	if (found != right)
		model_complain(m,
			       "at event %d, %" PRIu64 " are delivered, skipped, lost or held, "
			       "expected %" PRIu64,
			       (int)event->kind, found, right);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct sim_subscriber *s = user;
	struct model *m = readers_model(s, event->topic);

	if (event->kind == TB_EVENT_COMPLETE && s->merges) {
		const bool all = strcmp(event->topic, s->pattern) == 0;

		if (all || (m && m->epoch))
			order_complete(all ? s->models : m, all ? s->model_count : 1, event);
	} else if (m) {
		model_event(m, event);
		accounts_check(s, event);
	} else {
		model_complain(&s->models[0], "event %d of topic %s", (int)event->kind,
			       event->topic);
	}
}

/* Y8 */
static const struct {
	const char *name;
	size_t at;
} sums[] = {
	{ "records", offsetof(struct model, records) },
	{ "lost_overrun", offsetof(struct model, lost[TB_CAUSE_OVERRUN]) },
	{ "lost_before_join", offsetof(struct model, lost[TB_CAUSE_BEFORE_JOIN]) },
	{ "lost_upstream", offsetof(struct model, lost[TB_CAUSE_UPSTREAM]) },
	{ "lost_corrupt", offsetof(struct model, lost[TB_CAUSE_CORRUPT]) },
	{ "restarts", offsetof(struct model, restarts) },
	{ "stales", offsetof(struct model, stales) },
	{ "images", offsetof(struct model, images) },
	{ "image_records", offsetof(struct model, image_records) },
	{ "values", offsetof(struct model, values) },
	{ "skipped", offsetof(struct model, skipped) },
};

/* What the handlers got. */
static uint64_t sum(const struct sim_subscriber *s, size_t at)
{
	uint64_t result = 0;

	for (unsigned int i = 0; i < s->model_count; i++)
		result += *(const uint64_t *)(const void *)((const char *)&s->models[i] + at);
	return result;
}

/* Records that were skipped since the last call of a handler: at most so many. */
static uint64_t passed_most(const struct sim_subscriber *s)
{
	uint64_t result = 0;

	for (unsigned int i = 0; i < s->model_count; i++)
		result += model_passed_most(&s->models[i]);
	return result;
}

static void counters_check(struct sim_subscriber *s)
{
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		const uint64_t found = counter(s, sums[i].name), right = sum(s, sums[i].at);
		const bool skips = strcmp(sums[i].name, "skipped") == 0;

		if (s->conflates && (i == 0 || skips))
			continue; /* accounts_check() has them */
		if (found < right || found - right > (skips ? passed_most(s) : 0))
			model_complain(&s->models[0],
				       "counter %s is %" PRIu64 ", the handlers got %" PRIu64,
				       sums[i].name, found, right);
	}
}

/* V4 */
static const char *conflation_unsettled(const struct sim_subscriber *s)
{
	const uint64_t found = accounted(s);
	const uint64_t records = counter(s, "records"), came = sum(s, sums[0].at);
	uint64_t right = 0, held_most = 0;

	for (unsigned int i = 0; i < s->model_count; i++) {
		const struct model *m = &s->models[i];

		if (!m->epoch)
			continue;
		right += m->accounted;
		right += model_behind(m, m->epoch->flushed);
		for (uint32_t j = 0; j < m->epoch->instruments && !m->ended; j++)
			held_most += m->epoch->value_corrupt[j];
	}
	if (found != right && world.trace)
		printf("    subscriber %u: found %" PRIu64 ", expected %" PRIu64 " less %" PRIu64
		       " that may be held\n",
		       s->number, found, right, held_most);
	if (found > right || right - found > held_most)
		return "delivered, skipped and lost are not all";
	if (records > came || (records < came && counter(s, "restarts") == 0))
		return "a record that came does not count as delivered";
	return NULL;
}

/* At rest, each position is behind the last record. */
const char *readers_unsettled(struct sim_subscriber *s)
{
	uint64_t right = 0;

	if (!s->subscriber)
		return NULL;
	for (unsigned int i = 0; i < s->model_count; i++) {
		struct model *m = &s->models[i];
		const char *found = model_unsettled(m);

		if (found)
			return found;
		if (m->epoch)
			right += m->skipped + model_passed(m, m->epoch->flushed + 1);
	}
	if (s->conflates)
		return conflation_unsettled(s);
	return counter(s, "skipped") == right ? NULL : "records are not skipped";
}

void readers_rest(struct sim_subscriber *s)
{
	for (unsigned int i = 0; i < s->model_count; i++)
		model_rest(&s->models[i]);
}

static void counters_keep(struct sim_subscriber *s)
{
	uint64_t values[64];
	size_t count;
	const struct tb_counter *table = tb_counters(TB_SCOPE_SUBSCRIPTION, &count);

	tb_subscription_counters(s->subscription, values, count);
	for (size_t i = 0; i < count; i++)
		if (strcmp(table[i].name, "torn") == 0)
			counts[COUNT_TORN] += values[i];
		else if (strcmp(table[i].name, "false_hints") == 0)
			counts[COUNT_FALSE_HINTS] += values[i];
}

void readers_poll(struct sim_subscriber *s, int max)
{
	const uint64_t called = sum(s, offsetof(struct model, called));
	int result;

	if (!s->subscriber || s->polled || model_wrong[0])
		return;
	s->polled = true;
	result = tb_poll(s->subscriber, max);
	s->polled = false;
	if (result < 0)
		model_complain(&s->models[0], "tb_poll: %s", tb_error());
	else if (result > max)
		model_complain(&s->models[0], "tb_poll: %d records, expected at most %d", result,
			       max);
	else if ((uint64_t)result < sum(s, offsetof(struct model, called)) - called)
		model_complain(&s->models[0], "tb_poll: %d records, but the handler got more",
			       result);
	counters_check(s);
}

struct sim_subscriber *readers_any(void)
{
	return world.focus && !world_one_in(4) ? world.focus
					       : &world.subscribers[world_draw(SUBSCRIBERS)];
}

void step_poll(void)
{
	struct sim_subscriber *s = readers_any();
	static const int most[] = { 1, 3, 20, 1000 };

	for (size_t i = world_draw(6) + 1; i > 0; i--)
		readers_poll(s, most[world_draw(4)]);
}

void readers_leave(struct sim_subscriber *s)
{
	if (!s->subscriber)
		return;
	if (s->subscription)
		counters_keep(s);
	tb_subscriber_close(s->subscriber);
	*s = (struct sim_subscriber){ 0 };
}

void step_leave(void)
{
	readers_leave(readers_any());
}

/* Whether an image can be made of all topics that match. */
static bool all_have_values(const struct sim_topic *t, bool all)
{
	for (unsigned int i = 0; i < world.topic_count; i++)
		if ((all || t == &world.topics[i]) &&
		    (world.topics[i].flags & TB_TOPIC_NO_LAST_VALUE))
			return false;
	return true;
}

static void options_draw(struct tb_subscription_options *options, const struct sim_topic *t,
			 bool all)
{
	static const enum tb_from froms[] = { TB_FROM_NEWEST, TB_FROM_OLDEST, TB_FROM_IMAGE,
					      TB_FROM_SEQUENCE };
	static const enum tb_gap gaps[] = { TB_GAP_OLDEST, TB_GAP_NEWEST, TB_GAP_IMAGE };
	const bool values = all_have_values(t, all);

	options->flags = TB_WAIT;
	options->from = froms[world_draw(4)];
	options->gap = gaps[world_draw(3)];
	if (world_one_in(4) || !values) {
		options->flags |= world_one_in(2) ? TB_STRICT : 0;
		options->from = options->from == TB_FROM_IMAGE ? TB_FROM_OLDEST : options->from;
		options->gap = options->gap == TB_GAP_IMAGE ? TB_GAP_OLDEST : options->gap;
	}
	if (options->from == TB_FROM_SEQUENCE && t->epoch && !all) {
		const struct truth_epoch *epoch = &truth.epochs[world_draw(truth.count)];

		options->sequence = world_one_in(2) ? t->epoch->count + world_draw(60) + 1
						    : world_draw((size_t)t->epoch->count + 10) + 1;
		options->epoch =
			world_one_in(2) && strcmp(epoch->topic, t->name) == 0 ? epoch->id : 0;
	} else if (options->from == TB_FROM_SEQUENCE) {
		options->from = TB_FROM_OLDEST;
	}
	if (world.grouped && world_draw(8) < (all ? 7 : 1)) {
		options->flags = TB_WAIT | TB_MERGE;
		options->from = options->from == TB_FROM_SEQUENCE ? TB_FROM_OLDEST : options->from;
		options->gap = options->gap == TB_GAP_IMAGE ? TB_GAP_OLDEST : options->gap;
	}
}

/* A list, for the options and for the model. */
static void names_draw(struct sim_subscriber *s, const char *names[PICKS_MAX])
{
	char text[PICKS_TEXT];

	for (size_t i = world_draw(4); i > 0; i--) {
		snprintf(text, sizeof(text), "I%zu", world_draw(TRUTH_INSTRUMENTS));
		picks_add(&s->picks, text);
	}
	if (world_one_in(4))
		picks_add(&s->picks, "I[2-4]");
	for (unsigned int i = 0; i < s->picks.count; i++)
		names[i] = s->picks.texts[i];
	s->chooses = true;
}

static void exempt_draw(struct tb_subscription_options *options, uint8_t kinds[EXEMPT_MAX])
{
	options->exempt_kind_count = world_draw(EXEMPT_MAX) + 1;
	for (size_t i = 0; i < options->exempt_kind_count; i++)
		kinds[i] = (uint8_t)(TB_KIND_UPDATE + world_draw(TB_KIND_STATUS));
	options->exempt_kinds = kinds;
}

static void models_begin(struct sim_subscriber *s, const struct sim_topic *t, bool all,
			 const struct tb_subscription_options *options)
{
	for (unsigned int i = 0; i < world.topic_count; i++) {
		struct model *m = &s->models[s->model_count];

		if (all ? world.topics[i].hidden && !s->ticket : t != &world.topics[i])
			continue;
		*m = (struct model){ .number = s->number,
				     .view = world.view,
				     .order = s->merges ? &s->order : NULL,
				     .picks = s->chooses ? &s->picks : NULL,
				     .trace = world.trace };
		model_begin(m, world.topics[i].name, options);
		s->model_count++;
	}
}

void readers_subscribe(struct sim_subscriber *s, const struct sim_topic *t, bool all,
		       struct tb_subscription_options options, bool any)
{
	const bool ticket = t->hidden || world_one_in(2);
	const struct tb_subscriber_options how = {
		.size = sizeof(how),
		.address = world.view ? "simview:a" : "sim:a",
		.flags = TB_WAIT,
		.connect_ms = 20,
		.batch_bytes = world_one_in(2) ? 8192 : 16384,
		.read_bytes = world_one_in(2) ? 512 : 0,
		.ticket = ticket ? writer_ticket() : NULL,
		.poll_us = world_one_in(3)   ? TB_POLL_SPIN
			   : world_one_in(2) ? 1000
					     : 20000,
	};
	const char *names[PICKS_MAX];
	uint8_t exempt[EXEMPT_MAX];

	readers_leave(s);
	s->number = ++world.subscriptions;
	s->ticket = ticket;
	s->merges = options.flags & TB_MERGE;
	snprintf(s->pattern, sizeof(s->pattern), "%s", all ? ">" : t->name);
	options.size = sizeof(options);
	if (any && t->epoch && world_one_in(5) && all_have_values(t, all)) {
		options.from = TB_FROM_NEWEST;
		options.gap = TB_GAP_OLDEST;
		options.flags = TB_WAIT | TB_WATCH;
		options.look_us = world_one_in(2) ? 0 : (uint32_t)world_draw(20000);
		s->merges = false;
		names_draw(s, names);
		options.names = names;
		options.name_count = s->picks.count;
	} else if (any && world_one_in(5) && all_have_values(t, all)) {
		if (options.from != TB_FROM_SEQUENCE)
			options.from = world_one_in(2)   ? TB_FROM_NEWEST
				       : world_one_in(3) ? TB_FROM_IMAGE
							 : TB_FROM_OLDEST;
		options.gap = TB_GAP_OLDEST;
		options.flags = TB_WAIT;
		options.conflate_us =
			world_one_in(3) ? TB_CONFLATE_POLL : (uint32_t)world_draw(50000) + 1000;
		if (world_one_in(3)) {
			names_draw(s, names);
			options.names = names;
			options.name_count = s->picks.count;
		}
		if (world_one_in(3))
			exempt_draw(&options, exempt);
		s->merges = false;
	} else if (world_one_in(4)) {
		names_draw(s, names);
		options.names = names;
		options.name_count = s->picks.count;
	}
	s->conflates = options.conflate_us != 0;
	if (!s->merges && !s->conflates && world_one_in(3))
		options.on_batch = on_batch;
	else
		options.on_record = on_record;
	options.on_event = on_event;
	options.user = s;
	models_begin(s, t, all, &options);
	sim_meanwhile = world_meanwhile;
	if (tb_subscriber_open(&s->subscriber, &how) < 0 ||
	    tb_subscribe(s->subscriber, s->pattern, &options, &s->subscription) < 0)
		model_complain(&s->models[0], "cannot subscribe: %s", tb_error());
	sim_meanwhile = NULL;
	world_say("subscriber %u reads %s from %d, gap %d, flags %x, %u names%s, %zu exempt kinds",
		  s->number, s->pattern, (int)options.from, (int)options.gap, options.flags,
		  s->picks.count, s->chooses ? " chosen" : "", options.exempt_kind_count);
}

void step_subscribe(void)
{
	struct sim_subscriber *s = readers_any();
	const struct sim_topic *t = &world.topics[world_draw(world.topic_count)];
	const bool all = world.grouped ? !world_one_in(4) : world_one_in(3);
	struct tb_subscription_options options = { 0 };

	if (s->polled)
		return;
	options_draw(&options, t, all);
	readers_subscribe(s, t, all, options, true);
}
