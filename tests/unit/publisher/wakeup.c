/* SPDX-License-Identifier: Apache-2.0 */
/* No wake-up is lost when a flush and an arming meet at any instant: 100,000 rounds, with and
 * without the fence in the flush. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "publisher/wakeup.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define ROUNDS     100000
#define ROUNDS_MIN 10000 /* enough after LONG_MS, once both ways were met */
#define LONG_MS    5000
#define SPIN_MAX   50000

static struct wakeup wakeup;
static _Atomic uint64_t head;  /* the writer's */
static _Atomic uint64_t taken; /* the sleeper's: the last head it took */
static _Atomic bool over;      /* the sleeper's, set with its last head */
static uint64_t seed;
static unsigned int slept, at_once; /* how rounds went, for the sleeper */

static void spin(size_t turns)
{
	for (; turns > 0; turns--)
		__asm__ volatile("");
}

static void *write_heads(void *unused)
{
	uint64_t state = seed;

	(void)unused;
	for (uint64_t n = 1;; n++) {
		/* Only after the sleeper took the last head, so each head must wake it. */
		for (unsigned int turns = 0;
		     atomic_load_explicit(&taken, memory_order_acquire) != n - 1; turns++)
			if (turns > SPIN_MAX)
				sched_yield();
		if (atomic_load(&over))
			return NULL;
		spin(200 + random_below(&state, 200));
		atomic_store_explicit(&head, n, memory_order_release);
		wakeup_flush(&wakeup);
	}
}

/* As the control thread: arm, check head, and sleep only if it did not move. */
static bool sleep_until_moved(uint64_t seen)
{
	struct pollfd ready = { .fd = wakeup.event_fd, .events = POLLIN };
	eventfd_t count;

	wakeup_arm(&wakeup);
	if (atomic_load_explicit(&head, memory_order_relaxed) > seen) {
		at_once++;
		return true;
	}
	slept++;
	while (poll(&ready, 1, (int)deadline_ms()) == 1) {
		eventfd_read(wakeup.event_fd, &count);
		if (atomic_load_explicit(&head, memory_order_relaxed) > seen)
			return true;
		wakeup_arm(&wakeup); /* a signal of an earlier arming */
		if (atomic_load_explicit(&head, memory_order_relaxed) > seen)
			return true;
	}
	return false;
}

static void run(bool fence_in_flush)
{
	const uint64_t until_ms = scene_now_ms() + LONG_MS;
	size_t delay = SPIN_MAX / 2; /* moves to where arming and flush meet */
	unsigned int before;
	uint64_t state;
	pthread_t writer;

	seed = random_seed();
	state = ~seed;
	wakeup.fence_in_flush = fence_in_flush;
	wakeup.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	cr_assert_eq(pthread_create(&writer, NULL, write_heads, NULL), 0);
	for (uint64_t n = 1; !over; n++) {
		spin(delay + random_below(&state, 32));
		before = slept;
		cr_assert(sleep_until_moved(n - 1), "lost in round %llu", (unsigned long long)n);
		if (slept == before)
			delay -= delay / 16;
		else if (delay < SPIN_MAX)
			delay += delay / 16 + 16;
		cr_assert_eq(atomic_load(&head), n);
		over = n == ROUNDS ||
		       (n >= ROUNDS_MIN && slept > 0 && at_once > 0 && scene_now_ms() > until_ms);
		atomic_store_explicit(&taken, n, memory_order_release);
	}
	pthread_join(writer, NULL);
	close(wakeup.event_fd);
	fprintf(stderr, "slept %u times, woke at once %u times\n", slept, at_once);
	cr_assert(slept > 0 && at_once > 0, "both ways have to be met");
}

Test(wakeup, no_wakeup_is_lost_with_membarrier, .timeout = 120)
{
	if (wakeup_needs_fence())
		cr_skip("the kernel has no membarrier");
	run(false);
}

Test(wakeup, no_wakeup_is_lost_with_a_fence_in_flush, .timeout = 120)
{
	run(true);
}

Test(wakeup, flush_without_sleeper_makes_no_system_call)
{
	eventfd_t count;

	wakeup.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	wakeup.fence_in_flush = wakeup_needs_fence();
	for (int i = 0; i < 10; i++)
		wakeup_flush(&wakeup);
	cr_expect_eq(eventfd_read(wakeup.event_fd, &count), -1, "no signal without a sleeper");
	cr_expect_eq(atomic_load(&wakeup.signals), 0);
	wakeup_arm(&wakeup);
	for (int i = 0; i < 10; i++)
		wakeup_flush(&wakeup);
	cr_expect_eq(eventfd_read(wakeup.event_fd, &count), 0);
	cr_expect_eq(count, 1, "one signal for any number of flushes");
	cr_expect_eq(atomic_load(&wakeup.signals), 1);
	close(wakeup.event_fd);
}
