/* SPDX-License-Identifier: Apache-2.0 */
/* No wake-up is lost when a flush, an arming and a look meet at any step. Stores become visible at
 * once, late, or only at a fence (kept.h). tests/unit/publisher/wakeup.c needs luck for this. */
#include <criterion/criterion.h>
#include <sys/eventfd.h>

#include "publisher/wakeup.h"

#define STEPS 24 /* more than any run here takes */

enum processor { WRITER, CONTROL };

static struct wakeup wakeup;
static _Atomic uint64_t head;
static uint64_t wanted; /* the head that the sleeper is to be woken for */
static bool seen;       /* the control thread has seen it, and wakes the sleeper */
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

/* How the control thread visits a topic's sleepers. It does not set `armed` again. */
static void look(void)
{
	seen |= atomic_load_explicit(&head, memory_order_relaxed) >= wanted;
	if (seen)
		return;
	if (atomic_load_explicit(&wakeup.armed, memory_order_relaxed) == 0)
		wakeup_arm(&wakeup);
	seen |= atomic_load_explicit(&head, memory_order_relaxed) >= wanted; /* A2 */
}

/* What the control thread does at a signal, of any topic: it visits only topics that signalled. */
static void handle_signal(void)
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
	handle_signal(); /* at the latest */
	cr_assert(seen, "lost: %s at step %u, stores visible at steps %u and %u", what,
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

/* Runs the scene for every plan. */
static void walk(void (*scene)(const struct kept_plan *, bool), bool fence_in_flush)
{
	struct kept_plan plan;

	for (plan.inside = 0; plan.inside < STEPS; plan.inside++)
		for (plan.visible[0] = 0; plan.visible[0] < STEPS; plan.visible[0]++)
			for (plan.visible[1] = 0; plan.visible[1] < STEPS; plan.visible[1]++)
				scene(&plan, fence_in_flush);
	cr_assert(seen_at_once > 0 && signalled > 0 && seen_at_once < runs,
		  "found %u wakes at once and %u by a signal in %u runs, expected both kinds",
		  seen_at_once, signalled, runs);
}

/* A sleeper is armed while a flush has a record for it: either may run inside the other. */
static void meet(const struct kept_plan *plan, bool fence_in_flush)
{
	begin(fence_in_flush, 1);
	cr_assert_lt(kept_run(plan, WRITER, flush, arm), STEPS);
	end(plan, "an arming in a flush");
	begin(fence_in_flush, 1);
	cr_assert_lt(kept_run(plan, CONTROL, arm, flush), STEPS);
	end(plan, "a flush in an arming");
}

/* The sleeper is armed, and has read the record of the first flush, whose signal finds nothing new.
 */
static void meet_again(const struct kept_plan *plan, bool fence_in_flush)
{
	static const struct kept_plan no_plan;

	begin(fence_in_flush, 2);
	kept_run(&no_plan, CONTROL, arm, handle_signal);
	cr_assert_lt(kept_run(plan, WRITER, flush_twice, handle_signal), STEPS);
	end(plan, "a signal handled in two flushes");
	begin(fence_in_flush, 2);
	arm();
	flush();
	cr_assert_lt(kept_run(plan, CONTROL, handle_signal, flush), STEPS);
	end(plan, "a flush in a look at the sleepers");
}

/* Another topic's signal is handled as well, so a look may come before the topic's own signal. */
static void meet_early(const struct kept_plan *plan, bool fence_in_flush)
{
	static const struct kept_plan no_plan;

	begin(fence_in_flush, 2);
	kept_run(&no_plan, CONTROL, arm, handle_signal);
	eventfd_write(wakeup.event_fd, 1);
	cr_assert_lt(kept_run(plan, WRITER, flush_twice, handle_signal), STEPS);
	end(plan, "another topic's signal handled in two flushes");
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
