/* SPDX-License-Identifier: Apache-2.0 */
/* The ring's past: records by their time, and the last records of an instrument. Built once per
 * fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/fabric.h"
#include "bus/progress.h"
#include "bus/region.h"
#include "publisher/publisher.h"
#include "publisher/state.h"
#include "publisher/topic.h"
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
#define SLOTS    1024
#define SHOWN    2048

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
	topic = scene_topic(publisher, "t", SLOTS, 0);
	subscriber = scene_subscriber(SCHEME, 0);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(past, .init = enter, .fini = leave, .timeout = 120);

static struct tb_subscription_options options_of(uint32_t flags)
{
	return (struct tb_subscription_options){ .size = sizeof(struct tb_subscription_options),
						 .on_record = notes_record,
						 .on_event = notes_event,
						 .user = &notes,
						 .flags = flags };
}

static void join_as(uint32_t flags)
{
	const struct tb_subscription_options options = options_of(flags);

	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	source = tb_subscription_source(subscription, "t");
	cr_assert_not_null(source);
}

static void join(void)
{
	join_as(TB_VALUES);
}

/* Record x has the time 1000 x, and is of A if x is odd, else of B. */
static void publish(uint64_t from, uint64_t to)
{
	for (uint64_t x = from; x <= to; x++) {
		const int instrument = tb_instrument(topic, x % 2 ? "A" : "B");
		const struct tb_update update = { .size = sizeof(update),
						  .instrument = (uint32_t)instrument,
						  .kind = TB_KIND_UPDATE,
						  .length = sizeof(x),
						  .time_ns = 1000 * x,
						  .data = &x };

		cr_assert_geq(instrument, 0, "%s", tb_error());
		cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	}
	tb_flush(topic);
}

static uint64_t counter(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

/* The READs of calls from here on are theirs alone: no time passes, so no look at the bus page is
 * due. */
static uint64_t count_from_here(void)
{
	if (!FAULTY)
		clock_stop();
	return counter(SUBSCRIPTION_READS);
}

static void expect_reads(uint64_t before, uint64_t reads)
{
	const uint64_t found = counter(SUBSCRIPTION_READS) - before;

	if (!FAULTY)
		cr_expect_eq(found, IN_PLACE ? 0 : reads, "%" PRIu64 " READs", found);
}

/* The bytes of a record in the publisher's ring. */
static char *slot_of(uint64_t sequence)
{
	return topic->ring + (sequence & (topic->shape.slots - 1)) * topic->slot_bytes;
}

/* The oldest record that the topic's line shows as held. The writer reserves slots ahead. */
static uint64_t held(void)
{
	return progress_oldest(&topic->progress, topic->shape.slots);
}

static void damage(uint64_t sequence)
{
	slot_of(sequence)[24] ^= 1;
}

/* -- what happens between two READs ----------------------------------------------------------- */

static struct hook {
	const struct fabric_ops *ops; /* that are wrapped */
	void (*act)(void);
	enum read_kind kind; /* that counts */
	unsigned int after;  /* postings until it acts once; 0: it has */
} hook;

static int hooked_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	if (count > 0 && tag_unpack(reads->tag).kind == hook.kind && hook.after > 0 &&
	    --hook.after == 0)
		hook.act();
	return hook.ops->read(link, reads, count);
}

/* Before the `after`-th posting of READs of this kind from here on, `act` is called. In place
 * nothing is posted. */
static void hook_kind(enum read_kind kind, unsigned int after, void (*act)(void))
{
	static struct fabric_ops hooked;

	if (!hook.ops)
		hook.ops = subscriber->ops;
	hooked = *hook.ops;
	hooked.read = hooked_read;
	hook.act = act;
	hook.after = FAULTY ? 0 : after;
	hook.kind = kind;
	subscriber->ops = &hooked;
}

static void hook_reads(unsigned int after, void (*act)(void))
{
	hook_kind(READ_GET, after, act);
}

/* -- backwards -------------------------------------------------------------------------------- */

static struct shown {
	uint64_t sequences[SHOWN];
	size_t count;
	size_t stop_at;                        /* the handler returns 7; 0: never */
	void (*act)(const struct tb_source *); /* in the first call */
	int results[4];
} shown;

static int on_past(void *user, const struct tb_source *from, const struct tb_record *record)
{
	uint64_t x;

	cr_assert_eq(user, &shown);
	cr_assert_eq(from, source);
	cr_assert_eq(record->size, sizeof(*record));
	cr_assert_eq(record->epoch, tb_source_epoch(source));
	cr_assert_lt(shown.count, SHOWN);
	shown.sequences[shown.count++] = record->sequence;
	memcpy(&x, record->data, sizeof(x));
	cr_assert_eq(record->time_ns, 1000 * x);
	cr_assert_str_eq(record->name, x % 2 ? "A" : "B");
	if (shown.act && shown.count == 1)
		shown.act(from);
	return shown.stop_at > 0 && shown.count == shown.stop_at ? 7 : 0;
}

static int back(uint64_t sequence, uint32_t instrument, uint32_t count, uint64_t *oldest)
{
	shown.count = 0;
	return tb_read_back(source, sequence, instrument, count, on_past, &shown, oldest);
}

/* The records that were shown: `count` of them from `newest` on, each `step` below the last. */
static void expect_shown(size_t count, uint64_t newest, uint64_t step)
{
	cr_assert_eq(shown.count, count, "%zu records", shown.count);
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(shown.sequences[i], newest - i * step, "record %zu: %" PRIu64, i,
			     shown.sequences[i]);
}

Test(past, last_records_come_newest_first)
{
	uint64_t oldest;

	publish(1, 10);
	join();
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 3, &oldest), 3, "%s", tb_error());
	expect_shown(3, 10, 1);
	cr_expect_eq(oldest, 8);
	cr_expect_eq(back(0, 0, 3, &oldest), 3, "%s", tb_error());
	expect_shown(3, 9, 2);
	cr_expect_eq(oldest, 5);
	cr_expect_eq(back(4, 1, 3, &oldest), 2, "%s", tb_error());
	expect_shown(2, 4, 2);
	cr_expect_eq(oldest, 1);
	cr_expect_eq(back(1, 1, 1, NULL), 0, "%s", tb_error());
}

Test(past, ring_is_read_to_its_oldest_record)
{
	uint64_t oldest;

	publish(1, 3000);
	join();
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, UINT32_MAX, &oldest), 3001 - (int)held(), "%s",
		     tb_error());
	expect_shown(3001 - held(), 3000, 1);
	cr_expect_eq(oldest, held());
	cr_expect_eq(back(2500, 0, UINT32_MAX, &oldest), (2499 - (int)held()) / 2 + 1);
	expect_shown(shown.count, 2499, 2);
	cr_expect_eq(oldest, held());
}

/* 128 slots of 64 bytes in a READ of 8,192 bytes, a landing of 65,536: 1,024 slots. */
Test(past, slots_are_read_once_and_together)
{
	uint64_t reads;

	publish(1, SLOTS * 2 + 100);
	join();
	cr_assert_eq(tb_source_instruments(source), 2, "%s", tb_error());
	reads = count_from_here();
	cr_expect_eq(back(0, 0, UINT32_MAX, NULL), (SLOTS * 2 + 101 - (int)held()) / 2, "%s",
		     tb_error());
	/* The line; up to the end of the ring; from its beginning. */
	expect_reads(reads, 1 + (SLOTS * 2 - held() + 127) / 128 + 1);
	reads = count_from_here();
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 5, NULL), 5, "%s", tb_error());
	expect_reads(reads, 2);
	reads = count_from_here();
	cr_expect_eq(back(SLOTS * 2 + 2, TB_ALL_INSTRUMENTS, 5, NULL), 5, "%s", tb_error());
	expect_reads(reads, 3);
}

Test(past, handler_stops_the_call)
{
	uint64_t oldest;

	publish(1, 10);
	join();
	shown.stop_at = 2;
	cr_expect_eq(back(0, 0, 5, &oldest), 7);
	expect_shown(2, 9, 2);
	cr_expect_eq(oldest, 7);
}

Test(past, wrong_arguments_are_refused)
{
	char words[96];

	join();
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 1, NULL), -ENODATA);
	cr_expect(strstr(tb_error(), "topic t: it has no record yet"), "%s", tb_error());
	publish(1, SLOTS + 10);
	cr_expect_eq(back(SLOTS + 11, TB_ALL_INSTRUMENTS, 1, NULL), -EINVAL);
	cr_expect(strstr(tb_error(), "found sequence 1035, expected at most 1034"), "%s",
		  tb_error());
	cr_expect_eq(back(10, TB_ALL_INSTRUMENTS, 1, NULL), -ERANGE);
	cr_expect_eq(back(held() - 1, TB_ALL_INSTRUMENTS, 1, NULL), -ERANGE);
	snprintf(words, sizeof(words), "found sequence %" PRIu64 ", expected %" PRIu64 " or more",
		 held() - 1, held());
	cr_expect(strstr(tb_error(), words), "%s", tb_error());
	cr_expect_eq(back(held(), TB_ALL_INSTRUMENTS, 1, NULL), 1);
	shown.count = 0;
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 0, NULL), -EINVAL);
	cr_expect(strstr(tb_error(), "found count 0"), "%s", tb_error());
	cr_expect_eq(back(0, 2, 1, NULL), -ENOENT);
	cr_expect(strstr(tb_error(), "instrument number 2, expected a number below 2"), "%s",
		  tb_error());
	cr_expect_eq(tb_read_back(source, 0, 0, 1, NULL, NULL, NULL), -EINVAL);
	cr_expect(strstr(tb_error(), "no handler"), "%s", tb_error());
	cr_expect_eq(shown.count, 0);
}

Test(past, corrupt_record_is_left_out)
{
	uint64_t oldest, reads;

	publish(1, 10);
	join();
	cr_assert_eq(tb_source_instruments(source), 2, "%s", tb_error());
	damage(7);
	reads = count_from_here();
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 10, &oldest), 9, "%s", tb_error());
	cr_assert_eq(shown.count, 9);
	cr_expect_eq(shown.sequences[2], 8);
	cr_expect_eq(shown.sequences[3], 6);
	cr_expect_eq(oldest, 1);
	expect_reads(reads, 2 + 7 * 2); /* 8 copies, each with a line after it but the first */
	damage(7);
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 10, &oldest), 10, "%s", tb_error());
}

/* Qualities are of the topic. */
Test(past, hole_or_quality_is_no_record_of_an_instrument)
{
	const struct tb_update hole = { .size = sizeof(hole), .kind = TB_KIND_HOLE };

	publish(1, 2);
	cr_assert_eq(tb_publish(topic, &hole), 0, "%s", tb_error());
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, 0), 0);
	join();
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 10, NULL), 2, "%s", tb_error());
	expect_shown(2, 2, 1);
	cr_expect_eq(back(0, 0, 10, NULL), 1, "%s", tb_error());
	expect_shown(1, 1, 1);
}

static void write_300(void)
{
	publish(tb_topic_sequence(topic) + 1, tb_topic_sequence(topic) + 300);
}

/* Whether the test can act between two READs. */
#define BETWEEN (!IN_PLACE && !FAULTY)

/* The second posting has the slots: 300 of them hold newer records by then. */
Test(past, overwritten_record_ends_the_call)
{
	uint64_t oldest, last;

	publish(1, SLOTS);
	join();
	cr_assert_eq(tb_source_instruments(source), 2, "%s", tb_error());
	last = BETWEEN ? 301 : held();
	hook_reads(2, write_300);
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, UINT32_MAX, &oldest), SLOTS + 1 - (int)last, "%s",
		     tb_error());
	expect_shown(SLOTS + 1 - last, SLOTS, 1);
	cr_expect_eq(oldest, last);
}

/* The third posting has the line. The copies are whole, but the line shows the records as
 * overwritten, so they do not count. */
Test(past, strict_subscription_reads_the_line_after_the_slots)
{
	uint64_t oldest, reads, last;

	publish(1, SLOTS - 10);
	join_as(TB_STRICT);
	cr_assert_eq(tb_source_instruments(source), 2, "%s", tb_error());
	reads = count_from_here();
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 10, NULL), 10, "%s", tb_error());
	expect_reads(reads, 3);
	last = held();
	hook_reads(3, write_300);
	back(SLOTS - 10, TB_ALL_INSTRUMENTS, UINT32_MAX, &oldest);
	last = BETWEEN ? held() : last;
	expect_shown(SLOTS - 9 - last, SLOTS - 10, 1);
	cr_expect_eq(oldest, last);
}

/* -- handlers --------------------------------------------------------------------------------- */

static void on_value(void *user, const struct tb_source *from, int result,
		     const struct tb_record *record)
{
	int *back_in_a_list = user;

	(void)record;
	cr_assert_eq(result, 1);
	*back_in_a_list = tb_read_back(from, 0, 0, 1, on_past, &shown, NULL);
}

static void ask_inside(const struct tb_source *from)
{
	const uint32_t list[] = { 0 };
	const struct tb_record *record;

	shown.results[0] = tb_read_back(from, 0, 0, 1, on_past, &shown, NULL);
	shown.results[1] = tb_get_many(from, list, 1, on_value, &shown);
	shown.results[2] = tb_poll(subscriber, 1);
	shown.results[3] = tb_get(from, 1, &record);
}

Test(past, handler_may_get_but_not_read_back_or_poll)
{
	const uint32_t list[] = { 0 };
	int back_in_a_list = 0;

	publish(1, 10);
	join();
	shown.act = ask_inside;
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 10, NULL), 10, "%s", tb_error());
	expect_shown(10, 10, 1);
	cr_expect_eq(shown.results[0], -EBUSY);
	cr_expect_eq(shown.results[1], -EBUSY);
	cr_expect_eq(shown.results[2], -EBUSY);
	cr_expect_eq(shown.results[3], 1);
	cr_expect_eq(tb_get_many(source, list, 1, on_value, &back_in_a_list), 1);
	cr_expect_eq(back_in_a_list, -EBUSY);
}

static void close_inside(const struct tb_source *from)
{
	(void)from;
	tb_subscriber_close(subscriber);
}

static void unsubscribe_inside(const struct tb_source *from)
{
	(void)from;
	tb_unsubscribe(subscription);
}

Test(past, handler_may_close_the_subscriber)
{
	publish(1, 10);
	join();
	shown.act = close_inside;
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 10, NULL), -ECANCELED);
	expect_shown(1, 10, 1);
	subscriber = NULL;
}

Test(past, handler_may_end_the_subscription)
{
	publish(1, 10);
	join();
	shown.act = unsubscribe_inside;
	cr_expect_eq(back(0, TB_ALL_INSTRUMENTS, 10, NULL), -ECANCELED);
	expect_shown(1, 10, 1);
	cr_expect_geq(tb_poll(subscriber, 1), 0);
}

static void back_in_a_record(void *user, const struct tb_source *from,
			     const struct tb_record *record)
{
	const uint64_t sequence = record->sequence;

	source = from;
	notes_record(user, from, record);
	cr_assert_eq(back(sequence, TB_ALL_INSTRUMENTS, 5, NULL), 5, "%s", tb_error());
	expect_shown(5, sequence, 1);
	cr_assert_eq(record->sequence, sequence, "the record is as before");
	cr_assert_eq(memcmp(record->data, &sequence, sizeof(sequence)), 0);
}

Test(past, handler_of_records_reads_back_from_its_record)
{
	struct tb_subscription_options options = options_of(0);

	publish(1, 10);
	options.on_record = back_in_a_record;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	for (uint64_t x = 11; x <= 300; x += 10) {
		publish(x, x + 9);
		cr_assert(scene_poll_until(subscriber, &notes.last, x + 9));
	}
	cr_expect_eq(notes.records, 290);
	cr_expect_eq(notes.lost, 0);
}

/* -- by time ---------------------------------------------------------------------------------- */

Test(past, topic_without_rising_times_has_no_search)
{
	uint64_t sequence;

	publish(1, 10);
	join();
	cr_expect_eq(tb_find_time(source, 5000, &sequence), -EOPNOTSUPP);
	cr_expect(strstr(tb_error(), "topic t: its times need not rise"), "%s", tb_error());
}

/* The subscriber takes the topic as that of a group: so the test chooses the times. */
static void take_as_rising(void)
{
	join();
	((struct tb_source *)(uintptr_t)source)->mapping.shape.flags |= REGION_FLAG_TIME_RISES;
	cr_assert_geq(tb_source_instruments(source), 0, "%s", tb_error());
}

static uint64_t found(uint64_t time_ns)
{
	uint64_t sequence = 0;

	cr_assert_eq(tb_find_time(source, time_ns, &sequence), 0, "%s", tb_error());
	return sequence;
}

Test(past, last_record_up_to_a_time_is_found)
{
	uint64_t sequence;

	take_as_rising();
	cr_expect_eq(tb_find_time(source, 5000, &sequence), -ENODATA);
	publish(1, 10);
	cr_expect_eq(found(5000), 5);
	cr_expect_eq(found(5999), 5);
	cr_expect_eq(found(10000), 10);
	cr_expect_eq(found(UINT64_MAX), 10);
	cr_expect_eq(found(1000), 1);
	cr_expect_eq(tb_find_time(source, 999, &sequence), -ERANGE);
	cr_expect(strstr(tb_error(), "found time 1970-01-01T00:00:00.000000999Z, expected "
				     "1970-01-01T00:00:00.000001000Z or later: record 1"),
		  "%s", tb_error());
	publish(11, SLOTS + 20);
	cr_expect_eq(tb_find_time(source, 1000 * held() - 1, &sequence), -ERANGE);
	cr_expect_eq(found(1000 * held()), held());
	cr_assert_eq(tb_topic_end(topic), 0);
	topic = NULL;
	cr_expect_eq(found(UINT64_MAX), SLOTS + 20);
}

Test(past, search_reads_as_many_slots_as_the_logarithm)
{
	uint64_t reads;

	publish(1, SLOTS * 3);
	take_as_rising();
	reads = count_from_here();
	for (uint64_t x = held(); x <= SLOTS * 3; x += 10)
		cr_assert_eq(found(1000 * x), x);
	reads = counter(SUBSCRIPTION_READS) - reads;
	if (!FAULTY)
		cr_expect_leq(reads, IN_PLACE ? 0 : SLOTS / 10 * 12 + 12,
			      "a line and 11 slots each: %" PRIu64, reads);
}

static void write_700(void)
{
	publish(tb_topic_sequence(topic) + 1, tb_topic_sequence(topic) + 700);
}

static void write_2000(void)
{
	publish(tb_topic_sequence(topic) + 1, tb_topic_sequence(topic) + 2000);
}

/* The first slot that is copied is in the middle, and was overwritten meanwhile. */
Test(past, fresh_line_moves_the_lower_bound)
{
	uint64_t sequence = 0, reads;

	publish(1, SLOTS);
	take_as_rising();
	hook_reads(2, write_700);
	reads = count_from_here();
	cr_expect_eq(found(900000), 900);
	if (!FAULTY)
		cr_expect_leq(counter(SUBSCRIPTION_READS) - reads, 14);
	hook_reads(2, write_2000);
	cr_expect_eq(tb_find_time(source, 1500000, &sequence), BETWEEN ? -ERANGE : 0);
	hook_reads(2, write_2000);
	sequence = found(UINT64_MAX);
	cr_expect_eq(sequence, BETWEEN ? tb_topic_sequence(topic) : SLOTS, "newer records count");
	hook_reads(5, write_2000); /* the record that the message names is overwritten */
	cr_expect_eq(tb_find_time(source, 1, &sequence), -ERANGE);
	cr_expect(strstr(tb_error(), "had that time, and was the oldest that was held"), "%s",
		  tb_error());
}

Test(past, corrupt_records_do_not_end_the_search)
{
	uint64_t sequence = 0;

	publish(1, SLOTS - SLOTS / 8);
	take_as_rising();
	for (uint64_t x = 510; x <= 514; x++)
		damage(x);
	cr_expect_eq(found(600000), 600);
	cr_expect_eq(found(200000), 200);
	cr_expect_eq(found(512000), 509);
	cr_expect_eq(found(515000), 515);
	for (uint64_t x = 1; x <= tb_topic_sequence(topic); x++)
		if (x < 510 || x > 514)
			damage(x);
	cr_expect_eq(tb_find_time(source, 600000, &sequence), -EAGAIN);
	cr_expect(strstr(tb_error(), "in 256 copies of slots"), "%s", tb_error());
}

/* A hostile publisher's times. */
Test(past, times_that_fall_end_the_search)
{
	uint64_t sequence;

	publish(1, 300);
	publish(1, 300);
	publish(1, 300);
	take_as_rising();
	for (uint64_t x = 1; x <= 310; x++) {
		const int result = tb_find_time(source, 1000 * x, &sequence);

		cr_assert(result == 0 || result == -ERANGE, "%s", tb_error());
		cr_assert(result < 0 || (sequence - 1) % 300 < x);
	}
}

Test(past, strict_search_reads_a_line_for_each_slot)
{
	uint64_t reads;

	publish(1, SLOTS - 10);
	join_as(TB_STRICT);
	((struct tb_source *)(uintptr_t)source)->mapping.shape.flags |= REGION_FLAG_TIME_RISES;
	reads = count_from_here();
	cr_expect_eq(found(UINT64_MAX), SLOTS - 10);
	expect_reads(reads, 1 + 2 * 10);
}

/* -- starts ----------------------------------------------------------------------------------- */

static void start(enum tb_from from, uint64_t time_ns, uint64_t back)
{
	struct tb_subscription_options options = options_of(0);

	options.from = from;
	options.time_ns = time_ns;
	options.back = back;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	cr_assert(scene_poll_until(subscriber, &notes.events, 1));
}

/* What came: records first to last, after these events. */
static void expect_start(const char *events, uint64_t first, uint64_t last)
{
	char text[16384];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s", events);

	for (uint64_t x = first; x <= last; x++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "%" PRIu64 " %s update %" PRIu64 "\n", x,
					 x % 2 ? "A" : "B", x);
	cr_assert(scene_poll_until(subscriber, &notes.last, last));
	cr_expect_str_eq(notes.text, text);
}

Test(past, start_from_the_last_records)
{
	publish(1, 100);
	start(TB_FROM_LAST, 0, 5);
	publish(101, 102);
	expect_start("appeared t 96\n", 96, 102);
}

Test(past, start_from_more_than_all_records)
{
	publish(1, 5);
	start(TB_FROM_LAST, 0, 1000);
	publish(6, 6);
	expect_start("appeared t 1\n", 1, 6);
}

Test(past, start_from_last_records_that_were_overwritten_is_a_gap)
{
	char words[96];

	publish(1, SLOTS + 100);
	start(TB_FROM_LAST, 0, SLOTS + 10);
	cr_assert(scene_poll_until(subscriber, &notes.last, SLOTS + 100));
	snprintf(words, sizeof(words), "appeared t 91\ngap 91 %" PRIu64 " before_join\n%" PRIu64,
		 held() - 1, held());
	cr_expect(strncmp(notes.text, words, strlen(words)) == 0, "%.60s", notes.text);
}

Test(past, start_by_time_needs_rising_times)
{
	struct tb_subscription_options options = options_of(0);

	options.from = TB_FROM_TIME;
	options.time_ns = 1;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EOPNOTSUPP);
	cr_expect(strstr(tb_error(), "it has no start by time"), "%s", tb_error());
}

/* A record of a group's topic at this time, by the group's clock. */
static struct tb_group *group;

static void group_topic(uint32_t slots)
{
	group = scene_group(publisher, "g");
	topic = scene_grouped(publisher, "g.t", slots, 0, group);
}

/* A message at this time, with `count` records. */
static void message(uint64_t time_ns, uint64_t count)
{
	clock_real_set(time_ns);
	cr_assert_eq(tb_group_message(group), 0, "%s", tb_error());
	for (; count > 0; count--) {
		const uint64_t x = tb_topic_sequence(topic) + 1;
		const int instrument = tb_instrument(topic, x % 2 ? "A" : "B");
		const struct tb_update update = { .size = sizeof(update),
						  .instrument = (uint32_t)instrument,
						  .kind = TB_KIND_UPDATE,
						  .length = sizeof(x),
						  .data = &x };

		cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	}
	cr_assert_eq(tb_group_flush(group), 0, "%s", tb_error());
}

static void start_by_time(uint64_t time_ns, uint64_t back, uint32_t flags)
{
	struct tb_subscription_options options = options_of(flags);

	options.from = TB_FROM_TIME;
	options.time_ns = time_ns;
	options.back = back;
	cr_assert_eq(tb_subscribe(subscriber, "g.t", &options, &subscription), 0, "%s", tb_error());
	source = tb_subscription_source(subscription, "g.t");
	cr_assert(scene_poll_until(subscriber, &notes.events, 1));
}

#define DAY UINT64_C(1700000000000000000)

/* Messages of 3 records, each 1,000 ns after the last: message m has records 3 m - 2 to 3 m. */
static void messages(uint64_t from, uint64_t to)
{
	for (uint64_t m = from; m <= to; m++)
		message(DAY + 1000 * m, 3);
}

Test(past, start_by_time_begins_with_the_last_record_up_to_it)
{
	group_topic(SLOTS);
	messages(1, 20);
	start_by_time(DAY + 5999, 0, 0);
	expect_start("appeared g.t 15\n", 15, 60);
}

Test(past, start_by_time_goes_back)
{
	group_topic(SLOTS);
	messages(1, 20);
	start_by_time(DAY + 5000, 14, 0);
	expect_start("appeared g.t 1\n", 1, 60);
}

Test(past, start_by_a_time_to_come_begins_with_the_newest)
{
	group_topic(SLOTS);
	messages(1, 20);
	start_by_time(UINT64_MAX, 0, TB_STRICT);
	messages(21, 21);
	expect_start("appeared g.t 60\n", 60, 63);
}

Test(past, start_by_time_in_an_empty_topic)
{
	group_topic(SLOTS);
	start_by_time(DAY, 3, 0);
	messages(1, 1);
	expect_start("appeared g.t 1\n", 1, 3);
}

Test(past, start_before_the_first_record_is_no_gap)
{
	group_topic(SLOTS);
	messages(1, 2);
	start_by_time(DAY, 0, 0);
	expect_start("appeared g.t 1\n", 1, 6);
}

Test(past, start_before_the_oldest_record_is_a_gap)
{
	char events[96];

	group_topic(64);
	messages(1, 100);
	start_by_time(DAY, 7, 0);
	snprintf(events, sizeof(events), "appeared g.t 1\ngap 1 %" PRIu64 " before_join\n",
		 held() - 1);
	expect_start(events, held(), 300);
}

/* The record was found, and lies `back` records behind what is held. */
Test(past, start_too_far_back_is_a_gap_of_what_was_asked_for)
{
	char events[96];

	group_topic(64);
	messages(1, 100);
	start_by_time(DAY + 1000 * 100, 70, 0);
	snprintf(events, sizeof(events), "appeared g.t 230\ngap 230 %" PRIu64 " before_join\n",
		 held() - 1);
	expect_start(events, held(), 300);
}

static void messages_300(void)
{
	messages(1001, 1300);
}

static void messages_200(void)
{
	messages(1001, 1200);
}

/* The first slot that is copied holds a newer record by then: the line moves the lower bound. */
Test(past, start_by_time_is_found_while_the_writer_overwrites)
{
	group_topic(SLOTS);
	messages(1, 300);
	hook_kind(READ_START, 1, messages_200);
	start_by_time(DAY + 1000 * 290, 0, 0);
	cr_assert(scene_poll_until(subscriber, &notes.last, tb_topic_sequence(topic)));
	cr_expect_eq(notes.records, tb_topic_sequence(topic) - 869);
	cr_expect_eq(notes.lost, 0);
}

/* The first copy is whole, and overwritten when the line is READ that proves it. So the search
 * knows that the time lies before all records that are held. */
Test(past, strict_start_proves_each_copy_by_a_line)
{
	const uint64_t first = BETWEEN ? 1 : 300;

	group_topic(SLOTS);
	messages(1, 300);
	hook_kind(READ_PROGRESS, 2, messages_300);
	start_by_time(DAY + 1000 * 100, 0, TB_STRICT);
	cr_assert(scene_poll_until(subscriber, &notes.last, tb_topic_sequence(topic)));
	cr_expect_eq(notes.lost + notes.records, tb_topic_sequence(topic) - first + 1);
}

Test(past, corrupt_records_do_not_end_the_search_for_a_start)
{
	group_topic(64);
	messages(1, 10);
	damage(15);
	damage(16);
	start_by_time(DAY + 5999, 0, 0);
	cr_assert(scene_poll_until(subscriber, &notes.last, 30));
	cr_expect(strstr(notes.text, "appeared g.t 14\n14 B update 14\ngap 15 15 corrupt\n"), "%s",
		  notes.text);
}

Test(past, new_epoch_begins_at_its_first_record)
{
	group_topic(SLOTS);
	messages(1, 20);
	start_by_time(DAY + 1000 * 20, 0, 0);
	cr_assert(scene_poll_until(subscriber, &notes.last, 60));
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	messages(1, 1);
	cr_assert(scene_poll_while(subscriber, &notes.restarted));
	cr_assert(scene_poll_until(subscriber, &notes.last, 3));
	cr_expect(strstr(notes.text, "restart 60 60\n1 A update 1\n"), "%s", notes.text);
	cr_expect_eq(found(UINT64_MAX), 3, "in the new epoch");
}

/* In place the memory outlives its publisher. Over a network it may be gone. */
Test(past, past_of_a_publisher_that_left)
{
	uint64_t sequence = 0;
	int result;

	group_topic(SLOTS);
	messages(1, 20);
	start_by_time(UINT64_MAX, 0, 0);
	subscriber->connect_ms = 200;
	tb_publisher_close(publisher);
	publisher = NULL;
	result = tb_find_time(source, DAY + 5000, &sequence);
	if (IN_PLACE || result == 0)
		cr_expect(result == 0 && sequence == 15, "%s", tb_error());
	else
		cr_expect(result == -ENOTCONN || result == -ETIMEDOUT || result == -EAGAIN,
			  "%d: %s", result, tb_error());
}

/* -- random times ----------------------------------------------------------------------------- */

#define TIMES   10000
#define HISTORY 200000
#define SMALL   256

static struct {
	uint64_t times[HISTORY + 1];
	uint64_t count;
	uint64_t random;
} truth;

/* Messages of 1 to 4 records. Some have the time of the clock, others follow each other by 1 ns. */
static void write_some(size_t most)
{
	for (size_t left = random_below(&truth.random, most + 1); left > 0; left--) {
		const uint64_t before = truth.count ? truth.times[truth.count] : DAY;

		message(before + random_below(&truth.random, 3) * 500,
			1 + random_below(&truth.random, 4));
		cr_assert_leq(tb_topic_sequence(topic), HISTORY);
		while (truth.count < tb_topic_sequence(topic))
			truth.times[++truth.count] = tb_group_time(group);
	}
}

static void write_while_it_reads(void)
{
	write_some(random_below(&truth.random, 4) == 0 ? SMALL : 20);
}

/* The last of all records with a time up to this; 0: they are later. */
static uint64_t scan(uint64_t time_ns)
{
	uint64_t s = truth.count;

	while (s > 0 && truth.times[s] > time_ns)
		s--;
	return s;
}

/* In the ring, or near its bounds. */
static uint64_t a_time(void)
{
	const uint64_t oldest = truth.times[held()], newest = truth.times[truth.count];

	return oldest - 2000 + random_below(&truth.random, (size_t)(newest - oldest) + 4000);
}

static uint64_t checked, early, late;

static void check_a_time(void)
{
	const uint64_t time_ns = a_time(), before = truth.count, oldest = held();
	uint64_t sequence = 0;
	const int result = tb_find_time(source, time_ns, &sequence);
	const uint64_t expected = scan(time_ns);

	if (result == -ERANGE) {
		cr_assert_lt(time_ns, truth.times[held()], "%s", tb_error());
		early++;
		late += expected >= oldest;
		return;
	}
	cr_assert_eq(result, 0, "%s", tb_error());
	if (before == truth.count)
		cr_assert_geq(expected, oldest);
	/* Records that were written meanwhile may count. */
	cr_assert(sequence == expected || (sequence >= before && sequence < expected),
		  "found %" PRIu64 ", expected %" PRIu64, sequence, expected);
	checked++;
}

Test(past, random_times_equal_a_scan)
{
	const int times = scene_rounds(TIMES);

	truth.random = scene_seed();
	group_topic(SMALL);
	while (truth.count < 100)
		write_some(50);
	start_by_time(UINT64_MAX, 0, 0);
	notes.quiet = true;
	for (int i = 0; i < times; i++) {
		if (i % 20 == 0)
			write_some(i % 400 == 0 ? SMALL : 10);
		if (i % (times / 200 + 1) == 0)
			hook_reads(1 + (unsigned int)random_below(&truth.random, 12),
				   write_while_it_reads);
		check_a_time();
		if (i % 100 == 0)
			cr_assert_geq(tb_poll(subscriber, SMALL), 0, "%s", tb_error());
	}
	cr_expect_gt(checked, (uint64_t)times / 2);
	cr_expect_gt(early, (uint64_t)times / 100);
	cr_expect(!BETWEEN || late > 0, "no record was overwritten during a call");
}

/* Messages 1, 2, 3 ... of 3 records each, as fast as this thread goes. */
static _Atomic bool stop;

static void *writes(void *user)
{
	uint64_t m = 400;

	(void)user;
	while (!atomic_load(&stop))
		messages(m + 1, m + 1), m++;
	return NULL;
}

/* In place, slots change while they are copied. */
Test(past, times_are_found_while_a_thread_writes)
{
	uint64_t random = scene_seed(), sequence, right = 0, wrong = 0;
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	pthread_t writer;

	if (!IN_PLACE)
		cr_skip_test("READs: the writer would lap each search");
	group_topic(SLOTS);
	messages(1, 400);
	start_by_time(UINT64_MAX, 0, 0);
	cr_assert_eq(pthread_create(&writer, NULL, writes, NULL), 0);
	while (right < 1000 && scene_now_ms() < until_ms) {
		uint64_t newest = 0, m;

		if (tb_find_time(source, UINT64_MAX, &newest) != 0)
			continue;
		m = newest / 3 - random_below(&random, SLOTS / 6);
		if (tb_find_time(source, DAY + 1000 * m + 500, &sequence) != 0)
			continue;
		right += sequence == 3 * m;
		wrong += sequence != 3 * m;
	}
	atomic_store(&stop, true);
	pthread_join(writer, NULL);
	cr_expect_geq(right, 1000);
	cr_expect_eq(wrong, 0);
}
