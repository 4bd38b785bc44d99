/* SPDX-License-Identifier: Apache-2.0 */
/* Scenes that chance alone rarely makes. */
#include "tests/simulation/inside.h"
#include "tests/simulation/readers.h"
#include "tests/simulation/sim_fabric.h"
#include "tests/simulation/step.h"
#include "tests/simulation/writer.h"

/* An instrument is written again after each piece of a READ, for a while. */
static void rewrite(void)
{
	const unsigned int left = steps_left;

	if (world.rewrites == 0 || world.writing)
		return;
	world.rewrites--;
	steps_left = 0;
	writer_publish(world.rewritten, world.rewritten_instrument, TB_KIND_UPDATE,
		       world.rewritten->epoch->marks ? TB_FLAG_LAST : 0);
	steps_left = left;
}

void step_rewrite(void)
{
	struct sim_topic *t = writer_any();

	if (!t)
		return;
	world.rewritten = t;
	world.rewritten_instrument = (uint32_t)writer_instrument(t, (uint32_t)world_draw(3));
	world.rewrites = (unsigned int)world_draw(300);
	sim_piece = rewrite;
}

static void image_event(struct sim_topic *t)
{
	switch (world_draw(6)) {
	case 0: /* a lap */
		for (size_t i = t->slots + world_draw(t->slots); i > 0 && t->topic; i--)
			writer_publish_any(t, true);
		break;
	case 1:
		world.rewritten = t;
		world.rewritten_instrument =
			(uint32_t)writer_instrument(t, (uint32_t)world_draw(10));
		world.rewrites = (unsigned int)world_draw(60);
		sim_piece = rewrite;
		break;
	case 2:
		step_restart();
		break;
	case 3:
		step_register();
		break;
	case 4:
		step_corrupt_value();
		break;
	default:
		break;
	}
}

/* Records that change no value: a value that is not readable stays so. */
static void publish_statuses(struct sim_topic *t)
{
	const uint8_t flags = t->epoch->marks ? TB_FLAG_LAST : 0;

	for (size_t i = world_draw(5); i > 0; i--)
		writer_publish(t, (uint32_t)writer_instrument(t, 0), TB_KIND_STATUS, flags);
}

/* A subscriber joins with an image, or gets an image after a lap. The writer is at most half a
 * ring ahead. A lap, a restart or another event comes in between. */
void step_image(void)
{
	struct sim_topic *t = writer_any();
	struct sim_subscriber *s = readers_any();
	const struct tb_subscription_options options = {
		.from = world_one_in(3) ? TB_FROM_NEWEST : TB_FROM_IMAGE,
		.gap = world_one_in(4) ? TB_GAP_OLDEST : TB_GAP_IMAGE,
		.flags = TB_WAIT,
	};
	const size_t rounds = 20 + world_draw(80), event = world_draw(rounds);
	const bool unreadable = world_one_in(4);

	if (!t || !t->epoch->values)
		return;
	for (size_t i = world_draw(40); i > 0; i--)
		writer_message(t);
	if (unreadable)
		step_corrupt_value();
	readers_subscribe(s, t, false, options, false);
	for (size_t i = 0; i < rounds && t->topic && !t->epoch->ended && !model_wrong[0]; i++) {
		const struct model *m = &s->models[0];

		sim_fabric_work((unsigned int)world_draw(10));
		readers_poll(s, (int)world_draw(4) + 1);
		world_pass(world_draw(2));
		if (unreadable)
			publish_statuses(t);
		else if (i == event)
			image_event(t);
		else if (m->epoch == t->epoch && t->epoch->count >= m->next + t->slots / 2)
			continue;
		else if (world_one_in(4))
			inside_write(writer_some);
		else
			writer_message(t);
	}
}

/* A lap of records of one instrument. The values before it are in no record of the ring. */
static void lap(struct sim_topic *t)
{
	const uint32_t instrument = (uint32_t)writer_instrument(t, (uint32_t)world_draw(3));

	for (size_t i = t->slots + world_draw(t->slots); i > 0 && t->topic; i--)
		writer_publish(t, instrument, TB_KIND_UPDATE, t->epoch->marks ? TB_FLAG_LAST : 0);
}

/* A program resumes at a record that is gone, and with it the values of other instruments. */
void step_late(void)
{
	static const uint8_t kinds[] = { TB_KIND_CLEAR };
	struct sim_topic *t = writer_any();
	struct sim_subscriber *s = readers_any();
	struct tb_subscription_options options = { .from = TB_FROM_SEQUENCE, .flags = TB_WAIT };

	if (!t || !t->epoch->values)
		return;
	options.sequence = t->epoch->count + 1;
	if (world_one_in(3)) {
		options.gap = TB_GAP_IMAGE;
	} else {
		options.conflate_us =
			world_one_in(3) ? TB_CONFLATE_POLL : (uint32_t)world_draw(50000) + 1000;
		options.exempt_kinds = kinds;
		options.exempt_kind_count = world_draw(2);
	}
	for (size_t i = world_draw(10); i > 0 && t->topic; i--)
		writer_publish_any(t, true);
	if (!t->topic)
		return;
	lap(t);
	readers_subscribe(s, t, false, options, false);
}

/* The writer reaches the slot that a subscriber reads next. */
void step_brink(void)
{
	struct sim_subscriber *s = readers_any();
	struct sim_topic *t = &world.topics[world_draw(world.topic_count)];
	const struct model *m = s->subscriber ? readers_model(s, t->name) : NULL;
	uint64_t brink;

	if (!m || !m->epoch || m->epoch != t->epoch || !t->topic || t->epoch->ended)
		return;
	for (brink = m->next - 1 + t->slots - world_draw(4); t->epoch->count < brink;)
		writer_publish_any(t, !world_one_in(4));
	world.focus = s;
	for (size_t i = world_draw(6) + 1; i > 0; i--)
		inside_write(writer_some);
	world.focus = NULL;
}
