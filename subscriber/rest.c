/* SPDX-License-Identifier: Apache-2.0 */
/* Which sources may rest: those that have nothing to do before their word changes.
 *
 * Another thread or process changes that word only. Everything else that gives a source work is
 * done by this thread: in a turn, among answers, or in a call of the program. It wakes the source
 * (L-I3).
 *
 * Turns wake all sources now and then, which bounds how long a source rests on a word that is 0. In
 * the first lap, a slot that was never written looks like a busy slot. It is looked at as a busy
 * slot is then, which reads the progress line now and then (pull_view.c). Later, a busy slot does
 * not let its source rest. */
#include "subscriber/rest.h"

#include "subscriber/choice_scan.h"
#include "subscriber/conflate.h"
#include "subscriber/glance.h"
#include "subscriber/image.h"
#include "subscriber/pull_view.h"

/* The line of a topic that has ended is not read again. */
static bool wants_line(const struct tb_source *source)
{
	return source->state != SOURCE_ENDED && (source->look || source->invalid > 0);
}

/* L-I1. A new kind of work that needs polls of its source belongs here, unless it ends before
 * advance_poll() returns. */
static bool has_work(const struct tb_source *source)
{
	return source->has_successor ||                        /* it switches to the next epoch */
	       wants_line(source) ||                           /* the line is to be read */
	       source->collected.held > 0 ||                   /* for a batch */
	       source->subscription->merge ||                  /* it waits for other topics, too */
	       source->mapping.watch ||                        /* looks have a pace */
	       conflate_is_active(source->mapping.conflate) || /* intervals end */
	       choice_scan_work(source) != VALUE_WORK_NONE || image_is_busy(source->mapping.image);
}

/* What shows the next record. False: the source stays awake. */
static bool glance_of(const struct tb_source *source, struct glance *glance)
{
	if (source->state == SOURCE_ENDED || !source_reads_records(source))
		return true;
	return pull_view_glance(source, glance);
}

void rest_begin(struct tb_subscriber *subscriber, uint32_t slot)
{
	const struct tb_source *source = subscriber->table[slot];
	struct glance glance = { .word = &glance_zero };

	if (source && (subscriber->ops->network || !source->mapping.view))
		return; /* READs and notices come in any poll */
	if (source && source->state != SOURCE_RUNNING && source->state != SOURCE_ENDED)
		return; /* its start is not known, or it was left */
	if (source && (has_work(source) || !glance_of(source, &glance)))
		return;
	subscriber->glances[slot] = glance;
}
