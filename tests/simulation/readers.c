/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/readers.h"

#include <inttypes.h>
#include <string.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/sim_fabric.h"
#include "tests/simulation/step.h"
#include "tests/support/batch_record.h"

struct model *readers_model(struct sim_subscriber *s, const char *topic)
{
	for (unsigned int i = 0; i < s->model_count; i++)
		if (strcmp(s->models[i].topic, topic) == 0)
			return &s->models[i];
	return NULL;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct model *m = readers_model(user, tb_source_topic(source));

	if (m)
		model_record(m, source, record);
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

static void on_event(void *user, const struct tb_event *event)
{
	struct sim_subscriber *s = user;
	struct model *m = readers_model(s, event->topic);

	if (m)
		model_event(m, event);
	else
		model_complain(&s->models[0], "event %d of topic %s", (int)event->kind,
			       event->topic);
}

/* Y8 */
static void counters_check(struct sim_subscriber *s)
{
	static const char *const causes[] = { "", "lost_overrun", "lost_before_join",
					      "lost_upstream", "lost_corrupt" };
	uint64_t values[64], right;
	size_t count;
	const struct tb_counter *table = tb_counters(TB_SCOPE_SUBSCRIPTION, &count);

	tb_subscription_counters(s->subscription, values, count);
	for (size_t i = 0; i < count; i++) {
		const char *name = table[i].name;

		right = UINT64_MAX;
#define SUM(field) (s->models[0].field + (s->model_count > 1 ? s->models[1].field : 0))
		for (int cause = 1; cause <= 4; cause++)
			if (strcmp(name, causes[cause]) == 0)
				right = SUM(lost[cause]);
		if (strcmp(name, "records") == 0)
			right = SUM(records);
		else if (strcmp(name, "skipped") == 0)
			right = SUM(skipped);
		else if (strcmp(name, "restarts") == 0)
			right = SUM(restarts);
		else if (strcmp(name, "stales") == 0)
			right = SUM(stales);
		else if (strcmp(name, "images") == 0)
			right = SUM(images);
		else if (strcmp(name, "image_records") == 0)
			right = SUM(image_records);
		if (right != UINT64_MAX && values[i] != right)
			model_complain(&s->models[0],
				       "counter %s is %" PRIu64 ", the handlers got %" PRIu64, name,
				       values[i], right);
#undef SUM
	}
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
}

void readers_subscribe(struct sim_subscriber *s, const struct sim_topic *t, bool all,
		       struct tb_subscription_options options)
{
	const struct tb_subscriber_options how = {
		.size = sizeof(how),
		.address = world.view ? "simview:a" : "sim:a",
		.flags = TB_WAIT,
		.connect_ms = 20,
		.batch_bytes = world_one_in(2) ? 8192 : 16384,
		.read_bytes = world_one_in(2) ? 512 : 0,
		.poll_us = world_one_in(3)   ? TB_POLL_SPIN
			   : world_one_in(2) ? 1000
					     : 20000,
	};

	readers_leave(s);
	s->number = ++world.subscriptions;
	options.size = sizeof(options);
	if (world_one_in(3))
		options.on_batch = on_batch;
	else
		options.on_record = on_record;
	options.on_event = on_event;
	options.user = s;
	for (unsigned int i = 0; i < world.topic_count; i++) {
		struct model *m = &s->models[s->model_count];

		if (!all && t != &world.topics[i])
			continue;
		*m = (struct model){ .number = s->number,
				     .view = world.view,
				     .trace = world.trace };
		model_begin(m, world.topics[i].name, &options);
		s->model_count++;
	}
	sim_meanwhile = world_meanwhile;
	if (tb_subscriber_open(&s->subscriber, &how) < 0 ||
	    tb_subscribe(s->subscriber, all ? ">" : t->name, &options, &s->subscription) < 0)
		model_complain(&s->models[0], "cannot subscribe: %s", tb_error());
	sim_meanwhile = NULL;
	world_say("subscriber %u reads %s from %d, gap %d, flags %x", s->number,
		  all ? ">" : t->name, (int)options.from, (int)options.gap, options.flags);
}

void step_subscribe(void)
{
	struct sim_subscriber *s = readers_any();
	const struct sim_topic *t = &world.topics[world_draw(world.topic_count)];
	const bool all = world_one_in(3);
	struct tb_subscription_options options = { 0 };

	if (s->polled)
		return;
	options_draw(&options, t, all);
	readers_subscribe(s, t, all, options);
}
