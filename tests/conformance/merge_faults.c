/* SPDX-License-Identifier: Apache-2.0 */
/* Merges over a connection with every fault that the decorator knows: order, accounts and cuts
 * hold. Built once per fabric below, with SCHEME. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

#include "bus/fault/fault.h"
#include "subscriber/state.h"
#include "tests/conformance/merge_scene.h"
#include "tests/conformance/scheme.h"
#include "tests/support/bytewise.h"
#include "tests/support/multicast_fabric.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define FAULTS "dup=0.05,reorder=0.05,delay=0.05,tear=0.2,fail=0.01,disconnect=0.005,stall=0.002"
#define SLOTS  256

static struct merge_scene scene;
static uint64_t seed, chance;

static void enter(void)
{
	char below[64], address[256];
	const struct tb_subscriber_options options = {
		.size = sizeof(options), .address = address, .flags = TB_WAIT, .connect_ms = 20000
	};

	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	seed = chance = scene_seed();
	bytewise_add(seed);
	multicast_add();
	merge_scene_write(&scene, scene_publisher(SCHEME), 3, SLOTS, 0);
	scene_address(SCHEME, below, sizeof(below));
	snprintf(address, sizeof(address), "fault:seed=%" PRIu64 "," FAULTS "/%s", seed % 1000000,
		 below);
	cr_assert_eq(tb_subscriber_open(&scene.subscriber, &options), 0, "%s", tb_error());
}

static void leave(void)
{
	tb_subscriber_close(scene.subscriber);
	tb_publisher_close(scene.publisher);
	merge_scene_free(&scene);
	scene_leave();
}

TestSuite(merge_faults, .init = enter, .fini = leave, .timeout = 120);

static void random_message(void)
{
	merge_scene_message(&scene);
	for (size_t n = 1 + random_below(&chance, 5); n > 0; n--)
		merge_scene_put(&scene, (unsigned int)random_below(&chance, 3),
				(uint32_t)random_below(&chance, MERGE_INSTRUMENTS),
				random_below(&chance, 8) ? TB_KIND_UPDATE : TB_KIND_CLEAR);
}

static bool faults_happened(void)
{
	return fault_count(FAULT_TEAR) > 0 && fault_count(FAULT_FAIL) > 0 &&
	       fault_count(FAULT_DISCONNECT) > 0;
}

static void run(enum tb_from from)
{
	const uint64_t completes = scene.completes;
	const int rounds = scene_rounds(3000);

	merge_scene_subscribe(&scene, "f.*", from, TB_GAP_OLDEST);
	cr_assert(merge_scene_until(&scene, &scene.appeared, 3));
	for (int i = 0; i < rounds || (i < 30000 && !faults_happened()); i++) {
		random_message();
		if (random_below(&chance, 3) == 0)
			merge_scene_flush(&scene);
		tb_poll(scene.subscriber, 1 + (int)random_below(&chance, 16));
		if (i % 64 == 63) {
			merge_scene_flush(&scene);
			merge_scene_settle(&scene);
		}
	}
	merge_scene_flush(&scene);
	merge_scene_settle(&scene);
	if (from == TB_FROM_IMAGE)
		cr_expect(merge_scene_until(&scene, &scene.completes, completes + 1));
	cr_expect_eq(scene.lefts, 0, "%s", scene.words);
	cr_expect(faults_happened(),
		  "found %" PRIu64 " torn and %" PRIu64 " failed READs, %" PRIu64
		  " lost connections",
		  fault_count(FAULT_TEAR), fault_count(FAULT_FAIL), fault_count(FAULT_DISCONNECT));
}

Test(merge_faults, faults_keep_order_and_accounts)
{
	run(TB_FROM_OLDEST);
	for (unsigned int i = 0; i < 3; i++)
		cr_expect_eq(scene.topics[i].delivered + scene.topics[i].lost,
			     scene.topics[i].logs[0].count);
}

Test(merge_faults, faults_keep_the_cut_of_images)
{
	run(TB_FROM_IMAGE);
}
