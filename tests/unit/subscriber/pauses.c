/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses between tries to connect, on a clock that the test moves. */
#include <criterion/criterion.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/random.h"
#include "subscriber/state.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"

TestSuite(pauses, .init = net_enter, .fini = net_leave, .timeout = 120);

#define SUBSCRIBERS 1000
#define OUTAGE_MS   20000
#define BUCKET_MS   50

/* From here on, at most this share of the subscribers tries within a bucket. */
static const struct {
	unsigned int from_ms, share_max;
} spread[] = { { 1000, SUBSCRIBERS / 5 }, { 10000, SUBSCRIBERS / 12 } };

static uint64_t random_state;

static ssize_t seeded(void *bytes, size_t count, unsigned int flags)
{
	(void)flags;
	random_fill(&random_state, bytes, count);
	return (ssize_t)count;
}

/* Takes turns while the clock stands still. */
#define TURNS_UNTIL(condition) UNTIL((subscriber->woken = true, (condition)), 100)

static void connected(void)
{
	net.away = false;
	if (!subscriber->welcomed)
		clock_pass(subscriber->retry_ms - clock_coarse_ms());
	TURNS_UNTIL(subscriber->welcomed);
}

/* The connection is lost, and no publisher listens. */
static void lose(void)
{
	net.away = net.cut = true;
	TURNS_UNTIL(!subscriber->welcomed);
	net.tries = 0;
}

/* Moves the clock to the next try, and returns its time after the loss. */
static uint64_t next_try(uint64_t lost_ms)
{
	const unsigned int before = net.tries;

	clock_pass(subscriber->retry_ms - clock_coarse_ms() - 1);
	cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	cr_assert_eq(net.tries, before, "a try before its pause is over");
	clock_pass(1);
	TURNS_UNTIL(net.tries == before + 1);
	return clock_coarse_ms() - lost_ms;
}

static void open_with_a_stopped_clock(void)
{
	subscriber = scene_subscriber("net", 0);
	clock_stop();
}

static unsigned int most_from(const unsigned int *tries, unsigned int from_ms)
{
	unsigned int most = 0;

	for (unsigned int i = from_ms / BUCKET_MS; i < OUTAGE_MS / BUCKET_MS; i++)
		most = tries[i] > most ? tries[i] : most;
	return most;
}

Test(pauses, tries_of_a_thousand_subscribers_are_spread)
{
	static unsigned int tries[OUTAGE_MS / BUCKET_MS];
	unsigned int all = 0;

	random_state = random_seed();
	random_replace(seeded);
	open_with_a_stopped_clock();
	for (int i = 0; i < SUBSCRIBERS; i++) {
		uint64_t lost_ms, at_ms;

		connected();
		lose();
		lost_ms = clock_coarse_ms();
		while ((at_ms = next_try(lost_ms)) < OUTAGE_MS) {
			tries[at_ms / BUCKET_MS]++;
			all++;
		}
	}
	random_replace(NULL);
	for (size_t i = 0; i < sizeof(spread) / sizeof(spread[0]); i++)
		cr_expect_leq(most_from(tries, spread[i].from_ms), spread[i].share_max,
			      "%u tries within %d ms, from %u ms on",
			      most_from(tries, spread[i].from_ms), BUCKET_MS, spread[i].from_ms);
	cr_expect_leq(all, 20 * SUBSCRIBERS, "%u tries", all);
}

/* Each pause is between half and all of 50, 100, 200 ms and so on, up to 2 s. */
Test(pauses, pauses_double_up_to_their_maximum)
{
	open_with_a_stopped_clock();
	for (int i = 0; i < 20; i++) {
		uint64_t longest_ms = 50, before_ms = 0;
		uint64_t lost_ms;

		connected();
		lose();
		lost_ms = clock_coarse_ms();
		for (int try = 0; try < 8; try++) {
			const uint64_t at_ms = next_try(lost_ms);

			cr_expect_geq(at_ms - before_ms, longest_ms / 2);
			cr_expect_leq(at_ms - before_ms, longest_ms);
			before_ms = at_ms;
			longest_ms = longest_ms < 1000 ? 2 * longest_ms : 2000;
		}
	}
}
