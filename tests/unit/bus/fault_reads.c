/* SPDX-License-Identifier: Apache-2.0 */
/* READs that are torn, late or failed, and a frozen region. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/bus/fault_scene.h"
#include "tickbus/error.h"

#define READ_BYTES 512

TestSuite(fault_reads, .init = scene_enter, .fini = scene_leave, .timeout = 60);

/* The number of bytes that hold a value. */
static unsigned int bytes_of(const uint8_t *bytes, uint8_t value)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < READ_BYTES; i++)
		count += bytes[i] == value;
	return count;
}

/* The longest unit whose bytes are all of one copy: 64, 8 or 1. */
static unsigned int unit_of(const uint8_t *bytes)
{
	unsigned int unit = 64;

	for (unsigned int i = 1; i < READ_BYTES; i++)
		while (bytes[i] != bytes[i - 1] && i % unit != 0)
			unit /= 8;
	return unit;
}

Test(fault_reads, torn_read_mixes_the_copy_of_its_post_with_a_newer_copy)
{
	unsigned int units[65] = { 0 };
	uint64_t tag;

	guest_enter("seed=1,tear=1");
	for (unsigned int value = 1; value <= 60; value++) {
		unsigned int older, newer;

		memset(host.ring, (int)(2 * value), REGION_BYTES);
		cr_assert_eq(guest_read(guest.ring, 0, READ_BYTES, value), 1);
		memset(host.ring, 0, REGION_BYTES);
		cr_assert_eq(guest_reap(&tag), 1, "the second copy is made later");
		memset(host.ring, (int)(2 * value + 1), REGION_BYTES);
		cr_assert_eq(guest_await(&tag), 0);
		cr_assert_eq(tag, value);
		older = bytes_of(guest.landing, (uint8_t)(2 * value));
		newer = bytes_of(guest.landing, (uint8_t)(2 * value + 1));
		cr_assert_eq(older + newer, READ_BYTES, "a byte is of neither copy");
		cr_assert(older > 0 && newer > 0, "it is not torn");
		units[unit_of(guest.landing)]++;
	}
	cr_expect(units[1] > 5 && units[8] > 5 && units[64] > 5, "units: %u, %u, %u", units[1],
		  units[8], units[64]);
	cr_expect_eq(fault_count(FAULT_TEAR), 60);
}

Test(fault_reads, torn_read_of_bytes_at_rest_is_whole_and_not_counted)
{
	uint64_t tag;

	guest_enter("seed=1,tear=1");
	memset(host.ring, 5, REGION_BYTES);
	cr_assert_eq(guest_read(guest.ring, 8, READ_BYTES, 1), 1);
	cr_assert_eq(guest_await(&tag), 0);
	cr_expect_eq(bytes_of(guest.landing + 8, 5), READ_BYTES);
	cr_expect_eq(guest.landing[7] + guest.landing[8 + READ_BYTES], 0, "landed outside");
	cr_expect_eq(fault_count(FAULT_TEAR), 0);
}

Test(fault_reads, read_without_faults_passes_through)
{
	uint64_t tag;

	guest_enter("seed=1");
	memset(host.ring, 5, REGION_BYTES);
	cr_assert_eq(guest_read(guest.ring, 0, READ_BYTES, 77), 1);
	cr_assert_eq(guest_reap(&tag), 0);
	cr_expect_eq(tag, 77);
	cr_expect_eq(bytes_of(guest.landing, 5), READ_BYTES);
	cr_expect_eq(host.reads, 1);
	cr_expect_eq(guest_read(guest.ring, REGION_BYTES, 8, 1), -ERANGE);
	cr_expect_null(fault_ops.view(guest.ring));
}

Test(fault_reads, failed_read_completes_with_an_error_and_the_link_stays)
{
	unsigned int failed = 0;
	uint64_t tag;

	guest_enter("seed=1,fail=0.5");
	for (unsigned int i = 0; i < 100; i++) {
		int status;

		cr_assert_eq(guest_read(guest.ring, 0, 8, i), 1);
		status = guest_reap(&tag);
		cr_assert(status == 0 || status == -EIO, "%d", status);
		cr_assert_eq(tag, i);
		failed += status != 0;
	}
	cr_expect(failed > 30 && failed < 70, "%u", failed);
	cr_expect_eq(fault_count(FAULT_FAIL), failed);
	cr_expect_eq(fault_ops.link_state(guest.link), LINK_UP);
	cr_expect_eq(guest.gones, 0);
}

Test(fault_reads, late_reads_complete_once_within_a_ms_out_of_order)
{
	const uint64_t posted_ns = now_ns;
	unsigned int completed = 0, overtaken = 0, depth;
	uint64_t tag, last = 0, seen = 0;

	guest_enter("seed=1,delay=1");
	depth = fault_ops.depth(guest.link);
	for (unsigned int i = 0; i < depth; i++)
		cr_assert_eq(guest_read(guest.ring, 0, 8, i), 1);
	cr_expect_eq(guest_reap(&tag), 1, "it is not late");
	cr_expect_eq(guest_read(guest.ring, 0, 8, 99), 0, "more READs than the depth");
	cr_expect_eq(fault_ops.sleep(guest.link), 1, "a sleeper would miss it");
	while (completed < depth) {
		cr_assert_eq(guest_await(&tag), 0);
		overtaken += completed > 0 && tag < last;
		seen |= UINT64_C(1) << tag;
		last = tag;
		completed++;
	}
	cr_expect_leq(now_ns - posted_ns, MS + MS / 10);
	cr_expect_gt(overtaken, 0);
	cr_expect_eq(seen, (UINT64_C(1) << depth) - 1);
	cr_expect_eq(fault_count(FAULT_DELAY), depth);
	cr_expect_eq(fault_ops.sleep(guest.link), 0);
}

/* Reads both regions while they hold a value; says what landed. */
static uint8_t landed(struct remote *remote, uint8_t value)
{
	uint64_t tag;

	memset(host.page, value, REGION_BYTES);
	memset(host.ring, value, REGION_BYTES);
	cr_assert_eq(guest_read(remote, 0, READ_BYTES, 1), 1);
	cr_assert_eq(guest_reap(&tag), 0);
	cr_assert_eq(bytes_of(guest.landing, guest.landing[0]), READ_BYTES);
	return guest.landing[0];
}

Test(fault_reads, frozen_page_keeps_what_was_read_before)
{
	unsigned int frozen = 0;
	uint8_t last = 0;

	guest_enter("seed=3,freeze=0.02");
	for (unsigned int i = 1; i <= 2000; i++, now_ns += 10 * MS) {
		const uint8_t value = (uint8_t)(1 + i % 250);
		const uint8_t found = landed(guest.page, value);

		cr_assert(found == value || found == last, "%u: found %u", i, found);
		frozen += found != value;
		last = found;
		cr_assert_eq(landed(guest.ring, value), value, "other regions move on");
	}
	cr_expect_gt(fault_count(FAULT_FREEZE), 3);
	/* 10 to 300 READs each. */
	cr_expect_geq(frozen, 9 * fault_count(FAULT_FREEZE));
	cr_expect_lt(frozen, 1900, "it stays frozen");
}

Test(fault_reads, frozen_page_shows_unread_bytes_as_first_read)
{
	uint64_t tag;

	guest_enter("seed=1,freeze=1");
	cr_assert_eq(landed(guest.page, 1), 1, "nothing was read before");
	memset(host.page, 2, REGION_BYTES);
	cr_assert_eq(guest_read(guest.page, READ_BYTES / 2, READ_BYTES, 2), 1);
	cr_assert_eq(guest_reap(&tag), 0);
	cr_expect_eq(bytes_of(guest.landing + READ_BYTES / 2, 1), READ_BYTES / 2);
	cr_expect_eq(bytes_of(guest.landing + READ_BYTES / 2, 2), READ_BYTES / 2);
	cr_expect_eq(fault_count(FAULT_FREEZE), 1);
}

/* A freeze is a copy of the past, so no newer copy is mixed into it. */
Test(fault_reads, frozen_page_is_not_torn)
{
	uint64_t tag;

	guest_enter("seed=1,freeze=1,tear=1");
	memset(host.page, 1, REGION_BYTES);
	cr_assert_eq(guest_read(guest.page, 0, READ_BYTES, 1), 1);
	cr_assert_eq(guest_await(&tag), 0);
	memset(host.page, 2, REGION_BYTES);
	cr_assert_eq(guest_read(guest.page, 0, READ_BYTES, 1), 1);
	memset(host.page, 3, REGION_BYTES);
	cr_assert_eq(guest_await(&tag), 0);
	cr_expect_eq(bytes_of(guest.landing, 1), READ_BYTES);
}

/* A number for all that 400 READs do. */
static uint64_t story(const char *faults)
{
	uint64_t sum = 0, tag;

	guest_enter(faults);
	for (unsigned int i = 0; i < 400; i++) {
		memset(host.ring, (int)(i % 250), REGION_BYTES);
		fault_ops.link_poll(guest.link);
		cr_assert_geq(guest_read(guest.ring, i % 8 * READ_BYTES, READ_BYTES, i), 0);
		for (int status; (status = guest_reap(&tag)) != 1;) {
			sum = sum * 31 + tag + (uint64_t)-status;
			for (unsigned int at = 0; at < REGION_BYTES; at++)
				sum = sum * 31 + guest.landing[at];
		}
		now_ns += MS / 5;
	}
	guest_leave();
	return sum;
}

Test(fault_reads, same_seed_and_calls_give_the_same_faults)
{
	const char *faults = "seed=11,tear=0.3,fail=0.1,delay=0.4,stall=0.01";
	const uint64_t first = story(faults), second = story(faults);

	cr_expect_neq(first, second, "the second connection has other faults");
	fault_restart();
	cr_expect_eq(story(faults), first);
	cr_expect_eq(story(faults), second);
	fault_restart();
	cr_expect_neq(story("seed=12,tear=0.3,fail=0.1,delay=0.4,stall=0.01"), first);
}
