/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a publisher has withdrawn. A READ of it would end the connection, with all its
 * topics.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>

#include "bus/bus_page.h"
#include "publisher/state.h"
#include "subscriber/state.h"
#include "subscriber/wait.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"

TestSuite(withdrawn, .init = net_enter, .fini = net_leave, .timeout = 60);

static struct tb_topic *topic, *other;
static struct notes others;

/* A subscriber has read two records of t and of u. */
static void read_two_topics(void)
{
	topic = scene_topic(net.publisher, "t", 64, 0);
	other = scene_topic(net.publisher, "u", 64, 0);
	scene_publish(topic, 1, 2);
	scene_publish(other, 1, 2);
	net_read_on(false);
	scene_subscribe(subscriber, "u", TB_FROM_OLDEST, &others);
	UNTIL(notes.last == 2 && others.last == 2, 100);
	UNTIL(subscriber->pulse_topics == 2, 100);
}

static bool page_shows_the_restart(void)
{
	bool shown;

	publisher_lock(net.publisher);
	shown = topic->restarts_sent == atomic_load(&topic->restarts);
	publisher_unlock(net.publisher);
	return shown;
}

/* The subscriber is away. Meanwhile topic t publishes its last record, restarts with these records,
 * and its old memory goes. */
static void stall_over_a_restart(uint64_t last, uint64_t records)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	const uint64_t old_epoch = topic->shape.epoch;

	scene_publish(topic, last, last);
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, records);
	scene_publish(other, 3, 40);
	while (!page_shows_the_restart()) {
		cr_assert_lt(scene_now_ms(), until_ms);
		sched_yield();
	}
	clock_pass(bus_page_kept_ms(SCENE_STALE_MS));
	net.gone_epoch = old_epoch;
}

static struct tb_source *source_of(const struct tb_topic *wanted)
{
	const uint32_t id = wanted->shape.topic_id;

	return subscriber->table[0]->mapping.shape.topic_id == id ? subscriber->table[0]
								  : subscriber->table[1];
}

static void expect_one_connection(void)
{
	cr_expect_eq(net.gone_reads, 0, "withdrawn memory was READ");
	cr_expect_eq(net.tries, 1, "%u connections", net.tries);
	cr_expect(others.records == 40 && others.lost == 0, "%s", others.text);
	notes_free(&others);
}

Test(withdrawn, stalled_subscriber_keeps_its_other_topics)
{
	read_two_topics();
	stall_over_a_restart(3, 3);
	UNTIL(notes.records == 5 && others.last == 40, 100);
	expect_one_connection();
	cr_expect(strstr(notes.text, "2 B update 2\nrestart 2 2\n1 A update 1\n"), "%s",
		  notes.text);
}

/* What is known and cannot be READ any more is lost with its epoch. */
Test(withdrawn, restart_reports_the_head_that_was_seen)
{
	struct tb_source *source;

	read_two_topics();
	source = source_of(topic);
	net.held = READ_SLOTS;
	scene_publish(topic, 3, 3);
	source->look = true;
	UNTIL(source->head == 3, 100);
	stall_over_a_restart(4, 1);
	net.held = READ_NONE;
	UNTIL(notes.records == 3 && others.last == 40, 100);
	expect_one_connection();
	cr_expect(strstr(notes.text, "2 B update 2\nrestart 2 3\n1 A update 1\n"), "%s",
		  notes.text);
}

/* A look that was requested before the stall arrives after it, and shows the old epoch. */
Test(withdrawn, look_from_before_the_stall_proves_nothing)
{
	read_two_topics();
	clock_pass(subscriber->stale_ms / 10);
	UNTIL(subscriber->entries_under_way > 0, 100);
	stall_over_a_restart(3, 3);
	UNTIL(notes.records == 5 && others.last == 40, 100);
	expect_one_connection();
}

/* The old memory goes while READs of it and a name are outstanding; what has landed is delivered.
 */
Test(withdrawn, landed_records_are_delivered_before_the_restart)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct tb_source *source;

	read_two_topics();
	source = source_of(topic);
	scene_publish(topic, 3, 9);
	source->look = true;
	UNTIL(source->batches[0].under_way + source->batches[1].under_way > 0, 100);
	cr_assert_eq(notes.last, 2);
	stall_over_a_restart(10, 1);
	while (!source->has_successor) {
		cr_assert_lt(scene_now_ms(), until_ms);
		wait_turn(subscriber); /* delivers nothing */
		sched_yield();         /* the porter answers by the same clock */
	}
	UNTIL(notes.records == 10 && others.last == 40, 100);
	expect_one_connection();
	cr_expect(strstr(notes.text, "9 A update 9\nrestart 9 9\n1 A update 1\n"), "%s",
		  notes.text);
}

/* Each look arrives late. The topic is not withdrawn, and is read. */
Test(withdrawn, subscriber_that_is_always_away_reads_all_the_same)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	read_two_topics();
	scene_publish(topic, 3, 10);
	while (notes.last < 10) {
		clock_pass(bus_page_kept_ms(SCENE_STALE_MS));
		cr_assert_geq(tb_poll(subscriber, 1), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms, "%s", notes.text);
	}
	cr_expect_eq(notes.lost, 0);
	notes_free(&others);
}

/* Its own bound is longer than the publisher keeps withdrawn memory. */
Test(withdrawn, subscriber_with_a_long_bound_looks_in_time)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "net:test",
						       .stale_ms = 60000,
						       .connect_ms = deadline_ms() };

	topic = scene_topic(net.publisher, "t", 64, 0);
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	UNTIL(subscriber->pulse_topics == 1, 100);
	for (uint64_t n = 1; n <= 60; n++) {
		clock_pass(100);
		scene_publish(topic, n, n);
		UNTIL(notes.last == n, 100);
	}
	cr_expect_eq(notes.lost, 0);
}
