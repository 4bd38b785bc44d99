/* SPDX-License-Identifier: Apache-2.0 */
/* A reader whose records come often naps, and asks for no wake-up. Else it sleeps. The clock is the
 * test's, so a busy machine makes no difference. */
#include <criterion/criterion.h>

#include "publisher/state.h"
#include "subscriber/nap.h"
#include "subscriber/state.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#define OFTEN_NS  100000
#define SELDOM_NS 2000000
#define LEARNT    3 /* records after which the reader knows how often they come */
#define RECORDS   60

/* -- when a nap is taken ------------------------------------------------------------------------
 */

static struct nap nap;
static uint64_t now_ns;

static void forget(void)
{
	nap = (struct nap){ .until_ns = 0 };
	now_ns = 1;
}

TestSuite(nap, .init = forget);

/* A record comes after a time, and the reader waits. The length of its nap; 0: it sleeps. */
static uint64_t nap_after(uint64_t ns)
{
	now_ns += ns;
	nap.arrived = 1;
	return nap_take(&nap, now_ns) ? nap.until_ns - now_ns : 0;
}

Test(nap, is_an_eighth_of_the_time_between_records_within_bounds)
{
	static const uint64_t intervals_ns[] = { 1000, 160000, 240000, 400000, 500000 };
	static const uint64_t naps_ns[] = { 20000, 20000, 30000, 50000, 50000 };

	for (size_t i = 0; i < sizeof(naps_ns) / sizeof(naps_ns[0]); i++) {
		forget();
		cr_expect_eq(nap_after(intervals_ns[i]), 0, "one record tells nothing");
		cr_expect_eq(nap_after(intervals_ns[i]), naps_ns[i]);
	}
}

Test(nap, is_not_worth_it_if_records_are_seldom)
{
	nap_after(1);
	for (int i = 0; i < 100; i++)
		cr_expect_eq(nap_after(NAP_WORTH_NS + 1), 0);
}

Test(nap, follows_a_change_of_pace)
{
	int records = 0;

	for (int i = 0; i < 100; i++)
		nap_after(SELDOM_NS);
	while (nap_after(OFTEN_NS) == 0)
		cr_assert_lt(records++, 30, "still sleeps");
	for (int i = 0; i < 10; i++)
		nap_after(OFTEN_NS);
	cr_expect_gt(nap_after(1000 * SELDOM_NS), 0, "a single pause is no change");
	for (records = 0; nap_after(SELDOM_NS) != 0;)
		cr_assert_lt(records++, 5, "still naps");
}

/* For how long the reader naps while no record comes. */
static uint64_t naps_of_a_silence(uint64_t interval_ns)
{
	uint64_t napped_ns = 0;

	forget();
	nap_after(interval_ns);
	cr_assert_gt(nap_after(interval_ns), 0);
	while (nap_take(&nap, now_ns)) {
		napped_ns += nap.until_ns - now_ns;
		now_ns = nap.until_ns;
		nap_end(&nap, now_ns);
	}
	cr_expect_eq(nap.until_ns, 0);
	return napped_ns;
}

/* Four intervals, and at least as long as a pause between bursts. */
Test(nap, ends_if_no_record_comes)
{
	uint64_t napped_ns = naps_of_a_silence(400000);

	cr_expect_gt(napped_ns, 4 * 400000);
	cr_expect_lt(napped_ns, 5 * 400000);
	napped_ns = naps_of_a_silence(10000);
	cr_expect_gt(napped_ns, 2 * NAP_WORTH_NS);
	cr_expect_lt(napped_ns, 2 * NAP_WORTH_NS + 4 * NAP_MAX_NS);
}

Test(nap, reports_what_else_ended_it)
{
	nap_after(OFTEN_NS);
	nap_after(OFTEN_NS);
	cr_expect(nap_end(&nap, now_ns));
	cr_expect_eq(nap.until_ns, 0);
	nap_after(OFTEN_NS);
	cr_expect_not(nap_end(&nap, nap.until_ns));
}

/* Where a hundred readers share two processors, naps that are too short would take them all. */
Test(nap, grows_while_it_ends_late_and_shrinks_again)
{
	uint64_t longest_ns = 0;

	nap_after(OFTEN_NS);
	for (int i = 0; i < 20; i++) {
		const uint64_t length_ns = nap_after(OFTEN_NS);

		cr_expect_geq(length_ns, longest_ns);
		longest_ns = length_ns;
		nap_end(&nap, nap.until_ns + 2 * length_ns);
	}
	cr_expect_eq(longest_ns, NAP_MIN_NS + NAP_CROWDED_NS);
	for (int i = 0; i < 100; i++) {
		nap_after(OFTEN_NS);
		nap_end(&nap, nap.until_ns + NAP_MIN_NS / 2);
	}
	cr_expect_lt(nap_after(OFTEN_NS), NAP_MIN_NS + 100);
}

/* -- a reader that naps -------------------------------------------------------------------------
 */

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct notes notes;

static void enter(void)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();

	scene_enter();
	publisher = scene_publisher("shm");
	topic = scene_topic(publisher, "t", 64, 0);
	subscriber = scene_subscriber("shm", 0);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	scene_publish(topic, 1, 1);
	while (notes.last < 1 || subscriber->discovery.outstanding > 0) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), late_ms);
	}
	clock_stop();
}

static void leave(void)
{
	clock_go();
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(naps, .init = enter, .fini = leave, .timeout = 60);

/* Publishes records at a pace. The reader reads each and waits. Returns how many of the waits asked
 * the publisher for a wake-up. */
static unsigned int asked(uint64_t pace_ns, bool by_descriptor)
{
	unsigned int count = 0;

	for (uint64_t x = notes.last + 1, last = notes.last + RECORDS; x <= last; x++) {
		clock_pass_ns(pace_ns);
		scene_publish(topic, x, x);
		while (notes.last < x)
			cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		subscriber->table[0]->armed = false; /* as if the wake-up had come */
		cr_assert_eq(tb_poll(subscriber, 100), 0);
		if (!by_descriptor)
			cr_assert_geq(tb_wait(subscriber, 1), 0, "%s", tb_error());
		count += subscriber->table[0]->armed;
		clock_pass_ns(NAP_MIN_NS);
	}
	return count;
}

Test(naps, reader_of_frequent_records_asks_for_no_wake_up)
{
	cr_expect_leq(asked(OFTEN_NS, false), LEARNT);
}

Test(naps, reader_of_seldom_records_asks_for_each)
{
	cr_expect_eq(asked(SELDOM_NS, false), RECORDS);
}

Test(naps, user_of_the_descriptor_naps_too)
{
	cr_assert_geq(tb_subscriber_fd(subscriber), 0);
	cr_expect_leq(asked(OFTEN_NS, true), LEARNT);
}

Test(naps, wait_without_a_timeout_asks)
{
	asked(OFTEN_NS, false);
	cr_assert_geq(tb_wait(subscriber, 0), 0);
	cr_expect(subscriber->table[0]->armed, "it asked for no wake-up");
}

Test(naps, reader_asks_if_no_record_comes)
{
	asked(OFTEN_NS, false);
	clock_pass_ns(3 * NAP_WORTH_NS);
	cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_assert_geq(tb_wait(subscriber, 1), 0);
	cr_expect(subscriber->table[0]->armed, "it asked for no wake-up");
}
