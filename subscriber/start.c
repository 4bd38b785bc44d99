/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the start of TB_FROM_TIME. tb_poll does not wait for READs, so this goes step by step. A
 * slot is copied. If the copy does not count alone, a line that is loaded later judges it. At last
 * a fresh line is loaded, and reading begins with it.
 *
 * H-I6  A start that is not certain lies before the right start: no record that was asked for is
 *       missed. If the bisection gives up, reading begins at the last record that it found to be
 *       early enough, or at the oldest.
 * H-I7  If the time lies before the oldest record that is held, all records before that are a gap,
 *       from sequence 1 on. It is not known which of them have a later time. */
#include "subscriber/start.h"

#include "bus/counters.h"
#include "bus/record.h"
#include "subscriber/fetch.h"
#include "subscriber/find.h"
#include "subscriber/landing.h"
#include "subscriber/ring_get.h"
#include "subscriber/tag.h"

bool start_wants_slot(const struct tb_source *source)
{
	uint64_t sequence;

	return !source->start.waits && find_next(&source->start.find, &sequence);
}

bool start_searches(const struct tb_source *source)
{
	return source->state == SOURCE_FIND && (source->start.waits || start_wants_slot(source));
}

/* A copy that is whole counts at once, unless the subscription is strict and READs (H-I2). */
static void judge(struct tb_source *source, bool whole, uint64_t time_ns)
{
	struct start *start = &source->start;
	const bool strict = source->subscription->options.flags & TB_STRICT;

	source->subscription->counters[SUBSCRIPTION_TORN] += !whole;
	start->whole = whole;
	start->time_ns = time_ns;
	start->waits = !whole || (strict && !source->mapping.view);
	if (!start->waits)
		find_copied(&start->find, time_ns);
}

int start_fetch(struct tb_source *source)
{
	const struct mapping *mapping = &source->mapping;
	struct record *copy = &source->record;
	uint64_t sequence, offset, found;
	int result;

	find_next(&source->start.find, &sequence);
	offset = ring_get_offset(mapping, sequence);
	if (!mapping->view)
		return fetch(source, READ_START, offset, mapping->shape.slot_bytes);
	result = record_take((const struct slot *)(const void *)(mapping->view + offset),
			     mapping->shape.slot_bytes, sequence, copy, &found,
			     mapping->checked ? &mapping->record_salt : NULL);
	judge(source, result == 0, copy->time_ns);
	return 1;
}

void start_landed(struct tb_source *source)
{
	const struct mapping *mapping = &source->mapping;
	struct record *copy = &source->record;
	uint64_t sequence;
	int result;

	find_next(&source->start.find, &sequence);
	result = record_take_landed(landing_page(source), mapping->shape.slot_bytes, sequence, copy,
				    mapping->record_salt);
	judge(source, result == 0, copy->time_ns);
}

/* The line was loaded after the copy (H-I1). */
static void copy_settle(struct start *start, const struct progress *progress)
{
	start->waits = false;
	if (start->whole && start->find.at >= progress_oldest(progress, start->find.slots))
		find_copied(&start->find, start->time_ns);
	else
		find_failed(&start->find, progress);
}

bool start_line(struct tb_source *source, const struct progress *progress)
{
	const struct tb_subscription_options *options = &source->subscription->options;
	struct start *start = &source->start;

	if (options->from != TB_FROM_TIME)
		return true;
	if (source->state == SOURCE_START) {
		start->waits = false;
		find_begin(&start->find, options->time_ns, progress, source->mapping.shape.slots);
		source->state = SOURCE_FIND;
	} else if (start->waits) {
		copy_settle(start, progress);
	}
	source->fetched_ns = 0; /* the next step follows at once */
	return !start_wants_slot(source);
}

uint64_t start_found(const struct tb_source *source)
{
	const struct find *find = &source->start.find;

	return find->low_found ? find->low : 1; /* H-I6, H-I7 */
}
