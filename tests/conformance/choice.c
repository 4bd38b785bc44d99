/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: the full stream of chosen instruments, with exact accounts. Built once per fabric, with
 * SCHEME. The test writes and polls in one thread. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/bounds.h"
#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/directory.h"
#include "bus/progress.h"
#include "publisher/state.h"
#include "subscriber/choice_scan.h"
#include "subscriber/deliver.h"
#include "subscriber/image.h"
#include "subscriber/pull_image.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"
#include "tests/conformance/scheme.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define IN_PLACE (strcmp(SCHEME, "shm") == 0)
#define FAULTY   (strcmp(SCHEME, "faulty") == 0)
#define MANY     1500 /* instruments: more than one step of the scan judges */

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
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

TestSuite(choice, .init = enter, .fini = leave, .timeout = 60);

/* Publishes a record whose payload is its sequence. */
static void put_as(struct tb_topic *into, const char *name, uint8_t kind, uint8_t flags)
{
	const uint64_t x = tb_topic_sequence(into) + 1;
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)tb_instrument(into, name),
					  .kind = kind,
					  .flags = flags,
					  .length = sizeof(x),
					  .time_ns = 1,
					  .data = &x };

	cr_assert_eq(tb_publish(into, &update), 0, "%s", tb_error());
}

static void put(const char *name)
{
	put_as(topic, name, TB_KIND_UPDATE, 0);
}

static struct tb_subscription_options options_of(const char *const *names, size_t count)
{
	return (struct tb_subscription_options){ .size = sizeof(struct tb_subscription_options),
						 .on_record = notes_record,
						 .on_event = notes_event,
						 .user = &notes,
						 .names = names,
						 .name_count = count };
}

static void join_by(const struct tb_subscription_options *options)
{
	cr_assert_eq(tb_subscribe(subscriber, "t", options, &subscription), 0, "%s", tb_error());
}

static void join(const char *const *names, size_t count)
{
	const struct tb_subscription_options options = options_of(names, count);

	join_by(&options);
}

static uint64_t counter(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

/* Records that the position has passed. */
static uint64_t passed(void)
{
	return counter(SUBSCRIPTION_RECORDS) + counter(SUBSCRIPTION_SKIPPED) +
	       counter(SUBSCRIPTION_LOST_OVERRUN) + counter(SUBSCRIPTION_LOST_BEFORE_JOIN) +
	       counter(SUBSCRIPTION_LOST_UPSTREAM) + counter(SUBSCRIPTION_LOST_CORRUPT);
}

static int poll(int max)
{
	const int count = tb_poll(subscriber, max);

	cr_assert_geq(count, 0, "%s", tb_error());
	if (count == 0)
		cr_assert_geq(tb_wait(subscriber, 1), 0, "%s", tb_error());
	return count;
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

static unsigned int times(const char *words)
{
	unsigned int count = 0;

	for (const char *at = notes.text; at && (at = strstr(at, words)); at++)
		count++;
	return count;
}

/* The directory of each joined topic was read. */
static bool scanned(void)
{
	const struct tb_source *s = subscription->sources;

	return s->state == SOURCE_RUNNING && !choice_scan_is_due(s->mapping.choice);
}

/* -- records ---------------------------------------------------------------------------------- */

Test(choice, filter_delivers_chosen_records_and_counts_the_others)
{
	static const char *const names[] = { "A", "C*", "?2" };

	join(names, 3);
	put("A");
	put("B");
	put("C1");
	put("D2");
	put("D1");
	put("C");
	put("A");
	UNTIL(passed() == 7);
	cr_expect(strstr(notes.text, "1 A update 1\n3 C1 update 3\n4 D2 update 4\n"
				     "6 C update 6\n7 A update 7\n"),
		  "%s", notes.text);
	cr_expect_eq(notes.records, 5);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 5);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 2);
	cr_expect_eq(notes.wrong, 0);
}

Test(choice, empty_list_chooses_no_instrument)
{
	static const char *const empty[1];

	join(empty, 0);
	put("A");
	put("B");
	UNTIL(passed() == 2);
	cr_expect_eq(notes.records, 0);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 2);
}

Test(choice, skipped_records_count_as_work_of_a_poll)
{
	static const char *const names[] = { "A" };
	int count, most = 0, sum = 0;

	put("B");
	join(names, 1);
	for (int i = 0; i < 60; i++)
		put("B");
	while (sum < 60) {
		count = poll(7);
		most = count > most ? count : most;
		sum += count;
	}
	cr_expect_eq(most, 7, "found %d records in a poll", most);
	cr_expect_eq(sum, 60);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 60);
}

Test(choice, qualities_come_at_their_place)
{
	static const char *const names[] = { "A" };

	join(names, 1);
	put("B");
	put("A");
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, TB_QUALITY_CAUSE_NONE), 0);
	put("B");
	put("A");
	UNTIL(passed() == 5);
	cr_expect(strstr(notes.text, "2 A update 2\nquality 1 0 at 3\n5 A update 5\n"), "%s",
		  notes.text);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 3);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 2);
}

static void hole(void)
{
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_HOLE,
					  .time_ns = 1 };

	cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
}

/* A skipped record between two holes separates them. */
Test(choice, holes_are_lost_and_skipped_records_are_not)
{
	static const char *const names[] = { "A" };

	join(names, 1);
	put("A");
	put("B");
	hole();
	hole();
	put("B");
	hole();
	put("A");
	UNTIL(passed() == 7);
	cr_expect_eq(times("gap 3 4 upstream\n"), 1, "%s", notes.text);
	cr_expect_eq(times("gap 6 6 upstream\n7 A"), 1, "%s", notes.text);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 2);
	cr_expect_eq(counter(SUBSCRIPTION_LOST_UPSTREAM), 3);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 2);
}

/* -- accounts --------------------------------------------------------------------------------- */

/* What the handlers were given, by sequence. */
static struct {
	uint64_t next; /* sequences below this were delivered, skipped or reported */
	uint64_t delivered, lost, between, wrong;
} seen;

static void seen_at(uint64_t sequence)
{
	seen.wrong += sequence < seen.next;
	seen.between += sequence - seen.next;
	seen.next = sequence + 1;
}

static void seen_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	seen_at(record->sequence);
	seen.delivered++;
	seen.wrong += record->name[0] != 'A' || *(const uint64_t *)record->data != record->sequence;
}

static void seen_batch(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		const struct tb_slot *slot = tb_batch_record(batch, i);

		(void)user;
		seen_at(slot->sequence);
		seen.delivered++;
		seen.wrong += tb_source_name(source, slot->instrument)[0] != 'A' ||
			      *(const uint64_t *)tb_slot_data(slot) != slot->sequence;
	}
}

static void seen_event(void *user, const struct tb_event *event)
{
	(void)user;
	if (event->kind != TB_EVENT_GAP)
		return;
	seen_at(event->first);
	seen.lost += event->last - event->first + 1;
	seen.between += event->skipped;
	seen.next = event->last + event->skipped + 1;
	seen.wrong += event->delivered != event->last + event->skipped;
}

/* Every sequence is exactly one of delivered, skipped and lost, also if the reader is lapped. */
static void lapped(enum tb_gap gap, uint32_t flags, bool batches)
{
	static const char *const names[] = { "A*" };
	static const char *const written[] = { "A1", "B1", "A2", "C", "B2", "A3" };
	struct tb_subscription_options options = options_of(names, 1);
	const int rounds = scene_rounds(300);
	uint64_t wanted = 0;

	memset(&seen, 0, sizeof(seen));
	seen.next = 1;
	options.gap = gap;
	options.flags = flags;
	options.from = TB_FROM_OLDEST;
	options.on_event = seen_event;
	options.on_record = batches ? NULL : seen_record;
	options.on_batch = batches ? seen_batch : NULL;
	join_by(&options);
	for (int round = 0; round < rounds; round++) {
		uint64_t burst = random_draw(&chance) % (round % 10 == 0 ? 200 : 40);

		for (; burst > 0; burst--) {
			const char *name = written[random_draw(&chance) % 6];

			wanted += name[0] == 'A';
			put(name);
		}
		poll((int)(1 + random_draw(&chance) % 50));
	}
	UNTIL(passed() == tb_topic_sequence(topic));
	seen_at(tb_topic_sequence(topic) + 1);
	cr_expect_eq(seen.wrong, 0);
	cr_expect_eq(seen.delivered, counter(SUBSCRIPTION_RECORDS));
	cr_expect_eq(seen.between, counter(SUBSCRIPTION_SKIPPED));
	cr_expect_eq(seen.lost, counter(SUBSCRIPTION_LOST_OVERRUN));
	cr_expect_gt(seen.lost, 0, "the reader was never lapped");
	cr_expect_leq(seen.delivered, wanted);
}

Test(choice, accounts_are_exact_under_laps)
{
	lapped(TB_GAP_OLDEST, 0, false);
}

Test(choice, accounts_are_exact_if_a_lap_skips_to_the_newest)
{
	lapped(TB_GAP_NEWEST, 0, false);
}

Test(choice, accounts_of_batches_are_exact_under_laps)
{
	lapped(TB_GAP_OLDEST, 0, true);
}

Test(choice, accounts_of_strict_readers_are_exact_under_laps)
{
	lapped(TB_GAP_OLDEST, TB_STRICT, false);
}

/* -- batches ---------------------------------------------------------------------------------- */

static char batched[512];

static void on_batch(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	const size_t used = strlen(batched);
	int length = snprintf(batched + used, sizeof(batched) - used, "[");

	(void)user;
	(void)source;
	for (uint32_t i = 0; i < batch->count; i++)
		length += snprintf(batched + used + length, sizeof(batched) - used - (size_t)length,
				   " %" PRIu64, tb_batch_record(batch, i)->sequence);
	snprintf(batched + used + length, sizeof(batched) - used - (size_t)length, " ]");
}

/* The record that ends a message may be of another instrument. */
Test(choice, batch_ends_with_its_message_without_the_last_record)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	topic = scene_topic(publisher, "m", 64, TB_TOPIC_MARKS_MESSAGES);
	options.on_record = NULL;
	options.on_batch = on_batch;
	cr_assert_eq(tb_subscribe(subscriber, "m", &options, &subscription), 0, "%s", tb_error());
	put_as(topic, "A", TB_KIND_UPDATE, 0);
	put_as(topic, "B", TB_KIND_UPDATE, 0);
	put_as(topic, "A", TB_KIND_UPDATE, 0);
	for (int i = 0; i < 100; i++)
		poll(10);
	cr_expect_str_eq(batched, "", "the message is not over");
	put_as(topic, "B", TB_KIND_UPDATE, TB_FLAG_LAST);
	UNTIL(passed() == 4);
	cr_expect_str_eq(batched, "[ 1 3 ]");
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 2);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 2);
}

static uint64_t gap_delivered;

static void on_ended(void *user, const struct tb_event *event)
{
	(void)user;
	if (event->kind == TB_EVENT_STALE || event->kind == TB_EVENT_QUALITY)
		gap_delivered = event->delivered;
}

/* The held record 2 is not delivered yet, and record 3 behind it was skipped. */
Test(choice, event_before_held_records_says_what_was_delivered)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	topic = scene_topic(publisher, "m", 64, TB_TOPIC_MARKS_MESSAGES);
	options.on_record = NULL;
	options.on_batch = on_batch;
	options.on_event = on_ended;
	cr_assert_eq(tb_subscribe(subscriber, "m", &options, &subscription), 0, "%s", tb_error());
	put_as(topic, "B", TB_KIND_UPDATE, TB_FLAG_LAST);
	put_as(topic, "A", TB_KIND_UPDATE, 0);
	put_as(topic, "B", TB_KIND_UPDATE, 0);
	UNTIL(subscription->sources->next == 4);
	cr_assert_eq(subscription->sources->collected.held, 1);
	subscription->sources->stale = false;
	deliver_event(subscription->sources, TB_EVENT_STALE);
	cr_expect_eq(gap_delivered, 1, "found %" PRIu64, gap_delivered);
}

/* -- images ----------------------------------------------------------------------------------- */

Test(choice, image_has_chosen_instruments_only)
{
	static const char *const names[] = { "A", "C*" };
	struct tb_subscription_options options = options_of(names, 2);

	put("A");
	put("B");
	put("C1");
	put("C2");
	put("D");
	options.from = TB_FROM_IMAGE;
	join_by(&options);
	UNTIL(notes.complete);
	cr_expect_eq(notes.values, 3, "%s", notes.text);
	cr_expect_eq(times("value 1 A update\n"), 1, "%s", notes.text);
	cr_expect_eq(times("value 3 C1 update\n"), 1, "%s", notes.text);
	cr_expect_eq(counter(SUBSCRIPTION_IMAGE_RECORDS), 3);
	put("B");
	put("A");
	UNTIL(passed() == 2);
	cr_expect_eq(times("7 A update 7\n"), 1, "%s", notes.text);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
}

static void remove_others(void *user, const struct tb_source *source,
			  const struct tb_record *record)
{
	static const char *const others[] = { "B", "C" };

	notes_record(user, source, record);
	if (notes.values == 1)
		cr_assert_eq(tb_names_remove(subscription, others, 2), 2, "%s", tb_error());
}

Test(choice, image_leaves_out_names_removed_in_a_handler)
{
	static const char *const names[] = { "A", "B", "C" };
	struct tb_subscription_options options = options_of(names, 3);

	put("A");
	put("B");
	put("C");
	options.from = TB_FROM_IMAGE;
	options.on_record = remove_others;
	join_by(&options);
	UNTIL(notes.complete);
	cr_expect_eq(times("value 1 A update\n"), 1, "%s", notes.text);
	cr_expect_eq(notes.values, 1, "%s", notes.text);
}

static _Atomic uint64_t *check_of_line(void)
{
	return &topic->line->word[offsetof(struct progress, check) / 8];
}

/* Its writer may be stopped while it writes the line. */
static void add_while_the_line_is_invalid(void *user, const struct tb_source *source,
					  const struct tb_record *record)
{
	static const char *const added[] = { "B" };

	notes_record(user, source, record);
	if (notes.values > 1)
		return;
	atomic_fetch_xor(check_of_line(), 1);
	cr_assert_eq(tb_names_add(subscription, added, 1), 1, "%s", tb_error());
}

/* The report of the added name waits for the line, and a sleeper looks at a pace. The image does
 * not wait. */
Test(choice, image_completes_while_an_added_name_waits_for_a_line)
{
	static const char *const names[] = { "A", "C" };
	struct tb_subscription_options options = options_of(names, 2);
	const struct tb_source *source;

	put("A");
	put("B");
	put("C");
	options.from = TB_FROM_IMAGE;
	options.on_record = add_while_the_line_is_invalid;
	join_by(&options);
	while (notes.values == 0)
		poll(1);
	source = tb_subscription_source(subscription, "t");
	while (source->invalid == 0 || source->page_under_way)
		poll(1);
	cr_expect_eq(choice_scan_work(source), VALUE_WORK_SOON);
	UNTIL(notes.complete);
	cr_expect_eq(times("value 3 C update\n"), 1, "%s", notes.text);
	atomic_fetch_xor(check_of_line(), 1);
	UNTIL(scanned());
}

/* The image begins again after a lap. */
Test(choice, image_after_a_lap_has_chosen_instruments_only)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	put("A");
	put("B");
	options.from = TB_FROM_IMAGE;
	options.gap = TB_GAP_IMAGE;
	join_by(&options);
	UNTIL(notes.complete);
	put("A");
	for (int i = 0; i < 200; i++)
		put("B");
	UNTIL(notes.images == 2 && notes.complete && passed() >= 201);
	cr_expect_eq(notes.values, 2, "%s", notes.text);
	cr_expect_eq(times("value 3 A update\n"), 1, "%s", notes.text);
	cr_expect_eq(passed(), 201);
}

/* The record that ends the message is of another instrument. */
Test(choice, image_completes_behind_a_skipped_end_of_a_message)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	topic = scene_topic(publisher, "m", 64, TB_TOPIC_MARKS_MESSAGES);
	put("A");
	options.from = TB_FROM_IMAGE;
	cr_assert_eq(tb_subscribe(subscriber, "m", &options, &subscription), 0, "%s", tb_error());
	UNTIL(notes.values == 1);
	put("A");
	UNTIL(passed() == 1);
	cr_expect_not(notes.complete, "the message is not over");
	put_as(topic, "B", TB_KIND_UPDATE, TB_FLAG_LAST);
	UNTIL(passed() == 2);
	cr_expect(notes.complete, "at the record, without another line");
	cr_expect(strstr(notes.text, "2 A update 2\ncomplete 3\n"), "%s", notes.text);
}

/* -- changes of the list ---------------------------------------------------------------------- */

static const char *const texts_of_list[] = { "A",  "B",  "C1", "C2",   "D",
					     "A*", "?1", "C*", "[BD]", "*2" };
#define TEXTS (sizeof(texts_of_list) / sizeof(texts_of_list[0]))

/* Random changes: after each, every instrument that was judged is chosen exactly if an entry of the
 * list matches it. No name that is there is reported. */
Test(choice, changes_judge_each_instrument_as_the_list_is)
{
	static const char *const written[] = { "A", "B", "C1", "C2", "D", "A2", "E" };
	const struct tb_source *source;
	bool in[TEXTS] = { false };

	for (size_t i = 0; i < 7; i++)
		put(written[i]);
	join(texts_of_list, 0);
	UNTIL(scanned());
	source = subscription->sources;
	for (int round = 0; round < scene_rounds(500); round++) {
		const size_t at = random_below(&chance, TEXTS);

		cr_assert_eq((in[at] ? tb_names_remove : tb_names_add)(subscription,
								       &texts_of_list[at], 1),
			     1, "%s", tb_error());
		in[at] = !in[at];
		for (uint32_t i = 0; i < 7; i++) {
			bool chosen = false;

			for (size_t j = 0; j < TEXTS; j++)
				chosen |= in[j] && fnmatch(texts_of_list[j], written[i], 0) == 0;
			cr_assert_eq(choice_is_taken(source->mapping.choice, i), chosen,
				     "round %d: %s", round, written[i]);
			cr_assert_eq(choice_is_left(source->mapping.choice, i), !chosen,
				     "round %d: %s", round, written[i]);
		}
		poll(100);
	}
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument"), 0, "%s", notes.text);
}

Test(choice, change_of_the_list_holds_from_the_next_record)
{
	static const char *const first[] = { "A" }, *const more[] = { "B", "A", "B" };

	join(first, 1);
	put("A");
	put("B");
	UNTIL(passed() == 2);
	cr_expect_eq(tb_names_add(subscription, more, 3), 1, "%s", tb_error());
	put("B");
	put("A");
	UNTIL(passed() == 4);
	cr_expect_eq(tb_names_remove(subscription, more, 2), 2, "%s", tb_error());
	put("A");
	put("B");
	put("C");
	UNTIL(passed() == 7);
	cr_expect(strstr(notes.text, "1 A update 1\n3 B update 3\n4 A update 4\n"), "%s",
		  notes.text);
	cr_expect_eq(notes.records, 3);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 4);
}

static void add_b(void *user, const struct tb_source *source, const struct tb_record *record)
{
	static const char *const b[] = { "B" };

	notes_record(user, source, record);
	if (record->sequence == 2)
		cr_assert_eq(tb_names_add(subscription, b, 1), 1, "%s", tb_error());
	if (record->sequence == 5)
		cr_assert_eq(tb_names_remove(subscription, b, 1), 1, "%s", tb_error());
}

Test(choice, handler_changes_the_list)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	options.on_record = add_b;
	join_by(&options);
	put("B");
	put("A");
	put("B");
	put("B");
	put("A");
	put("B");
	UNTIL(passed() == 6);
	cr_expect(strstr(notes.text, "2 A update 2\n3 B update 3\n4 B update 4\n5 A update 5\n"),
		  "%s", notes.text);
	cr_expect_eq(notes.records, 4);
}

Test(choice, wrong_names_are_refused_and_the_list_stays)
{
	static const char *const right[] = { "A" };
	static const char *const wrong[][1] = {
		{ "" }, { "a name of more than 24 bytes" }, { " A" }, { "\x01*" }, { NULL }
	};
	static const char *const mixed[] = { "B", "a name of more than 24 bytes" };
	static const char *const missing[] = { "A", "B" };
	char pattern[130];
	const char *const longest[] = { pattern };
	struct tb_subscription *all;
	struct tb_subscription_options options;

	for (size_t i = 0; i < 5; i++) {
		options = options_of(wrong[i], 1);
		cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	}
	join(right, 1);
	for (size_t i = 0; i < 5; i++) {
		cr_expect_eq(tb_names_add(subscription, wrong[i], 1), -EINVAL, "%zu", i);
		cr_expect_eq(tb_names_remove(subscription, wrong[i], 1), -EINVAL, "%zu", i);
	}
	cr_expect_eq(tb_names_add(subscription, mixed, 2), -EINVAL);
	cr_expect_eq(tb_names_remove(subscription, missing, 2), -ENOENT);
	cr_expect(strstr(tb_error(), "tb_names_remove: instrument names: found no B in the list"),
		  "%s", tb_error());
	memset(pattern, '*', 128);
	pattern[128] = '\0';
	cr_expect_eq(tb_names_add(subscription, longest, 1), -EINVAL);
	pattern[127] = '\0';
	cr_expect_eq(tb_names_add(subscription, longest, 1), 1);
	cr_expect_eq(tb_names_remove(subscription, longest, 1), 1);
	put("A");
	put("B");
	UNTIL(passed() == 2);
	cr_expect_eq(notes.records, 1);
	options = options_of(NULL, 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &all), 0, "%s", tb_error());
	cr_expect_eq(tb_names_add(all, right, 1), -EINVAL);
	cr_expect(strstr(tb_error(), "found a subscription without a list"), "%s", tb_error());
	cr_expect_eq(tb_names_remove(all, right, 1), -EINVAL);
}

static const char *listed[BOUND_NAMES_MAX + 1];
static char texts[BOUND_NAMES_MAX + 1][16];

Test(choice, list_has_at_most_65536_names)
{
	static const char *const a[] = { "A" };

	for (int i = 0; i <= BOUND_NAMES_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]), "N%d", i);
		listed[i] = texts[i];
	}
	join(listed, BOUND_NAMES_MAX);
	cr_expect_eq(tb_names_add(subscription, listed + 1, BOUND_NAMES_MAX), -ENOSPC);
	cr_expect(strstr(tb_error(), "found 65536 names in the list and 1 more"), "%s", tb_error());
	cr_expect_eq(tb_names_remove(subscription, listed + 7, 1), 1);
	cr_expect_eq(tb_names_add(subscription, a, 1), 1, "%s", tb_error());
	put("N7");
	put("N8");
	put("A");
	UNTIL(passed() == 3);
	cr_expect_eq(notes.records, 2);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
}

/* -- names without an instrument -------------------------------------------------------------- */

Test(choice, name_without_an_instrument_is_reported_once)
{
	static const char *const names[] = { "A", "B", "X*", "A*" };
	static const char *const more[] = { "C" };

	put("A");
	join(names, 4);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument"), 2, "%s", notes.text);
	cr_expect_eq(times("no_instrument t B\n"), 1, "%s", notes.text);
	cr_expect_eq(times("no_instrument t X*\n"), 1, "%s", notes.text);
	cr_expect_eq(tb_names_add(subscription, more, 1), 1);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument"), 3, "%s", notes.text);
	cr_expect_eq(times("no_instrument t C\n"), 1, "%s", notes.text);
	put("B");
	put("X1");
	put("D");
	UNTIL(passed() == 3);
	cr_expect_eq(notes.records, 2, "instruments that appear later are chosen");
	cr_expect_eq(times("no_instrument"), 3, "%s", notes.text);
}

/* The line that counts a new instrument is loaded after the change of the list. */
Test(choice, name_that_was_there_is_not_reported)
{
	static const char *const names[] = { "A" }, *const more[] = { "Z" };

	put("A");
	join(names, 1);
	UNTIL(scanned());
	cr_assert_eq(tb_instrument(topic, "Z"), 1);
	cr_expect_eq(tb_names_add(subscription, more, 1), 1);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument"), 0, "%s", notes.text);
}

Test(choice, name_is_reported_again_in_a_new_epoch)
{
	static const char *const names[] = { "A", "B" };

	put("A");
	put("B");
	join(names, 2);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument"), 0, "%s", notes.text);
	cr_assert_eq(tb_topic_restart(topic), 0);
	put("B");
	put("C");
	UNTIL(notes.restarted && scanned() && passed() == 2);
	cr_expect_eq(times("no_instrument t A\n"), 1, "%s", notes.text);
	cr_expect_eq(times("no_instrument"), 1, "%s", notes.text);
	cr_expect_eq(notes.records, 1);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
}

static void wide_topic(void)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = "wide",
						  .schema = schema,
						  .slots = 64,
						  .instruments = MANY };
	char name[16];

	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		cr_assert_eq(tb_instrument(topic, name), i);
	}
	tb_flush(topic);
}

static const struct fabric_ops *counted;
static struct fabric_ops counting;
static uint64_t bytes_of_values;

static int counting_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	const int posted = counted->read(link, reads, count);

	for (int i = 0; i < posted; i++)
		if (tag_unpack(reads[i].tag).kind == READ_VALUES)
			bytes_of_values += reads[i].bytes;
	return posted;
}

Test(choice, image_copies_chosen_slots_alone)
{
	static const char *const names[] = { "I7", "I700" };
	struct tb_subscription_options options = options_of(names, 2);
	char name[16];

	if (FAULTY)
		cr_skip_test("READs that are torn are repeated here");
	counted = subscriber->ops;
	counting = *counted;
	counting.read = counting_read;
	subscriber->ops = &counting;
	wide_topic();
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		put(name);
	}
	options.from = TB_FROM_IMAGE;
	cr_assert_eq(tb_subscribe(subscriber, "wide", &options, &subscription), 0, "%s",
		     tb_error());
	UNTIL(notes.complete);
	cr_expect_eq(notes.values, 2);
	cr_expect_eq(bytes_of_values, IN_PLACE ? 0 : 2 * 64, "found %" PRIu64 " bytes",
		     bytes_of_values);
}

/* Its names are reported before the end. */
Test(choice, topic_that_has_ended_reports_names)
{
	static const char *const names[] = { "I1499", "none" };
	const struct tb_subscription_options options = options_of(names, 2);

	wide_topic();
	cr_assert_eq(tb_subscribe(subscriber, "wide", &options, &subscription), 0, "%s",
		     tb_error());
	cr_assert_eq(tb_topic_end(topic), 0);
	subscription->sources->look = true; /* the line says so before the names are read */
	UNTIL(notes.ended);
	cr_expect_eq(times("no_instrument"), 1, "found %u reports", times("no_instrument"));
	cr_expect_lt(strstr(notes.text, "no_instrument wide none"), strstr(notes.text, "ended"));
}

/* -- waits that cannot be renewed ------------------------------------------------------------- */

#define POLLS 4000

/* Adds a name before each poll, or removes it again. False: too many polls. */
static bool list_turn(int *polls)
{
	static const char *const more[] = { "I7" };

	cr_assert_eq((*polls % 2 == 0 ? tb_names_add : tb_names_remove)(subscription, more, 1), 1,
		     "%s", tb_error());
	poll(1000);
	return ++*polls < POLLS;
}

static void join_wide(const struct tb_subscription_options *options)
{
	char name[16];

	wide_topic();
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		put(name);
	}
	cr_assert_eq(tb_subscribe(subscriber, "wide", options, &subscription), 0, "%s", tb_error());
}

Test(choice, image_completes_while_the_list_changes)
{
	static const char *const names[] = { "I0", "I1499" };
	struct tb_subscription_options options = options_of(names, 2);
	int polls = 0;

	options.from = TB_FROM_IMAGE;
	join_wide(&options);
	while (!notes.complete && list_turn(&polls))
		;
	cr_expect(notes.complete, "the image was not complete in %d polls", polls);
	cr_expect_eq(times("value 1500 I1499 update\n"), 1, "%s", notes.text);
}

/* A pass over all values needs every instrument judged. */
Test(choice, conflated_values_come_while_the_list_changes)
{
	static const char *const names[] = { "I0", "I1499" };
	struct tb_subscription_options options = options_of(names, 2);
	char name[16];
	int polls = 0;

	options.conflate_us = TB_CONFLATE_POLL;
	join_wide(&options);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		put(name);
	}
	while (times(" I1499 update") == 0 && list_turn(&polls))
		;
	cr_expect_eq(times("3000 I1499 update"), 1, "%s", notes.text);
}

Test(choice, missing_name_is_reported_while_the_list_changes)
{
	static const char *const names[] = { "I0", "none" };
	const struct tb_subscription_options options = options_of(names, 2);
	int polls = 0;

	join_wide(&options);
	while (times("no_instrument wide none") == 0 && list_turn(&polls))
		;
	cr_expect_eq(times("no_instrument"), 1, "found %u reports", times("no_instrument"));
}

Test(choice, end_comes_while_the_list_changes)
{
	static const char *const names[] = { "I0", "none" };
	const struct tb_subscription_options options = options_of(names, 2);
	int polls = 0;

	join_wide(&options);
	cr_assert_eq(tb_topic_end(topic), 0);
	while (!notes.ended && list_turn(&polls))
		;
	cr_expect(notes.ended, "the end did not come in %d polls", polls);
	cr_expect_eq(times("no_instrument wide none"), 1, "%s", notes.text);
}

/* Names come first: a sleeper of the image has nothing to do meanwhile. */
Test(choice, image_that_waits_for_names_is_no_work)
{
	static const char *const names[] = { "I0" };
	struct tb_subscription_options options = options_of(names, 1);
	struct tb_source *source;
	struct value_reads kept;

	options.from = TB_FROM_IMAGE;
	join_wide(&options);
	source = subscription->sources;
	while (source->state != SOURCE_RUNNING || source->mapping.image->phase != IMAGE_PASS)
		cr_assert_geq(tb_poll(subscriber, 1000), 0, "%s", tb_error());
	/* Over a network the names may have come already, and values may be under way. */
	source->mapping.choice->at = 0;
	kept = source->value_reads;
	value_reads_interrupted(&source->value_reads);
	cr_expect_eq(pull_image_work(source), VALUE_WORK_NONE);
	source->value_reads = kept;
	UNTIL(notes.complete);
}

/* An entry that is not valid is left out (CH4). */
Test(choice, damaged_name_does_not_hold_up_the_report)
{
	static const char *const names[] = { "A", "C", "none" };
	_Atomic uint64_t *const name =
		(_Atomic uint64_t *)(void *)(topic->directory + DIRECTORY_ENTRY_BYTES);

	put("A");
	put("B");
	put("C");
	atomic_fetch_xor(name, 1);
	join(names, 3);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument"), 1, "%s", notes.text);
	cr_expect_eq(times("no_instrument t none\n"), 1, "%s", notes.text);
	atomic_fetch_xor(name, 1);
}

static void on_no_instrument(void *user, const struct tb_event *event)
{
	static const char *const more[] = { "M1", "M2" };

	notes_event(user, event);
	if (event->kind == TB_EVENT_NO_INSTRUMENT && event->words[0] == 'L') {
		tb_names_add(subscription, more, 2);
		tb_names_remove(subscription, more, 1);
	}
}

/* Each name once, although the report begins again (CH5). */
Test(choice, handler_of_a_missing_name_changes_the_list)
{
	static const char *const names[] = { "K", "L", "N" };
	struct tb_subscription_options options = options_of(names, 3);

	options.on_event = on_no_instrument;
	put("A");
	join_by(&options);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument t K\n"), 1, "%s", notes.text);
	cr_expect_eq(times("no_instrument t L\n"), 1, "%s", notes.text);
	cr_expect_eq(times("no_instrument t N\n"), 1, "%s", notes.text);
	cr_expect_eq(times("no_instrument t M2\n"), 1, "%s", notes.text);
	cr_expect_eq(times("no_instrument"), 4, "%s", notes.text);
}

static void on_removable_name(void *user, const struct tb_event *event)
{
	if (event->kind == TB_EVENT_NO_INSTRUMENT)
		cr_assert_eq(tb_names_remove(subscription, &event->words, 1), 1, "%s", tb_error());
	notes_event(user, event);
}

/* The words of the event are valid until its handler returns. */
Test(choice, handler_removes_a_missing_name)
{
	static const char *const names[] = { "a_missing_instrument", "A" };
	struct tb_subscription_options options = options_of(names, 2);

	options.on_event = on_removable_name;
	put("A");
	join_by(&options);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument t a_missing_instrument\n"), 1, "%s", notes.text);
}

/* The list becomes shorter while it is gone through. */
Test(choice, handler_of_missing_names_removes_each)
{
	static const char *const names[] = { "K", "L", "M", "N", "x*", "y*" };
	struct tb_subscription_options options = options_of(names, 6);

	options.on_event = on_removable_name;
	put("A");
	cr_assert_eq(tb_topic_end(topic), 0); /* no other report follows */
	join_by(&options);
	UNTIL(notes.ended);
	cr_expect_eq(times("no_instrument"), 6, "%s", notes.text);
	cr_expect_eq(subscription->list->count, 0);
}

/* The removed name was reported; the added name gets its number in the list. */
Test(choice, name_that_takes_the_place_of_another_is_reported)
{
	static const char *const names[] = { "K" }, *const more[] = { "L" };

	put("A");
	join(names, 1);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument t K\n"), 1, "%s", notes.text);
	cr_assert_eq(tb_names_remove(subscription, names, 1), 1);
	cr_assert_eq(tb_names_add(subscription, more, 1), 1);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument t L\n"), 1, "%s", notes.text);
}

static void on_missing_name(void *user, const struct tb_event *event)
{
	static const char *const more[] = { "Z" };

	notes_event(user, event);
	if (event->kind != TB_EVENT_NO_INSTRUMENT)
		return;
	cr_assert_eq(tb_instrument(topic, "Z"), 1, "%s", tb_error());
	cr_assert_eq(tb_names_add(subscription, more, 1), 1, "%s", tb_error());
}

/* The report goes on behind the missing name, where the added name now is. Its line did not count
 * the instrument of the added name. */
Test(choice, added_name_is_looked_for_before_it_is_reported)
{
	static const char *const names[] = { "K" };
	struct tb_subscription_options options = options_of(names, 1);

	options.on_event = on_missing_name;
	put("A");
	join_by(&options);
	UNTIL(scanned());
	cr_expect_eq(times("no_instrument"), 1, "%s", notes.text);
	put("Z");
	UNTIL(passed() == 1);
	cr_expect_eq(notes.records, 1);
}

/* -- required names --------------------------------------------------------------------------- */

Test(choice, topic_without_a_required_name_is_refused)
{
	static const char *const names[] = { "A", "Y", "X", "none*" };
	struct tb_subscription_options options = options_of(names, 4);

	put("A");
	options.flags = TB_NAMES_REQUIRED;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -ENOENT);
	cr_expect(strstr(tb_error(), "topic t: found no instrument X, Y among its 1"), "%s",
		  tb_error());
	cr_expect_not(notes.refused, "the call returns it");
	cr_expect_eq(times("appeared"), 0, "%s", notes.text);
}

Test(choice, first_missing_names_are_named)
{
	static const char *const names[] = { "N1", "N2", "N3", "N4", "N5", "N6", "N7" };
	struct tb_subscription_options options = options_of(names, 7);

	options.flags = TB_NAMES_REQUIRED;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -ENOENT);
	cr_expect(strstr(tb_error(), "no instrument N1, N2, N3, N4, N5 and 2 more among its 0"),
		  "%s", tb_error());
}

Test(choice, topic_with_all_required_names_is_joined)
{
	static const char *const names[] = { "I0", "I1499", "I7*" };
	static const char *const there[] = { "I5" }, *const missing[] = { "I5", "none" };
	static const char *const pattern[] = { "none*" };
	struct tb_subscription_options options = options_of(names, 3);

	wide_topic();
	options.flags = TB_NAMES_REQUIRED;
	cr_assert_eq(tb_subscribe(subscriber, "wide", &options, &subscription), 0, "%s",
		     tb_error());
	put("I0");
	put("I1");
	put("I1499");
	UNTIL(passed() == 3);
	cr_expect_eq(notes.records, 2);
	cr_expect_eq(tb_names_add(subscription, missing, 2), -ENOENT);
	cr_expect(strstr(tb_error(), "none"), "%s", tb_error());
	put("I5");
	UNTIL(passed() == 4);
	cr_expect_eq(notes.records, 2, "nothing was added");
	cr_expect_eq(tb_names_add(subscription, there, 1), 1, "%s", tb_error());
	cr_expect_eq(tb_names_add(subscription, pattern, 1), 1, "%s", tb_error());
	put("I5");
	UNTIL(passed() == 5);
	cr_expect_eq(notes.records, 3);
}

Test(choice, other_topics_of_a_pattern_are_joined)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);
	struct tb_topic *other = scene_topic(publisher, "u", 64, 0);

	put("B");
	put_as(other, "A", TB_KIND_UPDATE, 0);
	options.flags = TB_NAMES_REQUIRED;
	options.from = TB_FROM_OLDEST;
	cr_assert_eq(tb_subscribe(subscriber, "*", &options, &subscription), 0, "%s", tb_error());
	UNTIL(notes.records == 1);
	cr_expect_eq(times("refused t 2 topic t: found no instrument A among its 1"), 1, "%s",
		     notes.text);
	cr_expect_eq(times("appeared u"), 1, "%s", notes.text);
	cr_expect_null(tb_subscription_source(subscription, "t"));
	scene_topic(publisher, "v", 64, 0); /* the topics are looked at again */
	UNTIL(times("refused v ") == 1);
	cr_expect_eq(times("refused t "), 1, "%s", notes.text);
	tb_topic_restart(topic);
	put("A");
	UNTIL(times("appeared t") == 1);
}

static struct tb_group *group;

static void put_grouped(const char *name)
{
	const uint64_t x = tb_topic_sequence(topic) + 1;
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)tb_instrument(topic, name),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(x),
					  .data = &x };

	tb_group_message(group);
	cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	tb_group_flush(group);
}

static void join_merge(void)
{
	static const char *const names[] = { "A" };
	struct tb_subscription_options options = options_of(names, 1);

	group = scene_group(publisher, "g");
	topic = scene_grouped(publisher, "m", 64, 0, group);
	put_grouped("A");
	options.flags = TB_NAMES_REQUIRED | TB_MERGE;
	cr_assert_eq(tb_subscribe(subscriber, "m", &options, &subscription), 0, "%s", tb_error());
	put_grouped("A");
	UNTIL(notes.records == 1);
}

static void comes_back(void)
{
	put_grouped("B");
	UNTIL(times("no_instrument m A") == 1);
	put_grouped("A");
	UNTIL(notes.records == 2);
	cr_expect_not(notes.refused, "%s", notes.text);
}

/* The merge went on without it, and its new epoch has no name yet. */
Test(choice, merged_topic_that_ended_comes_back_without_a_name)
{
	join_merge();
	cr_assert_eq(tb_topic_end(topic), 0);
	UNTIL(notes.ended);
	cr_assert_eq(tb_topic_restart(topic), 0);
	comes_back();
}

/* The epoch between them has no start: its line is not valid, and then it is not looked at. */
Test(choice, merged_topic_that_restarts_twice_comes_back)
{
	struct tb_source *source;

	join_merge();
	source = subscription->sources;
	cr_assert_eq(tb_topic_end(topic), 0);
	UNTIL(notes.ended);
	cr_assert_eq(tb_topic_restart(topic), 0);
	atomic_fetch_xor(check_of_line(), 1);
	UNTIL(source->next == 0 && source->invalid > 0);
	cr_assert_eq(tb_topic_restart(topic), 0);
	while (!source->has_successor) {
		source->fetched_ns = clock_ns(); /* a pause comes before the next look */
		cr_assert_geq(tb_poll(subscriber, 1), 0, "%s", tb_error());
	}
	comes_back();
}
