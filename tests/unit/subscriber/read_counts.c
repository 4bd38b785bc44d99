/* SPDX-License-Identifier: Apache-2.0 */
/* What a record costs over RDMA, counted: READs, their bytes, doorbells, completions, polls of the
 * completion queue, and system calls. The device executes all READs when it is polled next. The
 * clock stands still, so that only records cause work. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "bus/progress.h"
#include "subscriber/notices.h"
#include "subscriber/state.h"
#include "subscriber/turn.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/reading_device.h"

#define SLOT       64   /* bytes */
#define READ_BYTES 8192 /* default size of a READ */
#define LINE       ((unsigned int)sizeof(struct progress))
#define TOPICS_MAX 64
#define RING       8192

static struct tb_publisher *publisher;
static struct tb_topic *topics[TOPICS_MAX];
static uint64_t published[TOPICS_MAX];
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct notes notes;

static void enter(void)
{
	scene_enter();
	reading_device_open();
	reading.lands = UINT32_MAX;
	notes.quiet = true;
	publisher = scene_publisher("shm");
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	reading_device_close();
	notes_free(&notes);
	scene_leave();
}

TestSuite(read_counts, .init = enter, .fini = leave, .timeout = 120);

static uint64_t counted(enum subscription_counter counter)
{
	uint64_t value[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, value, SUBSCRIPTION_COUNTERS);
	return value[counter];
}

static void publish(unsigned int topic, uint64_t count)
{
	scene_publish(topics[topic], published[topic] + 1, published[topic] + count);
	published[topic] += count;
}

static void poll_once(void)
{
	cr_assert_geq(tb_poll(subscriber, 4096), 0, "%s", tb_error());
}

static void poll_until(uint64_t records)
{
	const uint64_t end_ms = scene_now_ms() + deadline_ms();

	while (notes.records < records) {
		cr_assert_lt(scene_now_ms(), end_ms, "found %llu records",
			     (unsigned long long)notes.records);
		poll_once();
	}
}

/* A reader has joined all topics, and knows the names of their instruments. Nothing but records
 * changes from here on. */
static void read_topics(unsigned int count, uint32_t poll_us, uint32_t flags)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "rdma:" READING_PLACE,
						       .connect_ms = deadline_ms(),
						       .poll_us = poll_us };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_OLDEST,
						     .flags = flags };
	char name[16];

	for (unsigned int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		topics[i] = scene_topic(publisher, name, RING, 0);
		publish(i, 2);
	}
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, "*", &how, &subscription), 0, "%s", tb_error());
	poll_until(2 * (uint64_t)count);
	for (int i = 0; i < 1000; i++) /* what is due at the beginning only */
		poll_once();
	clock_stop();
	for (int i = 0; i < 1000; i++)
		poll_once();
	reading_count();
}

/* The most that `records` records, or polls without records, may cost. */
struct cost {
	uint64_t reads, bytes, doorbells, completions, polls;
};

static void expect_at_most(uint64_t records, struct cost most)
{
	cr_log_info("%llu: %u READs, %llu bytes, %u doorbells, %u completions, %u polls",
		    (unsigned long long)records, reading.reads, (unsigned long long)reading.bytes,
		    reading.doorbells, reading.completions, reading.polls);
	cr_expect_leq(reading.reads, most.reads, "found %u READs, expected at most %llu",
		      reading.reads, (unsigned long long)most.reads);
	cr_expect_leq(reading.bytes, most.bytes, "found %llu bytes, expected at most %llu",
		      (unsigned long long)reading.bytes, (unsigned long long)most.bytes);
	cr_expect_leq(reading.doorbells, most.doorbells,
		      "found %u doorbells, expected at most %llu", reading.doorbells,
		      (unsigned long long)most.doorbells);
	cr_expect_leq(reading.completions, most.completions,
		      "found %u completions, expected at most %llu", reading.completions,
		      (unsigned long long)most.completions);
	cr_expect_leq(reading.polls, most.polls,
		      "found %u polls of the completion queue, expected at most %llu",
		      reading.polls, (unsigned long long)most.polls);
	cr_expect_eq(reading.system_calls, 0, "found %u system calls", reading.system_calls);
	cr_expect(notes.lost == 0 && notes.wrong == 0);
	cr_expect_eq(counted(SUBSCRIPTION_TORN), 0);
}

/* Rounds of as many records, each followed by as many polls without a record. */
static void bursts(unsigned int rounds, uint64_t records, int pause)
{
	for (unsigned int i = 0; i < rounds; i++) {
		publish(0, records);
		poll_until(published[0]);
		for (int j = 0; j < pause; j++)
			poll_once();
	}
}

/* -- a topic ---------------------------------------------------------------------------------- */

/* One look costs one doorbell, and brings the record. */
Test(read_counts, single_records_of_a_spinning_reader)
{
	read_topics(1, TB_POLL_SPIN, 0);
	bursts(1000, 1, 0);
	expect_at_most(1000, (struct cost){ .reads = 2002,
					    .bytes = 1001 * (LINE + SLOT),
					    .doorbells = 1001,
					    .completions = 1001,
					    .polls = 1001 });
}

Test(read_counts, single_records_with_pauses)
{
	read_topics(1, TB_POLL_SPIN, 0);
	bursts(1000, 1, 8);
	expect_at_most(1000, (struct cost){ .reads = 9001 * 2,
					    .bytes = 9001 * (LINE + SLOT),
					    .doorbells = 9001,
					    .completions = 9001,
					    .polls = 9001 });
}

/* A look brings all of a batch, once the reader knows its size. */
Test(read_counts, batches_of_64)
{
	read_topics(1, TB_POLL_SPIN, 0);
	bursts(1000, 64, 0);
	expect_at_most(64000, (struct cost){ .reads = 2010,
					     .bytes = 64064 * SLOT + 1010 * LINE,
					     .doorbells = 1010,
					     .completions = 1010,
					     .polls = 1010 });
}

/* No batch follows at once, so the reader asks for a single slot. */
Test(read_counts, batches_of_64_with_pauses)
{
	read_topics(1, TB_POLL_SPIN, 0);
	bursts(1000, 64, 8);
	expect_at_most(64000, (struct cost){ .reads = 10000 * 2,
					     .bytes = (64000 + 9000) * SLOT + 10000 * LINE,
					     .doorbells = 10000,
					     .completions = 10000,
					     .polls = 10000 });
}

/* READs are as large as they may be, but at the ends of the ring and of a half of the landing. */
Test(read_counts, backlogs_of_4096)
{
	read_topics(1, TB_POLL_SPIN, 0);
	bursts(10, 4096, 0);
	expect_at_most(40960,
		       (struct cost){ .reads = 40960 * SLOT / READ_BYTES + 20,
				      .bytes = (40960 + 10 * READ_BYTES / SLOT) * SLOT + 20 * LINE,
				      .doorbells = 90,
				      .completions = 90,
				      .polls = 90 });
}

/* Since the last record, slots of one READ at most. */
Test(read_counts, idle_topic_is_read_by_lines_alone)
{
	read_topics(1, TB_POLL_SPIN, 0);
	bursts(1, 1, 1000);
	expect_at_most(1, (struct cost){ .reads = 1002 + READ_BYTES / SLOT,
					 .bytes = 1002 * LINE + READ_BYTES,
					 .doorbells = 1002,
					 .completions = 1002,
					 .polls = 1002 });
	reading_count();
	for (int i = 0; i < 1000; i++)
		poll_once();
	expect_at_most(1000, (struct cost){ .reads = 1000,
					    .bytes = 1000 * LINE,
					    .doorbells = 1000,
					    .completions = 1000,
					    .polls = 1000 });
}

/* Lines before and after each record. */
Test(read_counts, strict_records_are_read_when_a_line_counts_them)
{
	read_topics(1, TB_POLL_SPIN, TB_STRICT);
	bursts(1000, 1, 0);
	expect_at_most(1000, (struct cost){ .reads = 3001,
					    .bytes = 1000 * SLOT + 2001 * LINE,
					    .doorbells = 3001,
					    .completions = 3001,
					    .polls = 3001 });
}

/* A notice says that the record is there. */
Test(read_counts, record_of_a_notice_is_one_read)
{
	read_topics(1, 0, 0);
	for (unsigned int i = 0; i < 1000; i++) {
		publish(0, 1);
		cr_assert(notices_hint(subscription->sources, published[0]));
		poll_until(published[0]);
	}
	expect_at_most(1000, (struct cost){ .reads = 1000,
					    .bytes = 1000 * SLOT,
					    .doorbells = 1000,
					    .completions = 1000,
					    .polls = 1000 });
}

/* -- many topics ------------------------------------------------------------------------------ */

static void record_of_each(unsigned int count, unsigned int rounds)
{
	for (unsigned int i = 0; i < rounds; i++) {
		for (unsigned int topic = 0; topic < count; topic++)
			publish(topic, 1);
		poll_until(count * published[0]);
	}
}

/* Line and slot of all topics go out with one doorbell. Each topic's READs report their end. */
Test(read_counts, record_of_each_of_31_topics)
{
	read_topics(31, TB_POLL_SPIN, 0);
	record_of_each(31, 100);
	expect_at_most(3100, (struct cost){ .reads = 101 * 62,
					    .bytes = 101 * 31 * (LINE + SLOT),
					    .doorbells = 101,
					    .completions = 101 * 31,
					    .polls = 101 * 2 });
	cr_expect_eq(reading.completions, 101 * 31,
		     "found %u completions, expected %u: a topic's "
		     "READs do not wait for those of topics behind it",
		     reading.completions, 101 * 31);
}

/* The queue has 63 places for them. */
Test(read_counts, record_of_each_of_64_topics)
{
	read_topics(64, TB_POLL_SPIN, 0);
	record_of_each(64, 100);
	expect_at_most(6400, (struct cost){ .reads = 6400 * 3,
					    .bytes = 6400 * 3 * LINE,
					    .doorbells = 400,
					    .completions = 6400 * 3,
					    .polls = 1200 });
}

Test(read_counts, idle_topics_share_a_doorbell)
{
	read_topics(64, TB_POLL_SPIN, 0);
	for (int i = 0; i < 1000; i++)
		poll_once();
	expect_at_most(1000, (struct cost){ .reads = 63000,
					    .bytes = 63000 * LINE,
					    .doorbells = 1000,
					    .completions = 63000,
					    .polls = 4000 });
}

/* -- the counter of system calls -------------------------------------------------------------- */

Test(read_counts, system_calls_of_a_turn_are_counted)
{
	read_topics(1, TB_POLL_SPIN, 0);
	poll_once();
	cr_assert_eq(reading.system_calls, 0);
	clock_pass(TURN_MS);
	poll_once();
	cr_expect_gt(reading.system_calls, 0);
}
