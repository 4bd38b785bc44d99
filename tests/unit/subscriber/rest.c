/* SPDX-License-Identifier: Apache-2.0 */
/* Topics that rest: a poll only glances at them, and nothing about them is missed or late. Where
 * the clock is stopped, no turn wakes them. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/directory.h"
#include "publisher/state.h"
#include "publisher/writer.h"
#include "subscriber/choice.h"
#include "subscriber/discovery.h"
#include "subscriber/glance.h"
#include "subscriber/reader.h"
#include "subscriber/rest.h"
#include "subscriber/state.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"

#define TOPICS 1024

static struct tb_publisher *publisher;
static struct tb_subscriber *subscriber;
static struct notes notes;

static void enter(void)
{
	scene_enter();
	publisher = scene_publisher("shm");
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(rest, .init = enter, .fini = leave, .timeout = 60);

static bool rests(uint32_t slot)
{
	return glance_rests(&subscriber->glances[slot]);
}

static bool all_rest(void)
{
	for (uint32_t slot = 0; slot < subscriber->table_used; slot++)
		if (!rests(slot))
			return false;
	return subscriber->discovery.outstanding == 0;
}

/* Polls until it is so; with a turn in each poll if `turns`. */
#define POLL_UNTIL(condition, turns)                                                               \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition ": %s",     \
				     notes.text ? notes.text : "");                                \
			subscriber->woken |= (turns);                                              \
			cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());              \
			sched_yield();                                                             \
		}                                                                                  \
	} while (0)

#define UNTIL(condition) POLL_UNTIL(condition, false)
/* Answers are taken in turns, also while the clock stands. */
#define UNTIL_IN_TURNS(condition) POLL_UNTIL(condition, true)

static bool discovery_rests(void)
{
	return subscriber->discovery.outstanding == 0 && !discovery_waits(subscriber);
}

/* Stops the clock: from now on there is a turn only if something woke the subscriber, and no answer
 * is awaited. */
static void stop(void)
{
	clock_stop();
	for (int i = 0; i < 3; i++)
		cr_assert_geq(tb_poll(subscriber, 100), 0);
	UNTIL_IN_TURNS(discovery_rests());
}

static void stop_at_rest(void)
{
	stop();
	UNTIL(all_rest());
}

/* Subscribes to a topic, and polls until it has a record and rests. */
static struct tb_topic *rest_at_one(const char *name)
{
	struct tb_topic *topic = scene_topic(publisher, name, 64, 0);

	if (!subscriber)
		subscriber = scene_subscriber("shm", 0);
	scene_subscribe(subscriber, name, TB_FROM_OLDEST, &notes);
	scene_publish(topic, 1, 1);
	UNTIL(notes.last == 1 && all_rest());
	return topic;
}

/* -- records ----------------------------------------------------------------------------------- */

static struct tb_topic *topics[TOPICS];

static void many_join(void)
{
	const struct tb_publisher_options bus = { .size = sizeof(bus),
						  .name = "many",
						  .topics_max = TOPICS,
						  .exit_wait_ms = UINT32_MAX,
						  .log = scene_log };
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:many",
						   .topics_max = TOPICS,
						   .connect_ms = 60000 };
	char name[16];

	tb_publisher_close(publisher);
	cr_assert_eq(tb_publisher_open(&publisher, &bus), 0, "%s", tb_error());
	for (unsigned int i = 0; i < TOPICS; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		topics[i] = scene_topic(publisher, name, 64, 0);
		tb_instrument(topics[i], "A");
		tb_instrument(topics[i], "B");
	}
	cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
	notes.quiet = true;
	scene_subscribe(subscriber, "*", TB_FROM_OLDEST, &notes);
	cr_assert_eq(subscriber->table_used, TOPICS);
}

/* Some topics are watched at the head: after batches. */
Test(rest, record_of_any_topic_is_in_the_next_poll)
{
	uint64_t seed, published[TOPICS] = { 0 }, sum = 0;

	many_join();
	seed = scene_seed();
	srand((unsigned int)seed);
	clock_stop();
	for (int i = 0; i < 3 * TOPICS; i++) {
		const unsigned int at = (unsigned int)rand() % TOPICS;
		const unsigned int more = rand() % 4 ? 1 : 1 + (unsigned int)rand() % 60;

		UNTIL(all_rest());
		scene_publish(topics[at], published[at] + 1, published[at] + more);
		published[at] += more;
		sum += more;
		cr_assert_eq(tb_poll(subscriber, 100), (int)more, "topic %u, record %llu", at,
			     (unsigned long long)published[at]);
		cr_assert_eq(notes.records, sum);
	}
	cr_expect(notes.lost == 0 && notes.wrong == 0);
}

Test(rest, idle_topic_rests_after_two_polls)
{
	rest_at_one("t");
	stop_at_rest();
	glance_wake_all(subscriber);
	cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect(!rests(0));
	cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect(rests(0));
}

/* As if it came between the look in vain and the rest. */
Test(rest, topic_with_a_record_stays_awake)
{
	struct tb_topic *topic = rest_at_one("t");

	stop_at_rest();
	glance_wake_all(subscriber);
	scene_publish(topic, 2, 2);
	rest_begin(subscriber, 0);
	cr_assert(!rests(0));
	cr_expect_eq(tb_poll(subscriber, 100), 1);
}

/* The word of a busy slot may come back, so nothing is learned from it. */
Test(rest, busy_slot_is_looked_at_in_each_poll)
{
	struct tb_topic *topic = rest_at_one("t");
	struct slot *slot;
	uint64_t before;

	scene_publish(topic, 2, 70);
	UNTIL(notes.last == 70);
	stop();
	slot = (struct slot *)(void *)(topic->ring + (71 & topic->slot_mask) * topic->slot_bytes);
	atomic_store(&slot->word[0], 0);
	glance_wake_all(subscriber);
	subscriber->table[0]->batched = false;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	before = subscriber->subscriptions->counters[SUBSCRIPTION_BUSY];
	for (int i = 0; i < 40; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(subscriber->subscriptions->counters[SUBSCRIPTION_BUSY], before + 40);
	scene_publish(topic, 71, 71);
	cr_expect_eq(tb_poll(subscriber, 100), 1);
}

/* Only a hostile publisher leaves an older sequence there. 8 looks make a gap. */
Test(rest, topic_with_a_counted_record_is_looked_at_in_each_poll)
{
	struct tb_topic *topic = rest_at_one("t");
	struct slot *slot;
	uint64_t before;
	int polls = 0;

	scene_publish(topic, 2, 70);
	UNTIL(notes.last == 70);
	stop();
	subscriber->table[0]->batched = false;
	before = notes.lost;
	scene_publish(topic, 71, 71);
	slot = (struct slot *)(void *)(topic->ring + (71 & topic->slot_mask) * topic->slot_bytes);
	atomic_store(&slot->word[0], 71 - 64);
	for (int i = 0; i < 16; i++) { /* the head is compared, without the bus page */
		glance_wake_all(subscriber);
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	}
	cr_assert_eq(subscriber->table[0]->head, 71);
	for (; polls < 200 && notes.lost == before; polls++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect(strstr(notes.text, "\ngap 71 71 corrupt\n"), "after %d polls: %s", polls,
		  notes.text);
	cr_expect_leq(polls, TRIES_MAX);
	cr_expect_geq(polls, TRIES_MAX - 2, "a single look is no proof");
}

static void on_batch(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	(void)source;
	*(uint64_t *)user += batch->count;
}

/* A call with fewer records cuts a message that the call before held back. */
Test(rest, topic_with_held_records_stays_awake)
{
	struct tb_subscription_options how = { .size = sizeof(how),
					       .from = TB_FROM_OLDEST,
					       .on_batch = on_batch };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, TB_TOPIC_MARKS_MESSAGES);
	struct tb_subscription *subscription;
	uint64_t count = 0;

	how.user = &count;
	subscriber = scene_subscriber("shm", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	scene_publish(topic, 1, 5);
	UNTIL(subscription->sources->collected.held == 5);
	stop();
	for (int i = 0; i < 5; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(tb_poll(subscriber, 3), 3);
	cr_expect_eq(count, 3);
}

/* -- what is no record ------------------------------------------------------------------------- */

/* The message comes in a turn, and so do answers to questions that follow it. */
Test(rest, end_of_a_topic_is_reported)
{
	struct tb_topic *topic = rest_at_one("t");

	stop_at_rest();
	tb_topic_end(topic);
	UNTIL_IN_TURNS(notes.ended && discovery_rests());
	UNTIL(all_rest());
}

/* Its line is not read again. */
Test(rest, ended_topic_with_news_in_the_page_rests)
{
	struct tb_topic *topic = rest_at_one("t");

	tb_topic_end(topic);
	UNTIL(notes.ended && all_rest());
	stop_at_rest();
	glance_look(subscriber->table[0]); /* as the pulse does */
	cr_assert_geq(tb_poll(subscriber, 100), 0);
	UNTIL(all_rest());
}

Test(rest, restart_of_a_topic_is_reported)
{
	struct tb_topic *topic = rest_at_one("t");

	for (int i = 0; i < 3; i++) {
		notes.restarted = false;
		cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
		UNTIL(notes.restarted && all_rest());
		scene_publish(topic, 1, 1);
		UNTIL(notes.records == (uint64_t)i + 2 && all_rest());
	}
}

Test(rest, restart_of_an_ended_topic_is_reported)
{
	struct tb_topic *topic = rest_at_one("t");

	tb_topic_end(topic);
	UNTIL(notes.ended);
	UNTIL(all_rest());
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	UNTIL(notes.restarted);
	scene_publish(topic, 1, 1);
	UNTIL(notes.records == 2);
}

Test(rest, change_of_quality_is_in_the_next_poll)
{
	struct tb_topic *topic = rest_at_one("t");

	stop_at_rest();
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, TB_QUALITY_MISSING), 0, "%s",
		     tb_error());
	tb_poll(subscriber, 100);
	cr_expect_eq(notes.quality, TB_QUALITY_SUSPECT, "%s", notes.text);
}

Test(rest, end_of_a_topic_without_records_is_reported)
{
	const struct tb_subscription_options how = {
		.size = sizeof(how), .on_event = notes_event, .user = &notes, .flags = TB_VALUES
	};
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscription *subscription;

	subscriber = scene_subscriber("shm", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	UNTIL(all_rest());
	scene_publish(topic, 1, 1);
	tb_topic_end(topic);
	UNTIL(notes.ended);
}

/* A call of the program may give a topic work, and there is no turn. */
Test(rest, change_of_a_list_of_names_wakes)
{
	const char *const names[] = { "A" }, *const missing[] = { "NOPE" };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_OLDEST,
						     .names = names,
						     .name_count = 1 };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscription *subscription;
	uint64_t events;

	scene_publish(topic, 1, 1);
	subscriber = scene_subscriber("shm", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	UNTIL(notes.last == 1 && all_rest());
	stop_at_rest();
	events = notes.events;
	cr_assert_eq(tb_names_add(subscription, missing, 1), 1, "%s", tb_error());
	UNTIL(notes.events > events);
}

/* The message that a topic ended may come among answers, where no turn is. The control thread sends
 * it in one of its next turns, and each answer takes a turn. The rounds are few: while the clock
 * stands, all requests count as of one second, whose number is bounded. */
Test(rest, message_among_answers_wakes)
{
	struct tb_topic *topic = rest_at_one("t");

	stop_at_rest();
	tb_topic_end(topic);
	for (int rounds = 0; !notes.ended; rounds++) {
		cr_assert_lt(rounds, 1000, "waited for the end: %s", notes.text);
		subscriber->subscriptions->discover = true;
		discovery_step(subscriber);
		UNTIL(subscriber->discovery.outstanding == 0);
		for (int i = 0; i < 3; i++)
			cr_assert_geq(tb_poll(subscriber, 100), 0);
	}
}

/* Neither answers nor turns give it work. */
Test(rest, answers_and_turns_leave_a_topic_at_rest)
{
	rest_at_one("t");
	stop_at_rest();
	for (int i = 0; i < 100; i++) {
		subscriber->subscriptions->discover = true;
		discovery_step(subscriber);
		while (subscriber->discovery.outstanding > 0) {
			cr_assert_eq(tb_poll(subscriber, 100), 0);
			cr_assert(rests(0), "awake after answers");
			sched_yield();
		}
		subscriber->woken = true;
		cr_assert_eq(tb_poll(subscriber, 100), 0);
		cr_assert(!subscriber->woken && rests(0), "awake after a turn");
	}
}

/* -- the progress line ------------------------------------------------------------------------- */

Test(rest, topic_whose_line_is_to_be_read_stays_awake)
{
	rest_at_one("t");
	stop_at_rest();
	subscriber->table[0]->look = true;
	glance_wake_all(subscriber);
	rest_begin(subscriber, 0);
	cr_assert(!rests(0));
	UNTIL(!subscriber->table[0]->look && all_rest());
}

/* In the first lap, the slot looks busy: each 16th look reads the line. */
Test(rest, topic_with_an_invalid_line_stays_awake)
{
	struct tb_topic *topic = rest_at_one("t");
	struct tb_source *source = subscriber->table[0];

	stop_at_rest();
	atomic_fetch_xor(&topic->line->word[7], 1);
	source->idle = 15;
	source->batched = false;
	glance_wake_all(subscriber);
	for (int i = 0; i < 100 && source->invalid < 3; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(source->invalid, 3);
}

Test(rest, topic_whose_header_is_to_be_compared_stays_awake)
{
	rest_at_one("t");
	stop_at_rest();
	subscriber->table[0]->state = SOURCE_HEADER;
	subscriber->table[0]->look = false;
	glance_wake_all(subscriber);
	rest_begin(subscriber, 0);
	cr_assert(!rests(0));
	subscriber->table[0]->fetched_ns = 0;
	UNTIL(subscriber->table[0]->state == SOURCE_RUNNING);
}

/* Turns wake all topics now and then. */
Test(rest, line_of_a_topic_without_records_is_read_now_and_then)
{
	struct tb_topic *topic = rest_at_one("t");
	struct tb_source *source = subscriber->table[0];

	atomic_fetch_xor(&topic->line->word[7], 1);
	UNTIL(source->invalid > 0);
}

/* -- the next epoch, images -------------------------------------------------------------------- */

Test(rest, topic_with_a_next_epoch_stays_awake)
{
	struct tb_topic *topic = rest_at_one("t");
	struct tb_source *source = subscriber->table[0];

	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	UNTIL(source->has_successor);
	clock_stop();
	source->look = false;
	glance_wake_all(subscriber);
	rest_begin(subscriber, 0);
	cr_expect(!rests(0));
	UNTIL(notes.restarted);
}

/* A call looks at some slots of values, and these have no value. */
Test(rest, topic_whose_image_is_made_stays_awake)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	struct tb_topic_options wide = { .size = sizeof(wide),
					 .name = "t",
					 .schema = schema,
					 .slots = 64,
					 .instruments = 8192 };
	struct tb_topic *topic;
	char name[16];

	cr_assert_eq(tb_topic_create(publisher, &wide, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	for (int i = 0; i < 8192; i++) {
		snprintf(name, sizeof(name), "N%d", i);
		cr_assert_geq(tb_instrument(topic, name), 0, "%s", tb_error());
	}
	tb_flush(topic);
	subscriber = scene_subscriber("shm", 0);
	clock_stop();
	scene_subscribe(subscriber, "t", TB_FROM_IMAGE, &notes);
	UNTIL(notes.complete);
}

/* -- topics come and go ------------------------------------------------------------------------ */

Test(rest, memory_that_is_unmapped_is_not_looked_at)
{
	struct tb_topic *topic = rest_at_one("t");
	struct tb_subscription *first = subscriber->subscriptions;

	notes.last = 0;
	rest_at_one("u");
	stop_at_rest();
	tb_unsubscribe(subscriber->subscriptions);
	cr_assert_eq(subscriber->subscriptions, first);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_assert(all_rest());
	scene_publish(topic, 2, 2);
	cr_expect_eq(tb_poll(subscriber, 100), 1);
}

Test(rest, topic_in_a_place_that_was_free_is_read)
{
	struct tb_topic *topic = rest_at_one("t");

	for (uint64_t i = 1; i < 5; i++) {
		tb_unsubscribe(subscriber->subscriptions);
		UNTIL(all_rest());
		scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
		scene_publish(topic, i + 1, i + 1);
		notes.last = 0;
		UNTIL(notes.last == i + 1 && all_rest());
	}
}

Test(rest, topic_that_is_created_later_is_read)
{
	struct tb_topic *topic;

	subscriber = scene_subscriber("shm", 0);
	scene_subscribe(subscriber, "*", TB_FROM_OLDEST, &notes);
	scene_topic(publisher, "t", 64, 0);
	UNTIL(subscriber->table_used == 1 && all_rest());
	topic = scene_topic(publisher, "u", 64, 0);
	scene_publish(topic, 1, 1);
	UNTIL(notes.records == 1);
}

/* -- records that fail their copies ------------------------------------------------------------ */

#define POLLS 16 /* for a record, at most: TRIES_MAX, and those of the line that counts it */

static unsigned int sleeps;
static int (*sleep_below)(struct link *);

static int counted_sleep(struct link *link)
{
	sleeps++;
	return sleep_below(link);
}

static char *slot_of(const struct tb_topic *topic, uint64_t sequence)
{
	return topic->ring + (sequence & topic->slot_mask) * topic->slot_bytes;
}

static void count_sleeps(void)
{
	static struct fabric_ops counting;

	counting = *subscriber->ops;
	sleep_below = counting.sleep;
	counting.sleep = counted_sleep;
	subscriber->ops = &counting;
}

/* A publisher that harms its records may send no wake-up for them either. */
static void harmed_records_are_passed(void (*harm)(struct tb_topic *, uint64_t))
{
	struct tb_topic *topic = rest_at_one("t");
	unsigned int polls = 0;

	count_sleeps();
	scene_publish(topic, 2, 5);
	for (uint64_t x = 2; x <= 4; x++)
		harm(topic, x);
	UNTIL(subscriber->table[0]->head >= 5);
	subscriber->table[0]->armed = true;
	while (notes.last < 5 && polls++ < 3 * POLLS) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		if (notes.last < 5)
			cr_assert_geq(tb_wait(subscriber, 0), 0, "%s", tb_error());
	}
	cr_expect_eq(notes.last, 5, "%u polls: %s", polls, notes.text);
	cr_expect_eq(notes.lost, 3, "%s", notes.text);
	cr_expect_eq(sleeps, 0, "%u sleeps", sleeps);
}

static void harm_payload(struct tb_topic *topic, uint64_t sequence)
{
	slot_of(topic, sequence)[RECORD_HEADER_BYTES] ^= 1;
}

static void harm_sequence(struct tb_topic *topic, uint64_t sequence)
{
	memset(slot_of(topic, sequence), 0, sizeof(sequence));
}

Test(rest, damaged_records_are_given_up_without_a_sleep)
{
	harmed_records_are_passed(harm_payload);
}

Test(rest, records_without_a_slot_are_given_up_without_a_sleep)
{
	harmed_records_are_passed(harm_sequence);
}

/* Its head falls while the reader watches it for a batch. */
Test(rest, line_that_goes_back_holds_up_no_counted_record)
{
	struct tb_topic *topic = rest_at_one("t");
	unsigned int polls = 0;

	scene_publish(topic, 2, 40);
	for (uint64_t x = 2; x <= 40; x++)
		harm_sequence(topic, x);
	UNTIL(subscriber->table[0]->head >= 40);
	topic->sequence = topic->whole = 1;
	writer_line(topic);
	subscriber->table[0]->written = 1; /* as if it had looked at the head now */
	subscriber->table[0]->batched = false;
	while (notes.lost < 39 && polls++ < 40 * POLLS)
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
	cr_expect_eq(notes.lost, 39, "%u polls: %s", polls, notes.text);
}

/* The names of the list are looked for among all names that the topic has. */
Test(rest, damaged_names_are_given_up_without_a_sleep)
{
	static const char *const names[] = { "NEW" };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .names = names,
						     .name_count = 1 };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_subscription *subscription;
	unsigned int polls = 0;

	scene_publish(topic, 1, 2);
	for (int i = 0; i < 2; i++)
		topic->directory[i * DIRECTORY_ENTRY_BYTES] ^= 1;
	cr_assert_gt(tb_instrument(topic, names[0]), 0, "%s", tb_error());
	subscriber = scene_subscriber("shm", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	UNTIL(subscription->sources && subscription->sources->state == SOURCE_RUNNING &&
	      discovery_rests());
	count_sleeps();
	subscription->sources->armed = true;
	while (!rests(0) && polls++ < 2 * POLLS) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		if (!rests(0))
			cr_assert_geq(tb_wait(subscriber, 0), 0, "%s", tb_error());
	}
	cr_expect(rests(0), "%u polls: %s", polls, notes.text);
	cr_expect_leq(sleeps, 1, "%u sleeps, expected that after the last try", sleeps);
}
