/* SPDX-License-Identifier: Apache-2.0 */
/* Stalls at random steps. A reader waits until the writer has gone on, by up to two laps. The
 * writer waits until readers have polled, unless all readers wait. */
#include <sched.h>

#include "tests/stress/steps.h"
#include "tests/stress/stress.h"

#define READER_STEPS 6000 /* at most between two stalls; half of it on average */
#define WRITER_STEPS 3000

_Thread_local unsigned int steps_left;

static unsigned int next_stall(struct party *party)
{
	const unsigned int steps = party->manner == WRITER ? WRITER_STEPS : READER_STEPS;

	return 1 + (unsigned int)(stress_draw(party) % steps);
}

static uint64_t looks(struct stress *stress)
{
	uint64_t sum = 0;

	for (int i = 0; i < READERS; i++)
		sum += atomic_load(&stress->party[i].looks);
	return sum;
}

static void stall_writer(struct party *party)
{
	struct stress *stress = party->stress;
	const uint64_t enough = looks(stress) + 1 + stress_draw(party) % 3;

	while (looks(stress) < enough &&
	       atomic_load(&stress->waiting) + atomic_load(&stress->finished) < READERS)
		sched_yield();
}

void steps_due(void)
{
	struct party *me = stress_me;

	me->stalls++;
	if (me->manner == WRITER)
		stall_writer(me);
	else
		stress_await(me, atomic_load(&me->stress->written) + 1 +
					 stress_draw(me) % (2 * me->stress->variant->slots));
	steps_left = next_stall(me);
}

void stress_stall(struct party *party)
{
	steps_left = next_stall(party);
}

void stress_stall_no_more(void)
{
	steps_left = 0;
}
