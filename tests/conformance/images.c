/* SPDX-License-Identifier: Apache-2.0 */
/* Images: the present value of each instrument for a subscriber that joins late or was lapped.
 *
 * The test writes the topic and polls the subscriber in one thread, so each join has its own mix of
 * both. It keeps a log of what it wrote. At each complete event the reader's table is compared with
 * the table that the log gives for that position. Built once per fabric, with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/counters.h"
#include "bus/directory.h"
#include "bus/record.h"
#include "publisher/state.h"
#include "subscriber/fetch.h"
#include "subscriber/image.h"
#include "subscriber/pull_image.h"
#include "subscriber/reader.h"
#include "subscriber/state.h"
#include "tests/conformance/scheme.h"
#include "tests/support/batch_record.h"
#include "tests/support/bytewise.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define SLOTS       64
#define INSTRUMENTS 1000 /* with a value; some more names lack a value */
#define NAMES       (INSTRUMENTS + 20)
#define LOG_MAX     20000
#define JOINS_MIN   5
#define WRAPS       5    /* of the ring in each join */
#define JOINS       1000 /* or as many as TICKBUS_TEST_JOINS says */

struct written {
	uint32_t instrument;
	uint8_t kind, flags;
};

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
/* What was written in this epoch and in the epoch before it, by sequence. */
static struct {
	uint64_t epoch;
	struct written written[LOG_MAX];
} logs[2];
static unsigned int present; /* the log of this epoch */
static uint64_t chance;      /* state of the random numbers */
static bool marks;
static int corrupt = -1; /* the instrument whose value cannot be read; -1: all can */
static const char *corrupt_name = "";

/* What the program knows, from the handlers alone. */
static struct {
	uint64_t value[NAMES]; /* sequence of the present value; 0: none */
	uint64_t last[NAMES];  /* of any record that changes the value */
	uint64_t epoch, position, base;
	uint64_t images, completes, values, gaps, lost, skipped, restarts, without_value;
	uint64_t complete_at;
	uint64_t unreadable; /* values; the test expects them */
	bool imaging, ended, hurried, damaged;
	char wrong[256];
} seen;

static const struct written *log_of(uint64_t epoch)
{
	const unsigned int at = logs[present].epoch == epoch ? present : !present;

	cr_assert_eq(logs[at].epoch, epoch, "a record of an epoch long ago");
	return logs[at].written;
}

static bool changes_value(uint8_t kind, uint8_t flags)
{
	return kind == TB_KIND_UPDATE || kind == TB_KIND_CLEAR || kind >= TB_KIND_USER ||
	       (kind == TB_KIND_CORRECTION && !(flags & TB_FLAG_PAST));
}

#define WRONG(...)                                                                                 \
	do {                                                                                       \
		if (!seen.wrong[0])                                                                \
			snprintf(seen.wrong, sizeof(seen.wrong), __VA_ARGS__);                     \
	} while (0)

static void value_change(const struct tb_record *record)
{
	if (record->sequence <= seen.last[record->instrument])
		WRONG("instrument %u: found record %" PRIu64 " after %" PRIu64, record->instrument,
		      record->sequence, seen.last[record->instrument]);
	seen.last[record->instrument] = record->sequence;
	seen.value[record->instrument] = record->kind == TB_KIND_CLEAR ? 0 : record->sequence;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const struct written *as = &log_of(record->epoch)[record->sequence];
	const uint8_t flags = (uint8_t)(record->flags & ~TB_FLAG_IMAGE);
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	uint64_t x;

	(void)user;
	(void)source;
	memcpy(&x, record->data, sizeof(x));
	snprintf(name, sizeof(name), "I%u", record->instrument);
	if (x != record->sequence || as->instrument != record->instrument ||
	    as->kind != record->kind || as->flags != flags || strcmp(record->name, name) != 0)
		WRONG("record %" PRIu64 ": found payload %" PRIu64 ", %s, kind %u, flags %u",
		      record->sequence, x, record->name, record->kind, record->flags);
	if (record->flags & TB_FLAG_IMAGE) {
		seen.values++;
		if (!seen.imaging || record->sequence > seen.base ||
		    !changes_value(record->kind, flags))
			WRONG("value %" PRIu64 " of an image up to %" PRIu64, record->sequence,
			      seen.base);
	} else if (record->sequence != ++seen.position) {
		WRONG("found record %" PRIu64 ", expected %" PRIu64, record->sequence,
		      seen.position);
	}
	if (changes_value(record->kind, flags))
		value_change(record);
}

/* With BATCHES the same records come by on_batch. */
#ifdef BATCHES
static void on_batch(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	for (uint32_t i = 0; i < batch->count; i++) {
		const struct tb_record record = batch_record(source, batch, i);

		on_record(user, source, &record);
	}
}
#define HANDLER .on_batch = on_batch
#else
#define HANDLER .on_record = on_record
#endif

/* The table that the log gives at this position. */
static void compare(uint64_t epoch, uint64_t position)
{
	const struct written *written = log_of(epoch);
	uint64_t expected[NAMES] = { 0 };

	for (uint64_t n = 1; n <= position; n++)
		if (changes_value(written[n].kind, written[n].flags))
			expected[written[n].instrument] = written[n].kind == TB_KIND_CLEAR ? 0 : n;
	for (uint32_t i = 0; i < NAMES; i++)
		if (seen.value[i] != expected[i] && (int)i != corrupt)
			WRONG("complete at %" PRIu64 ": instrument %u: found %" PRIu64
			      ", expected %" PRIu64,
			      position, i, seen.value[i], expected[i]);
	/* The end of a topic or of its epoch ends the open message. */
	if (marks && position > 0 && !(written[position].flags & TB_FLAG_LAST) &&
	    !((topic->ended || epoch != topic->shape.epoch) && written[position + 1].kind == 0))
		WRONG("complete at %" PRIu64 ", in the middle of a message", position);
}

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	switch (event->kind) {
	case TB_EVENT_APPEARED:
		seen.epoch = event->epoch;
		seen.position = event->first - 1;
		break;
	case TB_EVENT_GAP:
		if (event->first != seen.position + 1)
			WRONG("gap from %" PRIu64 ", expected from %" PRIu64, event->first,
			      seen.position + 1);
		seen.gaps++;
		seen.lost += event->last - event->first + 1;
		seen.skipped += event->skipped;
		seen.position = event->delivered;
		break;
	case TB_EVENT_RESTART:
		memset(seen.value, 0, sizeof(seen.value));
		memset(seen.last, 0, sizeof(seen.last));
		seen.epoch = event->epoch;
		seen.position = 0;
		seen.imaging = false;
		seen.restarts++;
		break;
	case TB_EVENT_IMAGE:
		seen.images++;
		seen.imaging = true;
		seen.base = event->first;
		if (event->first != seen.position)
			WRONG("image up to %" PRIu64 " at position %" PRIu64, event->first,
			      seen.position);
		seen.hurried |= event->code == EOVERFLOW;
		break;
	case TB_EVENT_COMPLETE:
		seen.completes++;
		seen.imaging = false;
		seen.complete_at = event->delivered;
		if (event->delivered != seen.position)
			WRONG("complete at %" PRIu64 ", the position is %" PRIu64, event->delivered,
			      seen.position);
		if (!seen.damaged)
			compare(event->epoch, event->delivered);
		break;
	case TB_EVENT_ENDED:
		seen.ended = true;
		break;
	case TB_EVENT_NO_VALUE:
		seen.without_value++;
		seen.unreadable++;
		if (!seen.damaged && (!seen.imaging || strcmp(event->words, corrupt_name) != 0))
			WRONG("no value of %s, expected of %s", event->words, corrupt_name);
		break;
	case TB_EVENT_REFUSED:
		WRONG("event %d: %s", (int)event->kind, event->words);
		break;
	default:
		break;
	}
}

/* -- the writer ------------------------------------------------------------------------------- */

static uint64_t head(void)
{
	return tb_topic_sequence(topic);
}

static void publish(uint32_t instrument, uint8_t kind, uint8_t flags)
{
	const uint64_t x = head() + 1;
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = instrument,
					  .kind = kind,
					  .flags = flags,
					  .length = sizeof(x),
					  .time_ns = 1,
					  .data = &x };

	cr_assert_lt(x, LOG_MAX);
	logs[present].written[x] = (struct written){ instrument, kind, flags };
	cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
}

static void register_names(void)
{
	char name[TB_INSTRUMENT_NAME_MAX + 1];

	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "I%u", i);
		cr_assert_eq(tb_instrument(topic, name), (int)i);
	}
}

/* A third of the records are of one instrument, whose slot is rewritten all the time. */
static void publish_any(void)
{
	static const uint8_t kinds[] = { TB_KIND_UPDATE, TB_KIND_UPDATE,     TB_KIND_UPDATE,
					 TB_KIND_CANCEL, TB_KIND_CORRECTION, TB_KIND_CLEAR,
					 TB_KIND_STATUS, TB_KIND_USER };
	const uint8_t kind = kinds[random_below(&chance, sizeof(kinds))];
	uint8_t flags = random_below(&chance, 3) == 0 ? TB_FLAG_LAST : 0;

	if (kind == TB_KIND_CORRECTION && random_below(&chance, 2) == 0)
		flags |= TB_FLAG_PAST;
	publish(random_below(&chance, 3) == 0 ? 0 : (uint32_t)random_below(&chance, INSTRUMENTS),
		kind, flags);
}

static void publish_all(void)
{
	for (uint32_t i = 0; i < INSTRUMENTS; i++)
		publish(i, TB_KIND_UPDATE, TB_FLAG_LAST);
}

/* -- the reader ------------------------------------------------------------------------------- */

static void poll(int max)
{
	cr_assert_geq(tb_poll(subscriber, max), 0, "%s", tb_error());
	cr_assert_str_empty(seen.wrong, "%s", seen.wrong);
}

static void poll_until(const uint64_t *count, uint64_t least)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (*count < least && scene_now_ms() < until_ms) {
		poll(100);
		tb_wait(subscriber, 1);
	}
	cr_assert_geq(*count, least, "found %" PRIu64 ", expected %" PRIu64, *count, least);
}

static void join_with(enum tb_from from, enum tb_gap gap)
{
	const struct tb_subscription_options options = {
		.size = sizeof(options), HANDLER, .on_event = on_event, .from = from, .gap = gap
	};

	memset(&seen, 0, sizeof(seen));
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
}

static void leave_topic(void)
{
	tb_unsubscribe(subscription);
	subscription = NULL;
}

static uint64_t counter(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

static void log_begin(void)
{
	present = !present;
	memset(logs[present].written, 0, sizeof(logs[present].written));
	logs[present].epoch = topic->shape.epoch;
}

static void topic_make(uint32_t flags)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = "t",
						  .schema = schema,
						  .slots = SLOTS,
						  .instruments = NAMES,
						  .flags = flags };

	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	marks = flags & TB_TOPIC_MARKS_MESSAGES;
	log_begin();
	register_names();
}

/* Small READs, so that an image takes long. */
static void subscriber_make(void)
{
	char address[64];
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .connect_ms = 20000,
						       .batch_bytes = 8192,
						       .read_bytes = 256,
						       .poll_us = TB_POLL_SPIN };

	scene_address(SCHEME, address, sizeof(address));
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
}

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	chance = scene_seed();
	bytewise_add(chance);
	publisher = scene_publisher(SCHEME);
	subscriber_make();
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	scene_leave();
}

TestSuite(images, .init = enter, .fini = leave, .timeout = 120);

/* -- joins ------------------------------------------------------------------------------------ */

/* What happens once in a join, at a random moment. */
enum incident { NOTHING, LAP, RESTART, END, RECONNECT };

static void restart(void)
{
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	log_begin();
	register_names();
}

static void happen(enum incident incident)
{
	if (incident == LAP)
		for (int i = 0; i < 2 * SLOTS; i++)
			publish_any();
	if (incident == RESTART)
		restart();
	if (incident == END)
		cr_assert_eq(tb_topic_end(topic), 0, "%s", tb_error());
	if (incident == RECONNECT)
		subscriber->gone_code = ECONNRESET;
}

/* In the writer's epoch. */
static uint64_t position(void)
{
	return seen.epoch == topic->shape.epoch ? seen.position : 0;
}

/* Joins with an image while the writer keeps half a ring ahead of the reader. */
static void join_paced(enum incident incident, enum tb_gap gap)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	uint64_t steps = random_below(&chance, incident == RECONNECT ? 600 : 60), begun;
	bool happened = incident == NOTHING;

	if (head() > LOG_MAX - 60 * SLOTS) {
		restart();
		publish_all();
	}
	begun = head();
	join_with(TB_FROM_IMAGE, gap);
	while (seen.completes == 0 || seen.imaging || !happened ||
	       (incident == RESTART && seen.restarts == 0) || (incident == END && !seen.ended)) {
		while (!(happened && incident == END) && head() < position() + SLOTS / 2)
			publish_any();
		if (!happened && steps-- == 0) {
			happen(incident);
			happened = true;
		}
		poll(1 + (int)random_below(&chance, 3));
		cr_assert_lt(scene_now_ms(), until_ms,
			     "found %" PRIu64 " completions at position %" PRIu64, seen.completes,
			     seen.position);
	}
	if (incident == NOTHING)
		cr_expect_geq(head() - begun, WRAPS * SLOTS, "found %" PRIu64 " records",
			      head() - begun);
	cr_expect_eq(seen.values, counter(SUBSCRIPTION_IMAGE_RECORDS));
	cr_expect_eq(seen.images, counter(SUBSCRIPTION_IMAGES));
	leave_topic();
}

/* A part of the joins of the first test. */
static unsigned long joins_of(unsigned int share)
{
	const char *given = getenv("TICKBUS_TEST_JOINS");
	const unsigned long all = given ? strtoul(given, NULL, 10) : JOINS;

	return all / share > JOINS_MIN ? all / share : JOINS_MIN;
}

static void join_often(uint32_t flags, enum incident incident, unsigned int share)
{
	const unsigned long joins = joins_of(share);
	uint64_t gaps = 0, restarts = 0;

	topic_make(flags);
	publish_all();
	for (unsigned int i = 0; i < joins; i++) {
		join_paced(incident, TB_GAP_OLDEST);
		gaps += seen.gaps;
		restarts += seen.restarts;
		cr_expect_eq(seen.images, 1 + seen.gaps + seen.restarts);
	}
	cr_expect_eq(gaps > 0, incident == LAP);
	cr_expect_eq(restarts, incident == RESTART ? joins : 0);
}

Test(images, joins_beside_a_writer_lose_nothing)
{
	join_often(0, NOTHING, 1);
}

Test(images, joins_complete_at_the_end_of_a_message)
{
	join_often(TB_TOPIC_MARKS_MESSAGES, NOTHING, 4);
}

Test(images, joins_survive_a_lap_at_any_moment)
{
	join_often(TB_TOPIC_MARKS_MESSAGES, LAP, 4);
}

Test(images, joins_survive_a_restart_at_any_moment)
{
	join_often(0, RESTART, 10);
}

/* The memory is the same, so the image goes on where it was. */
Test(images, joins_survive_a_lost_connection_at_any_moment)
{
	join_often(TB_TOPIC_MARKS_MESSAGES, RECONNECT, 20);
}

/* Some incidents in a join. A restart waits until the reader is in the present epoch. */
static void join_mixed(void)
{
	const enum tb_gap gap = random_below(&chance, 2) ? TB_GAP_IMAGE : TB_GAP_NEWEST;
	uint64_t incidents = 1 + random_below(&chance, 5), steps = random_below(&chance, 200);

	if (head() > LOG_MAX / 2) {
		restart();
		publish_all();
	}
	join_with(TB_FROM_IMAGE, gap);
	while (incidents > 0 || seen.completes == 0 || seen.imaging ||
	       seen.epoch != topic->shape.epoch) {
		while (head() < position() + SLOTS / 2)
			publish_any();
		if (head() > LOG_MAX / 4 * 3 && seen.epoch == topic->shape.epoch) {
			happen(RESTART); /* or the log would be full, for some seeds */
		} else if (incidents > 0 && steps-- == 0) {
			const enum incident any[] = { LAP, RESTART, RECONNECT };
			const enum incident next = any[random_below(&chance, 3)];

			happen(seen.epoch == topic->shape.epoch ? next : RECONNECT);
			steps = random_below(&chance, 100);
			incidents--;
		}
		poll(1 + (int)random_below(&chance, 100));
	}
	leave_topic();
}

Test(images, joins_survive_incidents_that_follow_each_other)
{
	topic_make(TB_TOPIC_MARKS_MESSAGES);
	publish_all();
	for (unsigned long i = 0; i < joins_of(25); i++)
		join_mixed();
}

/* The end of the topic ends the open message. */
Test(images, image_completes_before_the_end)
{
	for (unsigned long i = 0; i < joins_of(50); i++) {
		topic_make(i % 2 ? TB_TOPIC_MARKS_MESSAGES : 0);
		publish_all();
		join_paced(END, TB_GAP_OLDEST);
		cr_expect_eq(seen.complete_at, head());
		cr_expect_eq(seen.completes, 1);
		tb_publisher_close(publisher);
		publisher = scene_publisher(SCHEME);
		tb_subscriber_close(subscriber);
		subscriber_make();
	}
}

/* -- single cases ----------------------------------------------------------------------------- */

Test(images, value_older_than_the_ring_comes_in_the_image)
{
	topic_make(0);
	publish(7, TB_KIND_UPDATE, 0);
	publish(8, TB_KIND_UPDATE, 0);
	publish(8, TB_KIND_CLEAR, 0);
	for (int i = 0; i < 3 * SLOTS; i++)
		publish(9, TB_KIND_UPDATE, 0);
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.value[7], 1);
	cr_expect_eq(seen.values, 2, "a clear of an unknown instrument is no news");
	cr_expect_eq(seen.complete_at, head());
	cr_expect_eq(seen.lost, 0);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 0);
	leave_topic();
}

Test(images, empty_topic_completes_at_0)
{
	topic_make(TB_TOPIC_MARKS_MESSAGES);
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.values, 0);
	cr_expect_eq(seen.complete_at, 0);
	publish(3, TB_KIND_UPDATE, TB_FLAG_LAST);
	poll_until(&seen.position, 1);
	leave_topic();
}

/* A flush in the middle of a message shows its first records. */
Test(images, open_message_delays_the_completion)
{
	topic_make(TB_TOPIC_MARKS_MESSAGES);
	publish(1, TB_KIND_UPDATE, TB_FLAG_LAST);
	publish(2, TB_KIND_UPDATE, 0);
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	poll_until(&seen.values, 2);
	for (int i = 0; i < 1000; i++)
		poll(10);
	cr_expect_eq(seen.completes, 0);
	publish(3, TB_KIND_UPDATE, TB_FLAG_LAST);
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.complete_at, 3);
	leave_topic();
}

/* There is always a record too. */
Test(images, polls_for_one_record_get_values_too)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	topic_make(0);
	publish_all();
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	while (seen.completes == 0 && head() < LOG_MAX - SLOTS && scene_now_ms() < until_ms) {
		while (head() < seen.position + SLOTS / 2)
			publish(3, TB_KIND_UPDATE, 0);
		poll(1);
	}
	cr_expect_eq(seen.completes, 1, "found %" PRIu64 " values", seen.values);
	leave_topic();
}

/* -- damage ----------------------------------------------------------------------------------- */

static struct slot *value_of(uint32_t instrument)
{
	return (struct slot *)(void *)(topic->last_value + (size_t)instrument * topic->slot_bytes);
}

/* A publisher that stores a record of this kind as a value, with a true check. */
static void store(uint32_t instrument, uint64_t sequence, uint8_t kind)
{
	struct record record = {
		.sequence = sequence, .instrument = instrument, .length = 8, .kind = kind
	};

	memcpy(record.payload, &sequence, sizeof(sequence));
	record_store(value_of(instrument), &record, true, topic->salt);
}

static void join_damaged(void)
{
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	seen.damaged = true;
}

/* After the end no record is reserved, so each failed copy is a proof. */
Test(images, unreadable_values_are_reported_before_the_end)
{
	topic_make(TB_TOPIC_MARKS_MESSAGES);
	for (uint32_t i = 0; i < 5; i++)
		publish(i, TB_KIND_UPDATE, 0);
	cr_assert_eq(tb_topic_end(topic), 0, "%s", tb_error());
	store(1, 2, TB_KIND_CANCEL);
	store(2, 3, TB_KIND_QUALITY);
	atomic_fetch_xor(&value_of(3)->word[3], 1); /* its check */
	topic->directory[4 * DIRECTORY_ENTRY_BYTES] ^= 1;
	join_damaged();
	while (!seen.ended)
		poll(10);
	cr_expect_eq(seen.unreadable, 4);
	cr_expect_eq(seen.values, 1);
	cr_expect_eq(seen.completes, 1);
	cr_expect_eq(seen.complete_at, 5);
	leave_topic();
}

/* While the topic lives, its writer may be in a value that no line counts yet. */
Test(images, unreadable_value_of_a_live_topic_waits_for_the_ring)
{
	topic_make(0);
	publish(0, TB_KIND_UPDATE, 0);
	publish(1, TB_KIND_UPDATE, 0);
	atomic_fetch_xor(&value_of(1)->word[3], 1);
	join_damaged();
	poll_until(&seen.values, 1);
	for (int i = 0; i < 30; i++) {
		poll(10);
		tb_wait(subscriber, 1);
	}
	cr_expect_eq(seen.completes, 0);
	publish(1, TB_KIND_UPDATE, 0);
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.unreadable, 0);
	cr_expect_eq(seen.values, 1);
	cr_expect_eq(seen.complete_at, 3);
	leave_topic();
}

/* Its writer may be stopped while it writes the line: a sleeper looks at a pace. */
Test(images, invalid_line_is_looked_at_at_a_pace)
{
	const struct tb_source *source;

	topic_make(0);
	publish(0, TB_KIND_UPDATE, 0);
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	source = tb_subscription_source(subscription, "t");
	cr_assert_eq(source->mapping.image->phase, IMAGE_RANGE);
	atomic_fetch_xor(&topic->line->word[7], 1);
	for (int i = 0; i < 10; i++)
		poll(10);
	cr_expect_eq(pull_image_work(source), VALUE_WORK_SOON);
	atomic_fetch_xor(&topic->line->word[7], 1);
	poll_until(&seen.completes, 1);
	leave_topic();
}

/* A record that is not readable is a gap, and the image begins again behind it. */
Test(images, corrupt_record_begins_the_image_again)
{
	topic_make(0);
	publish(1, TB_KIND_UPDATE, 0);
	join_with(TB_FROM_OLDEST, TB_GAP_IMAGE);
	poll_until(&seen.position, 1);
	publish(1, TB_KIND_UPDATE, 0);
	publish(2, TB_KIND_UPDATE, 0);
	topic->ring[(2 & topic->slot_mask) * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 1;
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.lost, 1);
	cr_expect_eq(seen.base, 2);
	cr_expect_eq(seen.value[1], 2);
	cr_expect_eq(seen.complete_at, 3);
	leave_topic();
}

/* -- gap policies ----------------------------------------------------------------------------- */

static void lapped(enum tb_from from, enum tb_gap gap)
{
	topic_make(0);
	publish(1, TB_KIND_UPDATE, 0);
	publish(2, TB_KIND_UPDATE, 0);
	join_with(from, gap);
	if (from == TB_FROM_IMAGE)
		poll_until(&seen.completes, 1);
	else
		poll_until(&seen.position, 2);
	publish(1, TB_KIND_UPDATE, 0);
	publish(2, TB_KIND_CLEAR, 0);
	publish(5, TB_KIND_UPDATE, 0);
	for (int i = 0; i < 2 * SLOTS; i++)
		publish(9, TB_KIND_UPDATE, 0);
}

Test(images, image_after_a_lap_equals_the_table)
{
	lapped(TB_FROM_OLDEST, TB_GAP_IMAGE);
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.value[1], 3);
	cr_expect_eq(seen.value[2], 0, "the stored clear was delivered");
	cr_expect_eq(seen.value[5], 5);
	cr_expect_geq(seen.values, 3);
	cr_expect_eq(seen.gaps, 1);
	poll_until(&seen.position, head());
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS) + seen.lost, head());
	leave_topic();
}

Test(images, complete_image_is_not_repeated_after_a_lap)
{
	lapped(TB_FROM_IMAGE, TB_GAP_OLDEST);
	poll_until(&seen.position, head());
	cr_expect_eq(seen.images, 1);
	cr_expect_eq(seen.gaps, 1);
	leave_topic();
}

Test(images, newest_policy_skips_what_is_held)
{
	lapped(TB_FROM_OLDEST, TB_GAP_NEWEST);
	poll_until(&seen.position, head());
	cr_expect_eq(seen.gaps, 1);
	cr_expect_gt(seen.skipped, 0);
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 2);
	cr_expect_eq(counter(SUBSCRIPTION_SKIPPED), seen.skipped);
	cr_expect_eq(2 + seen.lost + seen.skipped, head());
	publish(4, TB_KIND_UPDATE, 0);
	poll_until(&seen.position, head());
	cr_expect_eq(counter(SUBSCRIPTION_RECORDS), 3);
	leave_topic();
}

/* Each poll finds the reader lapped. */
Test(images, reader_that_is_always_lapped_is_reported)
{
	topic_make(0);
	publish_all();
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	for (int i = 0; i < 100 && !seen.hurried; i++) {
		for (int k = 0; k < 2 * SLOTS; k++)
			publish_any();
		for (int k = 0; k < 4; k++)
			poll(2);
	}
	cr_expect(seen.hurried);
	cr_expect_geq(seen.images, 9);
	poll_until(&seen.completes, 1);
	leave_topic();
}

Test(images, slow_reader_of_policy_image_is_repaired_often)
{
	topic_make(TB_TOPIC_MARKS_MESSAGES);
	publish_all();
	join_with(TB_FROM_NEWEST, TB_GAP_IMAGE);
	for (int i = 0; i < 100; i++) {
		const uint64_t records = random_below(&chance, 3 * SLOTS);

		for (uint64_t k = 0; k < records; k++)
			publish_any();
		for (int k = 0; k < 30; k++)
			poll(1 + (int)random_below(&chance, 60));
		if (i % 20 == 19) { /* a slow device completes none so far */
			happen(LAP);
			publish(1, TB_KIND_UPDATE, TB_FLAG_LAST);
			poll_until(&seen.completes, seen.completes + 1);
		}
	}
	publish(1, TB_KIND_UPDATE, TB_FLAG_LAST);
	poll_until(&seen.position, head());
	cr_expect_geq(seen.completes, 5);
	leave_topic();
}

/* Sequences of the old epoch are higher. */
Test(images, image_after_a_restart_and_a_lap_equals_the_table)
{
	topic_make(0);
	for (int i = 0; i < 3; i++)
		publish_all();
	join_with(TB_FROM_IMAGE, TB_GAP_IMAGE);
	poll_until(&seen.completes, 1);
	restart();
	publish(5, TB_KIND_UPDATE, 0);
	poll_until(&seen.completes, 2);
	publish(8, TB_KIND_UPDATE, 0); /* is lost */
	for (int i = 0; i < 2 * SLOTS; i++)
		publish(7, TB_KIND_UPDATE, 0);
	poll_until(&seen.completes, 3);
	cr_expect_eq(seen.gaps, 1);
	cr_expect_eq(seen.value[5], 1);
	cr_expect_eq(seen.value[8], 2);
	poll_until(&seen.position, head());
	leave_topic();
}

Test(images, records_before_the_join_need_no_image)
{
	topic_make(0);
	publish_all();
	join_with(TB_FROM_OLDEST, TB_GAP_IMAGE);
	poll_until(&seen.position, head());
	cr_expect_eq(seen.gaps, 1);
	cr_expect_eq(seen.images, 0);
	leave_topic();
}

/* The program has the values up to record 2 from an earlier run. */
Test(images, resume_behind_a_lap_gets_an_image)
{
	const struct tb_subscription_options options = { .size = sizeof(options),
							 HANDLER,
							 .on_event = on_event,
							 .from = TB_FROM_SEQUENCE,
							 .sequence = 3,
							 .gap = TB_GAP_IMAGE };

	topic_make(0);
	publish(1, TB_KIND_UPDATE, 0);
	publish(2, TB_KIND_UPDATE, 0);
	publish(2, TB_KIND_CLEAR, 0);
	publish(5, TB_KIND_UPDATE, 0);
	for (int i = 0; i < 2 * SLOTS; i++)
		publish(9, TB_KIND_UPDATE, 0);
	memset(&seen, 0, sizeof(seen));
	for (uint64_t i = 1; i <= 2; i++)
		seen.value[i] = i;
	cr_assert_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.gaps, 1);
	cr_expect_eq(seen.images, 1);
	cr_expect_eq(seen.value[2], 0, "the clear that it missed");
	poll_until(&seen.position, head());
	leave_topic();
}

/* The words of a line without a check need not belong together. Its reservation may be newer than
 * its head. */
static void line_reserves(uint64_t reserved)
{
	atomic_store_explicit(&topic->line->word[offsetof(struct progress, reserved) / 8], reserved,
			      memory_order_release);
}

Test(images, gap_at_the_start_is_in_the_image)
{
	if (strcmp(SCHEME, "shm") != 0)
		cr_skip_test("topics without checks are for shared memory");
	topic_make(TB_TOPIC_UNCHECKED);
	publish(1, TB_KIND_UPDATE, 0);
	line_reserves(head() + SLOTS + 2);
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	publish(2, TB_KIND_UPDATE, 0);
	publish(3, TB_KIND_UPDATE, 0);
	publish(9, TB_KIND_UPDATE, 0);
	poll_until(&seen.position, head());
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.gaps, 1);
	cr_expect_eq(counter(SUBSCRIPTION_LOST_OVERRUN), 2);
	cr_expect_eq(seen.value[2], 2);
	cr_expect_eq(seen.value[3], 3);
	leave_topic();
}

Test(images, newest_policy_skips_nothing_behind_a_corrupt_record)
{
	topic_make(0);
	publish(1, TB_KIND_UPDATE, 0);
	join_with(TB_FROM_OLDEST, TB_GAP_NEWEST);
	poll_until(&seen.position, 1);
	for (int i = 0; i < SLOTS / 2; i++)
		publish(2, TB_KIND_UPDATE, 0);
	topic->ring[(size_t)2 * topic->slot_bytes] = 0x55; /* its sequence */
	poll_until(&seen.position, head());
	cr_expect_eq(seen.gaps, 1);
	cr_expect_eq(seen.lost, 1);
	cr_expect_eq(seen.skipped, 0);
	leave_topic();
}

/* -- slots that cannot be read ---------------------------------------------------------------- */

static uint64_t *slot_of(uint32_t instrument)
{
	return (uint64_t *)(void *)(topic->last_value + (size_t)instrument * topic->slot_bytes);
}

/* Sequence 0 says that a write is in progress. The writer has reserved more than it wrote: as long
 * as it rests, no copy proves a slot corrupt, however many there are. */
static void slot_corrupt(uint32_t instrument, const char *name)
{
	topic_make(TB_TOPIC_MARKS_MESSAGES);
	publish_all();
	publish(3, TB_KIND_UPDATE, TB_FLAG_LAST);
	cr_assert_gt(topic->progress.reserved, head());
	slot_of(instrument)[0] = 0;
	corrupt = (int)instrument;
	corrupt_name = name;
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
}

/* Over a slow device the pause before the next pass is always over. So it is here, over each
 * device: the pass begins once the reader has come to the line. */
static void poll_slow(void)
{
	const struct tb_source *source = subscription->sources;

	if (source && source->mapping.image && source->mapping.image->phase == IMAGE_BEHIND)
		clock_pass_ns(RETRY_NS);
	poll(10);
}

static void publish_until(const uint64_t *count, uint64_t least)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (*count < least && scene_now_ms() < until_ms) {
		if (head() < seen.position + SLOTS / 2)
			publish(3, TB_KIND_UPDATE, TB_FLAG_LAST);
		poll_slow();
		if (head() > LOG_MAX / 2)
			tb_wait(subscriber, 1);
	}
	cr_assert_geq(*count, least, "found %" PRIu64 ", expected %" PRIu64, *count, least);
}

Test(images, slot_that_is_torn_forever_is_reported_in_its_image)
{
	slot_corrupt(7, "I7");
	publish_until(&seen.completes, 1);
	cr_expect_eq(seen.without_value, 1);
	cr_expect_eq(seen.value[7], 0);
	cr_expect_geq(counter(SUBSCRIPTION_TORN), TRIES_MAX);
	leave_topic();
}

/* Polls until so many copies have failed. They prove nothing. */
static void copies_fail(uint64_t copies)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (counter(SUBSCRIPTION_TORN) < copies && scene_now_ms() < until_ms)
		poll_slow();
	cr_assert_geq(counter(SUBSCRIPTION_TORN), copies);
	cr_expect_eq(seen.completes, 0);
}

Test(images, slot_that_is_torn_for_a_while_comes_in_the_image)
{
	slot_corrupt(7, "");
	copies_fail(2 * TRIES_MAX);
	slot_of(7)[0] = 8;
	corrupt = -1;
	publish_until(&seen.completes, 1);
	cr_expect_eq(seen.value[7], 8);
	cr_expect_eq(seen.without_value, 0);
	leave_topic();
}

/* The ring brings the next value. */
Test(images, slot_that_is_torn_until_its_next_value_needs_no_copy)
{
	slot_corrupt(7, "");
	poll_until(&seen.values, INSTRUMENTS - 1);
	copies_fail(2 * TRIES_MAX);
	publish(7, TB_KIND_UPDATE, TB_FLAG_LAST);
	slot_of(7)[0] = 0;
	corrupt = -1;
	poll_until(&seen.completes, 1);
	cr_expect_eq(seen.without_value, 0);
	leave_topic();
}

/* By its number. */
Test(images, value_without_a_name_is_reported)
{
	topic_make(0);
	publish_all();
	memset(topic->directory + (size_t)7 * DIRECTORY_ENTRY_BYTES, 0x55, DIRECTORY_ENTRY_BYTES);
	corrupt = 7;
	corrupt_name = "#7";
	join_with(TB_FROM_IMAGE, TB_GAP_OLDEST);
	publish_until(&seen.completes, 1);
	cr_expect_eq(seen.without_value, 1);
	cr_expect_eq(seen.value[7], 0);
	leave_topic();
}

/* -- refusals --------------------------------------------------------------------------------- */

Test(images, topic_without_last_values_is_refused)
{
	struct tb_subscription_options options = { .size = sizeof(options),
						   HANDLER,
						   .from = TB_FROM_IMAGE };

	topic_make(TB_TOPIC_NO_LAST_VALUE);
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EOPNOTSUPP);
	cr_expect_str_eq(tb_error(), "topic t: it has no last values, which an image needs");
	options.from = TB_FROM_NEWEST;
	options.gap = TB_GAP_IMAGE;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EOPNOTSUPP);
	options.gap = TB_GAP_NEWEST;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), 0, "%s", tb_error());
}

Test(images, strict_image_and_unknown_policy_are_refused)
{
	struct tb_subscription_options options = {
		.size = sizeof(options), HANDLER, .from = TB_FROM_IMAGE, .flags = TB_STRICT
	};

	topic_make(0);
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	cr_expect_str_eq(tb_error(),
			 "subscription options: found TB_STRICT with an image, expected "
			 "one of them: no progress line bounds a stored value");
	options.from = TB_FROM_OLDEST;
	options.gap = TB_GAP_IMAGE;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	options.gap = TB_GAP_IMAGE + 1;
	cr_expect_eq(tb_subscribe(subscriber, "t", &options, &subscription), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscription options: found gap 3, expected 0 to 2");
}
