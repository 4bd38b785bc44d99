/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers the records of several topics of a group in the order (time_ns, topic id, sequence).
 *
 * A merge buffers nothing. Each topic has at most one proven copy, of its next record. A topic that
 * is ahead is not read further, and its ring keeps the records. The copies of all topics lie in a
 * heap. The lowest topic is read until its next record comes after the second lowest, or after T.
 *
 * MG5  The lowest copy is delivered if its time is <= T. A topic without a copy has no record up
 *      to T left: its line counts them all, and its position is beyond the line's head. A topic
 *      whose next record is counted but was not copied yet holds all back.
 * MG6  After each record, and before a record of another topic, the next record of the same topic
 *      is looked at. So a gap is reported before its next record, and before any later record of
 *      another topic.
 *      A record without a stamp has no place in the order, and a record behind the last that was
 *      delivered comes too late for it. Only a hostile publisher writes them. They count as failed
 *      copies, so they are reported as corrupt.
 * MG7  A restarted topic switches to its next epoch when the old epoch was merged to its head. It
 *      holds T until a line of the next epoch is read.
 * MG8  With a new publisher or a new era all old rings are merged to their heads, whatever their
 *      W. Then the merge begins again with T = 0, when all topics have switched.
 * MG9  An image is complete at a time t between two stamps. Everything up to t was delivered, and
 *      nothing above t. No copy of a value has a later time than t. */
#include "subscriber/merge.h"

#include <errno.h>
#include <stdio.h>

#include "bus/clock.h"
#include "subscriber/advance.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/image.h"
#include "subscriber/merge_state.h"
#include "subscriber/pull_image.h"
#include "subscriber/pull_read.h"
#include "subscriber/pull_view.h"
#include "subscriber/source.h"

static bool stopped(const struct tb_subscription *subscription)
{
	return subscription->closing || subscription->subscriber->closing;
}

/* -- the heap --------------------------------------------------------------------------------- */

static bool comes_before(const struct merge_place *a, const struct merge_place *b)
{
	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->topic_id < b->topic_id);
}

static void place_add(struct merge *merge, struct tb_source *source)
{
	const struct merge_place added = { source->record.time_ns, source->mapping.shape.topic_id,
					   source };
	uint32_t at = merge->count++;

	for (; at > 0 && comes_before(&added, &merge->place[(at - 1) / 2]); at = (at - 1) / 2)
		merge->place[at] = merge->place[(at - 1) / 2];
	merge->place[at] = added;
}

/* The first place was changed. */
static void first_sink(struct merge *merge)
{
	const struct merge_place sinking = merge->place[0];
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < merge->count) {
		if (child + 1 < merge->count &&
		    comes_before(&merge->place[child + 1], &merge->place[child]))
			child++;
		if (!comes_before(&merge->place[child], &sinking))
			break;
		merge->place[at] = merge->place[child];
		at = child;
	}
	merge->place[at] = sinking;
}

static void first_remove(struct merge *merge)
{
	merge->place[0] = merge->place[--merge->count];
	if (merge->count > 1)
		first_sink(merge);
}

/* Up to when the first topic may be read: before the second, and up to T. */
static uint64_t first_limit(const struct merge *merge)
{
	const struct merge_place *first = &merge->place[0], *second = &merge->place[1];
	uint64_t limit_ns = merge->limit_ns, before_ns;

	if (merge->count < 2)
		return limit_ns;
	if (merge->count > 2 && comes_before(&merge->place[2], second))
		second = &merge->place[2];
	before_ns = first->topic_id < second->topic_id ? second->time_ns : second->time_ns - 1;
	return before_ns < limit_ns ? before_ns : limit_ns;
}

/* -- topics ----------------------------------------------------------------------------------- */

static bool reads_on(const struct tb_source *source)
{
	return merge_state_has(source) && source->state == SOURCE_RUNNING;
}

/* What comes before it is too late for the order (MG6). At the same time, topics come by id. */
static uint64_t floor_of(const struct merge *merge, uint32_t topic_id)
{
	const uint64_t floor_ns = merge->last_ns + (topic_id < merge->last_topic);

	return floor_ns > 0 ? floor_ns : 1; /* a stamp is never 0 */
}

/* Delivers records up to limit_ns, at most max, and looks at the next (MG6). */
static int topic_pull(struct tb_source *source, int max, uint64_t limit_ns)
{
	source->floor_ns = floor_of(source->subscription->merge, source->mapping.shape.topic_id);
	source->limit_ns = limit_ns;
	return source->mapping.view ? pull_view_merged(source, max) : pull_read(source, max);
}

/* Whether nothing of its memory is to be merged any more. */
static bool topic_is_drained(const struct tb_source *source)
{
	return !source->held && advance_drained(source);
}

/* Whether the rest of an older era, which is final, comes with a new connection. Mapped memory has
 * it already. */
static bool comes_back(const struct tb_source *source)
{
	return source->orphan && !source->mapping.view && !source->has_successor &&
	       !source->leaving && merge_state_is_older(source);
}

/* MG7, MG8. A topic that takes no part switches at once. So does a topic that came to an era when
 * the group had left it again: nothing of it can be merged. */
static bool switch_due(const struct tb_source *source)
{
	if (!source->has_successor)
		return false;
	if (!merge_state_has(source) || merge_state_is_late(source))
		return source->under_way == 0;
	return !source->subscription->merge->draining && !source->leaving &&
	       topic_is_drained(source);
}

/* Moves a topic on and learns of its next record, without delivering any. */
static void topic_step(struct tb_source *source)
{
	if (switch_due(source)) {
		advance_switch(source);
		return;
	}
	if (source->left && source->state == SOURCE_RUNNING && !merge_state_is_away(source))
		source->state = SOURCE_START; /* its memory was never lost: it joins again */
	if (source_is_settling(source))
		advance_settle(source);
	if (!reads_on(source))
		return;
	if (!source->mapping.view)
		topic_pull(source, 1, 0);
	else if (source->look)
		pull_view_look(source);
	advance_names(source);
}

/* The topic may come back, and joins again then. */
static void topic_leave(struct tb_source *source)
{
	const int code = source->leaving_code;
	char text[128];

	deliver_holes(source);
	pull_read_drop(source);
	if (source->mapping.image)
		image_completes(source->mapping.image);
	source->left = true;
	source->leaving = source->look = false;
	snprintf(text, sizeof(text),
		 code == ETIMEDOUT ? "topic %s: it did not come back within %u ms; the merge goes "
				     "on without it"
				   : "topic %s: its next epoch was refused; the merge goes on "
				     "without it",
		 source->name, source->subscription->subscriber->stale_ms);
	if (!deliver_stopped(source))
		deliver_left(source, code, text);
}

/* Its memory was merged to its head. Or it cannot be read over a network, for another stale bound.
 * Mapped memory can always be read: a program that polls rarely gets all of it. */
static bool leave_due(const struct tb_source *source)
{
	const struct merge *merge = source->subscription->merge;
	const uint32_t stale_ms = source->subscription->subscriber->stale_ms;

	if (!source->leaving || !merge_state_has(source))
		return false;
	if (merge->all_over && source->held && source->record.time_ns > merge->limit_ns)
		return true;
	return topic_is_drained(source) || (!source->mapping.view && source->away_ms != 0 &&
					    clock_coarse_ms() - source->away_ms >= 2 * stale_ms);
}

/* -- the whole merge -------------------------------------------------------------------------- */

/* T cannot rise before each line that bounds it has changed. So a single look at any of them shows
 * whether all lines are to be read. */
static void lines_look(struct tb_subscription *subscription)
{
	struct tb_source *s = subscription->sources;

	while (s && !(reads_on(s) && s->mapping.view && merge_state_limits(s)))
		s = s->next_source;
	if (!s || !pull_view_moved(s))
		return;
	for (s = subscription->sources; s && !stopped(subscription); s = s->next_source)
		if (reads_on(s) && s->mapping.view)
			pull_view_look(s);
}

static void topics_step(struct tb_subscription *subscription)
{
	struct merge *merge = subscription->merge;

	merge->news = false;
	for (const struct tb_source *s = subscription->sources; s; s = s->next_source)
		merge->news |= merge_state_has(s) && (s->look || s->hint > s->head);
	for (struct tb_source *s = subscription->sources; s && !stopped(subscription);
	     s = s->next_source)
		if (s->state != SOURCE_DEAD)
			topic_step(s);
	if (merge->begun && !stopped(subscription))
		lines_look(subscription);
}

static void image_end(struct tb_source *source)
{
	image_completes(source->mapping.image);
	deliver_holes(source);
	deliver_detour(source);
}

/* A topic that has ended waits for its image, and a merge that drains makes no cut. So all of its
 * records are merged, and its image ends without a cut. */
static void images_drop(struct tb_subscription *subscription)
{
	for (struct tb_source *s = subscription->sources; s && !stopped(subscription);
	     s = s->next_source)
		if (merge_state_has(s) && s->finished && !s->has_successor && !s->held &&
		    s->next > s->head && image_is_busy(s->mapping.image))
			image_end(s);
}

/* MG8 */
static void drain_end(struct tb_subscription *subscription)
{
	struct merge *merge = subscription->merge;

	for (const struct tb_source *s = subscription->sources; s; s = s->next_source)
		if (merge_state_has(s) && (!topic_is_drained(s) || comes_back(s)))
			return;
	for (struct tb_source *s = subscription->sources; s; s = s->next_source)
		s->skip_ns = s->complete_ns = 0;
	merge->begun = merge->draining = merge->completed = false;
	merge->time_ns = merge->newest_ns = merge->last_ns = merge->lag_ms = 0;
}

/* Whether each topic of the catalogue was joined, refused or left out. */
static bool may_begin(const struct tb_subscription *subscription)
{
	bool any = false;

	if (subscription->discover ||
	    subscription->subscriber->discovery.subscription == subscription)
		return false;
	for (const struct tb_source *s = subscription->sources; s; s = s->next_source) {
		if (s->state >= SOURCE_ENDED || s->left)
			continue;
		if (s->state != SOURCE_RUNNING || s->orphan ||
		    (s->has_successor && topic_is_drained(s)) ||
		    (merge_state_is_older(s) && !s->finished))
			return false; /* it is joined soon */
		any = true;
	}
	return any;
}

/* With a new publisher, a merge that had not begun drains the old rings at once. */
static void drain_begin(const struct tb_subscription *subscription)
{
	struct merge *merge = subscription->merge;
	bool any = false;

	for (const struct tb_source *s = subscription->sources; s; s = s->next_source)
		any |= merge_state_has(s);
	merge->begun = merge->draining = any;
}

/* Returns whether records may be merged. */
static bool merge_step(struct tb_subscription *subscription)
{
	struct merge *merge = subscription->merge;

	topics_step(subscription);
	merge_state_update(subscription);
	for (struct tb_source *s = subscription->sources;
	     merge->leaves && s && !stopped(subscription); s = s->next_source)
		if (leave_due(s))
			topic_leave(s);
	if (stopped(subscription))
		return false;
	if (merge->draining && merge->begun) {
		images_drop(subscription);
		if (stopped(subscription))
			return false;
		drain_end(subscription);
	}
	if (!merge->begun && merge->draining)
		drain_begin(subscription);
	if (!merge->begun && may_begin(subscription)) {
		merge->begun = true;
		merge_state_update(subscription);
	}
	return merge->begun;
}

/* Whether a last line has yet to say if the topic has a next record. */
static bool awaits_line(const struct tb_source *source)
{
	return source->lines_owed > 0 && !source->held && source->next > source->head &&
	       source->subscription->merge->draining && connection_may_read(source) &&
	       !advance_drained(source);
}

/* Whether a record of the topic that is not here may be next (MG5, MG8). */
static bool holds_back(const struct tb_source *source)
{
	if (awaits_line(source) || comes_back(source))
		return true;
	return source->next <= source->head &&
	       !(merge_state_is_over(source) && advance_drained(source));
}

/* Looks at the next record of each topic. False: not all are known yet. */
static bool places_find(struct tb_subscription *subscription)
{
	struct merge *merge = subscription->merge;

	merge->count = 0;
	merge->waits_for = NULL;
	for (struct tb_source *s = subscription->sources; s; s = s->next_source) {
		if (reads_on(s) && s->mapping.view && !s->held && s->next <= s->head)
			topic_pull(s, 1, 0);
		if (stopped(subscription))
			return false;
		if (!merge_state_has(s))
			continue;
		if (s->held) {
			place_add(merge, s);
		} else if (holds_back(s)) {
			merge->waits_for = s;
			return false;
		}
	}
	return true;
}

/* -- images ----------------------------------------------------------------------------------- */

static bool is_imaged(const struct tb_source *source)
{
	return reads_on(source) && image_is_busy(source->mapping.image);
}

/* The image of a topic whose connection is made again is not over. */
static bool has_image_open(const struct tb_source *source)
{
	return merge_state_has(source) && image_is_busy(source->mapping.image);
}

static bool images_are_made(const struct tb_subscription *subscription)
{
	if (!image_is_wanted(&subscription->options))
		return false;
	for (const struct tb_source *s = subscription->sources; s; s = s->next_source)
		if (is_imaged(s))
			return true;
	return false;
}

static int images_pull(struct tb_subscription *subscription, int max)
{
	int count = 0;

	for (struct tb_source *s = subscription->sources;
	     s && count < max && !stopped(subscription); s = s->next_source)
		if (is_imaged(s))
			count += pull_image(s, max - count);
	return count;
}

/* MG9. The first images of all topics are complete together; that of a topic which joins later is
 * on its own. */
static void cut_report(struct tb_subscription *subscription, uint64_t time_ns)
{
	struct merge *merge = subscription->merge;
	bool whole = !merge->completed;

	for (struct tb_source *s = subscription->sources; s; s = s->next_source)
		whole &= !has_image_open(s) ||
			 (is_imaged(s) && image_allows_cut(s->mapping.image, time_ns));
	if (!merge->completed && !whole)
		return;
	for (struct tb_source *s = subscription->sources; s && !stopped(subscription);
	     s = s->next_source) {
		if (!is_imaged(s) || !image_allows_cut(s->mapping.image, time_ns))
			continue;
		image_end(s);
		if (merge->completed && !deliver_stopped(s))
			deliver_cut(subscription, s, time_ns);
	}
	if (!whole || stopped(subscription))
		return;
	merge->completed = true;
	deliver_cut(subscription, NULL, time_ns);
}

/* Everything before the first place was delivered, and everything up to T. */
static void cut_look(struct tb_subscription *subscription)
{
	const struct merge *merge = subscription->merge;
	uint64_t time_ns = merge->time_ns;

	if (merge->count > 0 && merge->place[0].time_ns <= time_ns)
		time_ns = merge->place[0].time_ns - 1;
	if (!merge->draining && time_ns >= merge->last_ns)
		cut_report(subscription, time_ns);
}

/* -- records ---------------------------------------------------------------------------------- */

/* Delivers from the lowest topic. Returns how many, 0 if it cannot go on now. */
static int first_deliver(struct tb_subscription *subscription, int max)
{
	struct merge *merge = subscription->merge;
	struct tb_source *source = merge->place[0].source;
	const uint32_t topic_id = merge->place[0].topic_id;
	int count;

	if (!reads_on(source))
		return 0;
	source->passed_ns = 0;
	count = topic_pull(source, max, first_limit(merge));
	if (count > 0 && source->passed_ns != 0) {
		merge->last_ns = source->passed_ns;
		merge->last_topic = topic_id;
	}
	if (stopped(subscription))
		return count;
	if (source->held) {
		merge->place[0].time_ns = source->record.time_ns;
		first_sink(merge);
	} else {
		first_remove(merge);
	}
	return count;
}

/* Whether a topic that is not in the heap has a record that is counted. */
static bool is_unknown(const struct tb_source *source)
{
	return merge_state_has(source) && !source->held &&
	       (source->next <= source->head || awaits_line(source));
}

static int records_merge(struct tb_subscription *subscription, int max, bool imaged)
{
	struct merge *merge = subscription->merge;
	struct tb_source *source;
	int count = 0, delivered;

	merge->work = MERGE_WORK_SOON;
	if (!places_find(subscription))
		return 0;
	while (count < max && merge->count > 0 && merge->place[0].time_ns <= merge->limit_ns) {
		if (imaged)
			cut_look(subscription);
		if (stopped(subscription))
			return count;
		source = merge->place[0].source;
		delivered = first_deliver(subscription, max - count);
		count += delivered;
		if (stopped(subscription) || delivered == 0 || is_unknown(source))
			return count;
	}
	/* A topic that holds T back has a newer line: its flush was under way. Else the next flush
	 * wakes. */
	if (count < max && merge->newest_ns <= merge->time_ns)
		merge->work = MERGE_WORK_NONE;
	if (imaged)
		cut_look(subscription);
	return count;
}

static bool is_stale(const struct tb_subscription *subscription)
{
	for (const struct tb_source *s = subscription->sources; s; s = s->next_source)
		if (merge_state_has(s) && s->stale)
			return true;
	return false;
}

/* Whether nothing has happened since the last poll, which left nothing undone. In place that is
 * cheap to see: T cannot rise before the first line that bounds it has another W. */
static bool is_idle(const struct tb_subscription *subscription)
{
	const struct tb_source *bound = NULL;

	for (const struct tb_source *s = subscription->sources; s; s = s->next_source) {
		if (s->look || s->has_successor || s->entry_lost_ms != 0 || s->mapping.choice)
			return false;
		if (s->state >= SOURCE_ENDED)
			continue;
		if (s->state != SOURCE_RUNNING || s->orphan || s->leaving || !s->mapping.view)
			return false;
		if (!bound && !s->left && s->complete_ns <= subscription->merge->time_ns)
			bound = s;
	}
	return bound && !pull_view_moved(bound);
}

int merge_poll(struct tb_subscription *subscription, int max)
{
	struct merge *merge = subscription->merge;
	int count = 0;
	bool imaged;

	if (merge->round == subscription->subscriber->rounds)
		return 0;
	merge->round = subscription->subscriber->rounds;
	if (merge->rests && is_idle(subscription))
		return 0;
	merge->rests = false;
	merge->work = MERGE_WORK_NONE;
	merge->waits_for = NULL;
	if (!merge_step(subscription))
		return 0;
	imaged = images_are_made(subscription);
	merge->image_first = imaged && max == 1 && !merge->image_first;
	if (merge->image_first)
		count = images_pull(subscription, max);
	if (count < max && !stopped(subscription))
		count += records_merge(subscription, imaged ? (max - count + 1) / 2 : max, imaged);
	if (imaged && count < max && !merge->image_first)
		count += images_pull(subscription, max - count);
	merge->rests = !imaged && merge->work == MERGE_WORK_NONE;
	if (count > 0)
		merge->work = MERGE_WORK_NOW;
	else if (merge->work == MERGE_WORK_SOON && !stopped(subscription) && is_stale(subscription))
		merge->work = MERGE_WORK_NONE;
	return count;
}
