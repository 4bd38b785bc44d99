/* SPDX-License-Identifier: Apache-2.0 */
/* What a feed writes into its topics' memory for a few messages. Each message's last record has the
 * mark, and a late joiner finds the right value. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/error.h"
#include "bus/progress.h"
#include "bus/record.h"
#include "publisher/feeds/feed.h"
#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "publisher/state.h"
#include "schemas/status.h"
#include "schemas/trade.h"
#include "tests/support/clock.h"
#include "tests/support/scene.h"

#define MESSAGES 64
#define HOUR     (UINT64_C(3600) * 1000000000)
#define NOON     (UINT64_C(20000) * 24 * HOUR + 12 * HOUR)

/* The days: messages from memory. A feed that begins again finds the next day, and after the last
 * day no source. */
static struct itch_message script[MESSAGES];
static size_t script_count;
static size_t day_ends[MESSAGES], day_count, days_opened;
static int end_error; /* a source that fails after its messages, instead of an end */
static enum feed_incomplete fails = FEED_WARN;
static size_t endless_at; /* from here a day is repeated without an end; 0: it ends */
static bool no_wait;      /* the feed ends where it would wait */
static uint64_t from_ns;
static uint32_t speed_milli;

struct script_source {
	struct source source;
	size_t next, end;
	uint8_t bytes[ITCH_LENGTH_MAX];
};

static int script_next(struct source *source, struct source_message *message)
{
	struct script_source *s = (struct script_source *)source;

	if (s->next == s->end && endless_at)
		s->next = endless_at;
	if (s->next == s->end)
		return end_error ? error_set(end_error, "the script is torn") : 0;
	if (script[s->next].time_ns == 0)
		script[s->next].time_ns = s->next + 1;
	if (no_wait)
		atomic_store((_Atomic bool *)(uintptr_t)source->interrupted, true);
	*message = (struct source_message){ .bytes = s->bytes };
	message->length = (size_t)itch_encode(&script[s->next++], s->bytes);
	return 1;
}

static const char *script_changed(struct source *source)
{
	(void)source;
	return NULL;
}

static void script_close(struct source *source)
{
	free(source);
}

static int script_open(void *user, struct source **source)
{
	static const struct source_operations operations = { script_next, script_changed,
							     script_close };
	struct script_source *s;

	(void)user;
	if (days_opened == day_count)
		return error_set(ENOENT, "no day follows");
	s = calloc(1, sizeof(*s));
	s->source.operations = &operations;
	s->source.name = "script";
	s->next = days_opened ? day_ends[days_opened - 1] : 0;
	s->end = day_ends[days_opened++];
	*source = &s->source;
	return 0;
}

static void say(struct itch_message message)
{
	cr_assert_lt(script_count, MESSAGES);
	script[script_count++] = message;
}

static void say_event(char event)
{
	say((struct itch_message){ .type = 'S', .event = { event } });
}

static void end_day(bool cut)
{
	if (!cut)
		say_event('C');
	day_ends[day_count++] = script_count;
}

static void add(uint16_t locate, uint64_t reference)
{
	struct itch_message message = {
		.type = 'A',
		.locate = locate,
		.add = { .reference = reference, .side = 'B', .shares = 100, .price = 10000 },
	};

	memcpy(message.add.stock, locate == 5 ? "ACME    " : "OTHER   ", ITCH_STOCK_BYTES);
	say(message);
}

static void execute(uint64_t reference, uint64_t match)
{
	say((struct itch_message){
		.type = 'E', .locate = 5, .executed = { reference, 10, match } });
}

/* -- a bus with the topics of one feed ----------------------------------------------------------
 */

#define TOPICS 3

static struct tb_publisher *publisher;
static struct tb_group *group;
static struct feed *feed;
static struct feed_topic topics[TOPICS];
static size_t topic_count;

static void enter(void)
{
	const struct tb_group_options options = { .size = sizeof(options), .name = "script" };

	scene_enter();
	publisher = scene_publisher("shm");
	cr_assert_eq(tb_group_create(publisher, &options, &group), 0, "%s", tb_error());
	say_event('O');
}

static void leave(void)
{
	tb_publisher_close(publisher);
	feed_close(feed);
	for (size_t i = 0; i < topic_count; i++)
		tb_schema_free((struct tb_schema *)(uintptr_t)topics[i].schema);
	scene_leave();
}

TestSuite(marks, .init = enter, .fini = leave, .timeout = 60);

static void topic(const char *name, enum market_select select, uint32_t instruments)
{
	struct feed_topic *made = &topics[topic_count];
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = name,
					    .slots = 64,
					    .instruments = instruments,
					    .flags = TB_TOPIC_MARKS_MESSAGES,
					    .group = group };
	struct tb_schema *schema;

	cr_assert_lt(topic_count++, TOPICS);
	cr_assert_eq(tb_schema_load(&schema, market_selects[select]), 0, "%s", tb_error());
	made->select = select;
	options.schema = made->schema = schema;
	cr_assert_eq(tb_topic_create(publisher, &options, &made->topic), 0, "%s", tb_error());
}

/* What a reader sees of a topic that is written meanwhile. */
static uint64_t head_of(const struct tb_topic *t)
{
	struct progress progress;

	progress_load(t->line, &progress);
	return progress.head;
}

static unsigned int warnings;
static char error_line[256], warning_line[256]; /* the feed's last in the log */

static void on_log(void *user, enum tb_log_level level, const char *text)
{
	(void)user;
	warnings += level == TB_LOG_WARNING;
	if (level == TB_LOG_ERROR)
		snprintf(error_line, sizeof(error_line), "%s", text);
	if (level == TB_LOG_WARNING)
		snprintf(warning_line, sizeof(warning_line), "%s", text);
}

/* Publishes the script to its end, or until topic 0 has so many records (0: to its end). */
static void run_until(enum feed_at_end at_end, uint64_t records, int expected)
{
	struct feed_options options = { .name = "script",
					.protocol = &itch_protocol,
					.open = script_open,
					.from_ns = from_ns,
					.speed_milli = speed_milli,
					.wait = PACE_SPIN,
					.at_end = at_end,
					.incomplete = fails,
					.cpu = -1,
					.reading_thread = READING_THREAD,
					.topics = topics,
					.topic_count = topic_count,
					.touch_ms = 100,
					.publisher = publisher,
					.group = group,
					.log = on_log,
					.done_fd = eventfd(0, EFD_CLOEXEC) };
	struct pollfd done = { .fd = options.done_fd, .events = POLLIN };
	int result;

	cr_assert_eq(feed_open(&feed, &options), 0, "%s", tb_error());
	cr_assert_eq(feed_start(feed), 0, "%s", tb_error());
	while (records && head_of(topics[0].topic) < records)
		poll(NULL, 0, 1);
	if (records)
		feed_stop(feed);
	while (!feed_over(feed, &result))
		poll(&done, 1, -1);
	cr_assert_eq(result, expected);
	close(options.done_fd);
}

static void run_days(enum feed_at_end at_end, int expected)
{
	run_until(at_end, 0, expected);
}

/* Publishes the script, as a whole day unless `cut`. */
static void run(bool cut)
{
	end_day(cut);
	run_days(FEED_LINGER, 0);
}

static const struct slot *slot_of(const struct tb_topic *t, const char *memory, uint64_t index)
{
	return (const void *)(memory + index * t->slot_bytes);
}

/* A topic's records, each as its kind and "." if it is the last of its message. */
static void check_records(const struct tb_topic *t, const char *expected)
{
	char text[1024] = "";
	size_t used = 0;

	for (uint64_t sequence = 1; sequence <= t->sequence; sequence++) {
		struct record record;
		uint64_t found;

		cr_assert_eq(record_take(slot_of(t, t->ring, sequence & t->slot_mask),
					 t->slot_bytes, sequence, &record, &found, &t->salt),
			     0);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s%s",
					 used ? " " : "", tb_kind_name(record.kind),
					 record.flags & TB_FLAG_LAST ? "." : "");
		cr_assert_lt(used, sizeof(text));
	}
	cr_assert_str_eq(text, expected, "found records %s", text);
	cr_assert_eq(t->progress.whole, t->sequence);
}

static struct record record_of(const struct tb_topic *t, uint64_t sequence)
{
	struct record record;
	uint64_t found;

	cr_assert_eq(record_take(slot_of(t, t->ring, sequence & t->slot_mask), t->slot_bytes,
				 sequence, &record, &found, &t->salt),
		     0);
	return record;
}

static uint64_t time_of(const struct tb_topic *t, uint64_t sequence)
{
	return record_of(t, sequence).time_ns;
}

/* -- a subscriber that joins when the day is over ------------------------------------------------
 */

struct joiner {
	bool complete;
	unsigned int records;
	uint8_t kind, flags;
	_Alignas(8) char payload[256]; /* of the last record */
};

static void joiner_record(void *user, const struct tb_source *source,
			  const struct tb_record *record)
{
	struct joiner *joiner = user;

	(void)source;
	if (strcmp(record->name, "ACME") != 0)
		return;
	cr_assert_leq(record->length, sizeof(joiner->payload));
	joiner->records++;
	joiner->kind = record->kind;
	joiner->flags = record->flags;
	memcpy(joiner->payload, record->data, record->length);
}

static void joiner_event(void *user, const struct tb_event *event)
{
	struct joiner *joiner = user;

	joiner->complete |= event->kind == TB_EVENT_COMPLETE;
}

/* The image of a topic: what it says about ACME. */
static struct joiner image_of(const char *name)
{
	struct joiner joiner = { 0 };
	const struct tb_subscription_options options = { .size = sizeof(options),
							 .on_record = joiner_record,
							 .on_event = joiner_event,
							 .user = &joiner,
							 .from = TB_FROM_IMAGE };
	struct tb_subscriber *subscriber = scene_subscriber("shm", 0);
	struct tb_subscription *subscription;

	cr_assert_eq(tb_subscribe(subscriber, name, &options, &subscription), 0, "%s", tb_error());
	cr_assert(scene_poll_while(subscriber, &joiner.complete));
	tb_subscriber_close(subscriber);
	return joiner;
}

/* An order under the reference of another symbol's live order changes two books. */
static void change_two_books(void)
{
	add(5, 1);
	add(6, 1);
}

Test(marks, last_record_of_each_message_has_the_mark_in_each_topic)
{
	topic("quote", MARKET_QUOTE, 16);
	topic("trade", MARKET_TRADE, 16);
	change_two_books();
	add(5, 2);
	execute(2, 7);
	say((struct itch_message){ .type = 'B', .locate = 5, .broken = { 7 } });
	run(false);
	check_records(topics[0].topic, "update. update update. quality. update. update.");
	check_records(topics[1].topic, "quality. update. cancel clear.");
}

/* An execution changes the book and is a trade. */
Test(marks, records_of_a_message_have_one_time_in_all_topics)
{
	const struct tb_topic *quote, *trade;

	topic("quote", MARKET_QUOTE, 16);
	topic("trade", MARKET_TRADE, 16);
	quote = topics[0].topic;
	trade = topics[1].topic;
	change_two_books();
	add(5, 2);
	execute(2, 7);
	execute(2, 8);
	run(true);
	check_records(quote, "update. update update. quality. update. update. update. quality.");
	check_records(trade, "quality. update. update. quality.");
	cr_expect_eq(time_of(quote, 2), time_of(quote, 3));
	for (uint64_t sequence = 4; sequence <= 8; sequence++)
		cr_expect_gt(time_of(quote, sequence), time_of(quote, sequence - 1));
	cr_expect_eq(time_of(trade, 1), time_of(quote, 4));
	for (uint64_t sequence = 2; sequence <= 4; sequence++)
		cr_expect_eq(time_of(trade, sequence), time_of(quote, sequence + 4));
	cr_expect_eq(quote->progress.complete_ns, time_of(quote, 8));
	cr_expect_eq(trade->progress.complete_ns, time_of(quote, 8));
}

/* The message's last record has no room, so the record before it is the last that readers get. */
Test(marks, record_before_a_record_without_room_has_the_mark)
{
	topic("quote", MARKET_QUOTE, 1);
	topic("roomy", MARKET_QUOTE, 2);
	change_two_books();
	run(false);
	check_records(topics[0].topic, "update. update. quality.");
	check_records(topics[1].topic, "update. update update. quality.");
}

Test(marks, record_of_quality_is_a_message_of_its_own)
{
	topic("quote", MARKET_QUOTE, 16);
	change_two_books();
	run(true);
	check_records(topics[0].topic, "update. update update. quality. quality.");
}

static void check_quality(const struct tb_topic *t, uint32_t state, uint32_t cause)
{
	cr_expect_eq(t->progress.quality, state, "%s: found %u", t->name, t->progress.quality);
	cr_expect_eq(t->quality_cause, cause, "%s: found %u", t->name, t->quality_cause);
}

/* Each sort of message that cannot be used as it is, between two orders. */
static struct itch_message unusable(unsigned int which)
{
	struct itch_message message = { .type = 'A', .locate = 5, .add = { 9, 'X', 1, "", 1 } };

	memcpy(message.add.stock, "ACME    ", ITCH_STOCK_BYTES);
	switch (which) {
	case 1: /* the name of another symbol */
		message.add.side = 'B';
		memcpy(message.add.stock, "OTHER   ", ITCH_STOCK_BYTES);
		break;
	case 2:
		return (struct itch_message){ .type = 'D', .deleted = { 99 } };
	case 3:
		return (struct itch_message){ .type = 'X', .locate = 5, .cancel = { 1, 101 } };
	case 4:
		return (struct itch_message){ .type = 'h',
					      .locate = 5,
					      .halt = { "ACME    ", 'Z', 'H' } };
	case 5:
		return (struct itch_message){ .type = 'E', .locate = 5, .executed = { 1, 101, 1 } };
	case 6: /* no name */
		return (struct itch_message){ .type = 'B', .locate = 77, .broken = { 1 } };
	default: /* an impossible side */
		break;
	}
	return message;
}
#define UNUSABLE 7

static void check_unusable(unsigned int which, enum feed_incomplete incomplete, int result)
{
	fails = incomplete;
	topic("quote", MARKET_QUOTE, 16);
	topic("status", MARKET_STATUS, 16);
	add(5, 1);
	say(unusable(which));
	say(unusable(which));
	add(5, 2);
	end_day(false);
	run_days(FEED_LINGER, result);
	for (size_t i = 0; i < topic_count; i++)
		check_quality(topics[i].topic, TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	check_records(topics[1].topic, "update. quality. update.");
}

/* The second of two is counted, but the topics are suspect already. */
ParameterizedTestParameters(marks, message_that_cannot_be_used_is_in_band_once)
{
	static const unsigned int all[UNUSABLE] = { 0, 1, 2, 3, 4, 5, 6 };

	return cr_make_param_array(const unsigned int, (void *)(uintptr_t)all, UNUSABLE);
}

ParameterizedTest(unsigned int *which, marks, message_that_cannot_be_used_is_in_band_once)
{
	check_unusable(*which, FEED_WARN, 0);
}

Test(marks, message_that_cannot_be_used_fails_where_incomplete_does)
{
	check_unusable(0, FEED_FAIL, FEED_INCOMPLETE);
}

/* Orders from before its beginning are no defect of a day without its beginning. */
Test(marks, unknown_orders_of_a_day_cut_at_its_start_are_no_cause)
{
	topic("quote", MARKET_QUOTE, 16);
	script_count = 0;
	add(5, 1);
	say((struct itch_message){ .type = 'D', .deleted = { 99 } });
	execute(98, 1);
	run(false);
	check_records(topics[0].topic, "quality. update.");
	check_quality(topics[0].topic, TB_QUALITY_SUSPECT, TB_QUALITY_NO_START);
}

Test(marks, topic_without_room_for_an_instrument_is_suspect_alone)
{
	topic("quote", MARKET_QUOTE, 1);
	topic("roomy", MARKET_QUOTE, 2);
	add(5, 1);
	add(6, 2);
	add(6, 3);
	fails = FEED_FAIL;
	end_day(false);
	run_days(FEED_LINGER, FEED_INCOMPLETE);
	cr_expect(strstr(error_line, "cannot add instrument OTHER"), "%s", error_line);
	check_records(topics[0].topic, "update. quality.");
	check_quality(topics[0].topic, TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	check_records(topics[1].topic, "update. update. update.");
	check_quality(topics[1].topic, TB_QUALITY_GOOD, 0);
}

/* Its values would come back one by one, with the next record of each instrument. */
Test(marks, clock_that_was_set_back_makes_the_topics_suspect)
{
	topic("quote", MARKET_QUOTE, 2);
	topic("trade", MARKET_TRADE, 2);
	clock_real_set(NOON);
	cr_assert_eq(tb_group_message(group), 0, "%s", tb_error());
	clock_real_set(NOON - HOUR);
	add(5, 1);
	add(6, 2);
	fails = FEED_FAIL;
	end_day(false);
	run_days(FEED_LINGER, FEED_INCOMPLETE);
	check_records(topics[0].topic, "update. quality. update.");
	check_quality(topics[0].topic, TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
	check_records(topics[1].topic, "quality.");
	check_quality(topics[1].topic, TB_QUALITY_SUSPECT, TB_QUALITY_MISSING);
}

/* Lines are written for two new instruments, for each full step of 8 records and for the batch. The
 * change of quality and the end take two each. A flush inside a message would write more. */
Test(marks, no_flush_shows_a_part_of_a_message)
{
	const struct tb_topic *quote;
	uint64_t steps;

	topic("quote", MARKET_QUOTE, 16);
	quote = topics[0].topic;
	for (int i = 0; i < 10; i++)
		change_two_books();
	run(false);
	steps = (quote->sequence + quote->step - 1) / quote->step;
	cr_assert_geq(steps, 3);
	cr_assert_eq(quote->flushes, 2 + steps + 1 + 2 + 2, "%lu lines", quote->flushes);
}

Test(marks, late_joiner_finds_the_halt_behind_a_later_message)
{
	struct tb_status status;
	struct joiner joiner;

	topic("status", MARKET_STATUS, 16);
	say((struct itch_message){
		.type = 'H', .locate = 5, .action = { "ACME    ", 'H', ' ', "T1  " } });
	say((struct itch_message){ .type = 'Y', .locate = 5, .reg_sho = { "ACME    ", '1' } });
	run(false);
	joiner = image_of("status");
	cr_assert_eq(joiner.records, 1);
	cr_assert(joiner.flags & TB_FLAG_IMAGE);
	memcpy(&status, joiner.payload, sizeof(status));
	cr_assert_eq(status.message[0], 'Y');
	cr_assert_eq(status.reg_sho[0], '1');
	cr_assert_eq(status.state[0], 'H');
	cr_assert_arr_eq(status.reason, "T1  ", 4);
}

Test(marks, late_joiner_finds_the_trade_before_a_broken_trade)
{
	struct tb_trade trade;
	struct joiner joiner;

	topic("trade", MARKET_TRADE, 16);
	add(5, 1);
	execute(1, 7);
	execute(1, 8);
	say((struct itch_message){ .type = 'B', .locate = 5, .broken = { 8 } });
	run(false);
	check_records(topics[0].topic, "update. update. cancel correction.");
	joiner = image_of("trade");
	cr_assert_eq(joiner.records, 1);
	cr_assert_eq(joiner.kind, TB_KIND_CORRECTION);
	memcpy(&trade, joiner.payload, sizeof(trade));
	cr_assert_eq(trade.match_id, 7);
	cr_assert_eq(trade.size, 10);
}

Test(marks, late_joiner_of_a_broken_only_trade_finds_no_value)
{
	topic("trade", MARKET_TRADE, 16);
	add(5, 1);
	execute(1, 7);
	say((struct itch_message){ .type = 'B', .locate = 5, .broken = { 7 } });
	run(false);
	check_records(topics[0].topic, "update. cancel clear.");
	cr_assert_eq(image_of("trade").records, 0);
}

/* The day before has a halt, a trade and a message of two records, which the new day must not know.
 */
Test(marks, restarted_feed_forgets_the_day_before)
{
	struct tb_status status;
	struct joiner joiner;

	topic("status", MARKET_STATUS, 16);
	topic("trade", MARKET_TRADE, 16);
	topic("quote", MARKET_QUOTE, 16);
	say((struct itch_message){
		.type = 'H', .locate = 5, .action = { "ACME    ", 'H', ' ', "T1  " } });
	add(5, 1);
	execute(1, 7);
	change_two_books();
	end_day(false);
	say_event('O');
	say((struct itch_message){ .type = 'Y', .locate = 5, .reg_sho = { "ACME    ", '1' } });
	say((struct itch_message){ .type = 'B', .locate = 5, .broken = { 7 } });
	execute(1, 8);
	end_day(false);
	run_days(FEED_RESTART, -ENOENT);
	check_records(topics[0].topic, "update. update. quality. update.");
	check_records(topics[1].topic, "cancel. quality.");
	check_records(topics[2].topic, "quality.");
	joiner = image_of("status");
	cr_assert_eq(joiner.records, 1);
	memcpy(&status, joiner.payload, sizeof(status));
	cr_assert_eq(status.reg_sho[0], '1');
	cr_assert(TB_STATUS_STATE_ISNULL(status.state));
	cr_assert_eq(image_of("trade").records, 0);
}

/* A day ends with its C, or where another O comes. The next is a day of its own in every way. */
static void check_two_days(bool marked)
{
	struct joiner joiner;
	struct record record;
	struct tb_trade trade;
	uint64_t epoch;

	topic("status", MARKET_STATUS, 16);
	topic("trade", MARKET_TRADE, 16);
	topic("quote", MARKET_QUOTE, 16);
	epoch = topics[1].topic->shape.epoch;
	add(5, 1);
	execute(1, 7);
	if (marked)
		say_event('C');
	say_event('O');
	say((struct itch_message){
		.type = 'A', .locate = 5, .add = { 1, 'S', 50, "NEXT    ", 20000 } });
	execute(1, 8);
	end_day(false);
	run_days(FEED_LINGER, 0);
	cr_expect_neq(topics[1].topic->shape.epoch, epoch);
	check_records(topics[0].topic, "update. update.");
	check_records(topics[1].topic, "update.");
	check_records(topics[2].topic, "update. update.");
	for (size_t i = 0; i < topic_count; i++)
		check_quality(topics[i].topic, TB_QUALITY_GOOD, 0);
	cr_expect_eq(topics[1].topic->names.count, 1);
	cr_expect_str_eq(topics[1].topic->names.entries[0].name, "NEXT");
	joiner = image_of("trade");
	cr_expect_eq(joiner.records, 0, "the name of the day before");
	record = record_of(topics[1].topic, 1);
	memcpy(&trade, record.payload, sizeof(trade));
	cr_expect_eq(trade.price, 20000);
	cr_expect_eq(trade.source_time / UINT64_C(86400000000000), 1, "the date has moved on");
}

Test(marks, day_behind_another_in_one_source_is_a_day_of_its_own)
{
	check_two_days(true);
}

Test(marks, day_that_begins_within_another_is_a_day_of_its_own)
{
	check_two_days(false);
	cr_expect_eq(warnings, 1, "the day before lacks its end");
}

#define HOUR_NS UINT64_C(3600000000000)

static void add_at(uint64_t reference, uint64_t time_ns)
{
	add(5, reference);
	script[script_count - 1].time_ns = time_ns;
}

/* The day before has no message of that time. */
Test(marks, from_that_never_comes_is_reported_for_each_day)
{
	topic("quote", MARKET_QUOTE, 16);
	from_ns = HOUR_NS;
	speed_milli = 1000;
	add_at(1, HOUR_NS - 1);
	say_event('C');
	say_event('O');
	add_at(1, HOUR_NS);
	end_day(false);
	run_days(FEED_LINGER, 0);
	cr_expect_eq(warnings, 1);
	cr_expect(strstr(warning_line, "found no message of 01:00:00 (from) or later"), "%s",
		  warning_line);
}

/* A pace of messages at 2 hours would wait for a second. */
Test(marks, wrong_time_before_from_does_not_begin_the_pace)
{
	topic("quote", MARKET_QUOTE, 16);
	from_ns = 3 * HOUR_NS;
	speed_milli = 1000;
	no_wait = true;
	add_at(1, 20 * HOUR_NS);
	add_at(2, 2 * HOUR_NS);
	add_at(3, 2 * HOUR_NS + 1000000000);
	end_day(false);
	run_days(FEED_LINGER, 0);
	check_records(topics[0].topic, "update. update. update.");
}

/* What follows the end of a day is a day without its beginning. */
Test(marks, messages_behind_an_end_are_a_day_without_a_beginning)
{
	topic("quote", MARKET_QUOTE, 16);
	add(5, 1);
	say_event('C');
	add(5, 1);
	end_day(false);
	run_days(FEED_LINGER, 0);
	check_records(topics[0].topic, "quality. update.");
	check_quality(topics[0].topic, TB_QUALITY_SUSPECT, TB_QUALITY_NO_START);
}

/* A reading thread that has read ahead leaves the rest unpublished. */
Test(marks, stopped_feed_ends_behind_a_whole_message)
{
	const struct slot *slot;
	struct record record;
	uint64_t found;

	topic("quote", MARKET_QUOTE, 16);
	add(5, 1);
	add(7, 2);
	endless_at = script_count;
	change_two_books();
	change_two_books();
	end_day(true);
	run_until(FEED_LINGER, 10000, 0);
	slot = slot_of(topics[0].topic, topics[0].topic->ring,
		       topics[0].topic->sequence & topics[0].topic->slot_mask);
	cr_assert_eq(record_take(slot, topics[0].topic->slot_bytes, topics[0].topic->sequence,
				 &record, &found, &topics[0].topic->salt),
		     0);
	cr_assert(record.flags & TB_FLAG_LAST);
	cr_assert(topics[0].topic->ended);
}

Test(marks, day_without_its_beginning_is_suspect_before_its_records)
{
	topic("quote", MARKET_QUOTE, 16);
	script_count = 0;
	add(5, 1);
	run(false);
	check_records(topics[0].topic, "quality. update.");
}

/* An impossible side in each message: its frame is whole, and its content is not valid. */
static void invalid_day(void)
{
	for (uint64_t reference = 1; reference <= 2; reference++) {
		add(5, reference);
		script[script_count - 1].add.side = 'Z';
	}
	end_day(true);
}

Test(marks, day_without_a_valid_message_fails)
{
	topic("quote", MARKET_QUOTE, 16);
	script_count = 0;
	invalid_day();
	run_days(FEED_LINGER, -EBADMSG);
	check_records(topics[0].topic, "quality. quality. quality.");
	cr_assert(strstr(error_line, "script: found 2 messages and no valid one of ITCH 5.0, "
				     "expected at least 1"),
		  "%s", error_line);
}

/* The valid messages of the day before do not count. */
Test(marks, later_day_without_a_valid_message_fails)
{
	topic("quote", MARKET_QUOTE, 16);
	add(5, 1);
	end_day(false);
	invalid_day();
	say_event('O');
	end_day(false);
	run_days(FEED_RESTART, -EBADMSG);
	check_records(topics[0].topic, "quality. quality. quality.");
	cr_assert_eq(days_opened, 2);
}

/* All records of the messages before the error are there, and the log says where it was. */
Test(marks, error_of_a_source_comes_after_its_messages)
{
	topic("quote", MARKET_QUOTE, 16);
	add(5, 1);
	add(5, 2);
	end_error = EBADMSG;
	end_day(true);
	run_days(FEED_LINGER, -EBADMSG);
	check_records(topics[0].topic, "update. update. quality.");
	cr_assert_str_eq(error_line, "feed script: the script is torn; stopped after 3 messages, "
				     "the last of 00:00:00.000000003");
}

/* The topic has ended before the feed, against its contract: its records cannot be published. */
Test(marks, error_of_a_topic_ends_the_feed_at_its_message)
{
	topic("quote", MARKET_QUOTE, 16);
	add(5, 1);
	add(5, 2);
	execute(1, 7);
	end_day(true);
	cr_assert_geq(tb_instrument(topics[0].topic, "ACME"), 0);
	cr_assert_eq(tb_topic_end(topics[0].topic), 0);
	run_days(FEED_LINGER, -ESHUTDOWN);
	cr_assert_str_eq(error_line,
			 "feed script: topic quote has ended; stopped after 2 messages, "
			 "the last of 00:00:00.000000002");
}
