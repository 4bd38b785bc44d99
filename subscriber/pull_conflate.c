/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers a conflated topic: walks its ring, and copies the values that have changed. conflate.c
 * has the rules.
 *
 * J-I2  Without exempt kinds nothing is read before the interval's end. The source takes no
 *       notices. A sleeper asks to be woken only while it knows of nothing new. From its first
 *       wake-up on it sleeps until the interval ends, whatever is published.
 * J-I3  The line of an interval is loaded after the interval's end, and its values after the
 *       line. A line that was requested for another reason, as after a failed copy, does not
 *       count.
 * J-I4  No record is read from the ring while values are copied. So a copy is older than the
 *       position only if it was made before the writer came to the slot (Z-I2).
 * J-I5  A reader that is behind a head that it knows is not armed: the wake would name this head,
 *       and bring no look. A walk ends at its target, although a line that it READ may have shown
 *       more. */
#include "subscriber/pull_conflate.h"

#include "bus/clock.h"
#include "bus/counters.h"
#include "subscriber/choice.h"
#include "subscriber/choice_scan.h"
#include "subscriber/conflate.h"
#include "subscriber/deliver.h"
#include "subscriber/fetch.h"
#include "subscriber/pull_read.h"
#include "subscriber/pull_view.h"
#include "subscriber/reader.h"
#include "subscriber/source.h"
#include "subscriber/value_reads.h"

#define WALK_MAX 4096 /* records that one call passes */

static bool runs_on(const struct tb_source *source)
{
	return source->state == SOURCE_RUNNING && !deliver_stopped(source);
}

bool pull_conflate_needs_no_notices(const struct tb_source *source)
{
	return source->mapping.conflate && !source->mapping.conflate->exempts;
}

bool pull_conflate_leaves_ring(const struct tb_source *source)
{
	const struct conflate *conflate = source->mapping.conflate;

	return conflate_is_active(conflate) &&
	       (!conflate->exempts || conflate->phase == CONFLATE_PASS);
}

bool pull_conflate_owes(const struct tb_source *source)
{
	return conflate_is_active(source->mapping.conflate) &&
	       conflate_owes(source->mapping.conflate);
}

/* -- the line --------------------------------------------------------------------------------- */

/* How many values the subscriber wants. */
static uint64_t values_wanted(const struct tb_source *source)
{
	const struct choice *choice = source->mapping.choice;
	const uint32_t range = source->mapping.conflate->range;
	uint64_t count = 0;

	if (!choice_scan_covers(choice, range) || !choice)
		return range;
	for (uint32_t i = 0; i < (choice->capacity + 63) / 64; i++)
		count += (uint64_t)__builtin_popcountll(choice->chosen[i]);
	return count;
}

void pull_conflate_line(struct tb_source *source, const struct progress *line)
{
	struct conflate *conflate = source->mapping.conflate;

	if (!conflate || !conflate->line_asked)
		return;
	conflate->line_asked = false;
	conflate->landed = line != NULL;
	if (line)
		conflate->line = *line;
}

/* In place. */
static void line_copy(struct tb_source *source)
{
	struct conflate *conflate = source->mapping.conflate;
	struct progress line;

	if (!pull_view_line(source, &line))
		return;
	switch (reader_look(source, &line)) {
	case READER_ENDED:
		reader_quality(source, &line);
		if (!deliver_stopped(source))
			source_end(source);
		return;
	case READER_LAPPED: /* only with exempt kinds (Z-I6) */
	case READER_STAYS:
		reader_quality(source, &line);
		break;
	}
	conflate->line = line;
	conflate->landed = true;
}

/* By READ, at a pace. */
static void line_request(struct tb_source *source)
{
	const uint64_t poll_ns = source->subscription->subscriber->poll_ns;
	const bool has_cause = source->look || source->invalid > 0;
	uint64_t pace_ns = has_cause && poll_ns > RETRY_NS ? RETRY_NS : poll_ns;

	if (source->invalid > TRIES_MAX)
		pace_ns = RETRY_NS;
	if (source->page_under_way || source->under_way > 0 || !source->mapping.remote ||
	    clock_ns() - source->fetched_ns < pace_ns)
		return;
	source->fetched_ns = clock_ns();
	source->mapping.conflate->line_asked =
		fetch(source, READ_PROGRESS, source->mapping.layout.progress,
		      sizeof(struct progress)) == 0 &&
		source->mapping.conflate->phase == CONFLATE_LINE; /* J-I3 */
}

/* Whether the topic may have something new. A publisher that was asked to wake this subscriber, and
 * has not, has nothing. */
static bool may_be_new(const struct tb_source *source)
{
	return source->mapping.view || source->look || !source->armed || source->invalid > 0 ||
	       pull_conflate_owes(source);
}

static void line_step(struct tb_source *source)
{
	struct conflate *conflate = source->mapping.conflate;

	if (!conflate->landed && !conflate->line_asked) {
		if (source->mapping.view)
			line_copy(source);
		else
			line_request(source);
	}
	if (!conflate->landed || !runs_on(source))
		return;
	conflate->landed = false;
	conflate_line(conflate, conflate->line.head, values_wanted(source), source->next - 1);
}

/* -- the walk --------------------------------------------------------------------------------- */

/* Reads the ring up to record `last`. Returns how many records were delivered, or reported. */
static int walk(struct tb_source *source, uint64_t last, int max)
{
	struct conflate *conflate = source->mapping.conflate;
	int count = 0, passed = 0;

	while (count < max && passed < WALK_MAX && source->next <= last && runs_on(source) &&
	       !conflate->jumps) {
		const uint64_t left = last - source->next + 1;
		const uint64_t quiet = conflate->quiet;
		const int room = left < (uint64_t)(max - count) ? (int)left : max - count;
		const int took =
			source->mapping.view ? pull_view(source, room) : pull_read(source, room);

		count += took - (int)(conflate->quiet - quiet);
		passed += took;
		if (took == 0)
			break;
	}
	return count;
}

static int walk_step(struct tb_source *source, int max)
{
	struct conflate *conflate = source->mapping.conflate;
	const int count = walk(source, conflate->target, max);

	if (runs_on(source) && source->next > conflate->target)
		conflate_pass_begins(conflate);
	return count;
}

/* -- the pass --------------------------------------------------------------------------------- */

/* The result of a copy. Returns 1 if its value was delivered. */
static int slot_taken(struct tb_source *source, uint32_t instrument, int result)
{
	struct conflate *conflate = source->mapping.conflate;

	if (source->mapping.names[instrument][0] && !choice_has(source, instrument)) {
		source->subscription->counters[SUBSCRIPTION_SKIPPED] +=
			conflate_forget(conflate, instrument); /* it was removed meanwhile */
		return 0;
	}
	if (result == 0)
		conflate_empty(conflate, instrument);
	return result == 1 && deliver_newest(source, &source->record);
}

static void pass_end(struct tb_source *source)
{
	struct conflate *conflate = source->mapping.conflate;

	if (!conflate_pass_ends(conflate))
		return;
	if (conflate->jumps) {
		deliver_jump(source);
		reader_quality(source, &conflate->line);
	}
	if (conflate->due_count > 0 && source->next > source->head &&
	    (source->finished || source->has_successor) && !deliver_stopped(source))
		deliver_given_up(source, source->value_reads.unread ? TB_CAUSE_OVERRUN
								    : TB_CAUSE_CORRUPT); /* Z-I9 */
}

/* A pass over all values judges every instrument first, and copies only chosen instruments. Neither
 * a change of the list nor a new instrument makes the pass wait again. */
static bool names_judged(struct tb_source *source)
{
	struct conflate *conflate = source->mapping.conflate;
	struct choice *choice = source->mapping.choice;

	if (!choice || !conflate->whole)
		return true;
	choice_scan_want(choice, conflate->range);
	if (!choice_scan_covers(choice, conflate->range))
		return false;
	if (conflate->pass_due)
		source->subscription->counters[SUBSCRIPTION_SKIPPED] +=
			conflate_leave(conflate, choice->left);
	return true;
}

static int pass_step(struct tb_source *source, int max)
{
	struct value_reads *reads = &source->value_reads;
	struct conflate *conflate = source->mapping.conflate;
	int count;

	if (!names_judged(source))
		return 0;
	if (conflate->pass_due)
		value_reads_begin(reads, conflate->due,
				  conflate->whole ? conflate->range : conflate->capacity,
				  conflate->whole); /* J-I3 */
	conflate->pass_due = false;
	count = value_reads_pass(source, max, slot_taken);
	if (!deliver_stopped(source) && value_reads_over(reads))
		pass_end(source);
	return count;
}

/* -- the interval ----------------------------------------------------------------------------- */

/* The interval's end leads to the next phase, if something may be new. */
static void interval_step(struct tb_source *source)
{
	struct conflate *conflate = source->mapping.conflate;

	if (!conflate_interval_ends(conflate, clock_ns()))
		return;
	if (!conflate->exempts && may_be_new(source))
		conflate->phase = CONFLATE_LINE;
	else if (conflate->exempts && conflate_owes(conflate))
		conflate_pass_begins(conflate);
}

int pull_conflate(struct tb_source *source, int max)
{
	struct conflate *conflate = source->mapping.conflate;
	int count = 0;

	if (!source->mapping.remote)
		return 0; /* it was lost with the connection */
	conflate->hurries |= source->has_successor;
	if (conflate->phase == CONFLATE_SLEEPS && conflate->exempts)
		count = walk(source, UINT64_MAX, max); /* J-I1 */
	else if (choice_scan_wants_line(source->mapping.choice) && !source->mapping.view)
		line_request(source);
	if (conflate->phase == CONFLATE_SLEEPS && runs_on(source))
		interval_step(source);
	if (conflate->phase == CONFLATE_LINE && runs_on(source))
		line_step(source);
	if (conflate->phase == CONFLATE_WALK && runs_on(source))
		count += walk_step(source, max - count);
	if (conflate->phase == CONFLATE_PASS && count < max && runs_on(source))
		count += pass_step(source, max - count);
	return count;
}

/* -- sleeping --------------------------------------------------------------------------------- */

/* Whether the reader knows of something that the end of the interval brings. */
static bool knows_of_news(const struct tb_source *source)
{
	return source->look || source->hint > source->head || source->invalid > 0 ||
	       source->next <= source->head /* J-I5 */ || conflate_owes(source->mapping.conflate) ||
	       (source->mapping.view && pull_view_head(source) >= source->next);
}

static struct conflate_work sleep_work(const struct tb_source *source)
{
	const struct conflate *conflate = source->mapping.conflate;
	struct conflate_work work = { .ends_ns = UINT64_MAX };

	if (conflate->exempts ? !conflate_owes(conflate) : !knows_of_news(source))
		return work;
	work.sleeps = !conflate->exempts;
	work.soon = conflate->interval_ns == 0 || conflate->hurries || source->has_successor;
	if (!work.soon)
		work.ends_ns = conflate->ends_ns; /* J-I2 */
	return work;
}

struct conflate_work pull_conflate_work(const struct tb_source *source)
{
	const struct conflate *conflate = source->mapping.conflate;
	struct conflate_work work = { .sleeps = true, .ends_ns = UINT64_MAX };
	enum value_work pass;

	if (!conflate_is_active(conflate) || source->state != SOURCE_RUNNING ||
	    !source->mapping.remote)
		return (struct conflate_work){ .ends_ns = UINT64_MAX };
	switch (conflate->phase) {
	case CONFLATE_SLEEPS:
		return sleep_work(source);
	case CONFLATE_LINE:
		work.now = source->mapping.view && source->invalid == 0;
		work.soon = !work.now && !conflate->line_asked;
		break;
	case CONFLATE_WALK:
		work.now = source->mapping.view ? source->tries == 0 : pull_read_due(source);
		work.soon = !work.now;
		break;
	case CONFLATE_PASS:
		pass = value_reads_work(source);
		work.now = conflate->pass_due || pass == VALUE_WORK_NOW;
		work.soon = pass == VALUE_WORK_SOON;
		if (conflate->whole && !choice_scan_covers(source->mapping.choice, conflate->range))
			work.now = false; /* the names come first */
		break;
	}
	return work;
}
