/* SPDX-License-Identifier: Apache-2.0 */
/* Last values and instruments by name, read from a topic's memory. Built once per fabric, with
 * SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/bus_page.h"
#include "bus/counters.h"
#include "bus/directory.h"
#include "bus/fabric.h"
#include "bus/words.h"
#include "publisher/publisher.h"
#include "publisher/state.h"
#include "publisher/topic.h"
#include "subscriber/state.h"
#include "tests/conformance/scheme.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/scene.h"

#define IN_PLACE (strcmp(SCHEME, "shm") == 0)
#define FAULTY   (strcmp(SCHEME, "faulty") == 0) /* READs are torn and late */
#define MANY     3000 /* instruments: more than a landing takes at once */
#define ADDED    100  /* instruments that a handler finds */

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static const struct tb_source *source;
static struct notes notes;

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	faulty_add(scene_seed());
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

TestSuite(values, .init = enter, .fini = leave, .timeout = 60);

static struct tb_subscription_options options_of(uint32_t flags)
{
	return (struct tb_subscription_options){ .size = sizeof(struct tb_subscription_options),
						 .on_record = notes_record,
						 .on_event = notes_event,
						 .user = &notes,
						 .flags = flags };
}

static void join_topic(const char *name, uint32_t flags)
{
	const struct tb_subscription_options options = options_of(flags);

	cr_assert_eq(tb_subscribe(subscriber, name, &options, &subscription), 0, "%s", tb_error());
	source = tb_subscription_source(subscription, name);
	cr_assert_not_null(source);
}

static void join(void)
{
	join_topic("t", TB_VALUES);
}

static void put(struct tb_topic *into, const char *name, uint8_t kind, uint64_t x)
{
	const int instrument = tb_instrument(into, name);
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)instrument,
					  .kind = kind,
					  .length = sizeof(x),
					  .time_ns = 1000 + x,
					  .data = &x };

	cr_assert_geq(instrument, 0, "%s", tb_error());
	cr_assert_eq(tb_publish(into, &update), 0, "%s", tb_error());
}

static uint64_t counter(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

static uint64_t payload(const struct tb_record *record)
{
	uint64_t x = 0;

	cr_assert_eq(record->length, sizeof(x));
	memcpy(&x, record->data, sizeof(x));
	return x;
}

/* The value of an instrument, which must be there. */
static const struct tb_record *value(const char *name)
{
	const int instrument = tb_source_instrument(source, name);
	const struct tb_record *record;

	cr_assert_geq(instrument, 0, "%s", tb_error());
	cr_assert_eq(tb_get(source, (uint32_t)instrument, &record), 1, "%s", tb_error());
	cr_expect_str_eq(record->name, name);
	cr_expect_eq(record->instrument, (uint32_t)instrument);
	cr_expect_eq(record->epoch, tb_source_epoch(source));
	return record;
}

/* -- single values ---------------------------------------------------------------------------- */

Test(values, value_is_the_last_record_that_is_a_value)
{
	const struct tb_record *record;

	put(topic, "A", TB_KIND_UPDATE, 1);
	put(topic, "B", TB_KIND_UPDATE, 2);
	join();
	cr_expect_eq(payload(value("A")), 1);
	put(topic, "A", TB_KIND_CORRECTION, 3);
	put(topic, "A", TB_KIND_CANCEL, 4);
	put(topic, "A", TB_KIND_STATUS, 5);
	record = value("A");
	cr_expect_eq(payload(record), 3);
	cr_expect_eq(record->sequence, 3);
	cr_expect_eq(record->time_ns, 1003);
	cr_expect_eq(record->kind, TB_KIND_CORRECTION);
	put(topic, "A", TB_KIND_USER, 6);
	cr_expect_eq(payload(value("A")), 6);
	cr_expect_eq(payload(value("B")), 2);
}

Test(values, instrument_without_a_value_says_so)
{
	const struct tb_record *record;

	put(topic, "A", TB_KIND_UPDATE, 1);
	put(topic, "A", TB_KIND_CLEAR, 2);
	cr_assert_eq(tb_instrument(topic, "B"), 1);
	tb_flush(topic);
	join();
	cr_expect_eq(tb_get(source, 0, &record), 0);
	cr_assert_not_null(record);
	cr_expect_eq(record->kind, TB_KIND_CLEAR);
	cr_expect_eq(record->sequence, 2);
	cr_expect_eq(record->time_ns, 1002);
	cr_expect_eq(tb_get(source, 1, &record), 0);
	cr_assert_not_null(record);
	cr_expect_eq(record->kind, 0);
	cr_expect_eq(record->sequence, 0);
	cr_expect_str_eq(record->name, "B");
	put(topic, "A", TB_KIND_UPDATE, 3);
	cr_expect_eq(payload(value("A")), 3);
}

Test(values, unknown_instruments_are_refused_until_they_are_registered)
{
	const struct tb_record *record = (const struct tb_record *)&notes;

	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	cr_expect_eq(tb_source_instrument(source, "B"), -ENOENT);
	cr_expect(strstr(tb_error(), "no instrument B among its 1"), "%s", tb_error());
	cr_expect_eq(tb_get(source, 1, &record), -ENOENT);
	cr_expect(strstr(tb_error(), "instrument number 1, expected a number below 1"), "%s",
		  tb_error());
	cr_expect_null(record);
	cr_expect_eq(tb_get(source, UINT32_MAX, &record), -ENOENT);
	cr_expect_eq(tb_get(source, 16, &record), -ENOENT, "beyond the capacity");
	cr_expect_eq(tb_source_instrument(source, ""), -EINVAL);
	cr_expect_eq(tb_source_instrument(source, NULL), -EINVAL);
	cr_expect_eq(tb_source_instrument(source, "a name of more than 24 bytes"), -EINVAL);
	cr_expect_null(tb_source_name(source, 1));
	put(topic, "B", TB_KIND_UPDATE, 2);
	cr_expect_eq(tb_source_instrument(source, "B"), 1, "%s", tb_error());
	cr_expect_eq(tb_source_instruments(source), 2);
	cr_expect_str_eq(tb_source_name(source, 1), "B");
	cr_expect_eq(payload(value("B")), 2);
}

Test(values, number_alone_finds_an_instrument_that_was_added)
{
	const struct tb_record *record;

	join();
	put(topic, "A", TB_KIND_UPDATE, 1);
	cr_assert_eq(tb_get(source, 0, &record), 1, "%s", tb_error());
	cr_expect_str_eq(record->name, "A");
}

Test(values, topic_without_last_values_is_not_supported)
{
	struct tb_topic *plain = scene_topic(publisher, "plain", 64, TB_TOPIC_NO_LAST_VALUE);
	const uint32_t list[] = { 0 };
	const struct tb_record *record;

	put(plain, "A", TB_KIND_UPDATE, 1);
	join_topic("plain", TB_VALUES);
	cr_expect_eq(tb_source_instrument(source, "A"), 0, "names need no values");
	cr_expect_eq(tb_get(source, 0, &record), -EOPNOTSUPP);
	cr_expect(strstr(tb_error(), "topic plain has no last values"), "%s", tb_error());
	cr_expect_eq(tb_get_many(source, list, 1, NULL, NULL), -EOPNOTSUPP);
}

Test(values, strict_subscription_gets_no_values)
{
	const struct tb_record *record;

	put(topic, "A", TB_KIND_UPDATE, 1);
	join_topic("t", TB_STRICT);
	cr_expect_eq(tb_get(source, 0, &record), -EINVAL);
	cr_expect(strstr(tb_error(), "TB_STRICT"), "%s", tb_error());
}

Test(values, contradicting_options_are_refused)
{
	struct tb_subscription_options options = options_of(TB_VALUES | TB_STRICT);

	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	cr_expect(strstr(tb_error(), "TB_VALUES with TB_STRICT"), "%s", tb_error());
	options = options_of(TB_VALUES);
	options.from = TB_FROM_OLDEST;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	cr_expect(strstr(tb_error(), "with TB_VALUES, expected TB_FROM_NEWEST"), "%s", tb_error());
	options = options_of(TB_VALUES);
	options.gap = TB_GAP_IMAGE;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	cr_expect(strstr(tb_error(), "with TB_VALUES, expected TB_GAP_OLDEST"), "%s", tb_error());
	options = options_of(0);
	options.on_record = NULL;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
}

/* A value that never proves itself: READ 8 times, then the call says so. */
Test(values, damaged_value_is_tried_8_times)
{
	const struct tb_record *record;
	uint64_t reads;

	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	value("A");
	reads = counter(SUBSCRIPTION_READS);
	topic->last_value[RECORD_HEADER_BYTES] ^= 1;
	cr_expect_eq(tb_get(source, 0, &record), -EAGAIN);
	cr_expect(strstr(tb_error(), "no copy of the value of A was whole, of 8"), "%s",
		  tb_error());
	cr_expect_null(record);
	cr_expect_eq(counter(SUBSCRIPTION_READS) - reads, IN_PLACE ? 0 : 8);
	cr_expect_geq(counter(SUBSCRIPTION_TORN), IN_PLACE ? 0 : 8);
	topic->last_value[RECORD_HEADER_BYTES] ^= 1;
	cr_expect_eq(payload(value("A")), 1);
}

static int get_of(uint32_t instrument)
{
	const struct tb_record *record;

	return tb_get(source, instrument, &record);
}

/* A slot that holds what its writer never leaves there, or only for a moment. */
Test(values, wrong_slots_are_refused)
{
	char *const first = topic->last_value, *const second = first + topic->slot_bytes;
	_Atomic uint64_t *const sequence = (_Atomic uint64_t *)(void *)first;
	struct record record = { .sequence = 9, .time_ns = 9, .instrument = 1, .length = 8 };

	put(topic, "A", TB_KIND_UPDATE, 1);
	put(topic, "B", TB_KIND_UPDATE, 2);
	join();
	cr_expect_eq(get_of(0), 1);
	atomic_store(sequence, 0);
	cr_expect_eq(get_of(0), -EAGAIN, "it is being written");
	atomic_store(sequence, 1);
	cr_expect_eq(get_of(0), 1);
	memcpy(second, first, topic->slot_bytes);
	cr_expect_eq(get_of(1), -EAGAIN, "a record of another instrument");
	record_store((struct slot *)(void *)second, &record, true, topic->salt);
	cr_expect_eq(get_of(1), IN_PLACE ? -EAGAIN : 0, "a record without a kind");
	record.kind = TB_KIND_UPDATE;
	record_store((struct slot *)(void *)second, &record, true, topic->salt + 1);
	cr_expect_eq(get_of(1), -EAGAIN, "a wrong check");
	record_store((struct slot *)(void *)second, &record, true, topic->salt);
	cr_expect_eq(get_of(1), 1);
}

/* The line says how many names there are, and each name has its own check. */
Test(values, damaged_line_or_name_is_refused)
{
	_Atomic uint64_t *const count = &topic->line->word[4]; /* instruments are in this word */
	_Atomic uint64_t *const name =
		(_Atomic uint64_t *)(void *)(topic->directory + DIRECTORY_ENTRY_BYTES);

	put(topic, "A", TB_KIND_UPDATE, 1);
	put(topic, "B", TB_KIND_UPDATE, 2);
	join();
	atomic_fetch_xor(count, 0xffff);
	cr_expect_eq(tb_source_instruments(source), -EAGAIN);
	cr_expect(strstr(tb_error(), "its progress line is not valid now"), "%s", tb_error());
	cr_expect_null(tb_source_name(source, 0));
	atomic_fetch_xor(count, 0xffff);
	atomic_fetch_xor(name, 1);
	cr_expect_eq(tb_source_instruments(source), -EAGAIN);
	cr_expect(strstr(tb_error(), "no valid name of instrument 1"), "%s", tb_error());
	cr_expect_eq(tb_source_instrument(source, "A"), 0, "the names before it are known");
	cr_expect_eq(tb_source_instrument(source, "B"), -EAGAIN);
	atomic_fetch_xor(name, 1);
	cr_expect_eq(tb_source_instrument(source, "B"), 1, "%s", tb_error());
}

/* -- lists ------------------------------------------------------------------------------------ */

struct list {
	uint32_t instruments[MANY];
	int results[MANY];
	uint64_t xs[MANY];
	size_t count;
	size_t stop_at; /* the handler closes the subscriber; 0: never */
	bool unsubscribe;
	uint32_t inner_of;
	struct tb_topic *add; /* names to this topic, in the first call */
	int inner, inner_list, inner_poll;
};

static void add_names(struct tb_topic *into, const struct tb_source *from)
{
	char name[16];

	for (int i = 0; i < ADDED; i++) {
		snprintf(name, sizeof(name), "J%d", i);
		cr_assert_eq(tb_instrument(into, name), MANY + i);
	}
	tb_flush(into);
	cr_assert_eq(tb_source_instruments(from), MANY + ADDED, "%s", tb_error());
}

static void on_value(void *user, const struct tb_source *from, int result,
		     const struct tb_record *record)
{
	struct list *list = user;
	const struct tb_record *other;

	cr_assert_eq(from, source);
	cr_assert_lt(list->count, MANY);
	list->instruments[list->count] = record->instrument;
	list->results[list->count] = result;
	list->xs[list->count++] = result == 1 ? payload(record) : 0;
	if (list->add && list->count == 1)
		add_names(list->add, from);
	if (list->inner_of > 0)
		list->inner = tb_get(from, list->inner_of, &other);
	list->inner_list = tb_get_many(from, &record->instrument, 1, on_value, user);
	list->inner_poll = tb_poll(subscriber, 1);
	if (result == 1)
		cr_assert_eq(payload(record), list->xs[list->count - 1], "overwritten");
	if (list->count == list->stop_at && list->unsubscribe)
		tb_unsubscribe(subscription);
	else if (list->count == list->stop_at)
		tb_subscriber_close(subscriber);
}

static struct list list;

Test(values, list_is_answered_in_its_order)
{
	const uint32_t asked[] = { 2, 0, 1, 1, 3, 0 };

	put(topic, "A", TB_KIND_UPDATE, 1);
	put(topic, "B", TB_KIND_UPDATE, 2);
	put(topic, "C", TB_KIND_UPDATE, 3);
	put(topic, "D", TB_KIND_CLEAR, 4);
	join();
	cr_expect_eq(tb_get_many(source, asked, 6, on_value, &list), 5, "%s", tb_error());
	cr_assert_eq(list.count, 6);
	for (size_t i = 0; i < 6; i++) {
		cr_expect_eq(list.instruments[i], asked[i]);
		cr_expect_eq(list.results[i], asked[i] != 3);
		cr_expect_eq(list.xs[i], asked[i] == 3 ? 0 : asked[i] + 1);
	}
}

Test(values, wrong_lists_are_refused_before_any_handler)
{
	const uint32_t asked[] = { 0, 7 };

	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	cr_expect_eq(tb_get_many(source, asked, 0, on_value, &list), -EINVAL);
	cr_expect(strstr(tb_error(), "found an empty list"), "%s", tb_error());
	cr_expect_eq(tb_get_many(source, NULL, 1, on_value, &list), -EINVAL);
	cr_expect_eq(tb_get_many(source, asked, BOUND_INSTRUMENTS_MAX + 1, on_value, &list),
		     -EINVAL);
	cr_expect_eq(tb_get_many(source, asked, 1, NULL, &list), -EINVAL);
	cr_expect_eq(tb_get_many(source, asked, 2, on_value, &list), -ENOENT);
	cr_expect(strstr(tb_error(), "instrument number 7"), "%s", tb_error());
	cr_expect_eq(list.count, 0);
}

/* From now on the READs are those of the call: no time passes, so no look at the bus page is due.
 */
static uint64_t count_from_here(void)
{
	if (!FAULTY)
		clock_stop();
	return counter(SUBSCRIPTION_READS);
}

static struct tb_topic *wide_topic(void)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = "wide",
						  .schema = schema,
						  .slots = 64,
						  .instruments = MANY + ADDED };
	struct tb_topic *wide = NULL;
	char name[16];

	cr_assert_eq(tb_topic_create(publisher, &options, &wide), 0, "%s", tb_error());
	tb_schema_free(schema);
	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "I%u", i);
		if (i % 10 == 3)
			cr_assert_eq(tb_instrument(wide, name), (int)i);
		else
			put(wide, name, TB_KIND_UPDATE, 1000 + i);
	}
	tb_flush(wide);
	return wide;
}

Test(values, neighbours_share_reads)
{
	uint32_t asked[MANY];
	uint64_t reads;

	wide_topic();
	join_topic("wide", TB_VALUES);
	cr_assert_eq(tb_source_instruments(source), MANY, "%s", tb_error());
	reads = count_from_here();
	for (uint32_t i = 0; i < MANY; i++)
		asked[i] = i;
	cr_expect_eq(tb_get_many(source, asked, MANY, on_value, &list), MANY / 10 * 9);
	cr_assert_eq(list.count, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		cr_assert_eq(list.instruments[i], i);
		cr_assert_eq(list.xs[i], i % 10 == 3 ? 0 : 1000 + i);
	}
	/* 128 slots of 64 bytes in a READ of 8,192 bytes, a landing of 65,536. */
	reads = counter(SUBSCRIPTION_READS) - reads;
	if (!FAULTY)
		cr_expect_eq(reads, IN_PLACE ? 0 : (MANY + 127) / 128, "%" PRIu64 " READs", reads);
}

Test(values, strangers_in_a_list_have_a_read_each)
{
	uint32_t asked[300];
	uint64_t reads;

	wide_topic();
	join_topic("wide", TB_VALUES);
	cr_assert_eq(tb_source_instruments(source), MANY, "%s", tb_error());
	reads = count_from_here();
	for (uint32_t i = 0; i < 300; i++)
		asked[i] = MANY - 1 - i * 7;
	cr_expect_gt(tb_get_many(source, asked, 300, on_value, &list), 0, "%s", tb_error());
	cr_assert_eq(list.count, 300);
	for (uint32_t i = 0; i < 300; i++)
		cr_assert_eq(list.xs[i], asked[i] % 10 == 3 ? 0 : 1000 + asked[i]);
	if (!FAULTY)
		cr_expect_eq(counter(SUBSCRIPTION_READS) - reads, IN_PLACE ? 0 : 300);
}

Test(values, every_name_of_a_wide_topic_is_found)
{
	char name[16];
	uint64_t reads;

	wide_topic();
	join_topic("wide", TB_VALUES);
	reads = count_from_here();
	for (int i = MANY - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "I%d", i);
		cr_assert_eq(tb_source_instrument(source, name), i, "%s", tb_error());
	}
	/* The line, and 256 entries in each READ. */
	reads = counter(SUBSCRIPTION_READS) - reads;
	cr_expect_leq(reads,
		      IN_PLACE ? 0
		      : FAULTY ? 1000
			       : 3 + (MANY + 255) / 256,
		      "%" PRIu64 " READs", reads);
}

Test(values, damaged_value_in_a_list_does_not_stop_the_others)
{
	const uint32_t asked[] = { 0, 1, 2 };

	put(topic, "A", TB_KIND_UPDATE, 1);
	put(topic, "B", TB_KIND_UPDATE, 2);
	put(topic, "C", TB_KIND_UPDATE, 3);
	join();
	topic->last_value[topic->slot_bytes + RECORD_HEADER_BYTES] ^= 1;
	cr_expect_eq(tb_get_many(source, asked, 3, on_value, &list), 2, "%s", tb_error());
	cr_assert_eq(list.count, 3);
	cr_expect_eq(list.results[1], -EAGAIN);
	cr_expect_eq(list.xs[0], 1);
	cr_expect_eq(list.xs[2], 3);
}

/* -- handlers --------------------------------------------------------------------------------- */

Test(values, handler_of_a_list_may_get_but_not_poll)
{
	uint32_t asked[MANY];

	list.add = wide_topic();
	join_topic("wide", TB_VALUES);
	cr_assert_eq(tb_source_instruments(source), MANY, "%s", tb_error());
	for (uint32_t i = 0; i < MANY; i++)
		asked[i] = i;
	list.inner_of = 7;
	cr_expect_eq(tb_get_many(source, asked, 200, on_value, &list), 180, "%s", tb_error());
	cr_assert_eq(list.count, 200);
	for (uint32_t i = 0; i < 200; i++)
		cr_assert_eq(list.xs[i], i % 10 == 3 ? 0 : 1000 + i);
	cr_expect_eq(list.inner, 1, "%s", tb_error());
	cr_expect_eq(list.inner_list, -EBUSY);
	cr_expect_eq(list.inner_poll, -EBUSY);
	cr_expect_eq(payload(value("I7")), 1007, "after the handler");
}

Test(values, handler_of_a_list_may_close_the_subscriber)
{
	const uint32_t asked[] = { 0, 0, 0 };

	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	list.stop_at = 2;
	cr_expect_eq(tb_get_many(source, asked, 3, on_value, &list), -ECANCELED);
	cr_expect_eq(list.count, 2);
	subscriber = NULL;
}

Test(values, handler_of_a_list_may_end_the_subscription)
{
	const uint32_t asked[] = { 0, 0, 0 };

	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	list.stop_at = 1;
	list.unsubscribe = true;
	cr_expect_eq(tb_get_many(source, asked, 3, on_value, &list), -ECANCELED);
	cr_expect_eq(list.count, 1);
	cr_expect_geq(tb_poll(subscriber, 1), 0);
}

/* Handlers that ask for values while READs of records, lines and the bus page are outstanding. */
struct asker {
	struct notes notes;
	uint64_t asked, older, wrong;
};

static void asks(struct asker *asker, uint64_t sequence)
{
	for (uint32_t i = 0; i < 2; i++) {
		const struct tb_record *record;
		const int result = tb_get(source, i, &record);

		cr_assert_eq(result, 1, "%s", tb_error());
		asker->asked++;
		asker->wrong += payload(record) != record->sequence || record->instrument != i;
		asker->older += record->sequence + 2 < sequence;
	}
}

static void asker_record(void *user, const struct tb_source *from, const struct tb_record *record)
{
	struct asker *asker = user;
	const uint64_t sequence = record->sequence;

	cr_assert_eq(from, source);
	notes_record(&asker->notes, from, record);
	asks(asker, sequence);
}

static void asker_event(void *user, const struct tb_event *event)
{
	struct asker *asker = user;

	notes_event(&asker->notes, event);
	if (source && event->kind == TB_EVENT_QUALITY)
		asks(asker, 0);
}

Test(values, handlers_may_get_values_and_nothing_is_lost)
{
	struct asker asker = { .notes.quiet = true };
	struct tb_subscription_options options = options_of(0);
	const uint64_t most = (uint64_t)scene_rounds(3000);
	uint64_t published = 2;

	scene_publish(topic, 1, 2);
	options.on_record = asker_record;
	options.on_event = asker_event;
	options.user = &asker;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	source = tb_subscription_source(subscription, "t");
	for (unsigned int round = 0; published < most; round++) {
		scene_publish(topic, published + 1, published + 20);
		if (round % 8 == 0)
			cr_assert_eq(tb_topic_quality(topic, round / 8 % 2, 0), 0);
		published = tb_topic_sequence(topic);
		cr_assert(scene_poll_until(subscriber, &asker.notes.last, published));
	}
	cr_expect_eq(asker.notes.lost, 0);
	cr_expect_eq(asker.notes.wrong, 0);
	cr_expect_eq(asker.notes.records + asker.notes.changes, published - 2);
	cr_expect_gt(asker.notes.changes, most / 600);
	cr_expect_eq(asker.wrong, 0);
	cr_expect_eq(asker.older, 0);
	cr_expect_gt(asker.asked, most * 5 / 3);
}

/* -- a writer beside the reader ---------------------------------------------------------------- */

#define WRITTEN 4 /* instruments */
#define GETS    20000

static _Atomic bool enough;

static void *write_values(void *user)
{
	(void)user;
	for (uint64_t x = 1; !atomic_load(&enough); x++) {
		const struct tb_update update = { .size = sizeof(update),
						  .instrument = (uint32_t)(x % WRITTEN),
						  .kind = TB_KIND_UPDATE,
						  .length = sizeof(x),
						  .time_ns = x,
						  .data = &x };

		if (tb_publish(topic, &update) < 0)
			return (void *)1;
	}
	return NULL;
}

/* Each payload and each time repeat the sequence. */
static void whole(void *user, const struct tb_source *from, int result,
		  const struct tb_record *record)
{
	uint64_t *const last = user;

	cr_assert_eq(from, source);
	if (result != 1)
		return;
	cr_assert_eq(payload(record), record->sequence);
	cr_assert_eq(record->time_ns, record->sequence);
	cr_assert_eq(record->sequence % WRITTEN, record->instrument);
	cr_assert_geq(record->sequence, last[record->instrument], "a value went back");
	last[WRITTEN] += record->sequence > last[record->instrument];
	last[record->instrument] = record->sequence;
}

/* -EAGAIN is a correct answer of both calls: the writer may be preempted inside a store. */
Test(values, values_are_whole_while_they_are_written)
{
	const uint32_t asked[WRITTEN] = { 0, 1, 2, 3 };
	uint64_t last[WRITTEN + 1] = { 0 };
	const uint32_t gets = (uint32_t)scene_rounds(GETS);
	const struct tb_record *record;
	pthread_t writer;
	void *failed;
	char name[8];
	int many;

	for (int i = 0; i < WRITTEN; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		cr_assert_eq(tb_instrument(topic, name), i);
	}
	tb_flush(topic);
	join();
	cr_assert_eq(pthread_create(&writer, NULL, write_values, NULL), 0);
	for (uint32_t i = 0; i < gets || last[WRITTEN] < 100; i++) {
		const int result = tb_get(source, i % WRITTEN, &record);

		cr_assert(result == -EAGAIN || (result == 0 && last[i % WRITTEN] == 0) ||
				  result == 1,
			  "%s", tb_error());
		if (result == 1)
			whole(last, source, 1, record);
		if (i % 8 == 0) {
			many = tb_get_many(source, asked, WRITTEN, whole, last);
			cr_assert(many == -EAGAIN || many >= 0, "%s", tb_error());
		}
		if (i % 64 == 0)
			cr_assert_geq(tb_poll(subscriber, 1), 0);
	}
	atomic_store(&enough, true);
	pthread_join(writer, &failed);
	cr_expect_null(failed);
}

/* -- a subscription without records ----------------------------------------------------------- */

Test(values, subscription_without_records_learns_the_end)
{
	struct tb_subscription_options options = options_of(TB_VALUES);

	scene_publish(topic, 1, 5);
	options.on_record = NULL;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	source = tb_subscription_source(subscription, "t");
	scene_publish(topic, 6, 200);
	cr_assert_eq(tb_topic_end(topic), 0);
	cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
	cr_expect_str_eq(notes.text, "appeared t 6\nended 200\n", "%s", notes.text);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 0);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 195);
	cr_expect_eq(counter(SUBSCRIPTION_LOST_OVERRUN), 0);
	cr_expect_eq(payload(value("A")), 199, "an ended topic has values");
}

Test(values, subscription_without_records_learns_the_quality)
{
	const uint64_t *changes = &notes.changes;

	scene_publish(topic, 1, 5);
	join();
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, TB_QUALITY_NO_END), 0);
	cr_assert(scene_poll_until(subscriber, changes, 1), "%s", notes.text);
	cr_expect_eq(tb_source_quality(source), TB_QUALITY_SUSPECT);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
}

Test(values, new_epoch_has_values_and_numbers_of_its_own)
{
	const struct tb_record *record;

	put(topic, "A", TB_KIND_UPDATE, 1);
	put(topic, "B", TB_KIND_UPDATE, 2);
	join();
	cr_expect_eq(payload(value("B")), 2);
	cr_assert_eq(tb_topic_restart(topic), 0);
	put(topic, "B", TB_KIND_UPDATE, 3);
	cr_assert(scene_poll_while(subscriber, &notes.restarted), "%s", notes.text);
	while (tb_get(source, 0, &record) == -EAGAIN)
		cr_assert_geq(tb_poll(subscriber, 1), 0);
	cr_expect_eq(tb_source_instrument(source, "B"), 0, "%s", tb_error());
	cr_expect_eq(tb_source_instrument(source, "A"), -ENOENT);
	cr_expect_eq(payload(value("B")), 3);
}

Test(values, topic_is_found_by_its_name)
{
	const struct tb_subscription_options options = options_of(TB_VALUES);
	struct tb_subscription *all;

	scene_topic(publisher, "u", 64, 0);
	cr_assert_eq(tb_subscribe(subscriber, ">", &options, &all), 0, "%s", tb_error());
	cr_assert_not_null(tb_subscription_source(all, "t"));
	cr_expect_str_eq(tb_source_topic(tb_subscription_source(all, "t")), "t");
	cr_expect_str_eq(tb_source_topic(tb_subscription_source(all, "u")), "u");
	cr_expect_null(tb_subscription_source(all, "v"));
	cr_expect_null(tb_subscription_source(all, NULL));
}

/* -- connections ------------------------------------------------------------------------------ */

Test(values, values_of_a_publisher_that_went_away)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();
	const uint32_t asked[] = { 0 };
	const struct tb_record *record;

	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	value("A");
	tb_publisher_close(publisher);
	publisher = NULL;
	if (IN_PLACE) {
		cr_assert(scene_poll_while(subscriber, &notes.ended), "%s", notes.text);
		cr_expect_eq(payload(value("A")), 1, "the memory is still mapped");
		return;
	}
	/* A READ may complete only when tb_poll has seen the end of the connection. */
	subscriber->connect_ms = 50;
	while (tb_get(source, 0, &record) != -ENOTCONN) {
		cr_assert_lt(scene_now_ms(), late_ms, "%s", tb_error());
		cr_assert_geq(tb_poll(subscriber, 1), 0);
	}
	cr_expect(strstr(tb_error(), "topic t: "), "%s", tb_error());
	cr_expect_null(record);
	cr_expect_eq(tb_source_instruments(source), -ENOTCONN);
	cr_expect_eq(tb_get_many(source, asked, 1, on_value, &list), -ENOTCONN);
	cr_expect_eq(list.count, 0);
}

/* The program was away for so long that the memory may be gone: the bus page is looked at first. */
Test(values, program_that_was_away_looks_at_the_page_first)
{
	uint64_t reads;

	if (FAULTY)
		cr_skip_test("its READs are late by the clock, which this test stops");
	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	value("A");
	clock_stop();
	reads = counter(SUBSCRIPTION_READS);
	for (int i = 0; i < 3; i++) {
		clock_pass(60000);
		cr_expect_eq(payload(value("A")), 1);
	}
	/* Each time the page and the value; after two of these looks, the value alone. */
	reads = counter(SUBSCRIPTION_READS) - reads;
	cr_expect_eq(reads, IN_PLACE ? 0 : 5, "found %" PRIu64 " READs", reads);
}

static uint64_t page_epoch(void)
{
	struct bus_entry entry;

	words_load(&entry, (char *)publisher->realms[0].page.base + bus_page_entry_offset(0),
		   sizeof(entry));
	return entry.epoch;
}

Test(values, program_that_was_away_reads_no_memory_of_an_old_epoch)
{
	const uint64_t late_ms = scene_now_ms() + deadline_ms();
	const struct tb_record *record;

	if (FAULTY)
		cr_skip_test("its READs are late by the clock, which this test stops");
	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	value("A");
	clock_stop();
	cr_assert_eq(tb_topic_restart(topic), 0);
	while (page_epoch() != topic->shape.epoch)
		cr_assert_lt(scene_now_ms(), late_ms, "the page shows the old epoch");
	clock_pass(60000);
	if (IN_PLACE) {
		cr_expect_eq(payload(value("A")), 1);
		return;
	}
	cr_expect_eq(tb_get(source, 0, &record), -EAGAIN);
	cr_expect(strstr(tb_error(), "the bus page does not show its epoch"), "%s", tb_error());
}

Test(values, damaged_entry_of_the_page_allows_no_read)
{
	const struct tb_record *record;
	char *const page = publisher->realms[0].page.base;

	if (FAULTY)
		cr_skip_test("its READs are late by the clock, which this test stops");
	put(topic, "A", TB_KIND_UPDATE, 1);
	join();
	value("A");
	publisher_lock(publisher); /* the control thread does not write the page meanwhile */
	page[bus_page_entry_offset(0) + offsetof(struct bus_entry, check)] ^= 1;
	clock_stop();
	clock_pass(60000);
	if (IN_PLACE)
		cr_expect_eq(payload(value("A")), 1);
	else
		cr_expect_eq(tb_get(source, 0, &record), -EAGAIN);
	page[bus_page_entry_offset(0) + offsetof(struct bus_entry, check)] ^= 1;
	cr_expect_eq(payload(value("A")), 1);
	publisher_unlock(publisher);
}
