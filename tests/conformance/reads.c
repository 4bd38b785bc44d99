/* SPDX-License-Identifier: Apache-2.0 */
/* Regions and reads, over any fabric. */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/support/random.h"
#include "tests/support/scene.h"
#include "tests/conformance/fabric_scene.h"

TestSuite(fabric, .init = enter, .fini = leave, .timeout = 60);

Test(fabric, region_is_read_exactly_into_its_landing)
{
	host_open(4);
	guest_enter(&guests[0]);
	expect_reads(&guests[0]);
	if (ops->view(guests[0].remote))
		expect_words(ops->view(guests[0].remote), 0, REGION_BYTES);
	/* The first and the last word, and all there is room for. */
	cr_assert_eq(guest_read(&guests[0], 0, 8, 0, 1), 1, "%s", tb_error());
	cr_assert_eq(guest_read(&guests[0], REGION_BYTES - 8, 8, 8, 2), 1, "%s", tb_error());
	UNTIL((guest_reap(&guests[0]), guests[0].tally == 3));
	expect_words(guests[0].landing, 0, 8);
	expect_words(guests[0].landing + 8, REGION_BYTES - 8, 8);
	cr_assert_eq(guest_read(&guests[0], REGION_BYTES - LANDING, LANDING, 0, 3), 1);
	UNTIL((guest_reap(&guests[0]), guests[0].tally == 4));
	expect_words(guests[0].landing, REGION_BYTES - LANDING, LANDING);
	cr_expect_eq(guests[0].failed, 0);
}

Test(fabric, next_read_sees_what_was_written)
{
	volatile uint64_t *shared;
	uint64_t found;

	host_open(4);
	guest_enter(&guests[0]);
	shared = host.memory.base;
	for (uint64_t value = 1; value <= 1000; value++) {
		*shared = value;
		cr_assert_eq(guest_read(&guests[0], 0, 8, 0, value), 1, "%s", tb_error());
		UNTIL((guest_reap(&guests[0]), guests[0].tally == value));
		memcpy(&found, guests[0].landing, sizeof(found));
		cr_assert_eq(found, value);
	}
}

/* Each READ posted completes once, with its own tag, whatever their number and order. */
Test(fabric, outstanding_reads_are_bounded_by_the_depth)
{
	struct fabric_completion done[8];
	uint8_t seen[4096] = { 0 };
	unsigned int posted = 0, completed = 0, under_way = 0, depth;

	host_open(4);
	guest_enter(&guests[0]);
	depth = ops->depth(guests[0].link);
	cr_assert_leq(depth, 4096);
	while (posted < 20 * depth || under_way > 0) {
		struct fabric_read reads[3];
		int taken = 0, count;

		for (unsigned int i = 0; i < 3; i++)
			reads[i] = (struct fabric_read){ .remote = guests[0].remote,
							 .offset = (posted + i) % 128 * 512,
							 .bytes = 512,
							 .into = guests[0].landing +
								 (posted + i) % 64 * 512,
							 .tag = posted + i };
		if (posted < 20 * depth)
			taken = ops->read(guests[0].link, reads, 3);
		cr_assert(taken >= 0 && taken <= 3, "%d %s", taken, tb_error());
		posted += (unsigned int)taken;
		under_way += (unsigned int)taken;
		cr_assert_leq(under_way, depth);
		if (taken > 0 && random_below(&random_state, 4) != 0)
			continue;
		count = ops->reap(guests[0].link, done,
				  1 + (unsigned int)random_below(&random_state, 8));
		cr_assert(count >= 0 && count <= 8);
		for (int i = 0; i < count; i++) {
			cr_assert_lt(done[i].tag, posted);
			cr_assert_eq(done[i].status, 0);
			cr_assert_eq(seen[done[i].tag % 4096]++, done[i].tag / 4096);
		}
		completed += (unsigned int)count;
		under_way -= (unsigned int)count;
	}
	cr_assert_eq(completed, posted);
	cr_assert_eq(ops->reap(guests[0].link, done, 8), 0, "more completions than READs");
}

Test(fabric, read_outside_the_region_is_refused)
{
	static const struct {
		uint64_t offset;
		uint32_t bytes;
	} outside[] = {
		{ REGION_BYTES, 8 },     { REGION_BYTES - 8, 16 },
		{ 0, REGION_BYTES + 8 }, { REGION_BYTES + 8, 8 },
		{ UINT64_MAX - 7, 8 },   { UINT64_MAX - 7, 16 },
		{ 8, UINT32_MAX - 7 },   { 0, 0 },
	};

	host_open(4);
	guest_enter(&guests[0]);
	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
		cr_expect_eq(guest_read(&guests[0], outside[i].offset, outside[i].bytes, 0, 1),
			     -ERANGE, "%zu", i);
	expect_reads(&guests[0]);
	cr_expect_eq(guests[0].gones + host.gones, 0);
}

/* What was never given cannot be read: not opened, or not delivered. */
static void expect_no_reading(struct guest *guest, uint64_t offset)
{
	guest_enter(guest);
	if (guest->opened < 0) {
		cr_expect_eq(guest->opened, -EPROTO);
		return;
	}
	cr_assert_eq(guest_read(guest, offset, 4096, 0, 1), 1, "%s", tb_error());
	UNTIL((guest_reap(guest), guest->tally == 1));
	cr_expect_eq(guest->failed, 1);
}

Test(fabric, forged_key_or_length_reads_nothing)
{
	host_open(8);
	guest_enter(&guests[0]);
	guests[1].forge = true;
	expect_no_reading(&guests[1], 0);
	guest_leave(&guests[1]); /* a network ends the connection for it, and the host learns of it
				    later */
	UNTIL(host.gones == 1);
	guests[2].more = 1 << 24;
	expect_no_reading(&guests[2], REGION_BYTES + (1 << 23));
	guest_leave(&guests[2]);
	UNTIL(host.gones == 2);
	expect_reads(&guests[0]);
	expect_message(&guests[0]);
	guest_enter(&guests[3]);
	expect_reads(&guests[3]);
}

/* A peer reads the region of its own realm. It cannot read that of the other realm, even with its
 * address and key. */
Test(fabric, region_of_another_realm_is_unreadable)
{
	host_open(8);
	cr_assert_eq(ops->expose(host.listener, &host.memory, 1, &host.another), 0, "%s",
		     tb_error());
	for (host.realm = 0; host.realm < 2; host.realm++) {
		guest_enter(&guests[2 * host.realm]);
		expect_reads(&guests[2 * host.realm]);
	}
	for (host.realm = 0; host.realm < 2; host.realm++) {
		struct guest *own = &guests[2 * host.realm], *other = own + 1;

		host.told = host.realm ? host.exposure : host.another;
		host.told_to = host.peers[!host.realm];
		other->stranger = true;
		expect_no_reading(other, 0);
		guest_leave(other);
		UNTIL(host.gones == host.realm + 1);
		host.told = NULL;
		expect_reads(own);
	}
}

static uint64_t key_of(struct exposure *exposure, int peer)
{
	struct fabric_key key;

	cr_assert_eq(ops->key(exposure, host.peers[peer], &key), 0, "%s", tb_error());
	return key.rkey;
}

/* The addresses share the exposed memory, and either may withdraw its exposure at any time. */
Test(fabric, two_addresses_of_one_owner_are_both_readable)
{
	bool registers = strcmp(SCHEME, "rdma") == 0;
	uint64_t first;

	host_open(4);
	guest_enter(&guests[0]);
	guest_enter(&guests[3]);
	place_second();
	cr_assert_eq(host_try(&host.second, 4), 0, "%s", tb_error());
	cr_assert_eq(ops->expose(host.second, &host.memory, 0, &host.another), 0, "%s", tb_error());
	guest_enter(&guests[1]);
	expect_reads(&guests[0]);
	expect_reads(&guests[1]);
	/* Over iWARP each peer has a registration of its own. */
	registers &= key_of(host.exposure, 0) == key_of(host.exposure, 1);
	first = key_of(host.another, 2);
	if (registers)
		cr_expect_eq(key_of(host.exposure, 0), first,
			     "it is registered twice with one device");
	/* Memory that is withdrawn may be unmapped: what lies there then is other memory. */
	ops->withdraw(host.another);
	cr_assert_eq(ops->expose(host.second, &host.memory, 0, &host.another), 0, "%s", tb_error());
	if (registers)
		cr_expect_neq(key_of(host.another, 2), first);
	guest_enter(&guests[2]);
	expect_reads(&guests[2]);
	ops->withdraw(host.another);
	host.another = NULL;
	ops->listener_close(host.second);
	host.second = NULL;
	UNTIL(guests[1].gones == 1 && guests[2].gones == 1);
	expect_reads(&guests[0]);
}

Test(fabric, any_message_can_hand_over_a_region)
{
	struct offer offer;

	host_open(4);
	guest_enter(&guests[0]);
	offer = (struct offer){ .bytes = REGION_BYTES };
	cr_assert_eq(ops->key(host.exposure, host.peers[0], &offer.key), 0, "%s", tb_error());
	ops->remote_close(guests[0].remote);
	guests[0].remote = NULL;
	/* Once let go, and once opened. */
	for (unsigned int i = 1; i <= 2; i++) {
		cr_assert_eq(ops->send(host.peers[0], &offer, sizeof(offer), host.exposure), 0);
		UNTIL(guests[0].messages == i);
		cr_expect_arr_eq(guests[0].last, &offer, sizeof(offer));
		guests[0].opens = true;
	}
	cr_assert_eq(guests[0].opened, 0, "%s", tb_error());
	expect_reads(&guests[0]);
}

Test(fabric, many_subscribers_read_at_once)
{
	host_open(GUESTS);
	for (size_t i = 0; i < GUESTS; i++)
		guest_enter(&guests[i]);
	for (unsigned int round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < GUESTS; i++)
			cr_assert_eq(guest_read(&guests[i], (i + round) % 64 * 1024, 1024, 0, i),
				     1);
		for (uint32_t i = 0; i < GUESTS; i++) {
			UNTIL((guest_reap(&guests[i]), guests[i].tally == round + 1));
			expect_words(guests[i].landing, (i + round) % 64 * 1024, 1024);
			cr_assert_eq(guests[i].failed, 0);
		}
	}
}
