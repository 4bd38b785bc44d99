/* SPDX-License-Identifier: Apache-2.0 */
/* Notices that are lost, doubled, reordered and late. */
#include <criterion/criterion.h>

#include "tests/unit/bus/fault_scene.h"

#define NOTICES 200

TestSuite(fault_notices, .init = scene_enter, .fini = scene_leave, .timeout = 60);

/* Notices 0 to NOTICES - 1 arrive, `gap_ns` apart: how often each was taken, and in which order. */
struct taken {
	unsigned int times[NOTICES], total, overtaken;
};

static struct taken take_all(const char *faults, uint64_t gap_ns)
{
	struct taken taken = { 0 };
	int last = -1, number;

	guest_enter(faults);
	for (uint32_t i = 0; i < NOTICES + 20; i++, now_ns += gap_ns) {
		if (i < NOTICES)
			host.datagrams[host.datagram_count++] = i;
		else
			now_ns += MS / 10;
		while ((number = guest_datagram()) >= 0) {
			cr_assert_lt(number, NOTICES);
			taken.times[number]++;
			taken.total++;
			taken.overtaken += number < last;
			last = number;
		}
	}
	return taken;
}

Test(fault_notices, notice_without_faults_passes_in_order)
{
	const struct taken taken = take_all("seed=1", 0);

	cr_expect_eq(taken.total, NOTICES);
	cr_expect_eq(taken.overtaken, 0);
}

Test(fault_notices, dropped_notices_are_missing_and_counted)
{
	const struct taken taken = take_all("seed=1,drop=0.25", 0);
	unsigned int missing = 0;

	for (unsigned int i = 0; i < NOTICES; i++)
		missing += taken.times[i] == 0;
	cr_expect(missing > 30 && missing < 70, "%u", missing);
	cr_expect_eq(fault_count(FAULT_DROP), missing);
	cr_expect_eq(taken.total + missing, NOTICES);
}

Test(fault_notices, doubled_notices_arrive_twice)
{
	const struct taken taken = take_all("seed=1,dup=0.25", 0);
	unsigned int doubled = 0;

	for (unsigned int i = 0; i < NOTICES; i++) {
		cr_assert(taken.times[i] == 1 || taken.times[i] == 2, "%u", taken.times[i]);
		doubled += taken.times[i] == 2;
	}
	cr_expect(doubled > 30 && doubled < 70, "%u", doubled);
	cr_expect_eq(fault_count(FAULT_DUP), doubled);
}

Test(fault_notices, reordered_notices_arrive_behind_the_next_notice)
{
	const struct taken taken = take_all("seed=1,reorder=0.25", 0);

	for (unsigned int i = 0; i < NOTICES; i++)
		cr_assert_eq(taken.times[i], 1);
	cr_expect(taken.overtaken > 20, "%u", taken.overtaken);
	cr_expect_geq(fault_count(FAULT_REORDER), taken.overtaken);
}

Test(fault_notices, reordered_notice_without_a_next_notice_arrives_alone)
{
	guest_enter("seed=1,reorder=1");
	host.datagrams[host.datagram_count++] = 7;
	cr_expect_eq(guest_datagram(), -1);
	cr_expect_eq(fault_ops.sleep(guest.link), 1, "a sleeper would miss it");
	now_ns += MS;
	cr_expect_eq(guest_datagram(), 7);
	cr_expect_eq(fault_count(FAULT_REORDER), 0, "no notice passed it");
	cr_expect_eq(fault_ops.sleep(guest.link), 0);
}

Test(fault_notices, late_notices_arrive_within_a_ms)
{
	unsigned int early = 0;

	guest_enter("seed=1,delay=1");
	for (uint32_t i = 0; i < 40; i++) {
		host.datagrams[host.datagram_count++] = i;
		cr_assert_eq(guest_datagram(), -1, "it is not late");
		now_ns += MS / 2;
		early += guest_datagram() >= 0;
		now_ns += MS / 2;
		guest_datagram();
		cr_assert_eq(fault_ops.sleep(guest.link), 0, "it is more than a ms late");
	}
	cr_expect(early > 5 && early < 35, "early notices: %u", early);
	cr_expect_eq(fault_count(FAULT_DELAY), 40);
}

/* The queue is bounded: what finds no room in it arrives as it came. */
Test(fault_notices, notices_beyond_the_queue_arrive)
{
	unsigned int seen[NOTICES] = { 0 };
	int number;

	guest_enter("seed=1,delay=1,dup=1");
	for (uint32_t i = 0; i < NOTICES; i++)
		host.datagrams[host.datagram_count++] = i;
	for (unsigned int turn = 0; turn < 20; turn++, now_ns += MS / 10)
		while ((number = guest_datagram()) >= 0)
			seen[number]++;
	for (unsigned int i = 0; i < NOTICES; i++)
		cr_assert_geq(seen[i], 1, "notice %u is lost", i);
}
