/* SPDX-License-Identifier: Apache-2.0 */
/* What a record costs over RDMA, counted: READs, their bytes, doorbells, completions, polls of the
 * completion queue, and system calls. The device executes all READs when it is polled next. The
 * clock stands still, so that only records cause work. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "bus/progress.h"
#include "subscriber/notices.h"
#include "subscriber/state.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/reading_device.h"

#define SLOT       64 /* bytes */
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
	reading_expect_nothing_left();
	reading_device_close();
	notes_free(&notes);
	scene_leave();
}

TestSuite(read_counts, .init = enter, .fini = leave, .timeout = 120);

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
	poll_until(2 * count);
	for (int i = 0; i < 1000; i++) /* what is due at the beginning only */
		poll_once();
	clock_stop();
	for (int i = 0; i < 1000; i++)
		poll_once();
	reading_count();
}

static void show(const char *what, uint64_t records)
{
	const double each = records ? (double)records : 1;

	cr_log_info("TOTAL %s: %llu records, %u READs %llu bytes %u doorbells %u completions %u polls",what,(unsigned long long)records,reading.reads,(unsigned long long)reading.bytes,reading.doorbells,reading.completions,reading.polls);
	cr_log_info("%s: %llu records; each: %.2f READs, %.0f bytes, %.2f doorbells, %.2f "
		    "completions, %.2f polls, %.2f system calls",
		    what, (unsigned long long)records, reading.reads / each,
		    (double)reading.bytes / each, reading.doorbells / each,
		    reading.completions / each, reading.polls / each,
		    reading.system_calls / each);
}

Test(read_counts, all)
{
	read_topics(1, TB_POLL_SPIN, 0);
	for (int i = 0; i < 1000; i++) {
		publish(0, 1);
		poll_until(2 + published[0] - 2);
	}
	show("single", 1000);
}
Test(read_counts, single_gap)
{
	read_topics(1, TB_POLL_SPIN, 0);
	for (int i = 0; i < 1000; i++) {
		publish(0, 1);
		poll_until(2 + published[0] - 2);
		for (int j = 0; j < 8; j++)
			poll_once();
	}
	show("single gap 8 polls", 1000);
}
Test(read_counts, batches)
{
	read_topics(1, TB_POLL_SPIN, 0);
	for (int i = 0; i < 1000; i++) {
		publish(0, 64);
		poll_until(2 + published[0] - 2);
	}
	show("batches", 64000);
}
Test(read_counts, batches_gap)
{
	read_topics(1, TB_POLL_SPIN, 0);
	for (int i = 0; i < 1000; i++) {
		publish(0, 64);
		poll_until(2 + published[0] - 2);
		for (int j = 0; j < 8; j++)
			poll_once();
	}
	show("batches gap 8", 64000);
}
Test(read_counts, backlog)
{
	read_topics(1, TB_POLL_SPIN, 0);
	for (int i = 0; i < 10; i++) {
		publish(0, 4096);
		poll_until(2 + published[0] - 2);
	}
	show("backlog", 40960);
}
Test(read_counts, many)
{
	read_topics(64, TB_POLL_SPIN, 0);
	uint64_t total = 128;
	for (int i = 0; i < 100; i++) {
		for (unsigned int t = 0; t < 64; t++)
			publish(t, 1);
		total += 64;
		poll_until(total);
	}
	show("64 topics", 6400);
}
Test(read_counts, idle)
{
	read_topics(64, TB_POLL_SPIN, 0);
	for (int i = 0; i < 1000; i++)
		poll_once();
	show("64 idle, per poll", 1000);
}
Test(read_counts, idle1)
{
	read_topics(1, TB_POLL_SPIN, 0);
	for (int i = 0; i < 1000; i++)
		poll_once();
	show("1 idle, per poll", 1000);
}
Test(read_counts, hints)
{
	read_topics(1, 0, 0);
	for (int i = 0; i < 1000; i++) {
		publish(0, 1);
		notices_hint(subscription->sources, published[0]);
		poll_until(published[0]);
	}
	show("notices", 1000);
}
