/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/inside.h"

#include "publisher/publisher.h"
#include "publisher/server.h"
#include "tests/simulation/counts.h"
#include "tests/simulation/lines.h"
#include "tests/simulation/readers.h"
#include "tests/simulation/sim_fabric.h"
#include "tests/simulation/step.h"
#include "tests/simulation/writer.h"

/* Inside a write: READs go on, and readers look. The publisher may be killed here. */
static void inside_writer(void)
{
	counts[COUNT_INSIDE_WRITER]++;
	lines_check();
	if (world.may_kill && world_one_in(4))
		longjmp(world.killed, 1);
	for (size_t i = world_draw(4); i > 0; i--) {
		sim_fabric_work((unsigned int)world_draw(12));
		if (world_one_in(2))
			readers_poll(readers_any(), (int)world_draw(100) + 1);
		if (world_one_in(16))
			world_pass(world_draw(4));
	}
	if (world_one_in(64)) /* the writer hangs here */
		for (size_t i = world_draw(2 * STALE_MS); i > 0; i--) {
			world_pass(1);
			readers_poll(readers_any(), 100);
		}
	steps_left = (unsigned int)world_draw(12) + 1;
}

/* Readers run inside the write of some records. */
void inside_write(void (*write)(void))
{
	world.inside = inside_writer;
	world.writing = true;
	steps_left = (unsigned int)world_draw(60) + 1;
	write();
	steps_left = 0;
	world.inside = NULL;
	world.writing = false;
}

void step_inside_writer(void)
{
	inside_write(world_one_in(32) ? step_end : writer_some);
}

/* Kills the publisher: between two calls, or inside a store. */
void step_kill(void)
{
	if (!world.publisher)
		return;
	counts[COUNT_KILLS]++;
	if (world_one_in(2)) {
		world.may_kill = world.writing = true;
		world.inside = inside_writer;
		if (setjmp(world.killed) == 0) {
			steps_left = (unsigned int)world_draw(40) + 1;
			writer_some();
		} else {
			counts[COUNT_KILLS_INSIDE]++;
			for (unsigned int i = 0; i < world.topic_count; i++)
				if (world.topics[i].topic)
					world.topics[i].epoch->torn = true;
		}
		steps_left = 0;
		world.inside = NULL;
		world.may_kill = world.writing = world.locked = false;
	}
	writer_gone();
}

void step_close(void)
{
	if (!world.publisher)
		return;
	if (world.group)
		writer_finish_all(NULL);
	for (unsigned int i = 0; i < world.topic_count; i++)
		if (world.topics[i].topic)
			world.topics[i].epoch->ended = world.topics[i].epoch->left = true;
	publisher_end(world.publisher);
	for (unsigned int i = 0; i < world.topic_count; i++)
		if (world.topics[i].topic)
			writer_flushed(&world.topics[i]);
	for (int i = 0; i < 200; i++) {
		world.now_ns += MS;
		if (server_turn(world.publisher))
			break;
		readers_poll(readers_any(), 100);
	}
	writer_gone();
}

static void inside_reader(void)
{
	counts[COUNT_INSIDE_READER]++;
	if (world_one_in(8))
		step_burst();
	else if (world_one_in(12))
		step_restart();
	else if (world_one_in(16))
		step_end();
	else
		writer_some();
	world.inside = inside_reader;
	steps_left = (unsigned int)world_draw(20) + 1;
}

void step_inside_reader(void)
{
	struct sim_subscriber *s = readers_any();

	world.inside = inside_reader;
	steps_left = (unsigned int)world_draw(40) + 1;
	readers_poll(s, (int)world_draw(40) + 1);
	steps_left = 0;
	world.inside = NULL;
}
