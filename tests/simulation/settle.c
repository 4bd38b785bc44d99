/* SPDX-License-Identifier: Apache-2.0 */
/* Rest: without faults, each subscriber gets to know all there is to know, in bounded time. */
#include "tests/simulation/counts.h"
#include "tests/simulation/readers.h"
#include "tests/simulation/step.h"
#include "tests/simulation/writer.h"

#define SETTLE_MS      30000 /* the longest pauses are 2 s */
#define SETTLE_TURN_MS 7
#define CALM_MS        6000 /* from here on, no topic may go stale */

static const char *unsettled(void)
{
	const char *found = NULL;

	for (unsigned int i = 0; i < SUBSCRIBERS && !found; i++)
		found = readers_unsettled(&world.subscribers[i]);
	return found;
}

static void settle_complain(void)
{
	for (unsigned int i = 0; i < SUBSCRIBERS; i++) {
		struct sim_subscriber *s = &world.subscribers[i];
		const char *found = readers_unsettled(s);

		for (unsigned int j = 0; j < s->model_count; j++)
			if (model_unsettled(&s->models[j]))
				model_complain(&s->models[j], "after %d ms without a fault: %s",
					       SETTLE_MS, found);
		if (found)
			model_complain(&s->models[0], "after %d ms without a fault: %s", SETTLE_MS,
				       found);
		else
			readers_rest(s);
	}
}

static void calm_set(bool calm)
{
	for (unsigned int i = 0; i < SUBSCRIBERS; i++)
		for (unsigned int j = 0; j < TOPICS; j++)
			world.subscribers[i].models[j].calm = calm;
}

static bool has_corrupt_value(const struct sim_topic *t)
{
	bool corrupt = false;

	for (uint32_t i = 0; i < t->epoch->instruments; i++)
		corrupt |= t->epoch->value_corrupt[i];
	return corrupt;
}

static void publish_status(struct sim_topic *t)
{
	writer_publish(t, (uint32_t)writer_instrument(t, 0), TB_KIND_STATUS, t->epoch->marks);
}

/* An image proves a slot corrupt when it has read past all that the writer reserved. So records
 * must come, for a while. At last the writer has used all that it reserved. */
static void settle_values(struct sim_topic *t, unsigned int ms)
{
	if (!has_corrupt_value(t))
		return;
	if (ms >= CALM_MS)
		while (t->epoch->count < t->epoch->reserved)
			publish_status(t);
	else if (world_one_in(4))
		for (size_t i = world_draw(8); i > 0; i--)
			publish_status(t);
}

static void settle_turn(unsigned int ms)
{
	for (int i = 0; i < SETTLE_TURN_MS; i++)
		world_pass(1);
	for (unsigned int i = 0; i < world.topic_count; i++) {
		struct sim_topic *t = &world.topics[i];

		if (t->topic && !t->epoch->ended) {
			writer_finish(t);
			settle_values(t, ms);
			writer_flush(t);
		}
	}
	for (unsigned int i = 0; i < SUBSCRIBERS; i++)
		for (int polls = 0; polls < 4; polls++)
			readers_poll(&world.subscribers[i], 1000);
}

/* Without faults, everything comes to rest: each subscriber knows all there is to know. */
void step_settle(void)
{
	unsigned int ms = 0;

	step_calm();
	world.rewrites = 0;
	step_open();
	for (unsigned int i = 0; i < world.topic_count; i++)
		writer_make(&world.topics[i]);
	do {
		settle_turn(ms);
		ms += SETTLE_TURN_MS;
		if (ms > CALM_MS)
			calm_set(true);
	} while (ms < SETTLE_MS && unsettled() && !model_wrong[0]);
	settle_complain();
	calm_set(false);
	for (unsigned int i = 0; i < SUBSCRIBERS; i++)
		counts[COUNT_SETTLED] += world.subscribers[i].subscriber != NULL;
}
