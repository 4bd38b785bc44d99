/* SPDX-License-Identifier: Apache-2.0 */
/* Messages are due at exact times, never pass earlier, and a wait can be ended. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "bus/clock.h"
#include "publisher/feeds/pace.h"
#include "tests/support/clock.h"

#define SECOND UINT64_C(1000000000)
#define HOUR   (3600 * SECOND)
#define OPEN   (34200 * SECOND) /* 09:30 */

static struct pace pace = { .event_fd = -1 };

static void tear_down(void)
{
	pace_close(&pace);
	pace_close(&pace);
}

TestSuite(pace, .fini = tear_down, .timeout = 60);

/* The time after the first message at which a message is due that comes market_ns later. */
static uint64_t due_after(uint32_t speed_milli, uint64_t market_ns)
{
	uint64_t due_ns;

	cr_assert_eq(pace_open(&pace, speed_milli), 0);
	cr_assert_eq(pace_due(&pace, OPEN), 0, "the first is due at once");
	/* No step is a jump. */
	for (uint64_t ns = PACE_JUMP_NS; ns < market_ns; ns += PACE_JUMP_NS)
		pace_due(&pace, OPEN + ns);
	due_ns = pace_due(&pace, OPEN + market_ns);
	cr_assert_geq(due_ns, pace.now.own_ns);
	due_ns -= pace.now.own_ns;
	pace_close(&pace);
	return due_ns;
}

Test(pace, messages_are_due_at_their_market_distance)
{
	cr_expect_eq(due_after(1000, 1), 1);
	cr_expect_eq(due_after(1000, 250 * SECOND), 250 * SECOND);
	cr_expect_eq(due_after(10000, 250 * SECOND), 25 * SECOND);
	cr_expect_eq(due_after(100, 250 * SECOND), 2500 * SECOND);
	cr_expect_eq(due_after(1500, 3 * SECOND), 2 * SECOND);
	cr_expect_eq(due_after(3000, 1), 0);
	/* A whole day at the slowest and at the fastest speed. */
	cr_expect_eq(due_after(1, 24 * HOUR - OPEN), (24 * HOUR - OPEN) * 1000);
	cr_expect_eq(due_after(UINT32_MAX, 24 * HOUR - OPEN),
		     (24 * HOUR - OPEN) * 1000 / UINT32_MAX);
}

Test(pace, pace_begins_with_the_first_message)
{
	uint64_t before, after;

	cr_assert_eq(pace_open(&pace, 1000), 0);
	before = clock_ns();
	cr_assert_eq(pace_due(&pace, OPEN), 0);
	after = clock_ns();
	cr_expect(pace.now.own_ns >= before && pace.now.own_ns <= after);
}

Test(pace, zero_speed_makes_messages_due_at_once)
{
	cr_assert_eq(pace_open(&pace, 0), 0);
	for (uint64_t hour = 0; hour < 24; hour++)
		cr_expect_eq(pace_due(&pace, hour * HOUR), 0);
	cr_expect(pace_until(&pace, PACE_SPIN, 0));
}

/* Disordered messages are late anyway; a day that begins again begins a new pace. */
Test(pace, only_a_large_jump_back_begins_a_new_pace)
{
	uint64_t own_ns;

	cr_assert_eq(pace_open(&pace, 1000), 0);
	cr_assert_eq(pace_due(&pace, OPEN), 0);
	own_ns = pace.now.own_ns;
	cr_expect_eq(pace_due(&pace, OPEN + HOUR), own_ns + HOUR, "an hour ahead, not more");
	cr_expect_eq(pace_due(&pace, OPEN + 2 * HOUR), own_ns + 2 * HOUR);
	cr_expect_eq(pace_due(&pace, OPEN + HOUR), own_ns + HOUR, "an hour back, not more");
	cr_expect_eq(pace_due(&pace, OPEN + HOUR + 5), own_ns + HOUR + 5);
	cr_expect_eq(pace_due(&pace, OPEN - 1), 0, "more than an hour back");
	cr_expect_eq(pace.now.market_ns, OPEN - 1);
	cr_expect_geq(pace.now.own_ns, own_ns);
	cr_expect_eq(pace_due(&pace, OPEN), pace.now.own_ns + 1);
	cr_expect_eq(pace_due(&pace, OPEN - SECOND), 0, "before the begin, by less than an hour");
	cr_expect_eq(pace_due(&pace, OPEN + 1), pace.now.own_ns + 2);
}

/* The times of messages around `wrong`, of which each comes alone. */
static void expect_pace_around(uint64_t wrong_ns, uint64_t jumps)
{
	uint64_t own_ns;

	cr_assert_eq(pace_open(&pace, 1000), 0);
	cr_assert_eq(pace_due(&pace, OPEN), 0);
	own_ns = pace.now.own_ns;
	for (uint64_t i = 1; i <= 3; i++) {
		cr_expect_eq(pace_due(&pace, wrong_ns), 0, "a wrong time is not waited for");
		cr_expect_eq(pace_due(&pace, OPEN + i), own_ns + i, "the pace goes on");
		cr_expect_eq(pace.jumps_ahead, i * jumps);
	}
	pace_close(&pace);
}

Test(pace, single_message_far_from_its_neighbours_changes_no_pace)
{
	expect_pace_around(OPEN + PACE_JUMP_NS + 4, 1);
	expect_pace_around(24 * HOUR - 1, 1);
	expect_pace_around(OPEN - PACE_JUMP_NS - 1, 0);
	expect_pace_around(0, 0);
}

Test(pace, jump_ahead_that_stays_begins_a_new_pace)
{
	const uint64_t later_ns = OPEN + 2 * HOUR;

	cr_assert_eq(pace_open(&pace, 1000), 0);
	cr_assert_eq(pace_due(&pace, OPEN), 0);
	cr_expect_eq(pace_due(&pace, later_ns), 0);
	cr_expect_eq(pace_due(&pace, later_ns + 5), pace.now.own_ns + 5);
	/* The clock before the jump is forgotten: going back is a jump of its own. */
	cr_expect_eq(pace_due(&pace, OPEN + 1), 0);
	cr_expect_eq(pace_due(&pace, OPEN + 2), pace.now.own_ns + 1);
	cr_expect_eq(pace.jumps_ahead, 1);
}

Test(pace, message_never_passes_before_it_is_due)
{
	const enum pace_wait waits[] = { PACE_SPIN, PACE_BACKOFF, PACE_SLEEP };

	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(pace_open(&pace, 1000), 0);
		for (uint64_t length_ns = 1; length_ns <= 20 * SECOND / 1000; length_ns *= 3) {
			const uint64_t due_ns = clock_ns() + length_ns;

			cr_assert(pace_until(&pace, waits[i], due_ns));
			cr_assert_geq(clock_ns(), due_ns);
		}
		cr_assert(pace_until(&pace, waits[i], 0));
		cr_assert(pace_until(&pace, waits[i], clock_ns()));
		pace_close(&pace);
	}
}

static uint64_t worked_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

Test(pace, sleeping_pace_uses_no_processor)
{
	const enum pace_wait waits[] = { PACE_BACKOFF, PACE_SLEEP };

	for (size_t i = 0; i < 2; i++) {
		const uint64_t begin_ns = worked_ns();

		cr_assert_eq(pace_open(&pace, 1000), 0);
		cr_assert(pace_until(&pace, waits[i], clock_ns() + SECOND / 5));
		cr_expect_lt(worked_ns() - begin_ns, SECOND / 50, "more than a tenth of the wait");
		pace_close(&pace);
	}
}

static struct {
	bool counts;
	unsigned int calls;
	long asked_ns;
} sleeps;

int __real_ppoll(struct pollfd *list, nfds_t count, const struct timespec *time,
		 const sigset_t *set);
int __wrap_ppoll(struct pollfd *list, nfds_t count, const struct timespec *time,
		 const sigset_t *set);

/* While it counts, the test's clock stands still but for sleeps, which end 50 us late. */
int __wrap_ppoll(struct pollfd *list, nfds_t count, const struct timespec *time,
		 const sigset_t *set)
{
	if (!sleeps.counts)
		return __real_ppoll(list, count, time, set);
	sleeps.calls++;
	sleeps.asked_ns = time->tv_nsec;
	clock_pass_ns((uint64_t)time->tv_nsec + 50000);
	return 0;
}

static void expect_sleep(uint64_t due_in_ns, long asked_ns)
{
	sleeps.calls = 0;
	cr_assert(pace_until(&pace, PACE_BACKOFF, clock_ns() + due_in_ns));
	cr_expect_eq(sleeps.calls, 1);
	cr_expect_eq(sleeps.asked_ns, asked_ns);
}

Test(pace, frequent_messages_sleep_and_pass_together)
{
	cr_assert_eq(pace_open(&pace, 1000), 0);
	clock_stop();
	sleeps.counts = true;
	expect_sleep(1000000, 990000);
	expect_sleep(1000, 20000);
	expect_sleep(19000, 20000);
	clock_pass_ns(200000);
	expect_sleep(100000, 90000);
	expect_sleep(30000, 30000);
}

static _Atomic bool waiting;
static enum pace_wait how;

static void *wait_for_ever(void *result)
{
	atomic_store(&waiting, true);
	*(bool *)result = pace_until(&pace, how, UINT64_MAX);
	return NULL;
}

Test(pace, interrupt_ends_current_and_later_waits)
{
	const enum pace_wait waits[] = { PACE_SPIN, PACE_BACKOFF, PACE_SLEEP };

	for (size_t i = 0; i < 3; i++) {
		pthread_t thread;
		bool let_through = true;
		int fd;

		how = waits[i];
		atomic_store(&waiting, false);
		cr_assert_eq(pace_open(&pace, 1000), 0);
		cr_assert(pace_until(&pace, how, 0), "what was opened anew is not interrupted");
		cr_assert_eq(pthread_create(&thread, NULL, wait_for_ever, &let_through), 0);
		while (!atomic_load(&waiting))
			;
		pace_interrupt(&pace);
		pthread_join(thread, NULL);
		cr_expect_not(let_through);
		cr_expect_not(pace_until(&pace, waits[i], clock_ns() + HOUR));
		cr_expect_not(pace_until(&pace, waits[i], 0), "not even what is due");
		fd = pace.event_fd;
		pace_close(&pace);
		cr_expect_eq(fcntl(fd, F_GETFD), -1, "its descriptor was left open");
	}
}
