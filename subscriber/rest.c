/* SPDX-License-Identifier: Apache-2.0 */
/* Which sources may rest: those that have nothing to do before their word changes.
 *
 * Another thread or process changes that word only. Everything else that gives a source work is
 * done by this thread: in a turn, among answers, or in a call of the program. It wakes all sources
 * (L-I3), which is cheap beside a turn.
 *
 * This also bounds how long a source rests on a word that is 0. In the first lap, a slot that was
 * never written looks like a busy slot. After each turn it is looked at as a busy slot is, which
 * reads the progress line now and then (pull_view.c). Later, a busy slot does not let its source
 * rest. */
#include "subscriber/rest.h"

#include "subscriber/glance.h"
#include "subscriber/image.h"
#include "subscriber/pull_view.h"

/* L-I1. A new kind of work that needs polls of its source belongs here, unless it ends before
 * advance_poll() returns. */
static bool has_work(const struct tb_source *source)
{
	return !source->mapping.view ||               /* READs */
	       source->state < SOURCE_RUNNING ||      /* its start is not known */
	       source->has_successor ||               /* it switches to the next epoch */
	       source->look || source->invalid > 0 || /* the line is to be read */
	       source->tries > 0 ||                   /* slot `next` is copied again */
	       source->collected.held > 0 ||          /* for a batch */
	       source->hole_first != 0 ||             /* a gap is to be reported */
	       image_is_busy(source->mapping.image);
}

void rest_begin(struct tb_subscriber *subscriber, uint32_t slot)
{
	const struct tb_source *source = subscriber->table[slot];
	struct glance glance = { .word = &glance_zero };

	if (source && (source->state == SOURCE_DEAD || has_work(source)))
		return;
	if (source && source->state == SOURCE_RUNNING && source_reads_records(source) &&
	    !pull_view_glance(source, &glance))
		return;
	subscriber->glances[slot] = glance;
}
