/* SPDX-License-Identifier: Apache-2.0 */
/* Merges: one subscription over several topics of a group delivers in the order of the group. Built
 * once per fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/record.h"
#include "publisher/state.h"
#include "subscriber/image.h"
#include "subscriber/merge_state.h"
#include "subscriber/state.h"
#include "tests/conformance/merge_scene.h"
#include "tests/conformance/scheme.h"
#include "tests/support/bytewise.h"
#include "tests/support/clock.h"
#include "tests/support/multicast_fabric.h"
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
	multicast_add();
	merge_scene_write(&scene, scene_publisher(SCHEME), 3, SLOTS, 0);
	merge_scene_connect(&scene, SCHEME);
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
	const int rounds = scene_rounds(2000);

	subscribe(TB_FROM_OLDEST);
	for (int i = 0; i < rounds; i++) {
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

/* -- messages --------------------------------------------------------------------------------- */

Test(merge, full_step_and_new_instrument_inside_a_message_keep_it_whole)
{
	subscribe(TB_FROM_OLDEST);
	message();
	put(QUOTE);
	put(TRADE);
	flush();
	merge_scene_settle(&scene);
	message();
	put(CANCEL);
	put(TRADE);
	for (int i = 0; i < 9; i++) /* a step of 8 */
		put(QUOTE);
	cr_assert_geq(tb_instrument(scene.topics[TRADE].topic, "new"), 0, "%s", tb_error());
	for (int i = 0; i < 100; i++)
		tb_poll(scene.subscriber, 64);
	cr_expect_eq(scene.records, 2, "%s", scene.text);
	put(CANCEL);
	flush();
	merge_scene_settle(&scene);
	cr_expect_str_eq(scene.text, " q1 t1 q2 q3 q4 q5 q6 q7 q8 q9 q10 t2 c1 c2");
}

/* Each jump back begins new epochs of all topics. The merge begins again, with nothing lost. */
Test(merge, clock_set_back_an_hour_begins_a_merge_of_new_epochs)
{
	uint64_t now_ns = UINT64_C(20000) * 86400 * 1000000000;
	unsigned int again = 0;

	clock_real_set(now_ns);
	subscribe(TB_FROM_OLDEST);
	for (unsigned int i = 0; i < 30; i++) {
		if (i % 10 == 9) {
			flush();
			merge_scene_settle(&scene);
			clock_real_set(now_ns -= UINT64_C(3600) * 1000000000);
			merge_scene_message_again(&scene);
			again++;
		} else {
			message();
		}
		put(i % 3);
		put((i + 1) % 3);
		if (i % 4 == 0)
			flush();
	}
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.records, 60);
	cr_expect_eq(scene.gaps, 0);
	cr_expect_eq(tb_group_time(scene.group), now_ns);
	cr_expect_eq(scene.topics[QUOTE].epochs, 1 + again);
}

Test(merge, polls_for_one_record_keep_the_order)
{
	subscribe(TB_FROM_OLDEST);
	for (int i = 0; i < 10; i++)
		random_message(3);
	flush();
	for (int i = 0; i < 100000 && scene.records < scene.topics[0].logs[0].count +
							      scene.topics[1].logs[0].count +
							      scene.topics[2].logs[0].count;
	     i++)
		cr_assert_leq(tb_poll(scene.subscriber, 1), 1);
	merge_scene_settle(&scene);
}

/* The connection READs line after line meanwhile. */
Test(merge, looks_at_lines_do_not_delay_records)
{
	subscribe(TB_FROM_OLDEST);
	for (uint64_t i = 0; i < 100; i++) {
		message();
		merge_scene_put(&scene, QUOTE, (uint32_t)(i % MERGE_INSTRUMENTS), TB_KIND_UPDATE);
		merge_scene_put(&scene, TRADE, (uint32_t)(i % MERGE_INSTRUMENTS), TB_KIND_UPDATE);
		flush();
		for (int polls = 0; polls < 5000 && scene.records < 2 * (i + 1); polls++)
			tb_poll(scene.subscriber, 64);
		if (strcmp(SCHEME, "rdma") == 0)
			merge_scene_settle(&scene);
		cr_assert_eq(scene.records, 2 * (i + 1), "%s", scene.text);
	}
}

/* An idle topic's W wakes a sleeper that waits for it. */
Test(merge, sleeper_wakes_for_topics_without_records)
{
	subscribe(TB_FROM_NEWEST);
	for (int i = 0; i < 20; i++) {
		const uint64_t records = scene.records;

		while (tb_poll(scene.subscriber, 64) > 0)
			;
		message();
		put(QUOTE);
		flush();
		for (int looks = 0; scene.records == records && looks < 20; looks++) {
			tb_wait(scene.subscriber, -1);
			tb_poll(scene.subscriber, 64);
		}
		cr_assert_eq(scene.records, records + 1, "%s", scene.text);
	}
}

/* A flush costs a line of each topic, and the record. A line may be READ twice. */
Test(merge, flush_costs_a_sleeper_few_reads)
{
	const uint64_t *counters;
	uint64_t before;

	tb_subscriber_close(scene.subscriber);
	scene.subscriber = scene_subscriber(SCHEME, 0);
	subscribe(TB_FROM_NEWEST);
	counters = scene.subscription->counters;
	message();
	put(QUOTE);
	flush();
	merge_scene_settle(&scene);
	before = counters[SUBSCRIPTION_READS];
	for (int i = 0; i < 50; i++) {
		message();
		put(QUOTE);
		flush();
		merge_scene_settle(&scene);
	}
	cr_expect_leq(counters[SUBSCRIPTION_READS] - before, 50 * 7);
}

/* The full step wakes it too early. */
Test(merge, sleeper_wakes_for_the_end_of_a_long_message)
{
	subscribe(TB_FROM_NEWEST);
	tb_poll(scene.subscriber, 64);
	message();
	for (int i = 0; i < 9; i++)
		put(QUOTE);
	for (int i = 0; i < 10; i++) {
		tb_wait(scene.subscriber, 1);
		tb_poll(scene.subscriber, 64);
	}
	cr_expect_eq(scene.records, 0, "%s", scene.text);
	flush();
	for (int i = 0; i < 20 && scene.records < 9; i++) {
		tb_wait(scene.subscriber, -1);
		tb_poll(scene.subscriber, 64);
	}
	cr_expect_eq(scene.records, 9, "%s", scene.text);
}

/* -- groups ----------------------------------------------------------------------------------- */

/* The last record of a topic is stored again without its stamp. */
static void stamp_remove(struct tb_topic *topic)
{
	const uint64_t x = tb_topic_sequence(topic);
	struct record record = { .sequence = x, .length = sizeof(x), .kind = TB_KIND_UPDATE };

	memcpy(record.payload, &x, sizeof(x));
	record_store(
		(struct slot *)(void *)(topic->ring + (x & topic->slot_mask) * topic->slot_bytes),
		&record, topic->checked, topic->salt);
}

/* Only a hostile publisher writes it. */
Test(merge, record_without_a_stamp_is_corrupt_at_its_place)
{
	subscribe(TB_FROM_OLDEST);
	message();
	put(QUOTE);
	put(TRADE);
	put(CANCEL);
	flush();
	merge_scene_settle(&scene);
	message();
	put(QUOTE);
	put(TRADE);
	stamp_remove(scene.topics[TRADE].topic);
	message();
	put(TRADE);
	put(CANCEL);
	flush();
	merge_scene_settle(&scene);
	cr_expect_str_eq(scene.text, " q1 t1 c1 gap t2-2 q2 t3 c2");
	cr_expect_eq(scene.topics[TRADE].lost, 1);
}

Test(merge, first_record_without_a_stamp_is_corrupt)
{
	subscribe(TB_FROM_OLDEST);
	message();
	put(TRADE);
	stamp_remove(scene.topics[TRADE].topic);
	put(QUOTE);
	flush();
	merge_scene_settle(&scene);
	cr_expect_str_eq(scene.text, " gap t1-1 q1");
}

/* Makes the group's next stamp this long before its last. Only a hostile publisher goes back. */
static void group_goes_back(uint64_t ns)
{
	const uint64_t now_ns = scene.group->done_ns - ns;

	clock_real_set(now_ns);
	scene.group->done_ns = scene.group->clock_ns = now_ns - 1;
}

/* W and times fall. What comes too late for the order is neither delivered nor silently left out,
 * although its own topic may have delivered nothing later. */
Test(merge, record_of_a_time_that_was_passed_is_corrupt)
{
	clock_real_set(UINT64_C(20000) * 86400 * 1000000000);
	subscribe(TB_FROM_OLDEST);
	message();
	put(QUOTE);
	message();
	put(TRADE);
	flush();
	merge_scene_settle(&scene);
	group_goes_back(1000);
	message();
	put(QUOTE);
	put(TRADE);
	put(CANCEL);
	flush();
	group_goes_back(-UINT64_C(5000));
	message();
	put(QUOTE);
	put(TRADE);
	put(CANCEL);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.gaps, 3, "%s", scene.text);
	cr_expect_eq(scene.subscription->counters[SUBSCRIPTION_LOST_CORRUPT], 3);
	cr_expect_eq(scene.records, 5, "%s", scene.text);
	cr_expect(strstr(scene.text, " q3 t3 c2"), "%s", scene.text);
}

/* At the same time, topics come in the order of their ids. */
Test(merge, record_of_a_lower_topic_at_a_passed_time_is_corrupt)
{
	clock_real_set(UINT64_C(20000) * 86400 * 1000000000);
	subscribe(TB_FROM_OLDEST);
	message();
	put(TRADE);
	flush();
	merge_scene_settle(&scene);
	group_goes_back(0);
	message();
	put(QUOTE);
	put(CANCEL);
	flush();
	group_goes_back(-UINT64_C(5000));
	message();
	put(QUOTE);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.gaps, 1, "%s", scene.text);
	cr_expect_str_eq(scene.text, " t1 gap q1-1 c1 q2", "%s", scene.text);
}

Test(merge, topics_of_two_groups_are_refused)
{
	struct tb_group *other = scene_group(scene.publisher, "other");
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = notes_record,
						   .on_event = notes_event,
						   .flags = TB_MERGE };
	struct tb_subscription *subscription;
	struct notes notes = { 0 };

	scene_grouped(scene.publisher, "f.alien", SLOTS, 0, other);
	scene_topic(scene.publisher, "f.loner", SLOTS, 0);
	options.user = &notes;
	cr_expect_eq(tb_subscribe(scene.subscriber, "f.loner", &options, &subscription),
		     -EOPNOTSUPP);
	cr_expect(strstr(tb_error(), "found no group"), "%s", tb_error());
	cr_assert_eq(tb_subscribe(scene.subscriber, "f.*", &options, &subscription), 0, "%s",
		     tb_error());
	cr_expect(strstr(notes.text, "refused f.alien 22 topic f.alien: found group 2, expected "
				     "group 1 of topic f.quote"),
		  "%s", notes.text);
	cr_expect(strstr(notes.text, "refused f.loner 95"), "%s", notes.text);
	cr_expect(strstr(notes.text, "appeared f.cancel"), "%s", notes.text);
	message();
	put(TRADE);
	put(CANCEL);
	flush();
	cr_expect(scene_poll_until(scene.subscriber, &notes.records, 2), "%s", notes.text);
	tb_unsubscribe(subscription);
	notes_free(&notes);
}

/* -- joins ------------------------------------------------------------------------------------ */

Test(merge, topic_that_joins_a_running_merge_skips_what_is_behind)
{
	bool due = false;
	uint64_t came;

	subscribe(TB_FROM_OLDEST);
	message();
	put(QUOTE);
	put(TRADE);
	flush();
	merge_scene_settle(&scene);
	came = scene.came_ns;
	cr_expect_eq(came, 0);
	merge_scene_topic(&scene, STATUS, SLOTS, 0);
	message();
	put(STATUS);
	put(QUOTE);
	flush();
	while (scene.records < 3 || scene.appeared < 4) {
		/* The merge comes first: its record, then the join. Over a network, the publisher's
		 * announcement may come before the record, and it comes once. */
		due |= scene.subscription->discover;
		scene.subscription->discover = due && scene.records >= 3;
		due &= scene.records < 3;
		merge_scene_poll(&scene);
		cr_assert_str_eq(scene.wrong, "");
	}
	message();
	put(STATUS);
	put(QUOTE);
	flush();
	merge_scene_settle(&scene);
	cr_expect_eq(scene.came_ns, scene.topics[STATUS].logs[0].written[1].time_ns);
	cr_expect_eq(scene.passed, 1, "%s", scene.text);
	cr_expect_eq(scene.counted, scene.records + scene.passed, "what is skipped counts");
	cr_expect_eq(scene.topics[STATUS].delivered, 1, "%s", scene.text);
}

/* All topics begin at the same time: at their last records up to it. */
Test(merge, merge_begins_at_a_time_of_the_past)
{
	for (int i = 0; i < 6; i++) {
		message();
		put(QUOTE);
		put(TRADE);
		if (i % 2 == 0)
			put(CANCEL);
	}
	flush();
	scene.time_ns = scene.topics[QUOTE].logs[0].written[4].time_ns;
	subscribe(TB_FROM_TIME);
	merge_scene_settle(&scene);
	cr_expect_str_eq(scene.text, " c2 q4 t4 q5 t5 c3 q6 t6");
	merge_scene_unsubscribe(&scene);
	scene.time_ns = 0;
	scene.back = 2;
	subscribe(TB_FROM_LAST);
	merge_scene_settle(&scene);
	cr_expect_str_eq(scene.text, " c2 q5 t5 c3 q6 t6");
}

Test(merge, realm_that_sees_part_of_a_group_merges_that_part)
{
	static const char *const visible[] = { "f.quote", "f.cancel" };
	static const struct tb_realm realm = { sizeof(realm), .name = "anonymous",
					       .topics = visible, .topic_count = 2 };
	char address[64];
	const char *const listen = address;
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = &listen,
						      .listen_count = 1,
						      .stale_ms = SCENE_STALE_MS,
						      .exit_wait_ms = UINT32_MAX,
						      .log = scene_log,
						      .realms = &realm,
						      .realm_count = 1 };
	struct tb_publisher *publisher;

	leave_bus();
	scene_address(SCHEME, address, sizeof(address));
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	merge_scene_write(&scene, publisher, 3, SLOTS, 0);
	merge_scene_connect(&scene, SCHEME);
	subscribe(TB_FROM_OLDEST);
	for (int i = 0; i < 10; i++) {
		random_message(3);
		flush();
	}
	merge_scene_settle(&scene);
	cr_expect_eq(scene.appeared, 2, "%s", scene.text);
	cr_expect_eq(scene.topics[QUOTE].delivered, scene.topics[QUOTE].logs[0].count);
	cr_expect_eq(scene.topics[CANCEL].delivered, scene.topics[CANCEL].logs[0].count);
	cr_expect_eq(scene.topics[TRADE].delivered, 0);
}

/* A subscription by pattern that wants schema x, and a topic with schema y. */
static struct odd {
	struct tb_schema *wanted, *other;
	struct tb_subscription *subscription;
	struct notes notes;
} odd;

static void odd_topic(const char *name, struct tb_group *group)
{
	struct tb_topic_options how = {
		.size = sizeof(how), .name = name, .slots = SLOTS, .instruments = 4, .group = group
	};
	struct tb_topic *topic;

	odd.wanted = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	how.schema = odd.other = scene_schema("y", 1, "- {name: y, type: i32, doc: d}\n");
	cr_assert_eq(tb_topic_create(scene.publisher, &how, &topic), 0, "%s", tb_error());
}

static void odd_subscribe(const char *pattern)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = notes_record,
							 .on_event = notes_event,
							 .user = &odd.notes,
							 .schema = odd.wanted,
							 .flags = TB_MERGE };

	cr_assert_eq(tb_subscribe(scene.subscriber, pattern, &options, &odd.subscription), 0, "%s",
		     tb_error());
}

static void odd_free(void)
{
	tb_unsubscribe(odd.subscription);
	notes_free(&odd.notes);
	tb_schema_free(odd.wanted);
	tb_schema_free(odd.other);
}

Test(merge, topic_with_another_schema_is_refused_and_the_rest_is_merged)
{
	odd_topic("f.odd", scene.group);
	odd_subscribe("f.*");
	cr_expect(strstr(odd.notes.text, "refused f.odd 71"), "%s", odd.notes.text);
	message();
	put(TRADE);
	put(CANCEL);
	flush();
	cr_expect(scene_poll_until(scene.subscriber, &odd.notes.records, 2), "%s", odd.notes.text);
	odd_free();
}

/* Else a topic that is refused would have all the others refused. */
Test(merge, topic_with_another_schema_does_not_decide_the_group)
{
	odd_topic("g.odd", scene_group(scene.publisher, "other"));
	scene_grouped(scene.publisher, "g.plain", SLOTS, 0, scene.group);
	odd_subscribe("g.*");
	cr_expect(strstr(odd.notes.text, "refused g.odd 71"), "%s", odd.notes.text);
	cr_expect(strstr(odd.notes.text, "appeared g.plain"), "%s", odd.notes.text);
	odd_free();
}

/* -- images ----------------------------------------------------------------------------------- */

static void writes_and_polls(unsigned int topics, int turns)
{
	for (int i = 0; i < turns; i++) {
		message();
		for (size_t n = 1 + random_below(&chance, 4); n > 0; n--)
			merge_scene_put(&scene, (unsigned int)random_below(&chance, topics),
					(uint32_t)random_below(&chance, MERGE_INSTRUMENTS),
					random_below(&chance, 8) ? TB_KIND_UPDATE : TB_KIND_CLEAR);
		if (random_below(&chance, 3) == 0)
			flush();
		for (size_t n = random_below(&chance, 6); n > 0; n--)
			tb_poll(scene.subscriber, 1 + (int)random_below(&chance, 4));
	}
	flush();
}

Test(merge, images_of_all_topics_have_one_cut)
{
	const int rounds = scene_rounds(30);
	uint64_t moving = 0;

	for (int i = 0; i < rounds; i++) {
		const uint64_t completes = scene.completes;

		writes_and_polls(3, 10 + (int)random_below(&chance, 40));
		subscribe(TB_FROM_IMAGE);
		writes_and_polls(3, 200);
		moving += scene.completes > completes;
		cr_expect(merge_scene_until(&scene, &scene.completes, completes + 1));
		cr_expect_eq(scene.completes, completes + 1, "%s", scene.text);
		merge_scene_settle(&scene);
		merge_scene_unsubscribe(&scene);
	}
	if (strcmp(SCHEME, "rdma") != 0)
		cr_expect_gt(moving, 0, "no image was complete while records flowed");
}

/* Over a network, the header of each topic is READ again when the connection is back. */
Test(merge, cut_waits_for_a_topic_whose_header_is_compared)
{
	struct tb_source *source;

	writes_and_polls(3, 20);
	subscribe(TB_FROM_IMAGE);
	clock_stop();
	for (int i = 0; i < 100000 && !scene.subscription->merge->begun; i++)
		tb_poll(scene.subscriber, 1);
	source = scene.subscription->sources;
	cr_assert(image_is_busy(source->mapping.image));
	source->state = SOURCE_HEADER;
	source->fetched_ns = clock_ns();
	for (int i = 0; i < 10000; i++)
		tb_poll(scene.subscriber, 4);
	cr_expect_eq(source->state, SOURCE_HEADER);
	cr_expect_eq(scene.completes, 0, "%s", scene.text);
	clock_pass(100);
	cr_expect(merge_scene_until(&scene, &scene.completes, 1), "%s", scene.text);
	merge_scene_settle(&scene);
	cr_expect_eq(scene.completes, 1, "%s", scene.text);
}

Test(merge, image_of_a_topic_that_joins_later_is_complete_alone)
{
	subscribe(TB_FROM_IMAGE);
	writes_and_polls(3, 20);
	cr_expect(merge_scene_until(&scene, &scene.completes, 1));
	merge_scene_topic(&scene, STATUS, SLOTS, 0);
	writes_and_polls(4, 20);
	cr_expect(merge_scene_until(&scene, &scene.completes, 2), "%s", scene.text);
	cr_expect(strstr(scene.text, "complete f.*"), "%s", scene.text);
	cr_expect(strstr(scene.text, "complete f.status"), "%s", scene.text);
	writes_and_polls(4, 20);
	merge_scene_settle(&scene);
}
