/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/sleepers.h"

#include <errno.h>

#include "bus/counters.h"
#include "publisher/session.h"
#include "publisher/wakeup.h"

/* An old epoch has no head to report; the revoke follows. */
int sleepers_wake_join(struct join *join)
{
	struct control_message message = { .type = CONTROL_WAKE };
	struct tb_publisher *publisher = join->session->publisher;
	const struct tb_topic *topic = join->topic;
	int result;

	message.topic.topic_id = topic->shape.topic_id;
	message.topic.epoch = join->epoch;
	message.topic.head = join->epoch == topic->shape.epoch ? topic_head(topic) : 0;
	result = session_offer(join->session, &message);
	if (result == -EAGAIN)
		return 0; /* its queue is full, so it is awake; the next pulse tries again */
	if (result < 0)
		return result;
	join->armed = false;
	counter_add(&publisher->counters[BUS_WAKES], 1);
	return 0;
}

/* Wakes the sleepers that have something to read; returns whether others sleep on. A sleeper with a
 * full queue does not count: it may never read, and cost a system call per flush. */
static bool wake_due(struct tb_topic *topic)
{
	const uint64_t head = topic_head(topic);
	bool sleepers = false;

	for (struct join *join = topic->joins, *next; join; join = next) {
		next = join->next_of_topic; /* a failed send frees this join, not the next */
		if (!join->armed)
			continue;
		if (head > join->head_seen || join->epoch != topic->shape.epoch)
			sleepers_wake_join(join);
		else
			sleepers = true;
	}
	return sleepers;
}

/* Arming interrupts the publishing thread (membarrier). If the word is still set, no flush has
 * cleared it, and arming again is not needed. A flush that clears it after this load signals, and
 * the signal brings another check. */
void sleepers_arm(struct tb_topic *topic)
{
	if (atomic_load_explicit(&topic->wakeup.armed, memory_order_relaxed) == 0)
		wakeup_arm(&topic->wakeup);
}

void sleepers_wake(struct tb_topic *topic)
{
	if (!wake_due(topic))
		return;
	sleepers_arm(topic);
	wake_due(topic);
}

uint64_t sleepers_count(const struct tb_topic *topic)
{
	uint64_t count = 0;

	for (const struct join *join = topic->joins; join; join = join->next_of_topic)
		count += join->armed;
	return count;
}
