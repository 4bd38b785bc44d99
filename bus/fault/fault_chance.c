/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/fault/fault_chance.h"

#include <stdatomic.h>

#include "bus/fault/fault.h"

#define SEEDS 64 /* numbers of connections; seeds that share a number are still exact */

static _Atomic uint64_t counts[FAULT_KINDS];
static _Atomic uint64_t connections[SEEDS];

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

void fault_chance_begin(struct fault_chance *chance, const struct fault_plan *plan)
{
	uint64_t state = plan->seed;
	const uint64_t place = draw(&state) % SEEDS;

	state += atomic_fetch_add_explicit(&connections[place], 1, memory_order_relaxed);
	state = draw(&state);
	for (enum fault_kind kind = 0; kind < FAULT_KINDS; kind++) {
		chance->state[kind] = draw(&state);
		chance->billionths[kind] = plan->billionths[kind];
	}
}

uint64_t fault_chance_bits(struct fault_chance *chance, enum fault_kind kind)
{
	return draw(&chance->state[kind]);
}

uint64_t fault_chance_below(struct fault_chance *chance, enum fault_kind kind, uint64_t bound)
{
	return draw(&chance->state[kind]) % bound;
}

bool fault_chance_met(struct fault_chance *chance, enum fault_kind kind)
{
	return chance->billionths[kind] > 0 &&
	       fault_chance_below(chance, kind, FAULT_BILLION) < chance->billionths[kind];
}

void fault_counted(enum fault_kind kind)
{
	atomic_fetch_add_explicit(&counts[kind], 1, memory_order_relaxed);
}

uint64_t fault_count(enum fault_kind kind)
{
	return atomic_load_explicit(&counts[kind], memory_order_relaxed);
}

void fault_restart(void)
{
	for (enum fault_kind kind = 0; kind < FAULT_KINDS; kind++)
		atomic_store_explicit(&counts[kind], 0, memory_order_relaxed);
	for (unsigned int i = 0; i < SEEDS; i++)
		atomic_store_explicit(&connections[i], 0, memory_order_relaxed);
}
