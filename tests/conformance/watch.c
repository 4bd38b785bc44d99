/* SPDX-License-Identifier: Apache-2.0 */
/* Watch lists: the newest values of chosen instruments. Built once per fabric, with SCHEME. The
 * test writes and polls in one thread, and counts the bytes that READs bring. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/progress.h"
#include "bus/record.h"
#include "publisher/state.h"
#include "subscriber/choice_scan.h"
#include "subscriber/pull_watch.h"
#include "subscriber/reader.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/conformance/scheme.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define IN_PLACE (strcmp(SCHEME, "shm") == 0)
#define FAULTY   (strcmp(SCHEME, "faulty") == 0) /* READs are torn and late */
#define MANY     8000
#define WATCHED  50

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct tb_source *source;
static struct notes notes;
static uint64_t chance;

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	chance = scene_seed();
	faulty_add(chance);
	publisher = scene_publisher(SCHEME);
	topic = scene_topic(publisher, "t", 64, 0);
	subscriber = scene_subscriber(SCHEME, 0);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(watch, .init = enter, .fini = leave, .timeout = 60);

static void put_as(const char *name, uint8_t kind)
{
	const uint64_t x = tb_topic_sequence(topic) + 1;
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)tb_instrument(topic, name),
					  .kind = kind,
					  .length = sizeof(x),
					  .time_ns = 1,
					  .data = &x };

	cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
}

static void put(const char *name)
{
	put_as(name, TB_KIND_UPDATE);
}

static struct tb_subscription_options options_of(const char *const *names, size_t count)
{
	return (struct tb_subscription_options){ .size = sizeof(struct tb_subscription_options),
						 .on_record = notes_record,
						 .on_event = notes_event,
						 .user = &notes,
						 .flags = TB_WATCH,
						 .names = names,
						 .name_count = count };
}

static void join_by(const struct tb_subscription_options *options, const char *name)
{
	cr_assert_eq(tb_subscribe(subscriber, name, options, &subscription), 0, "%s", tb_error());
	source = subscription->sources;
}

static void join(const char *const *names, size_t count)
{
	const struct tb_subscription_options options = options_of(names, count);

	join_by(&options, "t");
}

static uint64_t counter(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

static void poll(int max)
{
	const int count = tb_poll(subscriber, max);

	cr_assert_geq(count, 0, "%s", tb_error());
	cr_assert_leq(count, max);
	if (count == 0)
		cr_assert_geq(tb_wait(subscriber, 1), 0, "%s", tb_error());
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		const uint64_t until_ms = scene_now_ms() + deadline_ms();                          \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), until_ms, "waited for " #condition ": %s",    \
				     notes.text ? notes.text : "");                                \
			poll(1000);                                                                \
		}                                                                                  \
	} while (0)

/* A look has begun behind all records, and is over. */
static bool looked(void)
{
	const struct watch *watch = source->mapping.watch;

	return source->state == SOURCE_RUNNING && watch && !watch->running && !watch->due &&
	       !watch->unread && !source->mapping.choice->reported &&
	       !source->mapping.choice->found && !choice_scan_is_due(source->mapping.choice) &&
	       watch->looked_head == tb_topic_sequence(topic) && watch->torn_count == 0;
}

static unsigned int times(const char *words)
{
	unsigned int count = 0;

	for (const char *at = notes.text; at && (at = strstr(at, words)); at++)
		count++;
	return count;
}

/* -- values ----------------------------------------------------------------------------------- */

Test(watch, newest_values_of_chosen_instruments_come)
{
	static const char *const names[] = { "A", "C*" };

	put("A");
	put("B");
	put("C1");
	put("A");
	join(names, 2);
	UNTIL(looked());
	cr_expect_eq(notes.values, 2, "%s", notes.text);
	cr_expect_eq(times("value 4 A update\n"), 1, "%s", notes.text);
	cr_expect_eq(times("value 3 C1 update\n"), 1, "%s", notes.text);
	put("A");
	put("B");
	put("A");
	put("C2");
	UNTIL(looked());
	cr_expect_eq(times("value 7 A update\n"), 1, "%s", notes.text);
	cr_expect_eq(times("value 8 C2 update\n"), 1, "%s", notes.text);
	cr_expect_eq(times(" B "), 0, "%s", notes.text);
	cr_expect_eq(times("value 3 C1"), 1, "it did not change");
	cr_expect_eq(counter(SUBSCRIPTION_VALUES), notes.values);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 0);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 4);
	cr_expect_eq(counter(SUBSCRIPTION_IMAGE_RECORDS), 0);
	cr_expect_geq(counter(SUBSCRIPTION_VALUE_LOOKS), 2);
	cr_expect_eq(notes.records, 0, "values have TB_FLAG_IMAGE");
	cr_expect_eq(notes.wrong, 0);
}

/* A clear is delivered if the program knows a value. */
Test(watch, removed_value_comes_as_a_clear)
{
	static const char *const names[] = { "A", "B" };

	put("A");
	put("A");
	put_as("B", TB_KIND_CLEAR);
	join(names, 2);
	UNTIL(looked());
	cr_expect_eq(notes.values, 1, "%s", notes.text);
	put_as("A", TB_KIND_CLEAR);
	put_as("A", TB_KIND_CANCEL);
	put_as("B", TB_KIND_CLEAR);
	UNTIL(looked());
	cr_expect_eq(times("value 4 A clear\n"), 1, "%s", notes.text);
	cr_expect_eq(notes.values, 2, "%s", notes.text);
	put("A");
	UNTIL(looked());
	cr_expect_eq(times("value 7 A update\n"), 1, "%s", notes.text);
}

/* The words of a line without a check need not belong together. So its reservation may be newer
 * than its head: more than a ring lies between them. */
Test(watch, overwritten_records_are_no_gap_of_a_watch_list)
{
	static const char *const names[] = { "A" };
	const struct tb_subscription_options options = options_of(names, 1);

	if (strcmp(SCHEME, "shm") != 0)
		cr_skip_test("topics without checks are for shared memory");
	topic = scene_topic(publisher, "u", 64, TB_TOPIC_UNCHECKED);
	put("A");
	atomic_store_explicit(&topic->line->word[offsetof(struct progress, reserved) / 8], 70,
			      memory_order_release);
	join_by(&options, "u");
	UNTIL(times("value 1 A update\n") == 1);
	put("A");
	UNTIL(times("value 2 A update\n") == 1);
	cr_expect_eq(times("gap"), 0, "%s", notes.text);
}

static uint64_t batched;

static void on_batch(void *user, const struct tb_source *from, const struct tb_batch *batch)
{
	(void)user;
	(void)from;
	cr_assert_eq(batch->count, 1);
	cr_assert(tb_batch_record(batch, 0)->flags & TB_FLAG_IMAGE);
	batched += tb_batch_record(batch, 0)->sequence;
}

Test(watch, values_come_by_batches)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	options.on_record = NULL;
	options.on_batch = on_batch;
	options.flags |= TB_NAMES_REQUIRED;
	put("A");
	join_by(&options, "t");
	UNTIL(looked());
	put("A");
	UNTIL(looked());
	cr_expect_eq(batched, 3);
}

static void wide_topic(uint32_t bytes)
{
	char fields[256] = "- {name: x, type: u64, doc: d}\n";
	struct tb_schema *schema;
	struct tb_topic_options options = {
		.size = sizeof(options), .name = "wide", .slots = 256, .instruments = MANY + 8
	};
	char name[16];

	if (bytes > 8)
		snprintf(fields + strlen(fields), sizeof(fields) - strlen(fields),
			 "- {name: pad, type: \"char[%u]\", doc: d}\n", bytes - 8);
	schema = scene_schema("x", 1, fields);
	options.schema = schema;
	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		put(name);
	}
	tb_flush(topic);
}

/* Values are counted too: a poll delivers at most records_max. */
Test(watch, poll_delivers_at_most_records_max)
{
	static const char *const names[] = { "I1??" };
	const struct tb_subscription_options options = options_of(names, 1);

	wide_topic(8);
	join_by(&options, "wide");
	for (int i = 0; i < 100000 && notes.values < 20; i++) {
		const uint64_t before = notes.values;

		poll(7);
		cr_assert_leq(notes.values - before, 7);
	}
	UNTIL(looked());
	cr_expect_eq(notes.values, 100);
}

/* Random records and polls; the newest values come. A fabric that tears each fifth copy may tear
 * TRIES_MAX copies in a row. */
Test(watch, last_value_of_each_instrument_comes)
{
	static const char *const names[] = { "A", "B", "C", "D", "E", "F" };
	const int rounds = scene_rounds(200);
	uint64_t last[6] = { 0 };
	char line[32];

	for (int i = 0; i < 6; i++)
		put(names[i]);
	join(names, 4);
	for (int round = 0; round < rounds; round++) {
		for (uint64_t burst = random_draw(&chance) % 100; burst > 0; burst--) {
			const size_t i = random_below(&chance, 6);

			put(names[i]);
			last[i] = tb_topic_sequence(topic);
		}
		poll((int)(1 + random_draw(&chance) % 5));
	}
	UNTIL(looked());
	for (int i = 0; i < 6; i++) {
		snprintf(line, sizeof(line), "value %" PRIu64 " %s update\n", last[i], names[i]);
		cr_expect_eq(times(line), i < 4, "%s", line);
	}
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.lost, 0);
	cr_expect_leq(times("no_value") * TRIES_MAX, counter(SUBSCRIPTION_TORN), "W-I4");
}

/* -- bytes ------------------------------------------------------------------------------------ */

static const struct fabric_ops *counted;
static struct fabric_ops counting;
static uint64_t bytes_of[READ_GET + 1], reads_of[READ_GET + 1];

static int counting_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	const int posted = counted->read(link, reads, count);

	for (int i = 0; i < posted; i++) {
		bytes_of[tag_unpack(reads[i].tag).kind] += reads[i].bytes;
		reads_of[tag_unpack(reads[i].tag).kind]++;
	}
	return posted;
}

static void count_reads(void)
{
	counted = subscriber->ops;
	counting = *counted;
	counting.read = counting_read;
	subscriber->ops = &counting;
}

/* Every slot of the list and the line are counted, at random places and side by side. */
static void watch_many(const char *const *names, size_t count, uint32_t slot_bytes)
{
	const struct tb_subscription_options options = options_of(names, count);
	const unsigned int looks = 20;
	uint64_t before;

	wide_topic(slot_bytes - RECORD_HEADER_BYTES);
	join_by(&options, "wide");
	UNTIL(looked());
	cr_assert_eq(source->mapping.shape.slot_bytes, slot_bytes);
	cr_assert_eq(notes.values, count, "%s", notes.text);
	memset(bytes_of, 0, sizeof(bytes_of));
	before = counter(SUBSCRIPTION_VALUE_LOOKS);
	for (unsigned int i = 0; i < looks; i++) {
		put("I7999");
		put(names[i % count]);
		UNTIL(looked());
	}
	before = counter(SUBSCRIPTION_VALUE_LOOKS) - before;
	cr_expect_eq(notes.values, count + looks);
	cr_expect_geq(before, looks);
	cr_expect_leq(before, 2 * looks, "found %" PRIu64 " looks", before);
	cr_expect_leq(2 * bytes_of[READ_VALUES], 3 * before * count * slot_bytes,
		      "found %" PRIu64 " bytes in %" PRIu64 " looks", bytes_of[READ_VALUES],
		      before);
	cr_expect_eq(bytes_of[READ_VALUES] == 0, IN_PLACE);
	cr_expect_eq(bytes_of[READ_SLOTS], 0, "the ring is not read");
	cr_expect_eq(bytes_of[READ_DIRECTORY] + bytes_of[READ_NAMES], 0, "all names are known");
	cr_expect_leq(2 * (bytes_of[READ_VALUES] + before * sizeof(struct progress)),
		      3 * before * count * slot_bytes, "with a line for each look");
}

static const char *chosen[WATCHED];
static char texts[WATCHED][16];

static void choose(unsigned int i, unsigned int instrument)
{
	snprintf(texts[i], sizeof(texts[i]), "I%u", instrument);
	chosen[i] = texts[i];
}

Test(watch, look_moves_few_more_bytes_than_its_slots)
{
	count_reads();
	for (unsigned int i = 0; i < WATCHED; i++)
		choose(i, i * 157 + (unsigned int)random_below(&chance, 157));
	watch_many(chosen, WATCHED, 128);
}

/* Every second slot would double the bytes if the slots between were READ along. */
Test(watch, slots_between_neighbours_are_bounded)
{
	count_reads();
	for (unsigned int i = 0; i < WATCHED; i++)
		choose(i, 100 + 2 * i);
	watch_many(chosen, WATCHED, 64);
}

/* 50 neighbours of 64 bytes fit into a READ. */
Test(watch, neighbours_share_a_read)
{
	uint64_t before;

	if (FAULTY)
		cr_skip_test("READs that fail are repeated here");
	count_reads();
	for (unsigned int i = 0; i < WATCHED; i++)
		choose(i, 1000 + i);
	watch_many(chosen, WATCHED, 64);
	before = counter(SUBSCRIPTION_VALUE_LOOKS);
	reads_of[READ_VALUES] = 0;
	put("I1000");
	UNTIL(looked());
	before = counter(SUBSCRIPTION_VALUE_LOOKS) - before;
	cr_expect_eq(reads_of[READ_VALUES], IN_PLACE ? 0 : before, "found %" PRIu64 " READs",
		     reads_of[READ_VALUES]);
}

/* -- looks ------------------------------------------------------------------------------------ */

Test(watch, idle_topic_is_not_looked_at)
{
	static const char *const names[] = { "A" };
	uint64_t before;

	put("A");
	join(names, 1);
	UNTIL(looked());
	before = counter(SUBSCRIPTION_VALUE_LOOKS);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(counter(SUBSCRIPTION_VALUE_LOOKS), before);
	put("A");
	UNTIL(looked());
	cr_expect_eq(notes.values, 2);
}

/* The clock stands still: no second look is due before look_us have passed. */
Test(watch, looks_keep_their_distance)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	if (!IN_PLACE)
		cr_skip_test("READs need a clock that goes on");
	options.look_us = 50000;
	put("A");
	join_by(&options, "t");
	UNTIL(looked());
	cr_assert_eq(counter(SUBSCRIPTION_VALUE_LOOKS), 1);
	clock_stop();
	clock_pass(50);
	put("A");
	cr_assert_eq(tb_poll(subscriber, 100), 1);
	for (int i = 0; i < 100; i++) {
		put("A");
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	}
	clock_pass(49);
	cr_expect_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(counter(SUBSCRIPTION_VALUE_LOOKS), 2);
	clock_pass(1);
	cr_expect_eq(tb_poll(subscriber, 100), 1);
	cr_expect_eq(counter(SUBSCRIPTION_VALUE_LOOKS), 3);
	cr_expect_eq(times("value 102 A update\n"), 1, "%s", notes.text);
}

/* It sleeps until the publisher wakes it, and until a look is due. */
Test(watch, sleeper_is_woken_by_a_record)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	options.look_us = 20000;
	put("A");
	join_by(&options, "t");
	UNTIL(looked());
	for (uint64_t i = 2; i < 10; i++) {
		put("A");
		while (notes.values < i) {
			cr_assert_geq(tb_wait(subscriber, (int)deadline_ms()), 0);
			cr_assert_geq(tb_poll(subscriber, 100), 0);
		}
	}
	cr_expect_eq(notes.values, 9);
}

/* -- changes of the list ---------------------------------------------------------------------- */

Test(watch, added_names_are_looked_at_at_once_and_removed_names_no_more)
{
	static const char *const names[] = { "A" }, *const more[] = { "B", "new" };
	struct tb_subscription_options options = options_of(names, 1);

	put("A");
	put("B");
	options.look_us = 60000000;
	join_by(&options, "t");
	UNTIL(looked());
	cr_expect_eq(notes.values, 1);
	cr_assert_eq(tb_names_add(subscription, more, 2), 2);
	UNTIL(looked());
	cr_expect_eq(times("value 2 B update\n"), 1, "%s", notes.text);
	cr_expect_eq(times("no_instrument t new\n"), 1, "%s", notes.text);
	cr_expect_eq(notes.values, 2, "%s", notes.text);
	cr_assert_eq(tb_names_remove(subscription, names, 1), 1);
	put("A");
	put("B");
	put("new");
	UNTIL(looked() && notes.values == 4);
	cr_expect_eq(times(" A update"), 1, "%s", notes.text);
	cr_expect_eq(times("value 5 new update\n"), 1, "%s", notes.text);
	cr_assert_eq(tb_names_add(subscription, names, 1), 1);
	UNTIL(looked());
	cr_expect_eq(times("value 3 A update\n"), 1, "%s", notes.text);
	cr_assert_eq(tb_names_remove(subscription, names, 1), 1);
	UNTIL(looked());
	cr_assert_eq(tb_names_add(subscription, names, 1), 1);
	UNTIL(looked());
	cr_expect_eq(times("value 3 A update\n"), 2, "watched again, so new: %s", notes.text);
}

/* The program may have thrown the value away between the two calls. */
Test(watch, name_that_is_removed_and_added_between_two_polls_is_new)
{
	static const char *const names[] = { "A" };

	put("A");
	join(names, 1);
	UNTIL(looked());
	cr_assert_eq(tb_names_remove(subscription, names, 1), 1);
	cr_assert_eq(tb_names_add(subscription, names, 1), 1);
	UNTIL(looked());
	cr_expect_eq(times("value 1 A update\n"), 2, "%s", notes.text);
}

/* -- waits ------------------------------------------------------------------------------------ */

#define LOOKS          3
#define WAITS_PER_LOOK 40

/* A record comes before each wait. Multicast notices wake a sleeper with each record. */
Test(watch, sleeper_does_not_wake_for_each_record_between_two_looks)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);
	uint64_t looks, waits = 0;

	if (!IN_PLACE && strcmp(SCHEME, "bytewise") != 0)
		cr_skip_test("notices wake the sleeper");
	put("A");
	options.look_us = 100000;
	join_by(&options, "t");
	UNTIL(looked());
	looks = counter(SUBSCRIPTION_VALUE_LOOKS);
	for (; counter(SUBSCRIPTION_VALUE_LOOKS) < looks + LOOKS; waits++) {
		put("A");
		while (tb_poll(subscriber, 100) > 0)
			;
		/* A record during the READ of a line would make the line invalid, each time. */
		UNTIL(!source->look && source->invalid == 0);
		cr_assert_geq(tb_wait(subscriber, 1000), 0, "%s", tb_error());
		cr_assert_lt(waits, LOOKS * WAITS_PER_LOOK);
	}
}

/* A writer that hangs inside the line: the pauses grow. With the next record they begin again. */
Test(watch, waits_for_a_line_that_stays_invalid_grow)
{
	static const char *const names[] = { "A" };
	_Atomic uint64_t *const check = &topic->line->word[offsetof(struct progress, check) / 8];
	unsigned int grown;

	put("A");
	join(names, 1);
	UNTIL(looked());
	put("A");
	atomic_fetch_xor(check, 1);
	UNTIL(source->invalid > 0);
	grown = subscriber->soon;
	UNTIL(subscriber->soon > grown);
	UNTIL(subscriber->soon == 4);
	atomic_fetch_xor(check, 1);
	UNTIL(looked());
	UNTIL(subscriber->soon == 0);
}

/* -- waits that cannot be renewed ------------------------------------------------------------- */

#define POLLS  4000 /* for VALUES values */
#define VALUES 20
#define ROUNDS 200

/* Each line counts an instrument that was not judged before. */
Test(watch, new_instruments_do_not_hold_up_looks)
{
	static const char *const names[] = { "I0" };
	const struct tb_subscription_options options = options_of(names, 1);
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options wide = { .size = sizeof(wide),
					       .name = "wide",
					       .schema = schema,
					       .slots = 256,
					       .instruments = ROUNDS + 1 };
	char name[16];

	cr_assert_eq(tb_topic_create(publisher, &wide, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	put("I0");
	join_by(&options, "wide");
	UNTIL(looked());
	for (int round = 0; round < ROUNDS; round++) {
		snprintf(name, sizeof(name), "N%d", round);
		cr_assert_geq(tb_instrument(topic, name), 0, "%s", tb_error());
		put("I0");
		UNTIL(source->mapping.watch->head == tb_topic_sequence(topic));
	}
	cr_expect_geq(counter(SUBSCRIPTION_VALUE_LOOKS), ROUNDS / 4);
	if (IN_PLACE)
		cr_expect_geq(notes.values, ROUNDS, "found %" PRIu64 " values", notes.values);
}

/* Removes a name and adds it again: its instrument is chosen again. */
static void list_turn(void)
{
	static const char *const name[] = { "I7" };

	cr_assert_eq(tb_names_remove(subscription, name, 1), 1, "%s", tb_error());
	cr_assert_eq(tb_names_add(subscription, name, 1), 1, "%s", tb_error());
}

/* No record comes after it. */
Test(watch, instrument_that_is_found_after_a_look_is_looked_at)
{
	static const char *const names[] = { "N*" };

	put("A");
	join(names, 1);
	UNTIL(looked());
	put("N1");
	UNTIL(notes.values == 1);
}

Test(watch, changes_of_the_list_do_not_hold_up_looks)
{
	static const char *const names[] = { "I0", "I7" };
	const struct tb_subscription_options options = options_of(names, 2);
	int polls = 0;

	wide_topic(8);
	join_by(&options, "wide");
	for (; polls < POLLS && times(" I0 update") < VALUES; polls++) {
		list_turn();
		put("I0");
		poll(1000);
	}
	cr_expect_geq(times(" I0 update"), VALUES, "found %u values in %d polls",
		      times(" I0 update"), polls);
}

/* A chosen instrument is found while a look runs, again and again. Each look ends. */
Test(watch, changes_of_the_list_do_not_end_a_look)
{
	static const char *const names[] = { "I[0-6]*", "I7" };
	const struct tb_subscription_options options = options_of(names, 2);
	int polls = 0;

	wide_topic(8);
	join_by(&options, "wide");
	for (; polls < POLLS && times("value 7000 I6999 ") == 0; polls++) {
		list_turn();
		poll(100);
	}
	cr_expect_eq(times("value 7000 I6999 "), 1, "not found in %d polls", polls);
}

Test(watch, changes_of_the_list_do_not_hold_up_the_end)
{
	static const char *const names[] = { "I0", "I7" };
	const struct tb_subscription_options options = options_of(names, 2);
	int polls = 0;

	wide_topic(8);
	join_by(&options, "wide");
	UNTIL(looked());
	put("I0");
	cr_assert_eq(tb_topic_end(topic), 0);
	for (; polls < POLLS && !notes.ended; polls++) {
		list_turn();
		poll(1000);
	}
	cr_expect(notes.ended, "the end did not come in %d polls", polls);
	cr_expect_eq(times("value 8001 I0 update\n"), 1, "the last value comes first");
}

static uint64_t removed_at;

static void remove_all(void *user, const struct tb_source *from, const struct tb_record *record)
{
	static const char *const names[] = { "I1??" };

	notes_record(user, from, record);
	if (++removed_at == 10)
		cr_assert_eq(tb_names_remove(subscription, names, 1), 1, "%s", tb_error());
}

/* Copies that were on their way are not delivered. */
Test(watch, names_removed_in_a_handler_come_no_more)
{
	static const char *const names[] = { "I1??" };
	struct tb_subscription_options options = options_of(names, 1);

	options.on_record = remove_all;
	wide_topic(8);
	join_by(&options, "wide");
	UNTIL(removed_at >= 10 && looked());
	cr_expect_eq(notes.values, 10);
}

/* -- epochs, ends, refusals ------------------------------------------------------------------- */

Test(watch, everything_is_new_in_a_new_epoch)
{
	static const char *const names[] = { "A", "B" };

	put("B");
	put("A");
	put("A");
	join(names, 2);
	UNTIL(looked());
	cr_assert_eq(tb_topic_restart(topic), 0);
	put("A");
	put("B");
	UNTIL(notes.restarted && looked());
	cr_expect_lt(strstr(notes.text, "restart"), strstr(notes.text, "value 1 A update"));
	cr_expect_eq(times("value 2 B update\n"), 1, "%s", notes.text);
	cr_expect_eq(notes.values, 4, "%s", notes.text);
}

Test(watch, last_values_come_before_the_end)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	put("A");
	options.look_us = 50000; /* the end is known before the next look is due */
	join_by(&options, "t");
	UNTIL(looked());
	put("A");
	put("A");
	cr_assert_eq(tb_topic_end(topic), 0);
	UNTIL(notes.ended);
	cr_expect_eq(times("value 3 A update\nended 3\n"), 1, "%s", notes.text);
}

Test(watch, topic_without_last_values_is_refused)
{
	static const char *const names[] = { "A" };
	const struct tb_subscription_options options = options_of(names, 1);

	scene_topic(publisher, "plain", 64, TB_TOPIC_NO_LAST_VALUE);
	cr_expect_eq(tb_subscribe(subscriber, "plain", &options, &subscription), -EOPNOTSUPP);
	cr_expect(strstr(tb_error(), "topic plain: it has no last values, which a watch list"),
		  "%s", tb_error());
}

Test(watch, quality_is_an_event)
{
	static const char *const names[] = { "A" };

	put("A");
	join(names, 1);
	UNTIL(looked());
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, TB_QUALITY_CAUSE_NONE), 0);
	UNTIL(notes.quality == TB_QUALITY_SUSPECT);
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE), 0);
	UNTIL(notes.quality == TB_QUALITY_GOOD);
	cr_expect_eq(notes.values, 1);
}

/* -- torn values ------------------------------------------------------------------------------ */

static char *value_slot(uint32_t instrument)
{
	return (char *)topic->last_value + (size_t)instrument * topic->slot_bytes;
}

/* For more looks than a byte counts. It is reported once, neither spins nor stops the others, and
 * comes when it is whole again. */
Test(watch, damaged_value_is_reported_once)
{
	static const char *const names[] = { "A", "B" };
	uint64_t before;

	put("A");
	put("B");
	value_slot(0)[RECORD_HEADER_BYTES] ^= 1;
	join(names, 2);
	for (uint64_t i = 1; i <= 256 + 2 * TRIES_MAX; i++) {
		UNTIL(notes.values >= i);
		put("B");
	}
	UNTIL(source->mapping.watch->looked_head == tb_topic_sequence(topic) &&
	      pull_watch_is_idle(source));
	cr_expect_eq(times("no_value A\n"), 1, "found %u no_value", times("no_value A\n"));
	cr_expect_eq(times("no_value"), 1, "found %u no_value", times("no_value"));
	cr_expect_eq(times(" A "), 0, "%s", notes.text);
	before = counter(SUBSCRIPTION_VALUE_LOOKS);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(counter(SUBSCRIPTION_VALUE_LOOKS), before, "it does not spin");
	put("A");
	UNTIL(looked());
	cr_expect_eq(times(" A update\n"), 1, "%s", notes.text);
}

/* Copied again, a few times, although the head does not move. */
Test(watch, value_that_was_torn_for_a_moment_comes)
{
	static const char *const names[] = { "A" };

	put("A");
	join(names, 1);
	UNTIL(looked());
	put("B");
	put("A");
	value_slot(0)[RECORD_HEADER_BYTES] ^= 1;
	UNTIL(source->mapping.watch->torn_count == 1 && source->mapping.watch->retries > 0);
	value_slot(0)[RECORD_HEADER_BYTES] ^= 1;
	UNTIL(looked());
	cr_expect_eq(times("value 3 A update\n"), 1, "%s", notes.text);
	cr_expect_eq(times("no_value"), 0, "%s", notes.text);
}

static void remove_b(void *user, const struct tb_source *from, const struct tb_record *record)
{
	static const char *const b[] = { "B" };

	notes_record(user, from, record);
	if (record->sequence == 3)
		cr_assert_eq(tb_names_remove(subscription, b, 1), 1, "%s", tb_error());
}

Test(watch, torn_value_of_a_removed_name_comes_no_more)
{
	static const char *const names[] = { "A", "B" };
	struct tb_subscription_options options = options_of(names, 2);

	options.on_record = remove_b;
	put("A");
	put("B");
	join_by(&options, "t");
	UNTIL(looked());
	put("A");
	put("B");
	value_slot(0)[RECORD_HEADER_BYTES] ^= 1;
	value_slot(1)[RECORD_HEADER_BYTES] ^= 1;
	UNTIL(source->mapping.watch->torn_count == 2 && source->mapping.watch->retries > 0);
	value_slot(0)[RECORD_HEADER_BYTES] ^= 1;
	value_slot(1)[RECORD_HEADER_BYTES] ^= 1;
	UNTIL(looked());
	cr_expect_eq(times("value 3 A update\n"), 1, "%s", notes.text);
	cr_expect_not(strstr(strstr(notes.text, "value 3 A"), " B "), "%s", notes.text);
}

Test(watch, stored_status_is_left_out)
{
	static const char *const names[] = { "A" };
	struct record record = {
		.sequence = 1, .instrument = 0, .length = 8, .kind = TB_KIND_STATUS
	};

	put("A");
	record_store((struct slot *)(void *)value_slot(0), &record, true, topic->salt);
	join(names, 1);
	UNTIL(source->mapping.watch->torn_count == 1 && pull_watch_is_idle(source));
	cr_expect_eq(notes.values, 0, "%s", notes.text);
}
