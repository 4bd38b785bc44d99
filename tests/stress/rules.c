/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that need no race: what a reader believes, how often it polls, when it gives up, and when
 * it is woken. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "publisher/state.h"
#include "subscriber/fetch.h"
#include "subscriber/notices.h"
#include "subscriber/pulse.h"
#include "subscriber/reader.h"
#include "subscriber/state.h"
#include "tests/support/bytewise.h"
#include "tests/support/deadline.h"
#include "tests/support/guard.h"
#include "bus/clock.h"
#include "bus/words.h"
#include "tests/support/scene.h"

static struct tb_publisher *publisher;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct tb_source *source;
static struct notes notes;

static void enter(void)
{
	scene_enter();
	bytewise_add(scene_seed());
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(rules, .init = enter, .fini = leave, .timeout = 60);

static struct tb_topic *topic_on(const char *scheme, uint32_t flags)
{
	publisher = scene_publisher_of(scheme, SCENE_HASTY_MS);
	return scene_topic(publisher, "t", 64, flags);
}

/* A publisher without a pulse for 15 seconds, so that what comes with a pulse comes too late. */
static struct tb_topic *topic_without_pulse(const char *scheme, uint32_t flags)
{
	publisher = scene_publisher_of(scheme, 60000);
	return scene_topic(publisher, "t", 64, flags);
}

/* Uses the descriptor: then every poll that finds nothing collects completed READs. */
static void read_on(const char *scheme)
{
	subscriber = scene_subscriber(scheme, 0);
	subscription = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	source = subscription->sources;
	tb_subscriber_fd(subscriber);
}

static uint64_t counted(enum subscription_counter counter)
{
	uint64_t value[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, value, SUBSCRIPTION_COUNTERS);
	return value[counter];
}

/* -- reserved slots -----------------------------------------------------------------------------
 */

/* Slots 1 to 3 are overwritten without a flush. */
static void join_after_an_unflushed_lap(const char *scheme)
{
	struct tb_topic *topic = topic_on(scheme, TB_TOPIC_MANUAL_FLUSH);

	scene_publish(topic, 1, 64);
	tb_flush(topic);
	scene_publish(topic, 65, 67);
	read_on(scheme);
	cr_assert(scene_poll_until(subscriber, &notes.last, 64), "%s", notes.text);
	cr_expect(strstr(notes.text, "gap 1 8 before_join\n9 A update 9\n"), "%s", notes.text);
	cr_expect_null(strstr(notes.text, "corrupt"), "%s", notes.text);
	cr_expect_eq(notes.wrong, 0);
}

Test(rules, slots_are_reserved_before_writing_shm)
{
	join_after_an_unflushed_lap("shm");
}

Test(rules, slots_are_reserved_before_writing_bytewise)
{
	join_after_an_unflushed_lap("bytewise");
}

/* -- records given up ---------------------------------------------------------------------------
 */

/* Record 5 fails its check, or has an invalid length. It is tried TRIES_MAX times; its neighbours
 * are delivered. */
static void damage_one(const char *scheme, uint32_t flags, size_t offset)
{
	struct tb_topic *topic = topic_on(scheme, flags);
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	scene_publish(topic, 1, 8);
	topic->ring[5 * topic->slot_bytes + offset] ^= 0x40;
	read_on(scheme);
	while (notes.last < 8 && counted(SUBSCRIPTION_TORN) <= TRIES_MAX &&
	       scene_now_ms() < until_ms)
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	cr_expect_eq(counted(SUBSCRIPTION_TORN), TRIES_MAX, "found %" PRIu64 " copies of record 5",
		     counted(SUBSCRIPTION_TORN));
	cr_expect(strstr(notes.text, "4 B update 4\ngap 5 5 corrupt\n6 B update 6\n"), "%s",
		  notes.text);
	cr_expect_eq(notes.wrong, 0);
}

Test(rules, bad_record_is_given_up_after_8_copies_shm)
{
	damage_one("shm", 0, RECORD_HEADER_BYTES);
}

Test(rules, bad_record_is_given_up_after_8_copies_bytewise)
{
	damage_one("bytewise", 0, RECORD_HEADER_BYTES);
}

Test(rules, bad_length_is_given_up_after_8_copies_shm)
{
	damage_one("shm", TB_TOPIC_UNCHECKED, offsetof(struct record, length) + 1);
}

Test(rules, bad_length_is_given_up_after_8_copies_bytewise)
{
	damage_one("bytewise", 0, offsetof(struct record, length) + 1);
}

/* -- hints --------------------------------------------------------------------------------------
 */

/* Every poll has a hint. It may cost a READ of the progress line per POLL_PAGE_MS. */
Test(rules, hints_cost_at_most_one_look_per_millisecond)
{
	struct tb_topic *topic = topic_on("bytewise", 0);
	uint64_t began_ms, reads;

	scene_publish(topic, 1, 8);
	read_on("bytewise");
	cr_assert(scene_poll_until(subscriber, &notes.last, 8), "%s", notes.text);
	reads = counted(SUBSCRIPTION_READS);
	began_ms = scene_now_ms();
	for (int i = 0; i < 20000; i++) {
		source->look = true;
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	}
	cr_expect_leq(counted(SUBSCRIPTION_READS) - reads,
		      (scene_now_ms() - began_ms) / POLL_PAGE_MS + 2,
		      "%" PRIu64 " READs in %" PRIu64 " ms", counted(SUBSCRIPTION_READS) - reads,
		      scene_now_ms() - began_ms);
}

/* Forged notices announce records all the time, some near, some far. */
Test(rules, false_notices_cost_at_most_two_reads_per_millisecond)
{
	struct tb_topic *topic = topic_on("bytewise", 0);
	uint64_t began_ms, reads;

	scene_publish(topic, 1, 8);
	read_on("bytewise");
	cr_assert(scene_poll_until(subscriber, &notes.last, 8), "%s", notes.text);
	reads = counted(SUBSCRIPTION_READS);
	began_ms = scene_now_ms();
	for (uint64_t i = 0; i < 20000; i++) {
		notices_hint(source, 9 + i % 100);
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	}
	cr_expect_leq(counted(SUBSCRIPTION_READS) - reads,
		      2 * (scene_now_ms() - began_ms) / POLL_PAGE_MS + 4,
		      "%" PRIu64 " READs in %" PRIu64 " ms", counted(SUBSCRIPTION_READS) - reads,
		      scene_now_ms() - began_ms);
	scene_publish(topic, 9, 12);
	cr_assert(scene_poll_until(subscriber, &notes.last, 12), "%s", notes.text);
	cr_expect_eq(notes.lost, 0, "%s", notes.text);
	cr_expect_eq(notes.records, 12);
}

/* Each pause is twice as long as the last. Nine pauses take at least a quarter of a second,
 * less the error of the coarse clock. */
Test(rules, repeated_false_notices_are_ignored_longer_each_time)
{
	struct tb_topic *topic = topic_on("bytewise", 0);
	uint64_t began_ms, took_ms;

	scene_publish(topic, 1, 8);
	read_on("bytewise");
	cr_assert(scene_poll_until(subscriber, &notes.last, 8), "%s", notes.text);
	began_ms = scene_now_ms();
	while (counted(SUBSCRIPTION_FALSE_HINTS) < 9) {
		notices_hint(source, 9);
		cr_assert_eq(tb_poll(subscriber, 100), 0);
		cr_assert_lt(scene_now_ms(), began_ms + deadline_ms());
	}
	took_ms = scene_now_ms() - began_ms;
	cr_expect_geq(took_ms, 200, "found 9 false hints followed in %" PRIu64 " ms", took_ms);
}

/* A valid bus page with a false head. */
static void forge_head(uint64_t count, uint64_t head)
{
	struct bus_pulse pulse = { .count = count,
				   .bus_id = publisher->bus_id,
				   .topics = 1,
				   .changes = subscriber->changes };
	struct bus_entry entry = { .epoch = source->mapping.shape.epoch,
				   .head = head,
				   .topic_id = 1,
				   .state = TOPIC_LIVE,
				   .beat = count };

	bus_page_store_entry(publisher->realms[0].page.base, 0, &entry, publisher->bus_id);
	bus_page_store_pulse(publisher->realms[0].page.base, &pulse);
}

static void believe_nothing(const char *scheme)
{
	struct tb_topic *topic = topic_on(scheme, 0);
	uint64_t count = 1000000, seen;

	scene_publish(topic, 1, 8);
	read_on(scheme);
	cr_assert(scene_poll_until(subscriber, &notes.last, 8), "%s", notes.text);
	for (int lies = 0; lies < 3; lies++) {
		const uint64_t until_ms = scene_now_ms() + deadline_ms();

		seen = subscriber->pulse_count;
		while (subscriber->pulse_count <= 1000000 || subscriber->pulse_count == seen) {
			count++;
			forge_head(count, 1000 + count);
			cr_assert_eq(tb_poll(subscriber, 100), 0, "%s", notes.text);
			cr_assert_lt(scene_now_ms(), until_ms, "the bus page was not read");
		}
		for (int i = 0; i < 2000; i++) /* polls enough to follow the false head */
			cr_assert_eq(tb_poll(subscriber, 100), 0, "%s", notes.text);
	}
	scene_publish(topic, 9, 12);
	cr_assert(scene_poll_until(subscriber, &notes.last, 12), "%s", notes.text);
	cr_expect_eq(notes.lost, 0, "%s", notes.text);
	cr_expect_eq(notes.records, 12);
	cr_expect_eq(source->head, 12);
}

Test(rules, false_head_is_not_believed_shm)
{
	believe_nothing("shm");
}

Test(rules, false_head_is_not_believed_bytewise)
{
	believe_nothing("bytewise");
}

/* -- the bus page -------------------------------------------------------------------------------
 */

/* A subscriber with a bound of its own. The publisher has no pulse for 15 seconds. */
static void subscriber_of(uint32_t stale_ms)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "shm:test",
						       .connect_ms = 20000,
						       .stale_ms = stale_ms };

	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	subscription = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	source = subscription->sources;
}

static bool poll_for(const bool *flag, uint64_t deadline_ms)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms;

	while (!*flag && scene_now_ms() < until_ms) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		sched_yield();
	}
	return *flag;
}

Test(rules, stopped_pulse_is_no_sign_of_life)
{
	scene_publish(topic_without_pulse("shm", 0), 1, 3);
	subscriber_of(100);
	cr_assert(poll_for(&notes.stale, deadline_ms() / 4),
		  "a stopped pulse was taken for a sign of life");
}

/* Lets the subscriber believe that the pulse moved this long ago, and looks at the page once. */
static void look_after(uint32_t ms)
{
	uint64_t count;

	do {
		count = subscriber->pulse_count;
		subscriber->pulse_ms = clock_coarse_ms() - ms;
		pulse_look(subscriber);
	} while (subscriber->pulse_count != count); /* it moved meanwhile: again */
}

/* The bound of a minute leaves a late test enough time. */
Test(rules, stopped_pulse_is_reported_at_three_quarters_of_the_bound)
{
	scene_publish(topic_without_pulse("shm", 0), 1, 3);
	subscriber_of(60000);
	cr_assert(scene_poll_until(subscriber, &notes.last, 3), "%s", notes.text);
	look_after(40000);
	cr_expect_not(notes.stale, "stale before three quarters of the bound");
	look_after(45000);
	cr_expect(notes.stale, "not stale at three quarters of the bound");
}

Test(rules, silent_writer_is_stale_while_the_pulse_moves)
{
	struct tb_topic *topic = topic_on("shm", TB_TOPIC_WATCHED);

	scene_publish(topic, 1, 3);
	read_on("shm");
	cr_assert(poll_for(&notes.stale, deadline_ms() / 4),
		  "the silent writer's topic did not become stale");
	scene_publish(topic, 4, 4);
	cr_assert(poll_for(&notes.live, deadline_ms()), "%s", notes.text);
}

/* The page has no entry for the topic, so a read would go past the page. */
Test(rules, entry_beyond_the_page_is_not_read)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	const void *view;
	struct guard guard;
	uint64_t seen;

	scene_publish(topic_on("shm", 0), 1, 3);
	read_on("shm");
	guard_open(&guard, subscriber->page_bytes);
	view = subscriber->page_view;
	subscriber->page_view = (const char *)guard.base;
	source->mapping.shape.topic_id = (uint32_t)(guard.room / sizeof(struct bus_entry));
	seen = subscriber->pulse_count;
	while (subscriber->pulse_count < seen + 2) {
		words_load(guard.base, view, sizeof(struct bus_pulse));
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms, "the bus page was not read");
	}
}

/* -- sleeping -----------------------------------------------------------------------------------
 */

static uint64_t wakes(void)
{
	return atomic_load(&publisher->counters[BUS_WAKES]);
}

static bool armed_in_time(const struct tb_topic *topic)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms() / 8;

	while (!atomic_load(&topic->wakeup.armed) && scene_now_ms() < until_ms)
		sched_yield();
	return atomic_load(&topic->wakeup.armed);
}

/* The reader has read this many records and sleeps, and the publisher has armed it. */
static void sleep_having_read(const struct tb_topic *topic, int records)
{
	cr_assert_eq(tb_poll(subscriber, 100), records);
	cr_assert_geq(tb_wait(subscriber, 0), 0, "%s", tb_error());
	cr_assert(armed_in_time(topic), "the sleeper was not armed");
	/* Waits for the control thread: it holds this lock while it visits sleepers. */
	cr_assert_eq(tb_publisher_joins(publisher, NULL, 0), 1);
}

static void must_wake(void)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms() / 8;

	while (wakes() == 0 && scene_now_ms() < until_ms)
		sched_yield();
	cr_assert_eq(wakes(), 1, "the sleeper was not woken");
}

static struct tb_topic *sleep_after(uint64_t records, uint32_t flags)
{
	struct tb_topic *topic = topic_without_pulse("shm", flags);

	scene_publish(topic, 1, records);
	tb_flush(topic);
	subscriber = scene_subscriber("shm", 0);
	subscription = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	source = subscription->sources;
	return topic;
}

Test(rules, sleeper_is_woken_by_the_next_flush)
{
	struct tb_topic *topic =
		sleep_after(9, 0); /* record 10 reserves no slots: a single flush */

	sleep_having_read(topic, 9);
	scene_publish(topic, 10, 10);
	cr_assert_eq(atomic_load(&topic->wakeup.signals), 1, "the flush did not signal");
	must_wake();
}

Test(rules, sleeper_is_woken_by_records_from_before_its_arming)
{
	struct tb_topic *topic = sleep_after(8, 0);

	cr_assert_eq(tb_poll(subscriber, 100), 8);
	scene_publish(topic, 9, 9);
	cr_assert_geq(tb_wait(subscriber, 0), 0, "%s", tb_error());
	must_wake();
}

/* The reader has read record 9 before its flush, which therefore brings nothing new. */
Test(rules, sleeper_stays_armed_through_a_flush_without_news)
{
	struct tb_topic *topic = sleep_after(8, TB_TOPIC_MANUAL_FLUSH);

	scene_publish(topic, 9, 9);
	sleep_having_read(topic, 9);
	tb_flush(topic);
	cr_assert(armed_in_time(topic), "the sleeper was not armed again");
	cr_assert_eq(wakes(), 0, "the sleeper was woken for a record that it has read");
	scene_publish(topic, 10, 10);
	tb_flush(topic);
	must_wake();
}

static bool end_sent(const struct tb_topic *topic)
{
	bool sent;

	publisher_lock(publisher);
	sent = topic->end_sent;
	publisher_unlock(publisher);
	return sent;
}

/* There may be a thousand topics with hundreds of sleepers each. So neither a message nor another
 * topic's signal makes the control thread visit a topic without a signal. */
Test(rules, sleepers_are_visited_only_when_their_topic_signals)
{
	struct tb_topic *topic = sleep_after(9, 0), *other = scene_topic(publisher, "u", 64, 0);
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	sleep_having_read(topic, 9);
	atomic_store(&topic->wakeup.armed, 0);
	scene_publish(topic, 10, 10);
	cr_assert_eq(tb_topic_end(other), 0);
	while (!end_sent(other))
		cr_assert_lt(scene_now_ms(), until_ms, "the end was not sent");
	cr_assert_eq(wakes(), 0, "the sleepers of a silent topic were visited");
	wakeup_signal(&topic->wakeup);
	must_wake();
}

/* The look that finds the overrun also finds the end, while there are still records to read. */
Test(rules, end_is_reported_with_the_last_record_not_the_next_pulse)
{
	struct tb_topic *topic = topic_without_pulse("bytewise", 0);
	uint64_t until_ms;

	scene_publish(topic, 1, 8);
	read_on("bytewise");
	cr_assert(scene_poll_until(subscriber, &notes.last, 8), "%s", notes.text);
	scene_publish(topic, 9, 200);
	reader_head(source, 200); /* as if it had read the head before it was lapped */
	cr_assert_eq(tb_topic_end(topic), 0);
	until_ms = scene_now_ms() + deadline_ms() / 8;
	while (!notes.ended && scene_now_ms() < until_ms)
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	cr_expect(notes.ended, "found no end without a pulse");
	cr_expect_eq(notes.records + notes.lost, 200);
}
