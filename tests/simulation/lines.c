/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/lines.h"

#include <inttypes.h>

#include "bus/progress.h"
#include "tests/simulation/counts.h"
#include "tests/simulation/world.h"

static bool line_proves(const struct sim_topic *t, struct progress *line)
{
	progress_load(t->topic->line, line);
	return progress_verify(line, &t->topic->shape, t->topic->progress_salt) == 0 &&
	       line->epoch == t->epoch->id;
}

static void line_check(const struct sim_topic *t)
{
	struct progress line;
	const struct truth_epoch *epoch = t->epoch;
	const uint64_t over_ns = truth.over_ns[epoch->life];

	if (!line_proves(t, &line))
		return; /* it is being written */
	counts[COUNT_LINES]++;
	if (line.complete_ns > over_ns)
		world_complain("topic %s: the line says complete up to %" PRIu64
			       ", but the last message that is over has time %" PRIu64,
			       t->name, line.complete_ns, over_ns);
	if (truth_until(epoch, line.complete_ns) > line.head)
		world_complain("topic %s: the line says complete up to %" PRIu64
			       " with head %" PRIu64 ", but record %" PRIu64 " is not later",
			       t->name, line.complete_ns, line.head,
			       truth_until(epoch, line.complete_ns));
}

void lines_check(void)
{
	for (unsigned int i = 0; i < world.topic_count; i++)
		if (world.topics[i].topic && world.topics[i].grouped)
			line_check(&world.topics[i]);
}

void lines_written(const struct sim_topic *t)
{
	const unsigned int left = steps_left;
	struct progress line;

	steps_left = 0; /* this look is no step of the history */
	if (!line_proves(t, &line))
		world_complain("topic %s: its line does not prove itself, although no write is "
			       "under way: head %" PRIu64 ", whole %" PRIu64 ", reserved %" PRIu64,
			       t->name, line.head, line.whole, line.reserved);
	steps_left = left;
}
