/* SPDX-License-Identifier: Apache-2.0 */
/* No wake-up is lost: a flush, an arming and a look that meet at every place, with every store
 * visible at once, late, or not before a fence (kept.h). What tests/unit/publisher/wakeup.c leaves
 * to luck, on the machine there is, happens here each time. */
#include <criterion/criterion.h>
#include <sys/eventfd.h>

#include "publisher/wakeup.h"

#define STEPS 24 /* more than any of these takes */

enum processor { WRITER, CONTROL };

static struct wakeup wakeup;
static _Atomic uint64_t head;
static uint64_t wanted; /* the head that the sleeper is to be woken for */
static bool seen;       /* by the control thread, which then wakes it */
static unsigned int runs, seen_at_once, signalled;

static void flush(void)
{
	atomic_store_explicit(&head, atomic_load_explicit(&head, memory_order_relaxed) + 1,
			      memory_order_release); /* F1 */
	wakeup_flush(&wakeup);
}

static void flush_twice(void)
{
	flush();
	flush();
}

static void arm(void)
{
	wakeup_arm(&wakeup);
	seen |= atomic_load_explicit(&head, memory_order_relaxed) >= wanted; /* A2 */
}

/* As the control thread looks at a topic's sleepers: it sets no word that is set. */
static void look(void)
{
	seen |= atomic_load_explicit(&head, memory_order_relaxed) >= wanted;
	if (seen)
		return;
	if (atomic_load_explicit(&wakeup.armed, memory_order_relaxed) == 0)
		wakeup_arm(&wakeup);
	seen |= atomic_load_explicit(&head, memory_order_relaxed) >= wanted; /* A2 */
}

/* What the control thread does whenever it was signalled, by whatever topic: one that was not
 * signalled for is not looked at. */
static void hear(void)
{
	eventfd_t count;

	if (eventfd_read(wakeup.event_fd, &count) == 0 && wakeup_signalled(&wakeup)) {
		signalled++;
		look();
	}
}

static void begin(bool fence_in_flush, uint64_t until)
{
	atomic_init(&wakeup.armed, 0);
	atomic_init(&wakeup.signals, 0);
	wakeup.signals_seen = 0;
	wakeup.fence_in_flush = fence_in_flush;
	atomic_init(&head, 0);
	wanted = until;
	seen = false;
}

static void end(const struct kept_plan *plan, const char *what)
{
	seen_at_once += seen;
	hear(); /* as it does sooner or later */
	cr_assert(seen, "lost: %s, the other at step %u, stores visible at %u and %u", what,
		  plan->inside, plan->visible[WRITER], plan->visible[CONTROL]);
	runs++;
}

static void enter(void)
{
	wakeup.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	cr_assert_geq(wakeup.event_fd, 0);
}

static void leave(void)
{
	close(wakeup.event_fd);
}

TestSuite(wake, .init = enter, .fini = leave, .timeout = 60);

/* Every plan there is; `one` runs a scene by it. */
static void walk(void (*one)(const struct kept_plan *, bool), bool fence_in_flush)
{
	struct kept_plan plan;

	for (plan.inside = 0; plan.inside < STEPS; plan.inside++)
		for (plan.visible[0] = 0; plan.visible[0] < STEPS; plan.visible[0]++)
			for (plan.visible[1] = 0; plan.visible[1] < STEPS; plan.visible[1]++)
				one(&plan, fence_in_flush);
	cr_assert(seen_at_once > 0 && signalled > 0 && seen_at_once < runs,
		  "both ways have to be met");
}

/* A sleeper is heard of while a flush has something for it: either may come inside the other. */
static void meet(const struct kept_plan *plan, bool fence_in_flush)
{
	begin(fence_in_flush, 1);
	cr_assert_lt(kept_run(plan, WRITER, flush, arm), STEPS);
	end(plan, "an arming in a flush");
	begin(fence_in_flush, 1);
	cr_assert_lt(kept_run(plan, CONTROL, arm, flush), STEPS);
	end(plan, "a flush in an arming");
}

/* It is armed, and has read what the first flush tells: the signal of that one comes to nothing. */
static void meet_again(const struct kept_plan *plan, bool fence_in_flush)
{
	static const struct kept_plan none;

	begin(fence_in_flush, 2);
	kept_run(&none, CONTROL, arm, hear);
	cr_assert_lt(kept_run(plan, WRITER, flush_twice, hear), STEPS);
	end(plan, "a signal heard in two flushes");
	begin(fence_in_flush, 2);
	arm();
	flush();
	cr_assert_lt(kept_run(plan, CONTROL, hear, flush), STEPS);
	end(plan, "a flush in a look at the sleepers");
}

/* The same where another topic's signal is heard as well: a look may come before the own one. */
static void meet_early(const struct kept_plan *plan, bool fence_in_flush)
{
	static const struct kept_plan none;

	begin(fence_in_flush, 2);
	kept_run(&none, CONTROL, arm, hear);
	eventfd_write(wakeup.event_fd, 1);
	cr_assert_lt(kept_run(plan, WRITER, flush_twice, hear), STEPS);
	end(plan, "another topic's signal heard in two flushes");
}

Test(wake, flush_during_arming_wakes_with_membarrier)
{
	walk(meet, false);
}

Test(wake, flush_during_arming_wakes_with_fence_in_flush)
{
	walk(meet, true);
}

Test(wake, empty_signal_is_followed_by_another_with_membarrier)
{
	walk(meet_again, false);
}

Test(wake, empty_signal_is_followed_by_another_with_fence_in_flush)
{
	walk(meet_again, true);
}

Test(wake, look_before_its_signal_loses_no_wake_with_membarrier)
{
	walk(meet_early, false);
}

Test(wake, look_before_its_signal_loses_no_wake_with_fence_in_flush)
{
	walk(meet_early, true);
}
