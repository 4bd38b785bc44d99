/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/sleepers.h"

#include "bus/clock.h"
#include "bus/counters.h"
#include "publisher/interrupts.h"
#include "publisher/offers.h"
#include "publisher/wakeup.h"

/* -- one sleeper --------------------------------------------------------------------------------
 */

static void look_after(struct tb_publisher *publisher, uint64_t pause_ns)
{
	publisher->late_pause_ns = pause_ns;
	publisher->late_due_ns = clock_ns() + pause_ns;
}

static void late_add(struct join *join)
{
	struct tb_publisher *publisher = join->session->publisher;

	if (join->is_late)
		return;
	if (TAILQ_EMPTY(&publisher->late) && publisher->late_due_ns == 0)
		look_after(publisher, LATE_MIN_NS);
	join->is_late = true;
	TAILQ_INSERT_TAIL(&publisher->late, join, late);
}

static void late_remove(struct join *join)
{
	join->is_late = false;
	TAILQ_REMOVE(&join->session->publisher->late, join, late);
}

/* Makes the topic's writer signal its next flush, on a sleeper's account. If the word is still set,
 * no flush has cleared it, and arming again is not needed. A flush that clears it after this load
 * signals, and the signal brings another check. False: a bound of interrupts is reached. */
static bool arm(const struct join *join)
{
	struct wakeup *wakeup = &join->topic->wakeup;
	struct session *session = join->session;
	struct tb_publisher *publisher = session->publisher;

	if (atomic_load_explicit(&wakeup->armed, memory_order_relaxed) != 0)
		return true;
	if (!interrupts_take(&session->interrupts, &publisher->interrupts, clock_ms()))
		return false;
	counter_add(&publisher->counters[BUS_INTERRUPTS], 1);
	wakeup_arm(wakeup);
	return true;
}

void sleepers_add(struct join *join)
{
	join_arm(join, true);
	if (!join_has_news(join) && !arm(join))
		late_add(join);
	if (join_has_news(join)) /* A2 */
		offers_owe(join);
}

/* -- all sleepers of a topic --------------------------------------------------------------------
 */

/* Wakes the sleepers that have something to read; returns whether others sleep on. A sleeper whose
 * wake waits in a full queue has something to read. */
static bool wake_due(struct tb_topic *topic)
{
	bool sleepers = false;

	for (struct join *join = topic->joins; join; join = join->next_of_topic) {
		if (!join->armed)
			continue;
		if (join_has_news(join))
			offers_owe(join);
		else
			sleepers = true;
	}
	return sleepers;
}

static bool arm_any(const struct tb_topic *topic)
{
	for (const struct join *join = topic->joins; join; join = join->next_of_topic)
		if (join->armed && !join_has_news(join) && arm(join))
			return true;
	return false;
}

void sleepers_wake(struct tb_topic *topic)
{
	if (topic->sleepers == 0 || !wake_due(topic))
		return;
	if (!arm_any(topic)) /* S3 */
		for (struct join *join = topic->joins; join; join = join->next_of_topic)
			if (join->armed && !join_has_news(join))
				late_add(join);
	wake_due(topic);
}

/* A sleeper that is still late goes to the end of the list. */
void sleepers_look(struct tb_publisher *publisher)
{
	struct join *last = TAILQ_LAST(&publisher->late, join_list), *join = NULL;
	uint64_t pause_ns = publisher->late_pause_ns + publisher->late_pause_ns / 4;

	if (publisher->late_due_ns == 0 || clock_ns() < publisher->late_due_ns)
		return;
	publisher->late_due_ns = 0;
	for (int looks = 0; last && join != last && looks < LATE_LOOKS; looks++) {
		join = TAILQ_FIRST(&publisher->late);
		late_remove(join);
		if (!join->armed)
			continue;
		if (join_has_news(join))
			pause_ns = LATE_MIN_NS;
		sleepers_add(join);
	}
	if (!TAILQ_EMPTY(&publisher->late))
		look_after(publisher, pause_ns < LATE_MAX_NS ? pause_ns : LATE_MAX_NS);
}

int64_t sleepers_wait_ns(const struct tb_publisher *publisher)
{
	uint64_t now_ns;

	if (TAILQ_EMPTY(&publisher->late))
		return -1;
	now_ns = clock_ns();
	return publisher->late_due_ns > now_ns ? (int64_t)(publisher->late_due_ns - now_ns) : 0;
}
