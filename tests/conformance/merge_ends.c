/* SPDX-License-Identifier: Apache-2.0 */
/* Merges whose topics end, restart, are refused, are lapped, or lose their connection or publisher.
 * Built once per fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bus/counters.h"
#include "publisher/state.h"
#include "subscriber/completions.h"
#include "subscriber/image.h"
#include "subscriber/merge_state.h"
#include "subscriber/pull_read.h"
#include "subscriber/source.h"
#include "subscriber/state.h"
#include "tests/conformance/merge_scene.h"
#include "tests/conformance/scheme.h"
#include "tests/support/bytewise.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/multicast_fabric.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

enum { QUOTE, TRADE, CANCEL, STATUS };

#define SLOTS 64

static struct merge_scene scene;
static uint64_t chance;

static void bus_open(uint32_t stale_ms)
{
	merge_scene_write(&scene, scene_publisher_of(SCHEME, stale_ms), 3, SLOTS, 0);
	merge_scene_connect(&scene, SCHEME);
}

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	chance = scene_seed();
	bytewise_add(chance);
	multicast_add();
	bus_open(SCENE_STALE_MS);
}

static void leave_bus(void)
{
	tb_subscriber_close(scene.subscriber);
	tb_publisher_close(scene.publisher);
	merge_scene_free(&scene);
}

static void leave(void)
{
	leave_bus();
	scene_leave();
}

/* For tests that wait until the stale bound has passed. */
static void hurry(void)
{
	leave_bus();
	bus_open(SCENE_HASTY_MS);
}

TestSuite(merge_ends, .init = enter, .fini = leave, .timeout = 60);

static void put(unsigned int topic)
{
	merge_scene_put(&scene, topic, topic, TB_KIND_UPDATE);
}

/* A message with a record in each of the first `topics` topics. */
static void message(unsigned int topics)
{
	merge_scene_message(&scene);
	for (unsigned int i = 0; i < topics; i++)
		put(i);
}

static void flush(void)
{
	merge_scene_flush(&scene);
}

static void subscribe(enum tb_from from, enum tb_gap gap)
{
	merge_scene_subscribe(&scene, "f.*", from, gap);
}

static struct tb_source *source_of(unsigned int topic)
{
	for (struct tb_source *s = scene.subscription->sources; s; s = s->next_source)
		if (strcmp(s->name, scene.topics[topic].name) == 0)
			return s;
	return NULL;
}

static void turn(void)
{
	tb_poll(scene.subscriber, 64);
	tb_wait(scene.subscriber, 10);
}

#define UNTIL_POLLED(condition)                                                                    \
	do {                                                                                       \
		const uint64_t until_ms = scene_now_ms() + deadline_ms();                          \
                                                                                                   \
		while (!(condition) && scene_now_ms() < until_ms)                                  \
			tb_poll(scene.subscriber, 1);                                              \
		cr_assert(condition, "%s", scene.text);                                            \
	} while (0)

static uint64_t skipped(void)
{
	return scene.subscription->counters[SUBSCRIPTION_SKIPPED];
}

/* -- a topic that cannot be read -----------------------------------------------------------------
 */

static struct merge_topic *topic_of(const struct tb_source *source)
{
	for (unsigned int i = 0; i < 3; i++)
		if (strcmp(scene.topics[i].name, source->name) == 0)
			return &scene.topics[i];
	return NULL;
}

/* The others have counted records too, and no poll looks at them. */
Test(merge_ends, sleeper_does_not_spin_behind_a_topic_with_an_invalid_line)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();
	struct tb_source *source;
	_Atomic uint64_t *check;
	struct tb_topic *topic;

	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	source = scene.subscription->sources;
	if (!source->mapping.view)
		cr_skip_test("a READ that failed is no work of a sleeper");
	topic = topic_of(source)->topic;
	check = &topic->line->word[offsetof(struct progress, check) / 8];
	message(3);
	topic->ring[(source->next & topic->slot_mask) * topic->slot_bytes + RECORD_HEADER_BYTES] ^=
		1;
	flush();
	UNTIL_POLLED(source->tries > 0);
	atomic_fetch_xor(check, 1);
	scene.subscriber->soon = 0; /* of earlier waits */
	while (scene.subscriber->soon == 0 && scene_now_ms() < late_ms) {
		tb_poll(scene.subscriber, 64);
		if (scene.subscriber->discovery.outstanding == 0) /* answers have pauses too */
			tb_wait(scene.subscriber, 10);
	}
	cr_expect_gt(scene.subscriber->soon, 0, "no pause grew");
	atomic_fetch_xor(check, 1);
	cr_expect(merge_scene_until(&scene, &scene.gaps, 1), "%s", scene.text);
	merge_scene_settle(&scene);
}

/* -- restart, end ----------------------------------------------------------------------------- */

Test(merge_ends, restarted_topic_goes_on_at_its_place)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	message(2);
	merge_scene_restart(&scene, TRADE); /* flushes the group */
	message(3);
	flush();
	message(3);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.restarts, 1);
	cr_expect_eq(scene.lefts, 0);
	cr_expect(strstr(scene.text, " q1 t1 c1 q2 t2 restart t q3 t1 c2 q4 t2 c3"), "%s",
		  scene.text);
}

Test(merge_ends, topics_that_restart_all_the_time_keep_the_order)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	for (unsigned int i = 0; i < 300; i++) {
		message(1 + (unsigned int)random_below(&chance, 3));
		if (i % 100 == 50)
			merge_scene_restart(&scene, (unsigned int)random_below(&chance, 3));
		if (random_below(&chance, 2) == 0)
			flush();
		for (size_t n = random_below(&chance, 4); n > 0; n--)
			tb_poll(scene.subscriber, 3);
		if (i % 16 == 15) {
			flush();
			merge_scene_settle(&scene);
		}
	}
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.restarts, 3);
	cr_expect_eq(scene.gaps, 0);
}

Test(merge_ends, ended_topic_is_read_to_its_end_and_leaves)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	cr_assert_eq(tb_topic_end(scene.topics[TRADE].topic), 0, "%s", tb_error());
	merge_scene_message(&scene);
	put(QUOTE);
	put(CANCEL);
	flush();
	merge_scene_settle(&scene);
	cr_expect(merge_scene_until(&scene, &scene.endings, 1), "%s", scene.text);
	cr_expect_eq(scene.records, 5);
	cr_expect_eq(scene.lefts, 0);
	merge_scene_message(&scene);
	put(CANCEL);
	flush();
	merge_scene_settle(&scene);
	/* A new epoch joins the running merge. */
	merge_scene_restart(&scene, TRADE);
	cr_expect(merge_scene_until(&scene, &scene.restarts, 1));
	cr_expect(merge_scene_until(&scene, &scene.appeared, 4));
	message(3);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.topics[TRADE].delivered, 2, "%s", scene.text);
}

/* A poll saw the line of a flush in one topic, and not yet in the others. */
Test(merge_ends, topics_that_end_together_leave_no_work)
{
	struct tb_subscription *subscription;

	subscribe(TB_FROM_NEWEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	subscription = scene.subscription;
	subscription->sources->complete_ns++;
	merge_state_update(subscription);
	cr_assert_gt(subscription->merge->newest_ns, subscription->merge->time_ns);
	for (unsigned int i = 0; i < 3; i++)
		tb_topic_end(scene.topics[i].topic);
	for (struct tb_source *s = subscription->sources; s; s = s->next_source)
		s->look = true;
	cr_assert(merge_scene_until(&scene, &scene.endings, 3), "%s", scene.text);
	tb_poll(scene.subscriber, 100);
	cr_expect_eq(subscription->merge->work, MERGE_WORK_NONE);
}

/* -- topics that do not come back ------------------------------------------------------------- */

/* As if the publisher had given the next epoch to another group. */
Test(merge_ends, refused_successor_leaves_after_its_old_ring)
{
	uint32_t group;

	hurry();
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	message(3);
	group = scene.subscription->merge->group;
	scene.subscription->merge->group = 999;
	merge_scene_restart(&scene, TRADE);
	message(1);
	flush();
	cr_expect(merge_scene_until(&scene, &scene.lefts, 1), "%s", scene.text);
	cr_expect_eq(scene.code, EINVAL);
	cr_expect(strstr(scene.words, "the merge goes on without it"), "%s", scene.words);
	cr_expect(scene.topics[TRADE].refused);
	cr_expect_eq(scene.topics[TRADE].delivered, 2, "%s", scene.text);
	merge_scene_settle(&scene);
	/* It comes back. */
	scene.subscription->merge->group = group;
	scene.subscription->discover = true;
	cr_expect(merge_scene_until(&scene, &scene.appeared, 4), "%s", scene.text);
	message(3);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.topics[TRADE].delivered, 3, "%s", scene.text);
	cr_expect_eq(scene.restarts, 1);
}

/* As if the program had polled so rarely that the old memory may not be READ any more. */
Test(merge_ends, refused_successor_of_unreadable_memory_leaves)
{
	struct tb_source *source;

	hurry();
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	source = source_of(TRADE);
	if (source->mapping.view)
		cr_skip_test("mapped memory can always be read");
	scene.subscription->merge->group = 999;
	merge_scene_restart(&scene, TRADE);
	merge_state_refused(source, EINVAL);
	source->mapping.shown_ms = source->mapping.shown_rarely = 0;
	cr_expect(merge_scene_until(&scene, &scene.lefts, 1), "%s", scene.text);
	cr_expect_eq(scene.code, EINVAL);
}

/* As if a topic were missing after the connection was made again. */
Test(merge_ends, topic_that_stays_away_is_left_out_and_may_come_back)
{
	hurry();
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	while (!scene.subscriber->pulse_known || scene.subscription->discover ||
	       scene.subscriber->discovery.subscription)
		turn();
	source_orphan(source_of(TRADE));
	cr_expect(merge_scene_until(&scene, &scene.lefts, 1), "%s", scene.text);
	cr_expect_eq(scene.code, ETIMEDOUT);
	for (int i = 0; i < 5; i++) {
		message(3);
		flush();
	}
	merge_scene_settle(&scene);
	cr_expect_eq(scene.records, 13);
	scene.subscription->discover = true;
	cr_expect(merge_scene_until(&scene, &scene.appeared, 4), "%s", scene.text);
	cr_expect_eq(scene.came_ns, tb_group_time(scene.group));
	message(3);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.topics[TRADE].delivered, 2, "%s", scene.text);
	cr_expect_eq(skipped(), 5);
	cr_expect_eq(scene.topics[TRADE].delivered + skipped() + scene.topics[TRADE].lost, 7);
}

/* Records are noted only while an image is made. A clear that follows others, while the topic is
 * away, comes with the next image. */
Test(merge_ends, value_cleared_while_its_topic_is_away_is_cleared)
{
	hurry();
	message(3);
	flush();
	subscribe(TB_FROM_IMAGE, TB_GAP_OLDEST);
	cr_expect(merge_scene_until(&scene, &scene.completes, 1), "%s", scene.text);
	merge_scene_message(&scene);
	merge_scene_put(&scene, TRADE, STATUS, TB_KIND_UPDATE);
	flush();
	merge_scene_settle(&scene);
	while (!scene.subscriber->pulse_known || scene.subscription->discover ||
	       scene.subscriber->discovery.subscription)
		turn();
	source_orphan(source_of(TRADE));
	cr_expect(merge_scene_until(&scene, &scene.lefts, 1), "%s", scene.text);
	merge_scene_message(&scene);
	merge_scene_put(&scene, TRADE, STATUS, TB_KIND_CLEAR);
	flush();
	scene.subscription->discover = true;
	cr_expect(merge_scene_until(&scene, &scene.completes, 2), "%s", scene.text);
	cr_expect_eq(scene.topics[TRADE].value[STATUS], 3, "%s", scene.text);
}

/* It waits for the others with its last line. Later lines show that it is lapped. Then nothing is
 * left to read, and it leaves, although the reader polls without a pause. */
Test(merge_ends, topic_lapped_while_it_leaves_has_one_gap)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct tb_source *source;

	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	source = source_of(TRADE);
	message(1);
	for (int i = 0; i < SLOTS / 2; i++) /* full steps: the head counts some of them */
		put(TRADE);
	while (!source->held)
		tb_poll(scene.subscriber, 64);
	merge_state_refused(source, ETIMEDOUT);
	while (!source->final || source->under_way > 0)
		tb_poll(scene.subscriber, 64);
	for (int i = 0; i < 2 * SLOTS; i++)
		put(TRADE);
	flush();
	pull_read_drop(source); /* as if its READs had failed */
	while (scene.lefts == 0 && scene_now_ms() < until_ms)
		tb_poll(scene.subscriber, 64);
	cr_expect_eq(scene.lefts, 1, "%s", scene.text);
	cr_expect_eq(scene.topics[TRADE].gaps, 1, "%s", scene.text);
	cr_expect_eq(scene.subscription->counters[SUBSCRIPTION_LOST_CORRUPT], 0, "%s", scene.text);
	cr_expect_gt(scene.subscription->counters[SUBSCRIPTION_LOST_OVERRUN], 0, "%s", scene.text);
	merge_scene_settle(&scene);
}

/* -- times that begin again ------------------------------------------------------------------- */

/* The clock jumped ahead and back. */
static void message_again(void)
{
	clock_real_set(tb_group_time(scene.group) - UINT64_C(3600) * 1000000000);
	merge_scene_message_again(&scene);
}

Test(merge_ends, old_times_are_merged_before_the_times_begin_again)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	message(3);
	message(2);
	flush();
	for (unsigned int i = 0; i < 3; i++) {
		message_again();
		put(QUOTE);
		put(CANCEL);
		flush();
		merge_scene_settle(&scene);
	}
	cr_expect_eq(scene.records, 14, "%s", scene.text);
	cr_expect_eq(scene.restarts, 9, "%s", scene.text);
	cr_expect_eq(scene.lefts, 0);
	cr_expect_eq(scene.gaps, 0);
}

static void group_is_of_era(unsigned int era)
{
	struct merge *merge = scene.subscription->merge;

	merge->group = region_group_number(merge->group) | era << REGION_GROUP_BITS;
}

/* As if the catalogue had shown a topic of the era. */
static void era_is_shown(unsigned int era)
{
	group_is_of_era(era);
	scene.subscription->merge->draining = true;
	for (struct tb_source *s = scene.subscription->sources; s; s = s->next_source) {
		s->lines_owed = 1;
		s->look = true;
	}
}

/* As if the epoch of another topic had shown the era first. */
Test(merge_ends, merge_waits_for_all_topics_before_the_times_begin_again)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	group_is_of_era(1);
	scene.subscription->merge->begun = false;
	message(3);
	flush();
	for (int i = 0; i < 100; i++)
		merge_scene_poll(&scene);
	cr_expect(!scene.subscription->merge->begun);
	cr_expect_eq(scene.records, 3, "%s", scene.text);
	group_is_of_era(0);
	merge_scene_settle(&scene);
	cr_expect_eq(scene.records, 6, "%s", scene.text);
}

/* As if the times had begun again twice while the topics learned of the first. */
Test(merge_ends, times_that_began_again_twice_pass_over_the_first)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	era_is_shown(2);
	UNTIL_POLLED(!scene.subscription->merge->draining);
	message_again();
	for (unsigned int i = 0; i < 3; i++)
		put(i);
	flush();
	cr_assert(merge_scene_until(&scene, &scene.restarts, 3), "%s", scene.text);
	message_again();
	for (unsigned int i = 0; i < 3; i++)
		put(i);
	flush();
	cr_expect(merge_scene_until(&scene, &scene.records, 6), "%s", scene.text);
	cr_expect_eq(scene.restarts, 6, "%s", scene.text);
	cr_expect_str_eq(scene.text + strlen(scene.text) - strlen(" q1 t1 c1"), " q1 t1 c1");
}

/* Else the cut of all topics would wait for values that lie in its future. */
Test(merge_ends, image_of_a_topic_that_ended_in_an_older_era_is_over)
{
	message(3);
	flush();
	subscribe(TB_FROM_IMAGE, TB_GAP_OLDEST);
	message(3); /* the image has a value of a message that is not over */
	UNTIL_POLLED(source_of(TRADE) && source_of(TRADE)->mapping.image &&
		     source_of(TRADE)->mapping.image->phase == IMAGE_SETTLED);
	cr_assert_eq(tb_topic_end(scene.topics[TRADE].topic), 0, "%s", tb_error());
	message_again();
	put(QUOTE);
	put(CANCEL);
	flush();
	era_is_shown(1);
	cr_expect(merge_scene_until(&scene, &scene.completes, 1), "%s", scene.text);
	cr_expect(merge_scene_until(&scene, &scene.endings, 1), "%s", scene.text);
}

/* Its times lie in the future of the others. */
Test(merge_ends, topic_that_ended_before_the_times_began_again_is_refused)
{
	message(3);
	cr_assert_eq(tb_topic_end(scene.topics[TRADE].topic), 0, "%s", tb_error());
	message_again();
	put(QUOTE);
	flush();
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	cr_expect(merge_scene_until(&scene, &scene.refusals, 1), "%s", scene.text);
	cr_expect_eq(scene.code, EINVAL);
	cr_expect(strstr(scene.words, "topic f.trade: it ended before the times of its group "
				      "began again"),
		  "%s", scene.words);
	cr_expect(merge_scene_until(&scene, &scene.records, 1), "%s", scene.text);
	message_again(); /* a restart gives it a place */
	merge_scene_restart(&scene, TRADE);
	message(3);
	flush();
	cr_expect(merge_scene_until(&scene, &scene.topics[TRADE].delivered, 1), "%s", scene.text);
	cr_expect_eq(scene.gaps, 0);
}

/* All other topics have ended, so another group might come. */
Test(merge_ends, merge_that_is_free_takes_no_older_era)
{
	message(3);
	cr_assert_eq(tb_topic_end(scene.topics[TRADE].topic), 0, "%s", tb_error());
	message_again();
	put(QUOTE);
	put(CANCEL);
	flush();
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	cr_expect(merge_scene_until(&scene, &scene.records, 2), "%s", scene.text);
	cr_assert_eq(tb_topic_end(scene.topics[QUOTE].topic), 0, "%s", tb_error());
	cr_assert_eq(tb_topic_end(scene.topics[CANCEL].topic), 0, "%s", tb_error());
	cr_expect(merge_scene_until(&scene, &scene.endings, 2), "%s", scene.text);
	scene.subscription->discover = true; /* as for another topic of the bus */
	UNTIL_POLLED(!scene.subscription->discover && !scene.subscriber->discovery.subscription);
	cr_expect(scene.subscription->merge->free);
	for (int i = 0; i < 100; i++)
		merge_scene_poll(&scene);
	cr_expect_eq(scene.topics[TRADE].delivered, 0, "%s", scene.text);
}

/* -- connections and publishers --------------------------------------------------------------- */

static void connection_lose(void)
{
	scene.subscriber->gone_code = ECONNRESET;
}

Test(merge_ends, lost_connection_keeps_order_and_positions)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	for (unsigned int i = 0; i < 8; i++) {
		message(3);
		flush();
		if (i % 2 == 1)
			connection_lose();
		message(2);
		flush();
		merge_scene_settle(&scene);
	}
	cr_expect_eq(scene.lefts, 0, "%s", scene.text);
	cr_expect_eq(scene.restarts, 0);
	cr_expect_eq(scene.records, 8 * 5);
}

/* The old publisher dies: it neither flushes nor ends its topics. */
static void publisher_change(unsigned int topics)
{
	for (unsigned int i = 0; i < 3; i++)
		scene.topics[i].topic->ended = true;
	tb_publisher_close(scene.publisher);
	merge_scene_write(&scene, scene_publisher_of(SCHEME, scene.subscriber->stale_ms), topics,
			  SLOTS, 0);
}

Test(merge_ends, new_publisher_begins_the_merge_again)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	publisher_change(3);
	scene.last_ns = 0; /* its clock may be behind */
	message(3);
	message(2);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.restarts, 3, "%s", scene.text);
	cr_expect_eq(scene.records, 8, "%s", scene.text);
	cr_expect_eq(scene.lefts, 0);
}

/* The program had records of each topic before, so it gets all records of the new epochs. */
Test(merge_ends, new_publisher_after_the_end_is_read_from_its_first_record)
{
	subscribe(TB_FROM_NEWEST, TB_GAP_OLDEST);
	message(3);
	flush();
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(tb_topic_end(scene.topics[i].topic), 0, "%s", tb_error());
	cr_assert(merge_scene_until(&scene, &scene.endings, 3), "%s", scene.text);
	publisher_change(3);
	scene.last_ns = 0;
	message(3);
	message(3);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.restarts, 3, "%s", scene.text);
	cr_expect_eq(scene.records, 9, "%s", scene.text);
}

/* Over shared memory the old rings are still there. */
Test(merge_ends, old_rings_of_a_dead_publisher_are_read_in_order)
{
	if (strcmp(SCHEME, "shm") != 0)
		cr_skip_test("memory that only READs reach is lost with its publisher");
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	message(3);
	for (int i = 0; i < 9; i++) /* a full step: the head counts records of an open message */
		put(QUOTE);
	publisher_change(3);
	scene.last_ns = 0;
	message(3);
	flush();
	merge_scene_settle(&scene);
	cr_expect(strstr(scene.text, " q1 t1 c1 q2 q3 q4 q5 q6 q7 q8 restart"), "%s", scene.text);
	cr_expect_eq(scene.restarts, 3, "%s", scene.text);
}

Test(merge_ends, topic_that_the_new_publisher_lacks_is_left_out)
{
	hurry();
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	publisher_change(2);
	scene.last_ns = 0;
	message(2);
	flush();
	cr_expect(merge_scene_until(&scene, &scene.lefts, 1), "%s", scene.text);
	cr_expect(scene.topics[CANCEL].left);
	merge_scene_settle(&scene);
	cr_expect_eq(scene.records, 5, "%s", scene.text);
}

/* The open message of the dead publisher is not finished any more. */
Test(merge_ends, rings_that_the_new_publisher_lacks_are_read_to_their_heads)
{
	if (strcmp(SCHEME, "shm") != 0)
		cr_skip_test("memory that only READs reach is lost with its publisher");
	hurry();
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	message(3);
	for (int i = 0; i < 9; i++) /* a full step: the head counts records of an open message */
		put(QUOTE);
	publisher_change(0);
	cr_expect(merge_scene_until(&scene, &scene.lefts, 3), "%s", scene.text);
	cr_expect(strstr(scene.text, " q1 t1 c1 q2 q3 q4 q5 q6 q7 q8 left"), "%s", scene.text);
}

/* Old lines are looked at once more after the last record of their rings. */
Test(merge_ends, new_publisher_with_an_earlier_clock_waits_for_its_flush)
{
	const uint64_t noon = UINT64_C(20000) * 86400 * 1000000000;
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	const struct merge *merge;
	bool looked = false;

	clock_real_set(noon);
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	merge = scene.subscription->merge;
	message(3);
	flush();
	merge_scene_settle(&scene);
	clock_real_set(noon - UINT64_C(3600) * 1000000000);
	publisher_change(3);
	scene.last_ns = 0;
	message(3);
	for (int i = 0; i < 9; i++) /* a full step: the head counts records of an open message */
		put(QUOTE);
	while (scene.restarts < 3 && scene_now_ms() < until_ms) {
		turn();
		for (unsigned int i = 0; !merge->begun && !merge->draining && !looked && i < 3; i++)
			source_of(i)->look = true;
		looked |= !merge->begun && !merge->draining;
	}
	cr_assert(looked);
	for (int i = 0; i < 5; i++)
		turn();
	cr_expect_eq(scene.records, 3, "%s", scene.text);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.records, 15, "%s", scene.text);
}

/* -- overrun ---------------------------------------------------------------------------------- */

/* TRADE is held back while its ring is overwritten by a message that is not finished. */
Test(merge_ends, topic_lapped_while_held_back_has_its_gap_at_its_place)
{
	const char *held, *gap, *later;

	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	message(1);
	for (int i = 0; i < 9; i++) /* a full step: the head counts t2 */
		put(TRADE);
	while (!source_of(TRADE)->held)
		tb_poll(scene.subscriber, 64);
	for (int i = 0; i < 4 * SLOTS; i++)
		put(TRADE);
	put(CANCEL);
	flush();
	message(3);
	flush();
	merge_scene_settle(&scene);
	for (unsigned int i = 0; i < 3; i++)
		cr_expect_eq(scene.topics[i].delivered + scene.topics[i].lost,
			     scene.topics[i].logs[0].count, "%s", scene.text);
	cr_expect_eq(scene.topics[QUOTE].lost + scene.topics[CANCEL].lost, 0);
	held = strstr(scene.text, " q2 t2");
	gap = strstr(scene.text, " gap t");
	later = strstr(scene.text, " c2");
	cr_assert(held && gap && later, "%s", scene.text);
	cr_expect(held < gap && gap < later, "%s", scene.text);
}

Test(merge_ends, gap_policy_newest_skips_to_the_head)
{
	subscribe(TB_FROM_OLDEST, TB_GAP_NEWEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	for (int i = 0; i < 3 * SLOTS; i++)
		message(2);
	flush();
	merge_scene_settle(&scene);
	message(3);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.topics[QUOTE].delivered + scene.topics[QUOTE].lost +
			     scene.topics[TRADE].delivered + scene.topics[TRADE].lost + skipped(),
		     scene.topics[QUOTE].logs[0].count + scene.topics[TRADE].logs[0].count);
	cr_expect_gt(skipped(), 0);
}

/* -- a line that stands still ----------------------------------------------------------------- */

/* No READ of the library samples memory behind this call. */
static void reads_land(void)
{
	struct tb_subscriber *subscriber = scene.subscriber;
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (subscriber->under_way > subscriber->completions.count) {
		completions_reap(subscriber);
		cr_assert_lt(scene_now_ms(), until_ms);
	}
}

/* A hostile publisher: one line keeps an old W. The topic is reported stale, and nothing after W is
 * delivered. */
Test(merge_ends, topic_whose_line_stands_still_is_reported_stale)
{
	struct tb_topic *topic;
	struct progress kept;
	uint64_t records;

	hurry();
	topic = scene.topics[TRADE].topic;
	subscribe(TB_FROM_OLDEST, TB_GAP_OLDEST);
	message(3);
	flush();
	merge_scene_settle(&scene);
	kept = topic->progress;
	records = scene.records;
	for (int i = 0; i < 3; i++) {
		struct progress line = kept;

		merge_scene_message(&scene);
		put(QUOTE);
		reads_land();
		flush();
		progress_store(topic->line, &line, true, topic->progress_salt);
		turn();
	}
	while (!scene.topics[TRADE].stale && !scene.wrong[0])
		turn();
	cr_expect_leq(scene.records, records + 1, "%s", scene.text);
	cr_expect_eq(scene.topics[QUOTE].stale, false);
	flush();
}

/* -- all of it -------------------------------------------------------------------------------- */

static void incident(void)
{
	const unsigned int at = (unsigned int)random_below(&chance, 3);

	switch (random_below(&chance, 3)) {
	case 0:
		if (scene.topics[at].epochs < MERGE_EPOCHS)
			merge_scene_restart(&scene, at);
		break;
	case 1:
		connection_lose();
		break;
	default:
		for (int i = 0; i < 2 * SLOTS; i++)
			message(1 + at);
		flush();
		break;
	}
}

static void random_message(void)
{
	merge_scene_message(&scene);
	for (size_t n = 1 + random_below(&chance, 5); n > 0; n--)
		merge_scene_put(&scene, (unsigned int)random_below(&chance, 3),
				(uint32_t)random_below(&chance, MERGE_INSTRUMENTS),
				random_below(&chance, 8) ? TB_KIND_UPDATE : TB_KIND_CLEAR);
}

static void live_through(enum tb_from from, int turns)
{
	const uint64_t completes = scene.completes;

	subscribe(from, TB_GAP_OLDEST);
	for (int i = 0; i < turns; i++) {
		random_message();
		if (random_below(&chance, 3) == 0)
			flush();
		for (size_t n = random_below(&chance, 6); n > 0; n--)
			tb_poll(scene.subscriber, 1 + (int)random_below(&chance, 8));
		if (random_below(&chance, 50) == 0)
			incident();
	}
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.lefts, 0, "%s", scene.text);
	if (from == TB_FROM_IMAGE) {
		cr_expect(merge_scene_until(&scene, &scene.completes, completes + 1));
		merge_scene_settle(&scene);
	}
	merge_scene_unsubscribe(&scene);
}

Test(merge_ends, random_incidents_keep_order_accounts_and_cuts)
{
	for (int i = 0; i < 8; i++)
		live_through(i % 2 ? TB_FROM_OLDEST : TB_FROM_IMAGE, 300);
	cr_expect_gt(scene.gaps, 0);
	cr_expect_gt(scene.completes, 0);
}
