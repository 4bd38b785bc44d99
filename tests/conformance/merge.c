/* SPDX-License-Identifier: Apache-2.0 */
/* Merges: one subscription over several topics of a group delivers in the order of the group. Built
 * once per fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/conformance/merge_scene.h"
#include "tests/support/bytewise.h"
#include "tests/support/clock.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

enum { QUOTE, TRADE, CANCEL, STATUS };

#define SLOTS 64

static struct merge_scene scene;
static uint64_t chance;

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	chance = scene_seed();
	bytewise_add(chance);
	merge_scene_write(&scene, scene_publisher(SCHEME), 3, SLOTS, 0);
	scene.subscriber = scene_subscriber(SCHEME, 0);
}

static void leave(void)
{
	tb_subscriber_close(scene.subscriber);
	tb_publisher_close(scene.publisher);
	merge_scene_free(&scene);
	scene_leave();
}

TestSuite(merge, .init = enter, .fini = leave, .timeout = 60);

static void put(unsigned int topic)
{
	merge_scene_put(&scene, topic, topic, TB_KIND_UPDATE);
}

static void message(void)
{
	merge_scene_message(&scene);
}

static void flush(void)
{
	merge_scene_flush(&scene);
}

static void subscribe(enum tb_from from)
{
	merge_scene_subscribe(&scene, "f.*", from, TB_GAP_OLDEST);
}

/* A message has a random number of records in random topics. */
static void random_message(unsigned int topics)
{
	message();
	for (size_t i = 1 + random_below(&chance, 5); i > 0; i--)
		merge_scene_put(&scene, (unsigned int)random_below(&chance, topics),
				(uint32_t)random_below(&chance, MERGE_INSTRUMENTS), TB_KIND_UPDATE);
}

Test(merge, message_of_three_topics_comes_together)
{
	subscribe(TB_FROM_OLDEST);
	message();
	put(TRADE);
	put(QUOTE);
	put(CANCEL);
	put(QUOTE);
	message();
	put(CANCEL);
	put(QUOTE);
	flush();
	merge_scene_settle(&scene);
	cr_expect_str_eq(scene.text, " q1 q2 t1 c1 q3 c2");
}

Test(merge, records_wait_for_the_flush_of_their_message)
{
	subscribe(TB_FROM_OLDEST);
	message();
	put(TRADE);
	flush();
	merge_scene_settle(&scene);
	message();
	for (int i = 0; i < SLOTS / 2; i++) /* full steps move the head */
		put(QUOTE);
	for (int i = 0; i < 200; i++)
		tb_poll(scene.subscriber, 64);
	cr_expect_eq(scene.records, 1, "%s", scene.text);
	put(TRADE);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.records, 2 + SLOTS / 2, "%s", scene.text);
}

Test(merge, random_messages_and_flushes_keep_the_order)
{
	subscribe(TB_FROM_OLDEST);
	for (int i = 0; i < 2000; i++) {
		random_message(3);
		if (random_below(&chance, 3) == 0)
			flush();
		if (random_below(&chance, 2) == 0)
			tb_poll(scene.subscriber, 1 + (int)random_below(&chance, 8));
		if (i % 16 == 15) { /* before a ring is full */
			flush();
			merge_scene_settle(&scene);
		}
	}
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.gaps, 0);
	for (unsigned int i = 0; i < 3; i++)
		cr_expect_eq(scene.topics[i].delivered, scene.topics[i].logs[0].count);
}
