/* SPDX-License-Identifier: Apache-2.0 */
/* How far a merge may go. W is the time in a topic's progress line: all records of the topic up to
 * W are counted by that line's head.
 *
 * MG1  T is the least W of the topics that take part. So each topic's line counts all its records
 *      up to T. An ended or leaving topic no longer bounds T.
 * MG2  T never goes back. A topic joins when its line has W >= T. Its records up to T are skipped.
 * MG3  All topics are of one group of one publisher, in one era. Stamps of two groups or eras have
 *      no common order. A group begins a new era in all its topics at once. So when one of them
 *      shows it, the memory of the era before is final, as that of a publisher that is gone.
 * MG4  A topic holds T back for a bounded time. If its line stands still while others moved, it is
 *      reported stale. If it has no present memory for the stale bound, it leaves. */
#include "subscriber/merge_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"

struct merge *merge_state_new(uint32_t topics_max)
{
	return calloc(1, sizeof(struct merge) + topics_max * sizeof(struct merge_place));
}

/* -- the group -------------------------------------------------------------------------------- */

void merge_state_catalogue(struct tb_subscription *subscription)
{
	if (!subscription->merge)
		return;
	subscription->merge->free = true;
	for (const struct tb_source *s = subscription->sources; s; s = s->next_source)
		if (s->state < SOURCE_ENDED || s->has_successor)
			subscription->merge->free = false;
}

/* The first topic decides, also for a new publisher: groups are numbered by each of its own. Or the
 * group has begun a new era. */
static void group_take(struct tb_subscription *subscription, const struct control_topic *topic)
{
	struct merge *merge = subscription->merge;

	if (merge->free) {
		merge->begun = merge->completed = merge->draining = false;
		merge->time_ns = merge->newest_ns = merge->last_ns = 0;
	} else {
		merge->draining = true;
		/* Each old topic is merged up to the head of a line that is read from now on. */
		for (struct tb_source *s = subscription->sources; s; s = s->next_source) {
			s->lines_owed = s->page_under_way ? 2 : 1;
			s->look = true;
		}
	}
	merge->free = false;
	merge->group = topic->shape.group;
	merge->bus_id = subscription->subscriber->welcome.bus_id;
	memcpy(merge->group_of, topic->name, sizeof(merge->group_of));
}

static bool is_of_group(const struct merge *merge, uint32_t group)
{
	return region_group_number(group) == region_group_number(merge->group);
}

bool merge_state_is_older(const struct tb_source *source)
{
	const struct merge *merge = source->subscription->merge;

	return merge && is_of_group(merge, source->mapping.shape.group) &&
	       source->mapping.shape.group < merge->group;
}

bool merge_state_is_late(const struct tb_source *source)
{
	return merge_state_is_older(source) && !source->subscription->merge->draining;
}

int merge_state_refuse(const struct tb_source *source)
{
	return error_set(EINVAL,
			 "topic %s: it ended before the times of its group began again, so it has "
			 "no place in a merge",
			 source->name);
}

int merge_state_fits(struct tb_subscription *subscription, const struct control_topic *topic)
{
	struct merge *merge = subscription->merge;
	const bool new_bus = merge && merge->bus_id != subscription->subscriber->welcome.bus_id;
	const uint32_t group = topic->shape.group;

	if (!merge)
		return 0;
	if (group == 0)
		return error_set(EOPNOTSUPP,
				 "topic %s: found no group, expected a topic of a group, for a "
				 "merge",
				 topic->name);
	if (!new_bus && is_of_group(merge, group) && group < merge->group)
		return 0; /* it ended, or its next epoch comes soon */
	if (new_bus || (merge->free && merge->group != group) ||
	    (is_of_group(merge, group) && group > merge->group)) {
		group_take(subscription, topic);
		return 0;
	}
	merge->free = false;
	if (!is_of_group(merge, group)) /* MG3 */
		return error_set(EINVAL,
				 "topic %s: found group %u, expected group %u of topic %s: a merge "
				 "has topics of one group",
				 topic->name, region_group_number(group),
				 region_group_number(merge->group), merge->group_of);
	return 0;
}

/* -- T ---------------------------------------------------------------------------------------- */

void merge_state_line(struct tb_source *source, const struct progress *line)
{
	if (line->complete_ns > source->complete_ns && !source->leaving)
		source->away_ms = 0;
	if (source->subscription->merge)
		source->subscription->merge->rests = false;
	if (source->lines_owed > 0)
		source->lines_owed--;
	source->complete_ns = line->complete_ns;
	source->finished = line->state == TOPIC_ENDED;
}

bool merge_state_may_start(struct tb_source *source, const struct progress *line)
{
	const struct merge *merge = source->subscription->merge;

	/* The W of a topic that has ended rises no more, and no record of it is above that W. */
	if (merge->draining || (line->complete_ns < merge->time_ns && line->state != TOPIC_ENDED))
		return false;
	source->skip_ns = merge->time_ns;
	return true;
}

void merge_state_refused(struct tb_source *source, int code)
{
	if (!merge_state_has(source) || source->leaving)
		return;
	source->leaving = source->look = true; /* its last line says where its memory ends */
	source->leaving_code = code;
}

bool merge_state_limits(const struct tb_source *source)
{
	const struct merge *merge = source->subscription->merge;

	return merge && merge_state_has(source) && !merge_state_is_over(source) &&
	       source->complete_ns <= merge->time_ns;
}

bool merge_state_needs_line(const struct tb_source *source)
{
	return merge_state_limits(source) &&
	       !(source->held && source->record.time_ns <= source->subscription->merge->limit_ns);
}

bool merge_state_wants_line(const struct tb_source *source)
{
	const struct merge *merge = source->subscription->merge;

	return merge_state_needs_line(source) &&
	       (merge->news || source->complete_ns < merge->newest_ns);
}

/* As in pulse.c: three quarters of the stale bound, since a standstill is seen late. */
static bool bound_passed(const struct tb_subscriber *subscriber, uint64_t since_ms, uint64_t now_ms)
{
	return now_ms - since_ms >= subscriber->stale_ms - subscriber->stale_ms / 4;
}

bool merge_state_lags(const struct tb_source *source)
{
	const struct merge *merge = source->subscription->merge;

	return merge && merge->lag_ms != 0 && merge_state_limits(source) &&
	       source->complete_ns < merge->newest_ns &&
	       bound_passed(source->subscription->subscriber, merge->lag_ms, clock_coarse_ms());
}

bool merge_state_is_past(const struct tb_source *source)
{
	const struct merge *merge = source->subscription->merge;

	return merge && (!merge_state_has(source) || merge->time_ns > source->complete_ns);
}

bool merge_state_is_away(const struct tb_source *source)
{
	return source->orphan || source->has_successor || source->entry_lost_ms != 0 ||
	       source->state != SOURCE_RUNNING;
}

/* The time counts while there is a connection. A topic that is leaving does not bound T any more.
 * So it leaves in any case, even if it is back meanwhile, and then joins again at T. Its time away
 * bounds how long the merge waits for memory that may not be READ any more. */
static void away_judge(struct tb_source *source)
{
	const struct tb_subscriber *subscriber = source->subscription->subscriber;

	if (source->leaving) {
		if (source->away_ms == 0 && merge_state_is_away(source))
			source->away_ms = clock_coarse_ms();
		return;
	}
	if (!subscriber->welcomed || !merge_state_is_away(source)) {
		source->away_ms = 0;
		return;
	}
	if (source->away_ms == 0)
		source->away_ms = clock_coarse_ms();
	if (!bound_passed(subscriber, source->away_ms, clock_coarse_ms()))
		return;
	source->leaving = source->look = true; /* MG4 */
	source->leaving_code = ETIMEDOUT;
}

void merge_state_update(struct tb_subscription *subscription)
{
	struct merge *merge = subscription->merge;
	const bool dead = merge->bus_id != subscription->subscriber->welcome.bus_id;
	uint64_t least = UINT64_MAX, newest = 0;
	bool any = false;

	merge->leaves = false;
	for (struct tb_source *s = subscription->sources; s; s = s->next_source) {
		if (!merge_state_has(s))
			continue;
		away_judge(s);
		merge->leaves |= s->leaving;
		any = true;
		if (s->complete_ns > newest && !merge_state_is_late(s))
			newest = s->complete_ns;
		if (!merge_state_is_over(s) && s->complete_ns < least)
			least = s->complete_ns;
	}
	if (!any) { /* no topic waits for another */
		merge->newest_ns = merge->time_ns;
		merge->lag_ms = 0;
	}
	if (!any || !merge->begun)
		return;
	merge->newest_ns = newest;
	/* Nothing more comes from any of them. The memory of a publisher that is gone is final.
	 * Else what lies above the newest W belongs to no message that was over. */
	merge->limit_ns = merge->draining || dead ? UINT64_MAX : newest;
	merge->all_over = least == UINT64_MAX;
	if (merge->all_over)
		least = newest;
	else
		merge->limit_ns = least > merge->time_ns ? least : merge->time_ns;
	if (least > merge->time_ns) {
		merge->time_ns = least; /* MG1, MG2 */
		merge->lag_ms = 0;
	}
	if (newest <= merge->time_ns)
		merge->lag_ms = 0;
	else if (merge->lag_ms == 0)
		merge->lag_ms = clock_coarse_ms();
}
