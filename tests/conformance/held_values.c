/* SPDX-License-Identifier: Apache-2.0 */
/* READs of values that are late, fail, or find the queue full. They go over a fabric of this test:
 * bytewise, whose completions the test holds back, and whose queue it makes short. READs of images
 * that fail, or have an odd size, go over it too. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/error.h"
#include "bus/fabric.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/support/bytewise.h"
#include "tests/support/scene.h"

#define LATE_MS 50

static struct fabric_ops held_ops;
static const struct fabric_ops *below;
static struct fabric_completion kept[FABRIC_DEPTH_MAX];
static unsigned int kept_count;
static bool hold, fail; /* READs of values */
static unsigned int depth;
static bool no_memory;       /* for landings */
static unsigned int to_fail; /* READs of images that are still to fail */
static const char *largest;  /* the largest landing, */
static size_t largest_bytes; /* and its size */

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static const struct tb_source *source;
static struct notes notes;

static bool is_get(const struct fabric_completion *done)
{
	return tag_unpack(done->tag).kind == READ_GET;
}

static int held_reap(struct link *link, struct fabric_completion *done, unsigned int max)
{
	int count, used = 0;

	if (!hold && kept_count > 0) {
		done[0] = kept[--kept_count];
		return 1;
	}
	count = below->reap(link, done, max);
	for (int i = 0; i < count; i++)
		if (hold && is_get(&done[i]))
			kept[kept_count++] = done[i];
		else
			done[used++] = done[i];
	for (int i = 0; i < used; i++)
		if (fail && is_get(&done[i]))
			done[i].status = -EIO;
	return used;
}

static bool is_image(const struct fabric_completion *done)
{
	return tag_unpack(done->tag).kind == READ_VALUES;
}

static int failing_reap(struct link *link, struct fabric_completion *done, unsigned int max)
{
	const int count = held_reap(link, done, max);

	for (int i = 0; i < count; i++)
		if (to_fail > 0 && is_image(&done[i])) {
			to_fail--;
			done[i].status = -EIO;
		}
	return count;
}

/* READs of an image land at whole words, inside the landing. */
static int held_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		const char *into = reads[i].into;

		if (tag_unpack(reads[i].tag).kind != READ_VALUES)
			continue;
		cr_assert_eq((uintptr_t)into % 8, 0);
		cr_assert_leq(into + reads[i].bytes, largest + largest_bytes);
	}
	return below->read(link, reads, count);
}

static void *held_landing(struct link *link, size_t bytes)
{
	void *memory;

	if (no_memory) {
		error_set(ENOMEM, "no memory for a landing");
		return NULL;
	}
	memory = below->landing(link, bytes);
	if (bytes > largest_bytes) {
		largest = memory;
		largest_bytes = bytes;
	}
	return memory;
}

static unsigned int held_depth(const struct link *link)
{
	(void)link;
	return depth;
}

static void held_break(struct link *link)
{
	hold = false;
	below->link_break(link);
}

static void enter(void)
{
	const char *rest;

	scene_enter();
	bytewise_add(scene_seed());
	below = fabric_find("bytewise:x", &rest);
	held_ops = *below;
	held_ops.scheme = "held";
	held_ops.reap = failing_reap;
	held_ops.read = held_read;
	held_ops.landing = held_landing;
	held_ops.depth = held_depth;
	held_ops.link_break = held_break;
	depth = FABRIC_DEPTH_MAX;
	cr_assert_eq(fabric_add(&held_ops), 0);
	publisher = scene_publisher("bytewise");
	topic = scene_topic(publisher, "t", 64, 0);
	scene_publish(topic, 1, 2);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(held, .init = enter, .fini = leave, .timeout = 60);

static void join_topic(const char *name, tb_record_handler *on_record)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "held:test",
						   .connect_ms = 20000,
						   .batch_bytes = 8192,
						   .read_bytes = 1024 };
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = on_record,
						      .on_event = notes_event,
						      .user = &notes,
						      .flags = on_record ? 0 : TB_VALUES };

	cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, name, &what, &subscription), 0, "%s", tb_error());
	source = tb_subscription_source(subscription, name);
	cr_assert_not_null(source);
	subscriber->connect_ms = 2000; /* for values: long where they come, short where not */
}

static void join(tb_record_handler *on_record)
{
	join_topic("t", on_record);
}

static uint64_t reads(void)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[SUBSCRIPTION_READS];
}

static void on_value(void *user, const struct tb_source *from, int result,
		     const struct tb_record *record)
{
	(void)user, (void)from, (void)result, (void)record;
	cr_assert_fail("a handler was called");
}

static void expect_value(uint32_t instrument, uint64_t expected)
{
	const struct tb_record *record;
	uint64_t x = 0;

	cr_assert_eq(tb_get(source, instrument, &record), 1, "%s", tb_error());
	cr_assert_eq(record->length, sizeof(x));
	memcpy(&x, record->data, sizeof(x));
	cr_expect_eq(x, expected);
}

Test(held, late_value_times_out_and_keeps_its_landing)
{
	const struct tb_record *record;
	uint64_t before;

	join(NULL);
	expect_value(0, 1);
	before = reads();
	hold = true;
	subscriber->connect_ms = LATE_MS;
	cr_expect_eq(tb_get(source, 0, &record), -ETIMEDOUT);
	cr_expect(strstr(tb_error(), "was not READ within 50 ms"), "%s", tb_error());
	cr_expect_null(record);
	cr_expect_eq(reads() - before, 1);
	cr_expect_eq(tb_get(source, 1, &record), -ETIMEDOUT);
	cr_expect_eq(tb_source_instruments(source), -ETIMEDOUT);
	cr_expect_eq(reads() - before, 1, "a READ into a landing that is in use");
	hold = false;
	subscriber->connect_ms = 2000;
	expect_value(1, 2);
	expect_value(0, 1);
}

Test(held, late_value_does_not_keep_the_subscriber_open)
{
	const struct tb_record *record;

	join(NULL);
	expect_value(0, 1);
	hold = true;
	subscriber->connect_ms = LATE_MS;
	cr_expect_eq(tb_get(source, 0, &record), -ETIMEDOUT);
	tb_unsubscribe(subscription);
	cr_expect_geq(tb_poll(subscriber, 1), 0);
	hold = false;
	for (int i = 0; i < 100; i++)
		cr_expect_geq(tb_poll(subscriber, 1), 0);
	cr_expect_null(subscriber->subscriptions, "its source is freed when the READ has landed");
}

Test(held, failed_read_of_a_value_is_a_lost_connection)
{
	const struct tb_record *record;

	join(NULL);
	expect_value(0, 1);
	fail = true;
	cr_expect_eq(tb_get(source, 0, &record), -ENOTCONN);
	cr_expect(strstr(tb_error(), "a READ failed: the connection to held:test is lost"), "%s",
		  tb_error());
	cr_expect_eq(tb_source_instruments(source), -ENOTCONN);
	fail = false;
	expect_value(0, 1);
}

Test(held, value_without_memory_is_an_error_and_works_later)
{
	const struct tb_record *record;
	const uint32_t asked[] = { 0 };

	join(NULL);
	no_memory = true;
	cr_expect_eq(tb_get(source, 0, &record), -ENOMEM);
	cr_expect(strstr(tb_error(), "no memory for a landing"), "%s", tb_error());
	cr_expect_null(record);
	cr_expect_eq(tb_source_instrument(source, "A"), -ENOMEM);
	cr_expect_eq(tb_get_many(source, asked, 1, on_value, NULL), -ENOMEM);
	no_memory = false;
	expect_value(0, 1);
}

static void gets(void *user, const struct tb_source *from, const struct tb_record *record)
{
	const uint64_t sequence = record->sequence;
	const struct tb_record *value;

	notes_record(user, from, record);
	cr_assert_eq(tb_get(from, 0, &value), 1, "%s", tb_error());
	cr_assert_geq(value->sequence + 2, sequence); /* of two instruments in turn */
}

/* A queue of two: a place for the page's pulse, and another for everything else. */
Test(held, value_is_read_through_a_full_queue)
{
	uint64_t published = 2;

	depth = 2;
	join(gets);
	notes.quiet = true;
	while (published < 1500) {
		scene_publish(topic, published + 1, published + 30);
		published += 30;
		cr_assert(scene_poll_until(subscriber, &notes.last, published));
	}
	cr_expect_eq(notes.lost, 0);
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.records, published - 2);
}

/* The second half of a batch is outstanding while handlers of the first half get values. */
Test(held, reads_of_others_are_kept)
{
	struct tb_topic *big = scene_topic(publisher, "big", 1024, 0);
	uint64_t published = 2;

	scene_publish(big, 1, 2);
	join_topic("big", gets);
	notes.quiet = true;
	while (published < 3000) {
		scene_publish(big, published + 1, published + 500);
		published += 500;
		cr_assert(scene_poll_until(subscriber, &notes.last, published));
	}
	cr_expect_eq(notes.lost, 0);
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.records, published - 2);
}

/* -- several topics ------------------------------------------------------------------------------
 */

#define TOPICS 8

static bool asks; /* the handler gets values */

static void gets_if_asked(void *user, const struct tb_source *from, const struct tb_record *record)
{
	const struct tb_record *value;

	notes_record(user, from, record);
	if (asks)
		cr_assert_eq(tb_get(from, 0, &value), 1, "%s", tb_error());
}

static void subscribe(const char *pattern, const struct tb_subscription_options *what,
		      uint32_t read_bytes)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "held:test",
						   .connect_ms = 20000,
						   .batch_bytes = 8192,
						   .read_bytes = read_bytes };

	cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, pattern, what, &subscription), 0, "%s", tb_error());
}

/* All topics have landed all their READs. A single poll delivers them. Each topic posts READs
 * behind its records, and handlers of the next topic find them completed. */
Test(held, handlers_of_many_topics_get_values_in_a_poll)
{
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = gets_if_asked,
						      .on_event = notes_event,
						      .user = &notes,
						      .from = TB_FROM_OLDEST };
	char name[8];

	notes.quiet = true;
	for (int i = 0; i < TOPICS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		scene_publish(scene_topic(publisher, name, 1024, 0), 1, 1000);
	}
	subscribe("m*", &what, 256);
	while (notes.records < TOPICS * 200)
		cr_assert_geq(tb_poll(subscriber, 1), 0, "%s", tb_error());
	subscriber->connect_ms = 2000;
	asks = true;
	cr_assert(scene_poll_until(subscriber, &notes.records, TOPICS * 1000));
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.lost, 0);
}

/* -- images --------------------------------------------------------------------------------------
 */

static void join_image(const char *name, uint32_t read_bytes)
{
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = notes_record,
						      .on_event = notes_event,
						      .user = &notes,
						      .from = TB_FROM_IMAGE };

	subscribe(name, &what, read_bytes);
	cr_assert(scene_poll_while(subscriber, &notes.complete));
}

/* A READ that failed made no copy, so it is no failed copy of its values. After the end, no record
 * is reserved, so each failed copy counts. */
Test(held, failed_reads_of_an_image_lose_no_value)
{
	cr_assert_eq(tb_topic_end(topic), 0, "%s", tb_error());
	to_fail = 40;
	join_image("t", 1024);
	cr_expect_eq(to_fail, 0);
	cr_expect_eq(notes.values, 2);
	cr_expect_null(strstr(notes.text, "no_value"), "%s", notes.text);
}

#define WIDE 1000 /* instruments: more than all chunks of an image take */

static struct tb_topic *wide_topic(void)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = "wide",
						  .schema = schema,
						  .slots = 64,
						  .instruments = WIDE };
	struct tb_topic *wide;
	char name[16];

	cr_assert_eq(tb_topic_create(publisher, &options, &wide), 0, "%s", tb_error());
	tb_schema_free(schema);
	for (int i = 0; i < WIDE; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		cr_assert_eq(tb_instrument(wide, name), i, "%s", tb_error());
	}
	return wide;
}

Test(held, image_with_reads_of_an_odd_size_lands_in_whole_words)
{
	struct tb_topic *wide = wide_topic();

	for (uint32_t i = 0; i < WIDE; i++) {
		const uint64_t x = i + 1;
		const struct tb_update update = { .size = sizeof(update),
						  .instrument = i,
						  .kind = TB_KIND_UPDATE,
						  .length = sizeof(x),
						  .data = &x };

		cr_assert_eq(tb_publish(wide, &update), 0, "%s", tb_error());
	}
	join_image("wide", 4097);
	cr_expect_eq(notes.values, WIDE);
	cr_expect_eq(notes.wrong, 0);
}
