/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/history.h"

#include "tests/simulation/model.h"
#include "tests/simulation/sim_fabric.h"
#include "tests/simulation/step.h"
#include "tests/simulation/world.h"
#include "tests/support/random.h"

static const struct {
	const char *name;
	void (*take)(void);
	unsigned int weight;
} table[STEP_KINDS] = {
	[STEP_PUBLISH] = { "publish", step_publish, 160 },
	[STEP_BURST] = { "burst", step_burst, 40 },
	[STEP_INSIDE_WRITER] = { "inside-writer", step_inside_writer, 120 },
	[STEP_REWRITE] = { "rewrite", step_rewrite, 15 },
	[STEP_FLUSH] = { "flush", step_flush, 40 },
	[STEP_NAME] = { "name", step_register, 15 },
	[STEP_QUALITY] = { "quality", step_quality, 25 },
	[STEP_HOLE] = { "hole", step_hole, 20 },
	[STEP_POLL] = { "poll", step_poll, 250 },
	[STEP_INSIDE_READER] = { "inside-reader", step_inside_reader, 60 },
	[STEP_WORK] = { "work", step_work, 60 },
	[STEP_TURN] = { "turn", world_turn, 40 },
	[STEP_TIME] = { "time", step_time, 120 },
	[STEP_FREEZE] = { "freeze", step_freeze, 8 },
	[STEP_RESTART] = { "restart", step_restart, 12 },
	[STEP_END] = { "end", step_end, 4 },
	[STEP_CLOSE] = { "close", step_close, 4 },
	[STEP_KILL] = { "kill", step_kill, 8 },
	[STEP_OPEN] = { "open", step_open, 20 },
	[STEP_CUT] = { "cut", step_cut, 12 },
	[STEP_FORGE] = { "forge", step_forge, 25 },
	[STEP_CORRUPT] = { "corrupt", step_corrupt, 15 },
	[STEP_CORRUPT_VALUE] = { "corrupt-value", step_corrupt_value, 10 },
	[STEP_FAULTS] = { "faults", step_faults, 20 },
	[STEP_CALM] = { "calm", step_calm, 20 },
	[STEP_IMAGE] = { "image", step_image, 40 },
	[STEP_BRINK] = { "brink", step_brink, 40 },
	[STEP_LATE] = { "late", step_late, 10 },
	[STEP_SUBSCRIBE] = { "subscribe", step_subscribe, 40 },
	[STEP_LEAVE] = { "leave", step_leave, 6 },
	[STEP_CLOCK] = { "clock", step_clock, 8 },
	[STEP_CHOOSE] = { "choose", step_names, 20 },
	[STEP_SETTLE] = { "settle", step_settle, 0 },
};

const char *step_name(enum step_kind kind)
{
	return table[kind].name;
}

static enum step_kind kind_draw(uint64_t *draws)
{
	unsigned int sum = 0, at;
	int kind = 0;

	for (int i = 0; i < STEP_KINDS; i++)
		sum += table[i].weight;
	at = (unsigned int)random_below(draws, sum);
	while (at >= table[kind].weight)
		at -= table[kind++].weight;
	return (enum step_kind)kind;
}

void history_make(struct history *history, uint64_t seed)
{
	uint64_t draws = seed;
	size_t middle;

	history->seed = random_draw(&draws);
	middle = 30 + random_below(&draws, 60);
	history->count = 0;
	history->steps[history->count++].kind = STEP_OPEN;
	history->steps[history->count++].kind = STEP_SUBSCRIBE;
	while (history->count < middle)
		history->steps[history->count++].kind = kind_draw(&draws);
	history->steps[history->count++].kind = STEP_SETTLE;
	while (history->count < middle + middle / 2)
		history->steps[history->count++].kind = kind_draw(&draws);
	history->steps[history->count++].kind = STEP_SETTLE;
	for (size_t i = 0; i < history->count; i++)
		history->steps[i].seed = random_draw(&draws);
}

bool history_run(const struct history *history, bool trace)
{
	world_begin(history->seed, trace);
	for (size_t i = 0; i < history->count && !model_wrong[0]; i++) {
		world.draws = sim_draws = history->steps[i].seed;
		world_say("%zu %s", i, step_name(history->steps[i].kind));
		table[history->steps[i].kind].take();
	}
	world_end();
	return model_wrong[0] == '\0';
}
