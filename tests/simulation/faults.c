/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in which time passes, and steps in which something goes wrong. */
#include <string.h>

#include "bus/notice.h"
#include "tests/simulation/readers.h"
#include "tests/simulation/sim_fabric.h"
#include "tests/simulation/step.h"
#include "tests/simulation/writer.h"
#include "tests/support/random.h"

void step_work(void)
{
	sim_fabric_work((unsigned int)world_draw(200));
}

void step_time(void)
{
	for (size_t ms = world_one_in(8) ? world_draw(2 * STALE_MS) : world_draw(20); ms > 0;
	     ms--) {
		world_pass(1);
		if (world_one_in(2))
			readers_poll(readers_any(), 100);
	}
}

/* The publisher does nothing. */
void step_freeze(void)
{
	for (size_t ms = world_draw(2 * STALE_MS); ms > 0; ms--) {
		world.now_ns += MS;
		if (world_one_in(4))
			readers_poll(readers_any(), 100);
	}
}

void step_cut(void)
{
	sim_fabric_cut((unsigned int)world_draw(SUBSCRIBERS));
}

/* A member of the topic knows its key. */
static void forge_sealed(struct sim_topic *t)
{
	uint8_t bytes[BOUND_NOTICE_BYTES_MIN];
	struct notice_writer writer;
	const uint32_t sender = world_one_in(2) ? 0 : t->topic->shape.topic_id;
	const uint64_t number = t->topic->notices + world_draw(20);

	notice_begin(&writer, bytes, sizeof(bytes), world.publisher->bus_id, world.now_ns);
	notice_number(&writer, sender, world_one_in(4) ? world_draw(SIZE_MAX) : number);
	notice_entry(&writer, t->topic->shape.topic_id, t->topic->shape.epoch,
		     world_one_in(8) ? world_draw(SIZE_MAX) : t->epoch->count + world_draw(100));
	notice_seal(&writer, t->topic->notice_key);
	sim_fabric_forge(bytes, notice_finish(&writer));
}

void step_forge(void)
{
	uint8_t bytes[SIM_NOTICE_BYTES];
	size_t length;
	const void *heard = sim_fabric_overheard((unsigned int)world_draw(20), &length);
	struct sim_topic *t = &world.topics[world_draw(world.topic_count)];

	if (world.view)
		return;
	if (world_one_in(2) && t->topic) {
		forge_sealed(t);
	} else if (heard) {
		memcpy(bytes, heard, length);
		if (world_one_in(2))
			bytes[world_draw(length)] ^= (uint8_t)(1u << world_draw(8));
		sim_fabric_forge(bytes, length);
	}
}

/* A stranger overwrites a slot. Its sequence stays in mapped memory: 0 there means that the record
 * is not written yet. */
void step_corrupt(void)
{
	struct sim_topic *t = writer_any();
	uint64_t sequence, garbage[3];
	char *slot;

	if (!t || t->epoch->count == 0 || (t->flags & TB_TOPIC_UNCHECKED))
		return;
	sequence = t->epoch->count -
		   world_draw(t->epoch->count < t->slots ? (size_t)t->epoch->count : t->slots);
	slot = t->topic->ring + (sequence & (t->slots - 1)) * t->topic->slot_bytes;
	random_fill(&world.draws, garbage, sizeof(garbage));
	if (world.view || world_one_in(2))
		memcpy(slot + 8, garbage, sizeof(garbage));
	else
		memcpy(slot, garbage, sizeof(garbage));
	truth_at(t->epoch, sequence)->corrupt = true;
}

void step_corrupt_value(void)
{
	struct sim_topic *t = writer_any();
	uint32_t number;
	uint64_t garbage[3];

	if (!t || t->epoch->instruments == 0 || !t->epoch->values ||
	    (t->flags & TB_TOPIC_UNCHECKED))
		return;
	number = (uint32_t)world_draw(t->epoch->instruments);
	if (truth_value(t->epoch, number, t->epoch->count) == 0)
		return;
	random_fill(&world.draws, garbage, sizeof(garbage));
	garbage[2] |= UINT64_C(1) << 48; /* a kind: a slot once written has a kind */
	memcpy(t->topic->last_value + number * t->topic->slot_bytes, garbage, sizeof(garbage));
	t->epoch->value_corrupt[number] = true;
	world_say("the value of %s in %s is overwritten", t->epoch->names[number], t->name);
}

void step_faults(void)
{
	sim_faults =
		(struct sim_faults){ .fail = world_one_in(2) ? (unsigned int)world_draw(150) : 0,
				     .drop = world_one_in(2) ? (unsigned int)world_draw(500) : 0,
				     .dup = world_one_in(2) ? (unsigned int)world_draw(200) : 0,
				     .reorder = world_one_in(2) ? (unsigned int)world_draw(200) : 0,
				     .slow = world_one_in(2) ? (unsigned int)world_draw(900) : 0 };
}

void step_calm(void)
{
	sim_faults = (struct sim_faults){ 0 };
}
