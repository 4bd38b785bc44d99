/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that no race is needed to see: what a reader may believe, how often it may look, when it
 * gives up. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "publisher/publisher.h"
#include "subscriber/subscriber.h"
#include "tests/support/bytewise.h"
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
	publisher = scene_publisher(scheme);
	return scene_topic(publisher, "t", 64, flags);
}

/* With its descriptor in use, every poll that finds nothing collects what was read. */
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

/* -- what is reserved ---------------------------------------------------------------------------
 */

/* Slots 1 to 3 are overwritten, and no flush has told of it. */
static void join_after_an_untold_lap(const char *scheme)
{
	struct tb_topic *topic = topic_on(scheme, TB_TOPIC_MANUAL_FLUSH);

	scene_publish(topic, 1, 64);
	tb_flush(topic);
	scene_publish(topic, 65, 67);
	read_on(scheme);
	cr_assert(scene_poll_until(subscriber, &notes.last, 64), "%s", notes.text);
	cr_expect(strstr(notes.text, "gap 1 4 before_join\n5 A update 5\n"), "%s", notes.text);
	cr_expect_null(strstr(notes.text, "corrupt"), "%s", notes.text);
	cr_expect_eq(notes.wrong, 0);
}

Test(rules, slots_are_reserved_before_they_are_written_over_shm)
{
	join_after_an_untold_lap("shm");
}

Test(rules, slots_are_reserved_before_they_are_written_over_bytewise)
{
	join_after_an_untold_lap("bytewise");
}

/* -- what is given up ---------------------------------------------------------------------------
 */

/* Record 5 is not what its check says, or has a length that cannot be: the one before and the one
 * after are delivered, and it was tried TRIES_MAX times. */
static void damage_one(const char *scheme, uint32_t flags, size_t offset)
{
	struct tb_topic *topic = topic_on(scheme, flags);
	const uint64_t until_ms = scene_now_ms() + SCENE_DEADLINE_MS;

	scene_publish(topic, 1, 8);
	topic->ring[5 * topic->slot_bytes + offset] ^= 0x40;
	read_on(scheme);
	while (notes.last < 8 && counted(SUBSCRIPTION_TORN) <= TRIES_MAX &&
	       scene_now_ms() < until_ms)
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	cr_expect_eq(counted(SUBSCRIPTION_TORN), TRIES_MAX,
		     "%" PRIu64 " copies of record 5 were tried", counted(SUBSCRIPTION_TORN));
	cr_expect(strstr(notes.text, "4 B update 4\ngap 5 5 corrupt\n6 B update 6\n"), "%s",
		  notes.text);
	cr_expect_eq(notes.wrong, 0);
}

Test(rules, a_record_that_is_never_right_is_given_up_after_8_copies_over_shm)
{
	damage_one("shm", 0, RECORD_HEADER_BYTES);
}

Test(rules, a_record_that_is_never_right_is_given_up_after_8_copies_over_bytewise)
{
	damage_one("bytewise", 0, RECORD_HEADER_BYTES);
}

Test(rules, a_length_that_cannot_be_is_given_up_after_8_copies_over_shm)
{
	damage_one("shm", TB_TOPIC_UNCHECKED, offsetof(struct record, length) + 1);
}

Test(rules, a_length_that_cannot_be_is_given_up_after_8_copies_over_bytewise)
{
	damage_one("bytewise", 0, offsetof(struct record, length) + 1);
}

/* -- hints --------------------------------------------------------------------------------------
 */

/* Each poll is hinted at; what it may cost is one READ of the progress line per POLL_PAGE_MS. */
Test(rules, hints_cost_one_look_in_a_millisecond_at_most)
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

/* A bus page that is valid, and whose head is a lie. */
static void forge_head(uint64_t count, uint64_t head)
{
	struct bus_pulse pulse = { .count = count,
				   .bus_id = publisher->bus_id,
				   .topics = 1,
				   .changes = subscriber->changes };
	struct bus_entry entry = { .epoch = source->place.shape.epoch,
				   .head = head,
				   .topic_id = 1,
				   .state = TOPIC_LIVE,
				   .beat = count };

	bus_page_store_entry(publisher->page.base, 0, &entry, publisher->bus_id);
	bus_page_store_pulse(publisher->page.base, &pulse);
}

static void believe_nothing(const char *scheme)
{
	struct tb_topic *topic = topic_on(scheme, 0);
	uint64_t count = 1000000, seen;

	scene_publish(topic, 1, 8);
	read_on(scheme);
	cr_assert(scene_poll_until(subscriber, &notes.last, 8), "%s", notes.text);
	for (int lies = 0; lies < 3; lies++) {
		const uint64_t until_ms = scene_now_ms() + SCENE_DEADLINE_MS;

		seen = subscriber->pulse_count;
		while (subscriber->pulse_count <= 1000000 || subscriber->pulse_count == seen) {
			count++;
			forge_head(count, 1000 + count);
			cr_assert_eq(tb_poll(subscriber, 100), 0, "%s", notes.text);
			cr_assert_lt(scene_now_ms(), until_ms, "the page was not looked at");
		}
		for (int i = 0; i < 2000; i++) /* as often as its consequences need */
			cr_assert_eq(tb_poll(subscriber, 100), 0, "%s", notes.text);
	}
	scene_publish(topic, 9, 12);
	cr_assert(scene_poll_until(subscriber, &notes.last, 12), "%s", notes.text);
	cr_expect_eq(notes.lost, 0, "%s", notes.text);
	cr_expect_eq(notes.records, 12);
	cr_expect_eq(source->head, 12);
}

Test(rules, a_head_that_is_a_lie_is_not_believed_over_shm)
{
	believe_nothing("shm");
}

Test(rules, a_head_that_is_a_lie_is_not_believed_over_bytewise)
{
	believe_nothing("bytewise");
}
