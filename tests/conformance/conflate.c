/* SPDX-License-Identifier: Apache-2.0 */
/* Conflation: the newest value of each instrument in each interval.
 *
 * The test writes the topic and polls the subscriber in one thread, by a clock of its own. After
 * each poll it compares the counters with the position, and with what the handlers got. It keeps a
 * log of what it wrote. Built once per fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/counters.h"
#include "bus/record.h"
#include "publisher/state.h"
#include "subscriber/completions.h"
#include "subscriber/conflate.h"
#include "subscriber/reader.h"
#include "subscriber/state.h"
#include "tests/conformance/scheme.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define SLOTS       64
#define NAMES       20
#define LOG_MAX     40000
#define INTERVAL_US 1000000
#define TURNS       100 /* polls without a record until nothing more is expected */

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct {
	uint32_t instrument;
	uint8_t kind;
} written[LOG_MAX];
static uint64_t chance; /* state of the random numbers */

/* What the program knows, from the handlers alone. */
static struct {
	uint64_t last[NAMES]; /* sequence of the last value; a clear counts */
	uint8_t exempt_kind;  /* a kind of values; 0: no kind */
	uint64_t calls, images, exempt, events[TB_EVENT_LEFT + 1], lost, floor;
	uint64_t in_interval[NAMES];
	bool delivered[LOG_MAX], apart; /* apart: the epoch's accounts do not add up */
	bool holes;                     /* were published */
	const char *text;
	char log[512]; /* "A1 B2c gap 3 9 lost 5 " */
	char wrong[256];
} seen;

#define WRONG(...)                                                                                 \
	do {                                                                                       \
		if (!seen.wrong[0])                                                                \
			snprintf(seen.wrong, sizeof(seen.wrong), __VA_ARGS__);                     \
	} while (0)

#define NOTE(...)                                                                                  \
	snprintf(seen.log + strlen(seen.log), sizeof(seen.log) - strlen(seen.log), __VA_ARGS__)

static const uint8_t cancel_kind[] = { TB_KIND_CANCEL };

static bool changes_value(uint8_t kind)
{
	return kind == TB_KIND_UPDATE || kind == TB_KIND_CLEAR || kind == TB_KIND_USER;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const uint64_t n = record->sequence;
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	uint64_t x;

	(void)user;
	(void)source;
	memcpy(&x, record->data, sizeof(x));
	snprintf(name, sizeof(name), "%c", 'A' + (int)record->instrument);
	if (x != n || n >= LOG_MAX || written[n].instrument != record->instrument ||
	    written[n].kind != record->kind || strcmp(record->name, name) != 0)
		WRONG("record %" PRIu64 ": found payload %" PRIu64 " of %s", n, x, record->name);
	if (seen.delivered[n])
		WRONG("record %" PRIu64 " came twice", n);
	if (changes_value(record->kind)) {
		if (n <= seen.last[record->instrument])
			WRONG("%s: found %" PRIu64 " after %" PRIu64, name, n,
			      seen.last[record->instrument]);
		/* With exempt values, a value that is late may come in the next interval. */
		if (record->kind != seen.exempt_kind &&
		    ++seen.in_interval[record->instrument] > (seen.exempt_kind ? 2 : 1))
			WRONG("%s: found a second value in an interval: %" PRIu64, name, n);
		seen.last[record->instrument] = n;
	} else {
		seen.exempt++;
	}
	seen.delivered[n] = true;
	seen.calls++;
	seen.images += (record->flags & TB_FLAG_IMAGE) != 0;
	NOTE("%s%" PRIu64 "%s%s ", name, n,
	     record->kind == TB_KIND_UPDATE  ? ""
	     : record->kind == TB_KIND_CLEAR ? "-"
					     : "!",
	     record->flags & TB_FLAG_IMAGE ? "i" : "");
}

static void account_event(const struct tb_event *event);

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	seen.events[event->kind]++;
	if (event->kind == TB_EVENT_GAP || event->kind == TB_EVENT_QUALITY)
		account_event(event);
	if (event->kind == TB_EVENT_APPEARED) {
		seen.floor = event->first - 1;
	} else if (event->kind == TB_EVENT_GAP) {
		seen.lost += event->lost;
		NOTE("gap %" PRIu64 "-%" PRIu64 ":%" PRIu64 " ", event->first, event->last,
		     event->lost);
	} else if (event->kind == TB_EVENT_RESTART) {
		memset(seen.last, 0, sizeof(seen.last));
		memset(seen.delivered, 0, sizeof(seen.delivered));
		seen.apart = true;
		seen.floor = 0;
		NOTE("restart ");
	} else if (event->kind == TB_EVENT_QUALITY) {
		NOTE("quality %u ", event->quality);
	} else if (event->kind == TB_EVENT_ENDED) {
		NOTE("ended ");
	} else if (event->kind == TB_EVENT_REFUSED) {
		WRONG("event %d: %s", (int)event->kind, event->words);
	}
}

/* -- the writer ------------------------------------------------------------------------------- */

static void publish(uint32_t instrument, uint8_t kind)
{
	const uint64_t x = tb_topic_sequence(topic) + 1;
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = instrument,
					  .kind = kind,
					  .length = sizeof(x),
					  .time_ns = 1,
					  .data = &x };

	cr_assert_lt(x, LOG_MAX);
	written[x].instrument = instrument;
	written[x].kind = kind;
	seen.holes |= kind == TB_KIND_HOLE;
	cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
}

static void update(uint32_t instrument)
{
	publish(instrument, TB_KIND_UPDATE);
}

static void publish_any(void)
{
	static const uint8_t kinds[] = { TB_KIND_UPDATE, TB_KIND_UPDATE, TB_KIND_UPDATE,
					 TB_KIND_CANCEL, TB_KIND_CLEAR,  TB_KIND_STATUS,
					 TB_KIND_USER };

	publish(random_below(&chance, 3) == 0 ? 0 : (uint32_t)random_below(&chance, NAMES),
		kinds[random_below(&chance, sizeof(kinds))]);
}

static void register_names(void)
{
	for (uint32_t i = 0; i < NAMES; i++) {
		const char name[] = { (char)('A' + i), '\0' };

		cr_assert_eq(tb_instrument(topic, name), (int)i);
	}
}

static void topic_make(const char *name, uint32_t flags)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = name,
						  .schema = schema,
						  .slots = SLOTS,
						  .instruments = NAMES,
						  .flags = flags };

	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	register_names();
}

/* -- the reader ------------------------------------------------------------------------------- */

static uint64_t counter(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

static uint64_t counted_lost(void)
{
	return counter(SUBSCRIPTION_LOST_OVERRUN) + counter(SUBSCRIPTION_LOST_BEFORE_JOIN) +
	       counter(SUBSCRIPTION_LOST_UPSTREAM) + counter(SUBSCRIPTION_LOST_CORRUPT);
}

/* An event says what of its position is held. */
static void account_event(const struct tb_event *event)
{
	const uint64_t sum = counter(SUBSCRIPTION_RECORDS) + counter(SUBSCRIPTION_SKIPPED) +
			     counted_lost() + event->held;

	if (!seen.apart && sum != event->delivered - seen.floor)
		WRONG("event %d at %" PRIu64 ": found %" PRIu64 " in the accounts",
		      (int)event->kind, event->delivered, sum);
}

/* Delivered, skipped, lost and held are what the position has passed. Each record that counts as
 * delivered was delivered. */
static void account(void)
{
	const struct tb_source *source = subscription->sources;
	const struct conflate *conflate = source->mapping.conflate;
	const uint64_t sum = counter(SUBSCRIPTION_RECORDS) + counter(SUBSCRIPTION_SKIPPED) +
			     counted_lost() + (conflate ? conflate->held_count : 0);

	cr_assert_str_empty(seen.wrong, "%s", seen.wrong);
	cr_assert_eq(counter(SUBSCRIPTION_IMAGE_RECORDS), seen.images);
	cr_assert_eq(counted_lost(), seen.lost);
	if (source->next > 0 && !seen.apart)
		cr_assert_eq(sum, source->next - 1 - seen.floor,
			     "position %" PRIu64 " from %" PRIu64 ": found %" PRIu64
			     " delivered, %" PRIu64 " skipped, %" PRIu64 " lost",
			     source->next - 1, seen.floor, counter(SUBSCRIPTION_RECORDS),
			     counter(SUBSCRIPTION_SKIPPED), counted_lost());
}

static int poll(int max)
{
	const uint64_t before = seen.calls;
	const int count = tb_poll(subscriber, max);

	cr_assert_geq(count, 0, "%s", tb_error());
	if (!seen.holes && seen.events[TB_EVENT_QUALITY] == 0)
		cr_assert_eq((uint64_t)count, seen.calls - before, "what is skipped counts");
	account();
	return count;
}

/* Whether nothing is under way that brings a record. */
static bool is_quiet(void)
{
	const struct tb_source *source = subscription->sources;
	const struct conflate *conflate = source->mapping.conflate;
	const bool at_head = source->next > topic_head(topic);

	if (source->state != SOURCE_RUNNING)
		return source->state == SOURCE_ENDED;
	if (!conflate)
		return at_head;
	if (conflate->interval_ns == 0)
		return at_head && !conflate_owes(conflate);
	return conflate->phase == CONFLATE_SLEEPS && (at_head || !conflate->exempts);
}

/* Polls until nothing more comes. READs land meanwhile. */
static void poll_all(void)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	for (int quiet = 0; quiet < TURNS; quiet++) {
		if (poll(7) > 0 || !is_quiet())
			quiet = 0;
		cr_assert_lt(scene_now_ms(), until_ms, "waited until nothing is under way");
	}
}

/* READs that have not landed yet. */
static unsigned int in_flight(void)
{
	return subscriber->under_way + subscriber->pulse_under_way + subscriber->entries_under_way -
	       subscriber->completions.count;
}

/* Waits until all READs have landed. The next poll takes what they brought. */
static void land(void)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (in_flight() > 0) {
		completions_reap(subscriber);
		cr_assert_lt(scene_now_ms(), until_ms, "waited for %u READs", in_flight());
	}
}

static void interval_pass(void)
{
	memset(seen.in_interval, 0, sizeof(seen.in_interval));
	clock_pass(INTERVAL_US / 1000);
}

/* What the end of an interval brings. */
static const char *interval(void)
{
	seen.log[0] = '\0';
	interval_pass();
	poll_all();
	return seen.log;
}

static void subscribe(struct tb_subscription_options options)
{
	memset(&seen, 0, sizeof(seen));
	options.size = sizeof(options);
	options.on_record = on_record;
	options.on_event = on_event;
	if (options.conflate_us == 0)
		options.conflate_us = INTERVAL_US;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
}

static void join(void)
{
	subscribe((struct tb_subscription_options){ .from = TB_FROM_NEWEST });
}

static void enter(void)
{
	char address[64];
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .connect_ms = 20000,
						       .batch_bytes = 8192,
						       .read_bytes = 256,
						       .poll_us = TB_POLL_SPIN };

	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	chance = scene_seed();
	faulty_add(chance); /* and those that it needs */
	publisher = scene_publisher_of(SCHEME, 60000);
	topic_make("t", 0);
	scene_address(SCHEME, address, sizeof(address));
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	clock_stop(); /* intervals begin at the join, so no time may pass behind it */
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(conflate, .init = enter, .fini = leave, .timeout = 120);

/* -- intervals -------------------------------------------------------------------------------- */

Test(conflate, newest_value_of_each_interval_is_delivered)
{
	join();
	update(0);
	update(0);
	update(1);
	publish(1, TB_KIND_CANCEL);
	poll_all();
	cr_expect_str_eq(seen.log, "", "found %s before the end", seen.log);
	cr_expect_str_eq(interval(), "A2 B3 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 2);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 2);
	cr_expect_str_eq(interval(), "", "found %s of a quiet interval", seen.log);
	update(1);
	cr_expect_str_eq(interval(), "B5 ", "found %s", seen.log);
}

Test(conflate, intervals_keep_the_phase_of_the_join)
{
	join();
	interval_pass();
	clock_pass(INTERVAL_US / 1000 * 3 / 2);
	poll_all();
	update(0);
	poll_all();
	clock_pass(INTERVAL_US / 1000 * 2 / 5);
	poll_all();
	cr_expect_str_eq(seen.log, "", "found %s before the end", seen.log);
	clock_pass(INTERVAL_US / 1000 / 5);
	poll_all();
	cr_expect_str_eq(seen.log, "A1 ", "found %s", seen.log);
}

Test(conflate, more_records_than_values_are_not_read)
{
	const uint64_t last = SLOTS / 2;

	join();
	while (tb_topic_sequence(topic) < last)
		update((uint32_t)(tb_topic_sequence(topic) % 2));
	cr_expect_str_eq(interval(), "A31 B32 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 2);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), last - 2);
	cr_expect_eq(seen.images, 0);
	cr_expect_eq(subscription->sources->mapping.conflate->quiet, 0, "the ring was read");
}

Test(conflate, each_poll_is_an_interval)
{
	subscribe((struct tb_subscription_options){ .conflate_us = TB_CONFLATE_POLL });
	update(0);
	update(0);
	poll_all();
	cr_expect_str_eq(seen.log, "A2 ", "found %s", seen.log);
	memset(seen.in_interval, 0, sizeof(seen.in_interval));
	update(0);
	poll_all();
	cr_expect_str_eq(seen.log, "A2 A3 ", "found %s", seen.log);
}

Test(conflate, few_records_a_poll_deliver_the_rest_later)
{
	join();
	for (uint32_t i = 0; i < 10; i++)
		update(i);
	interval_pass();
	for (uint64_t before = 0, turns = 0; seen.calls < 10; before = seen.calls) {
		poll(1);
		cr_expect_leq(seen.calls, before + 1);
		turns = seen.calls > before ? 0 : turns + 1;
		cr_assert_lt(turns, 100000);
	}
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 10);
}

/* -- laps ------------------------------------------------------------------------------------- */

/* A and B are overwritten in the ring. Then C and D come in turn. */
static void lap(void)
{
	update(0);
	update(1);
	while (tb_topic_sequence(topic) < 3 * SLOTS)
		update(2 + (uint32_t)(tb_topic_sequence(topic) % 2));
	interval();
	interval(); /* by READ, exempt kinds have the ring read first */
	cr_expect_eq(seen.last[0], 1);
	cr_expect_eq(seen.last[1], 2);
	cr_expect_eq(seen.last[2], 3 * SLOTS - 1);
	cr_expect_eq(seen.last[3], 3 * SLOTS);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS) + counter(SUBSCRIPTION_SKIPPED) + seen.lost,
		     3 * SLOTS);
}

Test(conflate, lap_loses_no_record)
{
	join();
	lap();
	cr_expect_eq(seen.events[TB_EVENT_GAP], 0);
	cr_expect_eq(seen.images, 0);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 4);
}

/* Over READ the records of the walk are still to land. In place the walk is over. */
Test(conflate, lap_in_a_walk_loses_no_record)
{
	const struct conflate *conflate;

	join();
	for (uint32_t i = 0; i < NAMES; i++)
		update(i);
	interval();
	conflate = subscription->sources->mapping.conflate;
	update(0);
	update(1);
	interval_pass();
	for (int i = 0; i < 100000 && conflate->phase != CONFLATE_WALK && seen.last[1] < NAMES; i++)
		poll(1);
	cr_assert_eq(conflate->phase != CONFLATE_WALK, subscription->sources->mapping.view != NULL);
	while (tb_topic_sequence(topic) < 3 * SLOTS)
		update(2);
	poll_all();
	cr_expect_eq(seen.last[0], NAMES + 1);
	cr_expect_eq(seen.last[1], NAMES + 2);
	interval();
	cr_expect_eq(seen.last[2], 3 * SLOTS);
	cr_expect_eq(seen.events[TB_EVENT_GAP], 0);
}

Test(conflate, lap_with_exempt_kinds_brings_every_value_with_a_gap)
{
	subscribe((struct tb_subscription_options){ .exempt_kinds = cancel_kind,
						    .exempt_kind_count = 1 });
	poll_all();
	land(); /* a look in the middle of the lap would divide the gap */
	lap();
	cr_expect_eq(seen.events[TB_EVENT_GAP], 1);
	cr_expect_eq(seen.images, 2, "found %" PRIu64 " values of the gap", seen.images);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 2);
}

/* The topic does not flush, so its values are ahead of its head. A reader in place reads the ring
 * beyond the head. */
Test(conflate, value_delivered_ahead_is_left_out_of_the_gap)
{
	tb_topic_end(topic);
	topic_make("u", TB_TOPIC_MANUAL_FLUSH);
	subscribe((struct tb_subscription_options){ .conflate_us = INTERVAL_US });
	tb_unsubscribe(subscription);
	memset(&seen, 0, sizeof(seen));
	cr_assert_eq(tb_subscribe(subscriber, "u",
				  &(struct tb_subscription_options){
					  .size = sizeof(struct tb_subscription_options),
					  .on_record = on_record,
					  .on_event = on_event,
					  .conflate_us = INTERVAL_US,
					  .exempt_kinds = cancel_kind,
					  .exempt_kind_count = 1 },
				  &subscription),
		     0, "%s", tb_error());
	poll_all();
	update(0);
	tb_flush(topic);
	poll_all();
	update(0); /* record 2 replaces the value that the line counts */
	cr_expect_str_eq(interval(), "A2 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), subscription->sources->mapping.view ? 1 : 0,
		     "by READ, record 2 is ahead of the position");
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
	while (tb_topic_sequence(topic) < 2 * SLOTS)
		update(1);
	tb_flush(topic);
	interval();
	interval();
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 2);
	cr_expect_eq(seen.lost, SLOTS - 2, "found %" PRIu64 " lost", seen.lost);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), SLOTS);
}

Test(conflate, value_delivered_ahead_counts_after_its_name_is_removed)
{
	static const char *const names[] = { "A", "B" };

	tb_topic_end(topic);
	topic_make("u", TB_TOPIC_MANUAL_FLUSH);
	memset(&seen, 0, sizeof(seen));
	cr_assert_eq(tb_subscribe(subscriber, "u",
				  &(struct tb_subscription_options){
					  .size = sizeof(struct tb_subscription_options),
					  .on_record = on_record,
					  .on_event = on_event,
					  .names = names,
					  .name_count = 2,
					  .conflate_us = INTERVAL_US },
				  &subscription),
		     0, "%s", tb_error());
	update(0);
	tb_flush(topic);
	update(0); /* record 2 replaces the value that the line counts */
	cr_expect_str_eq(interval(), "A2 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 0, "record 2 is ahead of the position");
	cr_assert_eq(tb_names_remove(subscription, names, 1), 1, "%s", tb_error());
	tb_flush(topic);
	cr_expect_str_eq(interval(), "", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 1);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
}

/* -- gaps at the start ------------------------------------------------------------------------ */

/* Each instrument has a value. Then A laps the ring. */
static void values_overwrite(void)
{
	for (uint32_t i = 0; i < NAMES; i++)
		update(i);
	while (tb_topic_sequence(topic) < 3 * SLOTS)
		update(0);
}

/* The gap took the records from `first` on. The values of the later instruments come. */
static void values_of_the_gap(uint32_t first)
{
	interval();
	interval(); /* with exempt kinds, the ring is read first */
	cr_expect_eq(seen.events[TB_EVENT_GAP], 1);
	cr_expect_eq(seen.last[0], 3 * SLOTS);
	for (uint32_t i = 1; i < NAMES; i++)
		cr_expect_eq(seen.last[i], i + 1 >= first ? i + 1 : 0, "%c: found %" PRIu64,
			     'A' + (int)i, seen.last[i]);
	cr_expect_eq(seen.images, NAMES + 1 - (first > 2 ? first : 2));
}

Test(conflate, resume_behind_a_lap_gets_the_values_that_it_missed)
{
	values_overwrite();
	subscribe((struct tb_subscription_options){ .from = TB_FROM_SEQUENCE, .sequence = 11 });
	values_of_the_gap(11);
}

Test(conflate, resume_with_exempt_kinds_gets_the_values_that_it_missed)
{
	values_overwrite();
	subscribe((struct tb_subscription_options){ .from = TB_FROM_SEQUENCE,
						    .sequence = 11,
						    .exempt_kinds = cancel_kind,
						    .exempt_kind_count = 1 });
	values_of_the_gap(11);
}

Test(conflate, resume_of_another_epoch_gets_every_value)
{
	values_overwrite();
	subscribe((struct tb_subscription_options){
		.from = TB_FROM_SEQUENCE, .epoch = 77, .sequence = 11 });
	values_of_the_gap(1);
}

Test(conflate, last_records_that_are_overwritten_bring_their_values)
{
	values_overwrite();
	subscribe((struct tb_subscription_options){ .from = TB_FROM_LAST, .back = 3 * SLOTS - 10 });
	values_of_the_gap(11);
}

/* The records of a program that resumes are known to it. So a clear has a meaning. */
Test(conflate, resume_gets_the_clears_that_it_missed)
{
	update(1);
	update(2);
	publish(1, TB_KIND_CLEAR);
	subscribe((struct tb_subscription_options){ .from = TB_FROM_SEQUENCE, .sequence = 3 });
	cr_expect_str_eq(interval(), "B3- ", "found %s", seen.log);
	publish(2, TB_KIND_CLEAR);
	cr_expect_str_eq(interval(), "C4- ", "found %s", seen.log);
}

/* The publisher grants the join of a topic that appears. The writer laps the ring before the
 * subscriber takes that answer, or before it starts. Each value from its start on has to come. */
static void late_join(struct tb_subscription_options options)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	tb_topic_end(topic);
	memset(&seen, 0, sizeof(seen));
	options.size = sizeof(options);
	options.on_record = on_record;
	options.on_event = on_event;
	options.conflate_us = INTERVAL_US;
	cr_assert_eq(tb_subscribe(subscriber, "late*", &options, &subscription), 0, "%s",
		     tb_error());
	topic_make("late", 0);
	while (tb_publisher_joins(publisher, &topic, 1) == 0) {
		clock_pass(1);
		cr_assert_geq(tb_poll(subscriber, 1), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms, "waited for a join");
		usleep(100);
	}
	values_overwrite();
	while (!subscription->sources || subscription->sources->state != SOURCE_RUNNING) {
		clock_pass(1);
		cr_assert_geq(tb_poll(subscriber, 1), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms, "waited for the start");
	}
	for (int i = 0; i < 3; i++)
		interval();
	for (uint32_t i = 1; i < NAMES; i++)
		cr_expect_eq(seen.last[i], i < seen.floor ? 0 : i + 1, "%c: found %" PRIu64,
			     'A' + (int)i, seen.last[i]);
	cr_expect_eq(seen.last[0], seen.floor < 3 * SLOTS ? 3 * SLOTS : 0);
}

Test(conflate, join_that_is_lapped_before_its_first_poll_gets_every_value)
{
	late_join((struct tb_subscription_options){ .from = TB_FROM_NEWEST });
}

Test(conflate, join_with_exempt_kinds_that_is_lapped_gets_every_value)
{
	late_join((struct tb_subscription_options){ .exempt_kinds = cancel_kind,
						    .exempt_kind_count = 1 });
}

/* -- exemptions ------------------------------------------------------------------------------- */

Test(conflate, records_of_exempt_kinds_come_at_once)
{
	subscribe((struct tb_subscription_options){ .exempt_kinds = cancel_kind,
						    .exempt_kind_count = 1 });
	update(0);
	publish(0, TB_KIND_CANCEL);
	publish(1, TB_KIND_CANCEL);
	update(0);
	publish(1, TB_KIND_STATUS);
	poll_all();
	cr_expect_str_eq(seen.log, "A2! B3! ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 2);
	cr_expect_str_eq(interval(), "A4 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 3);
	cr_expect_eq(seen.images, 0);
}

Test(conflate, exempt_topic_is_delivered_in_full)
{
	static const char *const exempt[] = { "x.*", "t" };

	subscribe((struct tb_subscription_options){ .exempt_topics = exempt,
						    .exempt_topic_count = 2 });
	update(0);
	publish(1, TB_KIND_STATUS);
	poll_all();
	cr_expect_str_eq(seen.log, "A1 B2! ", "found %s", seen.log);
}

Test(conflate, topic_without_values_is_refused)
{
	static const char *const exempt[] = { "plain" };
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = on_record,
						   .conflate_us = INTERVAL_US };

	topic_make("plain", TB_TOPIC_NO_LAST_VALUE);
	cr_expect_eq(tb_subscribe(subscriber, "plain", &options, &subscription), -EOPNOTSUPP);
	cr_expect_not_null(strstr(tb_error(), "no last values"), "found %s", tb_error());
	options.exempt_topics = exempt;
	options.exempt_topic_count = 1;
	cr_expect_eq(tb_subscribe(subscriber, "plain", &options, &subscription), 0);
}

Test(conflate, exemptions_are_checked)
{
	static const uint8_t kinds[] = { TB_KIND_CANCEL, 0 };
	static const char *const topics[] = { "a..b" }, *const missing[] = { NULL };
	struct tb_subscription_options options = { .size = sizeof(options),
						   .on_record = on_record,
						   .conflate_us = INTERVAL_US,
						   .exempt_kinds = kinds,
						   .exempt_kind_count = 2 };

	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	options.exempt_kind_count = 1;
	options.exempt_topics = topics;
	options.exempt_topic_count = 1;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	options.exempt_topics = missing;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
}

/* -- events ----------------------------------------------------------------------------------- */

Test(conflate, hole_and_quality_come_in_a_walk)
{
	join();
	update(0);
	publish(0, TB_KIND_HOLE);
	tb_topic_quality(topic, TB_QUALITY_SUSPECT, 0);
	update(0);
	cr_expect_str_eq(interval(), "gap 2-2:1 quality 1 A4 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 2);
	cr_expect_eq(counter(SUBSCRIPTION_LOST_UPSTREAM), 1);
}

Test(conflate, jump_skips_holes_and_reports_the_quality)
{
	join();
	publish(0, TB_KIND_HOLE);
	tb_topic_quality(topic, TB_QUALITY_SUSPECT, 0);
	while (tb_topic_sequence(topic) < SLOTS / 2)
		update(0);
	cr_expect_str_eq(interval(), "A32 quality 1 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 1);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), SLOTS / 2 - 1);
}

Test(conflate, clear_is_delivered_if_its_instrument_is_known)
{
	join();
	update(0);
	update(1);
	publish(1, TB_KIND_CLEAR);
	cr_expect_str_eq(interval(), "A1 ", "found %s", seen.log);
	publish(0, TB_KIND_CLEAR);
	cr_expect_str_eq(interval(), "A4- ", "found %s", seen.log);
}

Test(conflate, values_from_before_the_join_do_not_come)
{
	for (uint32_t i = 0; i < NAMES; i++)
		update(i);
	join();
	while (tb_topic_sequence(topic) < 3 * SLOTS)
		update(0);
	interval();
	cr_expect_eq(seen.calls, 1);
	cr_expect_eq(seen.last[0], 3 * SLOTS);
}

Test(conflate, start_at_the_oldest_record_has_a_gap_before_it)
{
	while (tb_topic_sequence(topic) < SLOTS + 36)
		update((uint32_t)(tb_topic_sequence(topic) % 3));
	subscribe((struct tb_subscription_options){ .from = TB_FROM_OLDEST });
	interval();
	cr_expect_eq(seen.calls, 3);
	cr_expect_eq(seen.images, 0);
	cr_expect_geq(counter(SUBSCRIPTION_LOST_BEFORE_JOIN), 36);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 3);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS) + counter(SUBSCRIPTION_SKIPPED) + seen.lost,
		     SLOTS + 36);
}

Test(conflate, image_comes_first)
{
	for (uint32_t i = 0; i < 3; i++)
		update(i);
	subscribe((struct tb_subscription_options){ .from = TB_FROM_IMAGE });
	seen.apart = true; /* image records are not in the accounts */
	for (int i = 0; i < 1000 && seen.events[TB_EVENT_COMPLETE] == 0; i++)
		poll_all();
	cr_expect_eq(seen.images, 3);
	interval();
	update(1);
	update(1);
	poll_all();
	cr_expect_str_eq(seen.log, "", "found %s", seen.log);
	cr_expect_str_eq(interval(), "B5 ", "found %s", seen.log);
	while (tb_topic_sequence(topic) < 3 * SLOTS) /* the image's values do not come again */
		update(1);
	interval();
	cr_expect_eq(seen.calls, 5);
}

static void owed_before_the_end(struct tb_subscription_options options)
{
	subscribe(options);
	update(0);
	poll_all();
	tb_topic_end(topic);
	for (int i = 0; i < 10000 && seen.events[TB_EVENT_ENDED] == 0; i++) {
		clock_pass(20);
		tb_wait(subscriber, 1);
		poll(7);
	}
	cr_expect_str_eq(seen.log, "A1 ended ", "found %s", seen.log);
}

/* The end of a long interval is not waited for. */
static void end_comes_at_once(bool before_the_join)
{
	update(0);
	if (before_the_join)
		tb_topic_end(topic);
	subscribe((struct tb_subscription_options){ .from = TB_FROM_OLDEST,
						    .conflate_us = 60000000 });
	if (!before_the_join)
		tb_topic_end(topic);
	for (int i = 0; i < 10000 && seen.events[TB_EVENT_ENDED] == 0; i++) {
		clock_pass(1);
		tb_wait(subscriber, 1);
		poll(7);
	}
	cr_expect_str_eq(seen.log, "A1 ended ", "found %s", seen.log);
}

Test(conflate, topic_that_ends_needs_no_interval)
{
	end_comes_at_once(false);
}

Test(conflate, topic_that_has_ended_needs_no_interval)
{
	end_comes_at_once(true);
}

/* An exempt record that the ring still has took its place in the slot. Then its name is removed. */
Test(conflate, value_held_behind_an_exempt_record_is_skipped)
{
	static const char *const names[] = { "A", "B" };
	static const uint8_t clear_kind[] = { TB_KIND_CLEAR };

	subscribe((struct tb_subscription_options){ .names = names,
						    .name_count = 2,
						    .exempt_kinds = clear_kind,
						    .exempt_kind_count = 1 });
	seen.exempt_kind = TB_KIND_CLEAR;
	update(0);
	poll_all();
	for (int i = 0; i < 4; i++)
		publish(1, TB_KIND_CLEAR);
	publish(0, TB_KIND_CLEAR);
	interval_pass();
	while (subscription->sources->mapping.conflate->due_count > 0)
		poll(1);
	cr_assert_leq(subscription->sources->next, 6, "the clear of A was passed already");
	cr_assert_eq(tb_names_remove(subscription, names, 1), 1, "%s", tb_error());
	poll_all();
	cr_expect_eq(subscription->sources->mapping.conflate->held_count, 0);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 2);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 4);
}

/* The interval ends before the ring has brought the clear, whose slot has the newest value already.
 * Four records of the ring come first, one in each poll. */
Test(conflate, newer_value_comes_after_an_exempt_value)
{
	static const uint8_t clear_kind[] = { TB_KIND_CLEAR };

	subscribe((struct tb_subscription_options){ .exempt_kinds = clear_kind,
						    .exempt_kind_count = 1 });
	seen.exempt_kind = TB_KIND_CLEAR;
	update(0);
	poll_all();
	for (int i = 0; i < 4; i++)
		publish(1, TB_KIND_CLEAR);
	publish(0, TB_KIND_CLEAR);
	update(0);
	interval_pass();
	while (subscription->sources->mapping.conflate->due_count > 0)
		poll(1);
	cr_assert_leq(subscription->sources->next, 6, "the clear of A was passed already");
	poll_all();
	interval();
	cr_expect_eq(seen.last[0], 7);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 6);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
}

/* The ring still has a newer record of B. So only that torn value of B is given up. */
Test(conflate, values_are_given_up_behind_the_last_record)
{
	static const uint8_t clear_kind[] = { TB_KIND_CLEAR };

	subscribe((struct tb_subscription_options){ .exempt_kinds = clear_kind,
						    .exempt_kind_count = 1 });
	seen.exempt_kind = TB_KIND_CLEAR;
	update(1);
	poll_all();
	topic->last_value[topic->slot_bytes + RECORD_HEADER_BYTES] ^= 1;
	for (int i = 0; i < SLOTS / 2; i++)
		publish(2, TB_KIND_CLEAR);
	update(1);
	topic->last_value[topic->slot_bytes + RECORD_HEADER_BYTES] ^= 1;
	tb_topic_end(topic);
	interval_pass();
	for (int i = 0; i < 3000 && seen.events[TB_EVENT_ENDED] == 0; i++) {
		clock_pass(20);
		tb_wait(subscriber, 1);
		poll(1);
	}
	cr_expect_eq(seen.events[TB_EVENT_ENDED], 1, "%s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_LOST_CORRUPT), 1, "%s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1, "%s", seen.log);
}

Test(conflate, values_owed_come_before_the_end)
{
	owed_before_the_end((struct tb_subscription_options){ .from = TB_FROM_NEWEST });
}

Test(conflate, values_held_come_before_the_end)
{
	owed_before_the_end((struct tb_subscription_options){ .exempt_kinds = cancel_kind,
							      .exempt_kind_count = 1 });
}

static void owed_before_the_next_epoch(struct tb_subscription_options options)
{
	subscribe(options);
	update(0);
	poll_all();
	tb_topic_restart(topic);
	register_names();
	for (int i = 0; i < 10000 && seen.events[TB_EVENT_RESTART] == 0; i++) {
		clock_pass(20);
		tb_wait(subscriber, 1);
		poll(7);
	}
	cr_expect_str_eq(seen.log, "A1 restart ", "found %s", seen.log);
	memset(&seen.in_interval, 0, sizeof(seen.in_interval));
	update(1);
	poll_all();
	cr_expect_str_eq(interval(), "B1 ", "found %s", seen.log);
}

Test(conflate, values_owed_come_before_the_next_epoch)
{
	owed_before_the_next_epoch((struct tb_subscription_options){ .from = TB_FROM_NEWEST });
}

Test(conflate, values_held_come_before_the_next_epoch)
{
	owed_before_the_next_epoch((struct tb_subscription_options){ .exempt_kinds = cancel_kind,
								     .exempt_kind_count = 1 });
}

/* The stored value is never whole again, as if its writer had died inside the slot. */
static void damage(uint32_t instrument)
{
	char *const slot = topic->last_value + (size_t)instrument * topic->slot_bytes;

	((_Atomic uint64_t *)(void *)slot)[2] ^= 1;
}

/* A slot whose writer has not come to it yet has an older value. */
Test(conflate, copy_older_than_the_held_value_is_no_record_of_a_poll)
{
	char older[256], newer[256];
	char *slot;
	int count = 0;

	join();
	slot = topic->last_value;
	cr_assert_leq(topic->slot_bytes, sizeof(older));
	update(0);
	memcpy(older, slot, topic->slot_bytes);
	update(0);
	memcpy(newer, slot, topic->slot_bytes);
	memcpy(slot, older, topic->slot_bytes);
	interval_pass();
	for (int quiet = 0; quiet < TURNS; quiet = is_quiet() ? quiet + 1 : 0)
		count += poll(7);
	cr_expect_eq(count, 0, "found %d records", count);
	cr_expect_eq(subscription->sources->mapping.conflate->held_count, 1);
	cr_expect_str_eq(seen.log, "", "found %s", seen.log);
	memcpy(slot, newer, topic->slot_bytes);
	cr_expect_str_eq(interval(), "A2 ", "found %s", seen.log);
}

static void end_is_seen(enum tb_event_kind end)
{
	for (int i = 0; i < 10000 && seen.events[end] == 0; i++) {
		clock_pass(20);
		tb_wait(subscriber, 1);
		poll(7);
	}
	cr_assert_eq(seen.events[end], 1, "found %s", seen.log);
}

Test(conflate, value_that_stays_torn_leaves_the_time_of_the_end)
{
	join();
	update(0);
	update(1);
	damage(0);
	tb_topic_end(topic);
	end_is_seen(TB_EVENT_ENDED);
	cr_expect_str_eq(seen.log, "B2 gap 1-1:1 ended ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_LOST_CORRUPT), 1);
}

Test(conflate, value_that_stays_torn_leaves_the_time_of_the_next_epoch)
{
	join();
	for (int i = 0; i < 2 * NAMES; i++)
		update((uint32_t)i % NAMES);
	damage(0);
	tb_topic_restart(topic);
	register_names();
	end_is_seen(TB_EVENT_RESTART);
	cr_expect_eq(seen.calls, NAMES - 1);
}

Test(conflate, held_value_that_stays_torn_is_lost_at_the_restart)
{
	subscribe((struct tb_subscription_options){ .exempt_kinds = cancel_kind,
						    .exempt_kind_count = 1 });
	update(0);
	poll_all();
	damage(0);
	tb_topic_restart(topic);
	end_is_seen(TB_EVENT_RESTART);
	cr_expect_str_eq(seen.log, "gap 1-1:1 restart ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_LOST_CORRUPT), 1);
}

/* Over a network, the memory is gone with the connection. */
Test(conflate, held_values_of_memory_that_is_gone_are_lost)
{
	const bool in_place = strcmp(SCHEME, "shm") == 0;

	subscribe((struct tb_subscription_options){ .exempt_kinds = cancel_kind,
						    .exempt_kind_count = 1 });
	update(0);
	update(1);
	update(1);
	poll_all();
	cr_expect_eq(subscription->sources->mapping.conflate->held_count, 2);
	subscriber->gone_code = ECONNRESET;
	poll(7);
	tb_topic_restart(topic);
	register_names();
	for (int i = 0; i < 10000 && seen.events[TB_EVENT_RESTART] == 0; i++) {
		clock_pass(20);
		tb_wait(subscriber, 1);
		poll(7);
	}
	cr_expect_str_eq(seen.log, in_place ? "A1 B3 restart " : "gap 1-3:2 restart ", "found %s",
			 seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_LOST_OVERRUN), in_place ? 0 : 2);
}

/* -- chosen instruments ----------------------------------------------------------------------- */

Test(conflate, only_chosen_instruments_come)
{
	static const char *const names[] = { "B", "C" };

	subscribe((struct tb_subscription_options){ .names = names, .name_count = 2 });
	update(0);
	update(1);
	cr_expect_str_eq(interval(), "B2 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
	while (tb_topic_sequence(topic) < 3 * SLOTS)
		update((uint32_t)(tb_topic_sequence(topic) % NAMES));
	interval();
	cr_expect_eq(seen.calls, 3);
	cr_expect_geq(seen.last[1], 2 * SLOTS);
	cr_expect_geq(seen.last[2], 2 * SLOTS);
}

Test(conflate, value_of_a_removed_name_is_skipped)
{
	static const char *const names[] = { "A", "B" };

	subscribe((struct tb_subscription_options){ .names = names,
						    .name_count = 2,
						    .exempt_kinds = cancel_kind,
						    .exempt_kind_count = 1 });
	update(0);
	update(1);
	poll_all();
	cr_assert_eq(tb_names_remove(subscription, names, 1), 1, "%s", tb_error());
	cr_expect_str_eq(interval(), "B2 ", "found %s", seen.log);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), 1);
}

/* The line that counts the instruments also shows that the reader was lapped. */
Test(conflate, lap_in_a_jump_needs_nothing_of_the_ring)
{
	static const char *const names[] = { "A", "B", "C", "D" };
	const struct conflate *conflate;

	subscribe((struct tb_subscription_options){ .names = names, .name_count = 3 });
	poll_all();
	conflate = subscription->sources->mapping.conflate;
	while (tb_topic_sequence(topic) < SLOTS / 2)
		update((uint32_t)(tb_topic_sequence(topic) % 4));
	interval_pass();
	for (int i = 0; i < 100000 && !conflate->jumps; i++)
		poll(1);
	cr_assert(conflate->jumps);
	cr_assert_eq(tb_names_add(subscription, names + 3, 1), 1, "%s", tb_error());
	while (tb_topic_sequence(topic) < 3 * SLOTS)
		update((uint32_t)(tb_topic_sequence(topic) % 4));
	memset(seen.in_interval, 0, sizeof(seen.in_interval));
	poll_all();
	cr_expect_eq(counted_lost(), 0);
	interval();
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_gt(seen.last[i], 3 * SLOTS - 4);
}

/* -- sleeping --------------------------------------------------------------------------------- */

/* Without conflation each record wakes the sleeper. */
Test(conflate, sleeper_is_not_woken_by_each_record)
{
	const unsigned int records = 200;
	unsigned int wakes = 0;

	join();
	for (unsigned int i = 0; i < records; i++) {
		update(0);
		wakes += tb_wait(subscriber, 1) == 1;
		poll(10);
	}
	cr_expect_lt(wakes, records / 2, "found %u wake-ups for %u records", wakes, records);
	cr_expect_eq(seen.calls, 0);
}

/* The pace of other work would wake it later than the deadline. */
Test(conflate, sleeper_wakes_at_the_end_of_the_interval)
{
	clock_go();
	subscribe((struct tb_subscription_options){ .conflate_us = 20000 });
	update(0);
	while (seen.calls == 0) {
		cr_assert_eq(tb_wait(subscriber, (int)deadline_ms() / 4), 1, "found no wake-up");
		poll(10);
	}
	cr_expect_str_eq(seen.log, "A1 ", "found %s", seen.log);
}

/* Over a network, a walk whose copy failed READs the line again. This line shows a record behind
 * the walk's end. The publisher's wake names the same head. */
Test(conflate, sleeper_gets_a_record_that_a_line_of_the_walk_showed)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct tb_source *source;

	join();
	poll_all();
	source = subscription->sources;
	update(0);
	interval_pass();
	for (int i = 0;
	     i < 100000 && source->mapping.conflate->phase != CONFLATE_WALK && seen.calls == 0; i++)
		poll(1);
	update(1);
	source->look = source->copy_failed = true;
	poll_all();
	cr_expect_str_eq(seen.log, "A1 ", "found %s", seen.log);
	while (seen.calls < 2) {
		tb_wait(subscriber, 1);
		interval_pass();
		poll(7);
		cr_assert_lt(scene_now_ms(), until_ms, "found %s", seen.log);
	}
	cr_expect_str_eq(seen.log, "A1 B2 ", "found %s", seen.log);
}

/* Polls for few records leave an interval unfinished. */
Test(conflate, sleeper_wakes_for_the_rest_of_an_interval)
{
	join();
	for (uint32_t i = 0; i < 10; i++)
		update(i);
	interval_pass();
	for (int i = 0; i < 100000 && seen.calls == 0; i++)
		poll(1);
	while (seen.calls < 10) {
		cr_assert_eq(tb_wait(subscriber, (int)deadline_ms() / 4), 1, "found no wake-up");
		poll(1);
	}
}

/* -- any history ------------------------------------------------------------------------------ */

/* What the program has is the newest of each instrument, or a clear that it need not know. */
static void compare(void)
{
	uint64_t newest[NAMES] = { 0 };

	for (uint64_t n = seen.floor + 1; n <= tb_topic_sequence(topic); n++)
		if (changes_value(written[n].kind))
			newest[written[n].instrument] = n;
	for (uint32_t i = 0; i < NAMES; i++)
		if (seen.last[i] != newest[i] &&
		    (seen.last[i] != 0 || written[newest[i]].kind != TB_KIND_CLEAR))
			cr_assert_fail("%c: found %" PRIu64 ", expected %" PRIu64, 'A' + (int)i,
				       seen.last[i], newest[i]);
}

/* Whether all that was published is delivered, skipped or lost. */
static bool is_at_rest(void)
{
	const struct tb_source *source = subscription->sources;

	return source->state == SOURCE_RUNNING && source->next > topic_head(topic) &&
	       !source->orphan && !conflate_owes(source->mapping.conflate);
}

/* Nothing is published any more. The connection may have to be made again. */
static void rest(void)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	for (int quiet = 0; quiet < TURNS;) {
		memset(seen.in_interval, 0, sizeof(seen.in_interval));
		clock_pass(INTERVAL_US / 20000); /* slowly: the connection must not time out */
		tb_wait(subscriber, 1);
		quiet = poll(30) == 0 && is_at_rest() ? quiet + 1 : 0;
		cr_assert_lt(scene_now_ms(), until_ms,
			     "waited until all is delivered: found position %" PRIu64 " of %" PRIu64
			     ", phase %d",
			     subscription->sources->next - 1, topic_head(topic),
			     (int)subscription->sources->mapping.conflate->phase);
	}
}

Test(conflate, lap_over_a_slot_of_failed_copies_loses_no_record)
{
	const struct tb_source *source;

	join();
	for (uint32_t i = 0; i < NAMES; i++)
		update(i);
	interval();
	source = subscription->sources;
	update(0);
	topic->ring[((NAMES + 1) & topic->slot_mask) * topic->slot_bytes + RECORD_HEADER_BYTES] ^=
		1;
	interval_pass();
	for (int i = 0; i < 100000 && source->tries < TRIES_MAX - 1; i++) {
		clock_pass(2);
		poll(1);
	}
	cr_assert_eq(source->tries, TRIES_MAX - 1);
	while (tb_topic_sequence(topic) < 3 * SLOTS)
		update(1);
	rest();
	cr_expect_eq(seen.events[TB_EVENT_GAP], 0, "found %s", seen.log);
	compare();
}

static void any_history(struct tb_subscription_options options)
{
	const int turns = scene_rounds(3000);

	subscribe(options);
	if (options.exempt_kind_count > 0 && changes_value(options.exempt_kinds[0]))
		seen.exempt_kind = options.exempt_kinds[0];
	for (int turn = 0; turn < turns; turn++) {
		const size_t records = turn % 50 == 0 ? SLOTS + 1 + random_below(&chance, 2 * SLOTS)
						      : random_below(&chance, 8);

		for (size_t i = 0; i < records; i++)
			publish_any();
		if (random_below(&chance, 3) == 0 && options.conflate_us != TB_CONFLATE_POLL)
			interval_pass();
		memset(seen.in_interval, 0, sizeof(seen.in_interval));
		seen.log[0] = '\0';
		clock_pass(2); /* READs that failed are repeated at a pace */
		if (random_below(&chance, 2) == 0)
			land(); /* a slow device would bring little in all these turns */
		poll(1 + (int)random_below(&chance, 30));
		if (turn % 500 == 499)
			subscriber->gone_code = strcmp(SCHEME, "rdma") == 0 ? 0 : ECONNRESET;
		while (!subscriber->welcomed || subscription->sources->orphan) {
			clock_pass(20);
			tb_wait(subscriber, 1);
			poll(30);
		}
		if (tb_topic_sequence(topic) > LOG_MAX - 4 * SLOTS)
			break;
	}
	rest();
	compare();
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS) + counter(SUBSCRIPTION_SKIPPED) + counted_lost(),
		     tb_topic_sequence(topic) - seen.floor);
	if (options.exempt_kind_count > 0)
		cr_expect_gt(seen.events[TB_EVENT_GAP], (uint64_t)turns / 1000);
	else
		cr_expect_eq(counter(SUBSCRIPTION_LOST_OVERRUN), 0);
	cr_expect_gt(seen.calls, (uint64_t)turns / 6);
	fprintf(stderr, "%" PRIu64 " of %" PRIu64 " records, %" PRIu64 " as image records\n",
		seen.calls, tb_topic_sequence(topic), seen.images);
}

Test(conflate, any_history_by_interval_has_exact_accounts)
{
	any_history((struct tb_subscription_options){ .conflate_us = INTERVAL_US });
}

Test(conflate, any_history_by_poll_has_exact_accounts)
{
	any_history((struct tb_subscription_options){ .conflate_us = TB_CONFLATE_POLL });
}

Test(conflate, any_history_with_exempt_kinds_has_exact_accounts)
{
	any_history((struct tb_subscription_options){ .exempt_kinds = cancel_kind,
						      .exempt_kind_count = 1 });
}

Test(conflate, any_history_with_exempt_values_has_exact_accounts)
{
	static const uint8_t user_kind[] = { TB_KIND_USER };

	any_history((struct tb_subscription_options){ .exempt_kinds = user_kind,
						      .exempt_kind_count = 1 });
}

/* -- full speed ------------------------------------------------------------------------------- */

#define FAST 2000000

static uint64_t fast_records; /* as TICKBUS_TEST_RECORDS says, on a slow device */

static struct {
	uint64_t last[NAMES], cancels, calls, images;
	char wrong[128];
} fast;

static void fast_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const uint64_t n = record->sequence;
	const bool is_back = record->kind == TB_KIND_UPDATE && n <= fast.last[n % NAMES];
	uint64_t x;

	(void)user;
	(void)source;
	memcpy(&x, record->data, sizeof(x));

	if ((x != n || record->instrument != n % NAMES || is_back) && !fast.wrong[0])
		snprintf(fast.wrong, sizeof(fast.wrong),
			 "record %" PRIu64 " of %u after %" PRIu64 ": found payload %" PRIu64, n,
			 record->instrument, fast.last[n % NAMES], x);
	if (record->kind == TB_KIND_UPDATE)
		fast.last[record->instrument] = n;
	else
		fast.cancels++;
	fast.calls++;
	fast.images += (record->flags & TB_FLAG_IMAGE) != 0;
}

/* Each instrument has cancels, and an update as its last record. Full steps move the head: a flush
 * for each record would send a notice. */
static void *write_fast(void *given)
{
	struct tb_topic *to = given;

	for (uint64_t x = 1; x <= fast_records; x++) {
		const struct tb_update record = { .size = sizeof(record),
						  .instrument = (uint32_t)(x % NAMES),
						  .kind = x % 7 == 0 && x <= fast_records - NAMES
								  ? TB_KIND_CANCEL
								  : TB_KIND_UPDATE,
						  .length = sizeof(x),
						  .time_ns = 1,
						  .data = &x };

		tb_publish(to, &record);
		if (x % 5000 == 0)
			sched_yield();
	}
	tb_flush(to);
	return NULL;
}

/* The ring has 64 slots, so the reader is lapped again and again. */
static void full_speed(struct tb_subscription_options options)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms() * 3;
	const char *given = getenv("TICKBUS_TEST_RECORDS");
	pthread_t thread;

	fast_records = given ? strtoull(given, NULL, 10) : FAST;
	clock_go();
	topic_make("fast", TB_TOPIC_MANUAL_FLUSH);
	memset(&fast, 0, sizeof(fast));
	options.size = sizeof(options);
	options.on_record = fast_record;
	cr_assert_eq(tb_subscribe(subscriber, "fast", &options, &subscription), 0, "%s",
		     tb_error());
	while (subscription->sources->state != SOURCE_RUNNING) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms);
	}
	cr_assert_eq(pthread_create(&thread, NULL, write_fast, topic), 0);
	for (int quiet = 0; quiet < TURNS;) {
		const bool at_end = subscription->sources->next > fast_records &&
				    !conflate_owes(subscription->sources->mapping.conflate);

		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		quiet = at_end ? quiet + 1 : 0;
		cr_assert_lt(scene_now_ms(), until_ms);
	}
	pthread_join(thread, NULL);
	cr_expect_str_eq(fast.wrong, "", "%s", fast.wrong);
	for (uint32_t i = 0; i < NAMES; i++)
		cr_expect_eq(fast.last[i], i == 0 ? fast_records : fast_records - NAMES + i,
			     "%u: found %" PRIu64, i, fast.last[i]);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS) + counter(SUBSCRIPTION_SKIPPED) + counted_lost(),
		     fast_records);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS) + fast.images, fast.calls);
	fprintf(stderr, "%" PRIu64 " calls, %" PRIu64 " image records, %" PRIu64 " lost\n",
		fast.calls, fast.images, counted_lost());
}

Test(conflate, writer_at_full_speed_leaves_exact_accounts)
{
	full_speed((struct tb_subscription_options){ .conflate_us = 1000 });
	cr_expect_eq(counted_lost(), 0);
}

Test(conflate, writer_at_full_speed_by_poll_leaves_exact_accounts)
{
	full_speed((struct tb_subscription_options){ .conflate_us = TB_CONFLATE_POLL });
}

Test(conflate, writer_at_full_speed_with_exempt_kinds_leaves_exact_accounts)
{
	full_speed((struct tb_subscription_options){
		.conflate_us = 1000, .exempt_kinds = cancel_kind, .exempt_kind_count = 1 });
	cr_expect_gt(fast.cancels, 0);
}
