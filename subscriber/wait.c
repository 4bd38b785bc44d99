/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeps until there is work. Work that is pending already is never slept over. */
#include "subscriber/wait.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>

#include "bus/clock.h"
#include "bus/control.h"
#include "bus/error.h"
#include "subscriber/advance.h"
#include "subscriber/call.h"
#include "subscriber/choice_scan.h"
#include "subscriber/connection.h"
#include "subscriber/merge_state.h"
#include "subscriber/notices.h"
#include "subscriber/pull_conflate.h"
#include "subscriber/pull_image.h"
#include "subscriber/pull_read.h"
#include "subscriber/pull_watch.h"
#include "subscriber/turn.h"

#define SOON_MS   1
#define SOON_GROW 4 /* times that the pause for what is due soon doubles, while nothing comes */

/* A subscription may begin at a record that is not written yet. The publisher refuses to be armed
 * beyond the records that it has reserved. */
static uint64_t arm_head(const struct tb_source *source)
{
	if (source->subscription->merge && source->next <= source->head)
		return source->head; /* these records wait for other topics */
	if (source->next > source->started || source->next - 1 < source->head)
		return source->next - 1;
	return source->head;
}

/* Whether a watch list has values to look at, later. Its position is behind the head meanwhile, so
 * the publisher would wake us at once. */
static bool values_wait(const struct tb_source *source)
{
	return source->mapping.watch && pull_watch_due_ns(source) != UINT64_MAX;
}

/* Asks the publisher for a wake-up beyond the position in each topic, unless notices arrive. Not
 * while a line is invalid: the publisher would wake us at once for records that we cannot read. */
static void arm_all(struct tb_subscriber *subscriber)
{
	for (uint32_t i = 0; i < subscriber->topics_max; i++) {
		struct tb_source *source = subscriber->table[i];
		struct control_message arm = { .type = CONTROL_ARM };

		if (!source || source->armed || source->orphan || source->state != SOURCE_RUNNING ||
		    source->invalid > 0 || notices_alive(source) || !source_follows(source) ||
		    values_wait(source) || pull_conflate_work(source).sleeps)
			continue;
		arm.topic.topic_id = source->mapping.shape.topic_id;
		arm.topic.epoch = source->mapping.shape.epoch;
		arm.topic.head = arm_head(source);
		if (connection_send(subscriber, &arm) == 0)
			source->armed = true;
	}
}

/* Work that a sleeper would miss. Unfinished work is tried again soon, but not in a tight loop. A
 * record that fails its copies is given up after TRIES_MAX of them: their pauses do not grow. */
enum pending { PENDING_NOTHING, PENDING_SOON, PENDING_AGAIN, PENDING_NOW };

static bool unfinished(const struct tb_source *source)
{
	return source->state == SOURCE_RUNNING && !pull_conflate_leaves_ring(source) &&
	       (source->look || source->invalid > 0 ||
		(source->hint > source->head && !pull_watch_holds(source)));
}

/* Records of the ring that a READ would bring, or has brought. */
static bool records_due(const struct tb_source *source)
{
	return !source->mapping.view && source_reads_records(source) &&
	       !pull_conflate_leaves_ring(source) && pull_read_due(source);
}

/* Whether polls look at the next record of the ring. In a merge they look no further than the topic
 * that holds it back. */
static bool is_read(const struct tb_source *source)
{
	const struct merge *merge = source->subscription->merge;

	if (merge)
		return merge->waits_for == source && !source->held;
	return source_reads_records(source) && !pull_conflate_leaves_ring(source);
}

/* Whether the next record in place is counted, and the last poll brought no copy of it. It comes,
 * or it is given up: each look at it is a try. */
static bool tries_in_place(const struct tb_source *source)
{
	return source->mapping.view && source->state == SOURCE_RUNNING && source->invalid == 0 &&
	       source->next <= source->head && is_read(source);
}

/* Whether a READ failed its copy, and a valid line decides what follows. */
static bool copy_is_judged(const struct tb_source *source)
{
	return source->state == SOURCE_RUNNING && source->copy_failed && source->invalid == 0 &&
	       !source->orphan && connection_may_read(source);
}

static bool is_soon(const struct tb_source *source, enum value_work image, enum value_work names,
		    bool conflate)
{
	return source->has_successor || image == VALUE_WORK_SOON || names == VALUE_WORK_SOON ||
	       conflate ||
	       (!source->orphan && (source->state < SOURCE_RUNNING || unfinished(source)));
}

/* *ends_ns: the first look of a watch list, or end of an interval, that brings something; 0: there
 * is none. */
static enum pending work_pending(const struct tb_subscriber *subscriber, uint64_t *ends_ns)
{
	enum pending found = subscriber->leaves_owed ? PENDING_SOON : PENDING_NOTHING;
	enum value_work image, names;
	struct conflate_work conflate;
	uint64_t due_ns;

	*ends_ns = 0;
	if (subscriber->completions.count > 0)
		return PENDING_NOW; /* the link does not report them again */
	for (const struct tb_subscription *s = subscriber->subscriptions; s;
	     s = s->next_subscription) {
		if (!s->merge || !s->sources || s->closing)
			continue;
		if (s->merge->work == MERGE_WORK_NOW)
			return PENDING_NOW;
		if (s->merge->work == MERGE_WORK_SOON)
			found = PENDING_SOON;
	}
	for (uint32_t i = 0; i < subscriber->table_used; i++) {
		const struct tb_source *source = subscriber->table[i];

		if (!source || source->state == SOURCE_DEAD ||
		    (source->left && !source->has_successor))
			continue;
		image = pull_image_work(source);
		conflate = pull_conflate_work(source);
		names = choice_scan_work(source);
		due_ns = source->mapping.watch ? pull_watch_due_ns(source) : conflate.ends_ns;
		if (image == VALUE_WORK_NOW || names == VALUE_WORK_NOW || conflate.now ||
		    due_ns == 0 || records_due(source) || tries_in_place(source))
			return PENDING_NOW;
		if (due_ns != UINT64_MAX && (*ends_ns == 0 || due_ns < *ends_ns))
			*ends_ns = due_ns;
		if (copy_is_judged(source))
			found = PENDING_AGAIN;
		else if (found != PENDING_AGAIN && is_soon(source, image, names, conflate.soon))
			found = PENDING_SOON;
	}
	return found;
}

/* Takes a nap instead of a sleep, if that is worth it and nothing is pending that a poll would do
 * now. What is due soon is due later than the nap. Not over a network, where a look is a READ. */
static bool nap_prepare(struct tb_subscriber *subscriber)
{
	uint64_t now_ns, until_ns, ends_ns;

	if (subscriber->ops->network)
		return false;
	now_ns = clock_ns();
	until_ns = nap_take(&subscriber->nap, now_ns);
	if (until_ns == 0)
		return false;
	if (work_pending(subscriber, &ends_ns) == PENDING_NOW ||
	    (ends_ns != 0 && ends_ns < until_ns)) {
		subscriber->nap.until_ns = 0;
		return false;
	}
	turn_timer_set(subscriber, (long)(until_ns - now_ns));
	return true;
}

/* While joins are outstanding, their answers come first: an arm for each topic would queue in front
 * of the next joins. Records are looked for soon meanwhile. */
static enum pending sleep_prepare(struct tb_subscriber *subscriber, bool may_nap)
{
	enum pending pending;
	uint64_t ends_ns, now_ns;

	subscriber->nap.until_ns = 0;
	if (subscriber->discovery.outstanding > 0)
		return PENDING_SOON;
	if (may_nap && nap_prepare(subscriber))
		return PENDING_NOTHING;
	arm_all(subscriber);
	pending = work_pending(subscriber, &ends_ns);
	if (pending == PENDING_AGAIN) {
		subscriber->soon = 0;
		return PENDING_SOON;
	}
	if (pending != PENDING_NOTHING || ends_ns == 0)
		return pending;
	now_ns = clock_ns();
	if (ends_ns <= now_ns)
		return PENDING_NOW;
	turn_timer_set(subscriber, (long)(ends_ns - now_ns));
	return PENDING_NOTHING;
}

/* The pause before unfinished work is tried again. It doubles while nothing comes, so a publisher
 * that hangs does not keep its subscribers busy. */
static int soon_ms(struct tb_subscriber *subscriber)
{
	if (!subscriber->quiet)
		subscriber->soon = 0;
	return SOON_MS << subscriber->soon;
}

static void soon_passed(struct tb_subscriber *subscriber)
{
	if (subscriber->soon < SOON_GROW)
		subscriber->soon++;
}

void wait_prepare(struct tb_subscriber *subscriber)
{
	const enum pending pending = sleep_prepare(subscriber, true);

	if (pending == PENDING_NOW ||
	    (subscriber->link && subscriber->ops->sleep(subscriber->link) != 0))
		turn_timer_set(subscriber, 1);
	else if (pending == PENDING_SOON)
		turn_timer_set(subscriber, soon_ms(subscriber) * 1000000L);
	if (pending == PENDING_SOON)
		soon_passed(subscriber);
	else
		subscriber->soon = 0;
	subscriber->woken = subscriber->nap.until_ns == 0;
}

static int wait_link(struct tb_subscriber *subscriber, int timeout_ms)
{
	struct epoll_event event;
	int count;

	if (subscriber->link && subscriber->ops->sleep(subscriber->link) != 0)
		return 1;
	count = epoll_wait(subscriber->epoll_fd, &event, 1, timeout_ms);
	if (count < 0)
		return error_set(errno,
				 errno == EINTR ? "subscriber: a signal interrupted the wait: %s"
						: "subscriber: cannot wait: %s",
				 strerror(errno));
	return count;
}

int wait_work(struct tb_subscriber *subscriber, int timeout_ms)
{
	const enum pending pending = sleep_prepare(subscriber, timeout_ms != 0);
	int result;

	if (pending == PENDING_NOW)
		return 1;
	if (pending == PENDING_SOON) {
		const int soon = soon_ms(subscriber);

		result = wait_link(subscriber,
				   timeout_ms < 0 || timeout_ms > soon ? soon : timeout_ms);
		if (result == 0)
			soon_passed(subscriber);
		return result < 0 ? result : 1;
	}
	subscriber->soon = 0;
	result = wait_link(subscriber, timeout_ms);
	if (result >= 0 && subscriber->nap.until_ns != 0)
		return 1;
	if (result > 0)
		subscriber->woken = true;
	return result;
}

CALL_FRAME void wait_turn(struct tb_subscriber *subscriber)
{
	CALL_BEGIN(&subscriber->call);
	turn_take(subscriber);
	advance_settle_all(subscriber);
	connection_post(subscriber);
	call_end(&subscriber->call);
}

int wait_more(struct tb_subscriber *subscriber, uint64_t until_ms)
{
	if (clock_coarse_ms() >= until_ms)
		return -ETIMEDOUT;
	wait_link(subscriber, 1);
	wait_turn(subscriber);
	return 0;
}
