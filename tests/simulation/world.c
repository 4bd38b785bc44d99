/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/random.h"
#include "publisher/server.h"
#include "tests/simulation/counts.h"
#include "tests/simulation/readers.h"
#include "tests/simulation/sim_fabric.h"
#include "tests/simulation/writer.h"
#include "tests/support/random.h"

struct world world;

_Thread_local unsigned int steps_left;

void steps_due(void)
{
	if (world.inside)
		world.inside();
}

size_t world_draw(size_t bound)
{
	return random_below(&world.draws, bound);
}

bool world_one_in(size_t n)
{
	return world_draw(n) == 0;
}

void world_say(const char *format, ...)
{
	va_list args;

	if (!world.trace)
		return;
	printf("  %8.3f ms  ", (double)(world.now_ns % (UINT64_C(1000000) * MS)) / 1e6);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

static int read_clock(clockid_t clock, struct timespec *now)
{
	const uint64_t ns = clock == CLOCK_REALTIME ? world_realtime_ns() : world.now_ns;

	now->tv_sec = (time_t)(ns / (1000 * MS));
	now->tv_nsec = (long)(ns % (1000 * MS));
	return 0;
}

uint64_t world_realtime_ns(void)
{
	return world.now_ns + (uint64_t)world.realtime_ns;
}

void world_complain(const char *format, ...)
{
	va_list args;

	if (model_wrong[0])
		return;
	va_start(args, format);
	vsnprintf(model_wrong, sizeof(model_wrong), format, args);
	va_end(args);
}

static ssize_t read_random(void *out, size_t bytes, unsigned int flags)
{
	(void)flags;
	random_fill(&world.random, out, bytes);
	return (ssize_t)bytes;
}

void world_turn(void)
{
	if (world.publisher && !world.locked)
		server_turn(world.publisher);
}

/* Time passes, and the control thread takes its turns. */
void world_pass(uint64_t ms)
{
	for (; ms > 0; ms--) {
		world.now_ns += MS;
		world_turn();
	}
}

void world_meanwhile(void)
{
	world_pass(1);
}

/* -- a history's beginning and end -------------------------------------------------------------
 */

static void schema_make(unsigned int i, uint32_t words)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "name: x\nversion: 1\nfields:\n- {name: x, type: \"u64[%u]\", doc: d}\n", words);
	if (tb_schema_parse(&world.schemas[i], text, strlen(text), "simulation") < 0)
		abort();
}

void world_begin(uint64_t seed, bool trace)
{
	memset(&world, 0, sizeof(world));
	world.trace = trace;
	world.draws = world.random = seed;
	world.now_ns = UINT64_C(1700000000) * 1000 * MS;
	world.view = world_one_in(3);
	world.grouped = world_one_in(3);
	world.realms = world.grouped && world_one_in(4);
	world.topic_count = (unsigned int)world_draw(2) + 1;
	if (world.grouped)
		world.topic_count = (unsigned int)world_draw(TOPICS - 1) + 2;
	for (unsigned int i = 0; i < world.topic_count; i++) {
		struct sim_topic *t = &world.topics[i];
		const uint32_t words = world_one_in(3) ? 9 : world_one_in(2) ? 4 : 1;

		snprintf(t->name, sizeof(t->name), "t%u", i);
		t->slots = world_one_in(3) ? 128 : 64;
		t->payload = words * 8;
		t->flags = (world_one_in(2) ? TB_TOPIC_MARKS_MESSAGES : 0) |
			   (world_one_in(3) ? TB_TOPIC_MANUAL_FLUSH : 0) |
			   (world_one_in(3) ? TB_TOPIC_WATCHED : 0) |
			   (world_one_in(4) ? TB_TOPIC_NO_LAST_VALUE : 0) |
			   (world.view && world_one_in(2) ? TB_TOPIC_UNCHECKED : 0);
		t->grouped = world.grouped;
		t->hidden = world.realms && i > 0 && world_one_in(2);
		schema_make(i, words);
	}
	world_say("%s, %u topics", world.view ? "simview" : "sim", world.topic_count);
	for (unsigned int i = 0; i < world.topic_count; i++)
		world_say("topic %s: %u slots, flags 0x%x", world.topics[i].name,
			  world.topics[i].slots, world.topics[i].flags);
	sim_fabric_add();
	sim_fabric_begin();
	truth_clear();
	model_wrong[0] = '\0';
	clock_replace(read_clock);
	random_replace(read_random);
}

void world_end(void)
{
	for (unsigned int i = 0; i < SUBSCRIBERS; i++)
		readers_leave(&world.subscribers[i]);
	if (world.publisher)
		writer_gone();
	for (unsigned int i = 0; i < world.topic_count; i++)
		tb_schema_free(world.schemas[i]);
	counts[COUNT_FAILED] += sim_seen.failed;
	counts[COUNT_PIECES] += sim_seen.pieces;
	counts[COUNT_LOST_NOTICES] += sim_seen.dropped;
	counts[COUNT_DOUBLED_NOTICES] += sim_seen.doubled;
	counts[COUNT_REORDERED_NOTICES] += sim_seen.reordered;
	counts[COUNT_FORGED_NOTICES] += sim_seen.forged;
	counts[COUNT_CUTS] += sim_seen.broken;
	truth_clear();
	if (!model_wrong[0] && !sim_fabric_is_empty())
		snprintf(model_wrong, sizeof(model_wrong), "something was not closed");
	clock_replace(NULL);
	random_replace(NULL);
}
