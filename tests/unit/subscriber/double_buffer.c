/* SPDX-License-Identifier: Apache-2.0 */
/* Two halves of a landing that take turns. Over a fabric whose READs complete when a test says so,
 * in any order and with any outcome, "late:NAME": a READ leaves garbage where it will land until it
 * does, and may not be posted where another one is still to land. Only those of the bus page land
 * at once: they come with time, and are none of a half's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bus/error.h"
#include "bus/shm/shm.h"
#include "publisher/state.h"
#include "subscriber/subscriber.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "tests/support/random.h"
#include "bus/clock.h"
#include "tests/support/scene.h"

#define BATCH_BYTES   8192
#define READ_SLOTS    16
#define HALF_SLOTS    (BATCH_BYTES / 2 / 64)
#define READS_OF_HALF (HALF_SLOTS / READ_SLOTS)
#define HELD_MAX      64

static struct fabric_ops late_ops;
static struct late {
	struct fabric_read held[HELD_MAX]; /* in the order in which they were posted */
	unsigned int count, places;        /* places: READs that the queue takes */
	struct fabric_completion done[HELD_MAX];
	unsigned int done_count;
	bool at_once;    /* READs complete when they are collected */
	bool page_held;  /* those of the line and of names do not, as those of slots */
	char story[512]; /* s: slots posted, S: have landed, l, L: the line */
	bool cut;        /* the connection is gone, once */
	bool silent;     /* nothing is answered, the bus page's neither */
	bool page_fails; /* the bus page's fail */
	unsigned int polls, breaks;
} late;

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct tb_source *source;
static struct notes notes;

/* -- the fabric ---------------------------------------------------------------------------------
 */

static enum fetch_kind kind_of(const struct fabric_read *read)
{
	return (enum fetch_kind)(read->tag & 0xff);
}

static void tell(char slots, char line, const struct fabric_read *read)
{
	const size_t length = strlen(late.story);
	const enum fetch_kind kind = kind_of(read);

	if ((kind == FETCH_SLOTS || kind == FETCH_PROGRESS) && length < sizeof(late.story) - 1)
		late.story[length] = kind == FETCH_SLOTS ? slots : line;
}

/* The i-th that is held completes now: it is what the memory is now, or failed. */
static void land(unsigned int i, int status)
{
	const struct fabric_read read = late.held[i];
	const volatile uint8_t *from =
		(const volatile uint8_t *)shm_view(read.remote) + read.offset;

	for (uint32_t at = 0; at < read.bytes && status == 0; at++)
		((uint8_t *)read.into)[at] = from[at];
	late.done[late.done_count++] =
		(struct fabric_completion){ .tag = read.tag, .status = status };
	tell('S', 'L', &read);
	late.count--;
	memmove(&late.held[i], &late.held[i + 1], (late.count - i) * sizeof(read));
}

static int late_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	unsigned int taken = 0;

	(void)link;
	for (; taken < count && late.count < late.places; taken++) {
		const struct fabric_read *read = &reads[taken];
		const char *into = read->into;

		for (unsigned int j = 0; j < late.count; j++) {
			const char *busy = late.held[j].into;

			cr_assert(into + read->bytes <= busy || busy + late.held[j].bytes <= into,
				  "posted where another READ is still to land");
		}
		cr_assert_lt(late.count, HELD_MAX);
		cr_assert(read->bytes > 0 && read->offset <= read->remote->bytes &&
				  read->bytes <= read->remote->bytes - read->offset,
			  "posted beyond the region");
		memset(read->into, 0xa5, read->bytes);
		late.held[late.count++] = *read;
		tell('s', 'l', read);
		if (kind_of(read) == FETCH_PAGE && !late.silent)
			land(late.count - 1, late.page_fails ? -EIO : 0);
	}
	return (int)taken;
}

static bool is_held(enum fetch_kind kind)
{
	return kind == FETCH_SLOTS ||
	       (late.page_held && (kind == FETCH_PROGRESS || kind == FETCH_NAMES));
}

static int late_reap(struct link *link, struct fabric_completion *done, unsigned int max)
{
	unsigned int count;

	(void)link;
	for (unsigned int i = 0; i < late.count;)
		if (!late.silent && (late.at_once || !is_held(kind_of(&late.held[i]))))
			land(i, 0);
		else
			i++;
	count = late.done_count < max ? late.done_count : max;
	memcpy(done, late.done, count * sizeof(*done));
	late.done_count -= count;
	memmove(late.done, late.done + count, late.done_count * sizeof(*done));
	return (int)count;
}

static unsigned int late_depth(const struct link *link)
{
	(void)link;
	return late.places;
}

static void late_break(struct link *link)
{
	late.breaks++;
	while (late.count > 0)
		land(late.count - 1, -ECONNRESET);
	shm_link_break(link);
}

static int late_poll(struct link *link)
{
	late.polls++;
	return shm_link_poll(link);
}

static enum link_state late_state(const struct link *link)
{
	const bool cut = late.cut;

	late.cut = false;
	return cut ? LINK_GONE : shm_link_state(link);
}

static const void *late_view(const struct remote *remote)
{
	(void)remote;
	return NULL;
}

static int late_sleep(struct link *link)
{
	return late.count > 0 || late.done_count > 0 || shm_sleep(link);
}

static void late_add(void)
{
	late.places = HELD_MAX;
	late_ops = shm_ops;
	late_ops.scheme = "late";
	late_ops.network = true;
	late_ops.link_poll = late_poll;
	late_ops.link_state = late_state;
	late_ops.link_break = late_break;
	late_ops.view = late_view;
	late_ops.depth = late_depth;
	late_ops.read = late_read;
	late_ops.reap = late_reap;
	late_ops.sleep = late_sleep;
	cr_assert_eq(fabric_add(&late_ops), 0);
}

/* -- the scene ----------------------------------------------------------------------------------
 */

static void enter(void)
{
	scene_enter();
	late_add();
	publisher = scene_publisher("shm");
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(double_buffer, .init = enter, .fini = leave, .timeout = 60);

/* A reader of a topic with so many slots, in which so many records are. */
static void read_on(uint32_t slots, uint64_t records, uint32_t flags)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "late:test",
						       .connect_ms = deadline_ms(),
						       .batch_bytes = BATCH_BYTES,
						       .read_bytes = READ_SLOTS * 64 };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_OLDEST,
						     .flags = flags };

	topic = scene_topic(publisher, "t", slots, 0);
	scene_publish(topic, 1, records);
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	source = subscription->sources;
	cr_assert_eq(source->halves, 2);
}

static void poll_once(void)
{
	cr_assert_geq(tb_poll(subscriber, 1000), 0, "%s", tb_error());
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition);           \
			poll_once();                                                               \
		}                                                                                  \
	} while (0)

static unsigned int kind_held(enum fetch_kind kind)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < late.count; i++)
		count += kind_of(&late.held[i]) == kind;
	return count;
}

static unsigned int slots_held(void)
{
	return kind_held(FETCH_SLOTS);
}

/* Two records were read, so that the names of their instruments are known. */
static void two_read(uint32_t flags)
{
	read_on(4096, 2, flags);
	late.at_once = true;
	UNTIL(notes.records == 2);
	late.at_once = false;
}

/* READs of both halves are under way. */
static void both_under_way(uint64_t records, uint32_t flags)
{
	two_read(flags);
	scene_publish(topic, 3, records);
	source->look = true;
	UNTIL(slots_held() == 2 * READS_OF_HALF);
	cr_assert_eq(late.count, 2 * READS_OF_HALF);
}

static void land_half(unsigned int first)
{
	for (unsigned int i = 0; i < READS_OF_HALF; i++)
		land(first, 0);
}

static uint64_t counted(enum subscription_counter counter)
{
	uint64_t value[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, value, SUBSCRIPTION_COUNTERS);
	return value[counter];
}

static void expect_all(uint64_t records)
{
	late.at_once = true;
	UNTIL(notes.last == records);
	cr_expect_eq(notes.records, records);
	cr_expect(notes.lost == 0 && notes.wrong == 0);
}

/* -- turns --------------------------------------------------------------------------------------
 */

static unsigned int under_way_while_delivered;

static void count_under_way(void *user, const struct tb_source *of, const struct tb_record *record)
{
	notes_record(user, of, record);
	under_way_while_delivered = slots_held();
}

Test(double_buffer, one_is_under_way_while_the_other_is_delivered)
{
	both_under_way(1000, 0);
	subscription->options.on_record = count_under_way;
	for (uint64_t turn = 1; turn <= 5; turn++) {
		land_half(0);
		poll_once();
		cr_assert_eq(notes.records, 2 + turn * HALF_SLOTS, "turn %" PRIu64, turn);
		cr_expect_eq(under_way_while_delivered, READS_OF_HALF);
		cr_expect_eq(slots_held(), 2 * READS_OF_HALF, "turn %" PRIu64, turn);
	}
	cr_expect_eq(counted(SUBSCRIPTION_TORN), 0);
	expect_all(1000);
}

Test(double_buffer, are_delivered_in_order_whichever_lands_first)
{
	both_under_way(1000, 0);
	land_half(READS_OF_HALF); /* the second one */
	for (int i = 0; i < 10; i++)
		poll_once();
	cr_expect_eq(notes.records, 2);
	land(1, 0);
	land(2, 0);
	land(0, 0);
	poll_once();
	cr_expect_eq(notes.records, 2, "one READ of it is under way");
	land(0, 0);
	UNTIL(notes.records == 2 + 2 * HALF_SLOTS);
	cr_expect_eq(counted(SUBSCRIPTION_TORN), 0);
	expect_all(1000);
}

Test(double_buffer, are_posted_for_what_is_hinted_at_while_the_first_is_under_way)
{
	two_read(0);
	for (uint64_t n = 3; n <= 5; n++) {
		scene_publish(topic, n, n);
		cr_assert(notices_hint(source, n));
		poll_once();
	}
	cr_assert_eq(slots_held(), 2, "the third waits for one of them");
	cr_expect_eq(late.held[0].bytes, 64, "a record that is alone is READ alone");
	cr_expect_eq(late.held[1].bytes, 64);
	expect_all(5);
}

static bool is_discovered(void)
{
	return subscriber->pulse_known && !discovery_waits(subscriber);
}

/* What it costs to keep house is not between a READ and its record, unless that does not come. */
Test(double_buffer, that_are_under_way_are_not_made_to_wait)
{
	two_read(0);
	UNTIL(is_discovered());
	clock_stop();
	scene_publish(topic, 3, 3);
	cr_assert(notices_hint(source, 3));
	subscriber->kept_ms = clock_coarse_ms();
	subscriber->woken = true;
	late.polls = 0;
	poll_once();
	cr_assert_eq(slots_held(), 1);
	for (int ms = 1; ms < HOUSEKEEP_MS; ms++) {
		clock_pass(1);
		poll_once();
	}
	cr_expect_eq(late.polls, 0);
	clock_pass(1);
	poll_once();
	cr_expect_eq(late.polls, 1, "a READ that never completes would keep us from all else");
	land(0, 0);
	clock_pass(1);
	poll_once();
	cr_expect_eq(notes.records, 3);
	cr_expect_eq(late.polls, 1);
	poll_once();
	cr_expect_eq(late.polls, 2);
}

/* But 256 topics that are joined one by one would be long in coming. */
Test(double_buffer, that_are_under_way_do_not_make_joins_wait)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	unsigned int turns = 0;

	two_read(0);
	UNTIL(is_discovered());
	scene_publish(topic, 3, 3);
	cr_assert(notices_hint(source, 3));
	poll_once();
	cr_assert_eq(slots_held(), 1);
	subscription->discover = true;
	late.polls = 0;
	while (discovery_waits(subscriber)) {
		cr_assert_lt(scene_now_ms(), until_ms, "no answer");
		subscriber->kept_ms = clock_coarse_ms() - 1;
		poll_once();
		cr_assert_eq(late.polls, ++turns, "house was not kept");
	}
	cr_expect_gt(turns, 1, "it was asked, and answered");
	expect_all(3);
}

Test(double_buffer, cover_no_more_than_the_ring)
{
	uint32_t bytes = 0;

	read_on(64, 64, 0);
	source_head(source, 1000); /* it was lapped since it looked */
	for (int i = 0; i < 10; i++)
		poll_once();
	for (unsigned int i = 0; i < late.count; i++)
		bytes += late.held[i].bytes;
	cr_expect_eq(bytes, 64 * 64);
}

/* -- signs of life ------------------------------------------------------------------------------
 */

/* Nothing is heard from here on, by a clock that goes with the polls. */
static void expect_told_in_time(void)
{
	uint64_t passed = 0;

	clock_stop();
	while (!notes.stale && passed < 2 * subscriber->stale_ms) {
		clock_pass(50);
		passed += 50;
		poll_once();
	}
	cr_assert_leq(passed, subscriber->stale_ms, "stale was not told within the bound");
	while (late.breaks == 0 && passed < 4 * subscriber->stale_ms) {
		clock_pass(50);
		passed += 50;
		poll_once();
	}
	cr_expect_geq(passed, 2 * subscriber->stale_ms);
	cr_expect_eq(late.breaks, 1, "the connection was not given up");
}

/* However much there is to be read: else nobody would hear that the publisher is gone. */
Test(double_buffer, leave_the_bus_page_its_place_in_the_queue)
{
	two_read(0);
	scene_publish(topic, 3, 1000);
	late.places = 2 * READS_OF_HALF;
	source->look = true;
	UNTIL(slots_held() >= late.places - 1);
	late.silent = true;
	subscriber->page_ms = subscriber->kept_ms = 0;
	poll_once();
	cr_assert_eq(kind_held(FETCH_PAGE), 1, "there was no place for the bus page");
	cr_expect_eq(slots_held(), late.places - 1);
	expect_told_in_time();
}

Test(double_buffer, that_fill_the_queue_do_not_hide_that_nothing_is_heard)
{
	both_under_way(1000, 0);
	late.places = late.count;
	late.silent = true;
	expect_told_in_time();
	cr_expect_eq(late.done_count, 0);
}

Test(double_buffer, that_are_answered_do_not_hide_that_the_bus_page_is_not)
{
	both_under_way(1000, 0);
	late.page_fails = true;
	expect_told_in_time();
}

/* As behind READs that take long, asked for by someone who was elsewhere before. */
Test(double_buffer, that_the_bus_page_waits_behind_are_no_sign_that_the_publisher_is_gone)
{
	uint64_t passed = 0;

	both_under_way(1000, 0);
	clock_stop();
	late.silent = true;
	clock_pass(10 * subscriber->stale_ms);
	for (; passed < subscriber->stale_ms / 2; passed += 50) {
		poll_once();
		cr_assert_not(notes.stale,
			      "stale was told though the page had only been asked for");
		clock_pass(50);
	}
	cr_expect_eq(kind_held(FETCH_PAGE), 1);
	late.silent = false;
	subscriber->pulse_count--; /* so that it brings news */
	poll_once();
	cr_expect_eq(kind_held(FETCH_PAGE), 0);
	cr_expect_not(notes.stale);
	late.silent = true;
	clock_pass(10 * subscriber->stale_ms);
	poll_once();
	for (passed = 0; passed < subscriber->stale_ms * 5 / 8 && !notes.stale; passed += 50) {
		clock_pass(50);
		poll_once();
	}
	cr_expect(notes.stale, "it was waited for for more than half of the bound");
}

/* -- how much a READ fetches --------------------------------------------------------------------
 */

static int open_with(uint32_t batch_bytes, uint32_t read_bytes)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "late:test",
						       .connect_ms = deadline_ms(),
						       .batch_bytes = batch_bytes,
						       .read_bytes = read_bytes };

	tb_subscriber_close(subscriber);
	return tb_subscriber_open(&subscriber, &options);
}

Test(double_buffer, of_reads_that_are_too_small_or_too_large_are_refused)
{
	cr_expect_eq(open_with(65536, 2047), -EINVAL);
	cr_expect_str_eq(tb_error(), "subscriber options: read_bytes: found 2047, expected 2048 to "
				     "65536");
	cr_expect_eq(open_with(65536, 65537), -EINVAL);
	cr_expect_eq(open_with(65536, 2048), 0, "%s", tb_error());
	cr_expect_eq(open_with(65536, 65536), 0, "%s", tb_error());
	cr_assert_eq(open_with(65536, 0), 0, "%s", tb_error());
	cr_expect_eq(subscriber->read_bytes, 8192);
	cr_assert_eq(open_with(16 << 20, 0), 0, "%s", tb_error());
	cr_expect_eq(subscriber->read_bytes, 1 << 19);
}

/* A landing that has no room for two of them is not halved. */
Test(double_buffer, are_one_where_a_read_fills_the_landing)
{
	scene_publish(topic = scene_topic(publisher, "t", 1024, 0), 1, 500);
	cr_assert_eq(open_with(8192, 8192), 0, "%s", tb_error());
	source = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes)->sources;
	subscription = source->subscription;
	cr_expect_eq(source->halves, 1);
	UNTIL(late.count > 0);
	cr_expect_eq(late.held[0].bytes, 8192);
	expect_all(500);
}

static void on_large(void *user, const struct tb_source *of, const struct tb_record *record)
{
	notes_record(user, of, record);
	cr_expect_eq(record->length, 800);
}

Test(double_buffer, of_slots_that_are_larger_than_a_read_are_read_slot_by_slot)
{
	struct tb_schema *schema =
		scene_schema("large", 1, "- {name: x, type: 'u64[100]', doc: d}\n");
	const struct tb_topic_options large = {
		.size = sizeof(large), .name = "t", .schema = schema, .slots = 64, .instruments = 1
	};
	uint64_t payload[100] = { 0 };
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(payload),
					  .data = payload };

	cr_assert_eq(tb_topic_create(publisher, &large, &topic), 0, "%s", tb_error());
	tb_schema_free(schema);
	cr_assert_eq(tb_instrument(topic, "A"), 0);
	for (payload[0] = 1; payload[0] <= 20; payload[0]++)
		cr_assert_eq(tb_publish(topic, &update), 0, "%s", tb_error());
	cr_assert_eq(open_with(8192, 256), 0, "%s", tb_error());
	subscription = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	source = subscription->sources;
	subscription->options.on_record = on_large;
	UNTIL(late.count == 2 * (4096 / 832));
	for (unsigned int i = 0; i < late.count; i++)
		cr_expect_eq(late.held[i].bytes, 832);
	expect_all(20);
}

/* -- what goes wrong ----------------------------------------------------------------------------
 */

Test(double_buffer, that_failed_are_read_again_and_none_is_taken_twice)
{
	both_under_way(4000, 0);
	for (unsigned int i = 0; i < 2 * READS_OF_HALF; i++) {
		UNTIL(slots_held() == 2 * READS_OF_HALF);
		land(i, -EIO);
		while (late.count > 0)
			land(0, 0);
	}
	expect_all(4000);
	cr_expect_eq(counted(SUBSCRIPTION_TORN), 0, "what did not land was looked at");
}

/* The second half was posted behind a record that is none: it is thrown away, and its place is not
 * used before it has landed. */
Test(double_buffer, behind_a_copy_that_failed_are_thrown_away)
{
	uint64_t before;

	both_under_way(1000, 0);
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	land_half(0);
	before = counted(SUBSCRIPTION_READS);
	for (int i = 0; i < 10; i++)
		poll_once();
	cr_expect_eq(notes.records, 9);
	cr_expect_eq(slots_held(), 2 * READS_OF_HALF);
	cr_expect_eq(counted(SUBSCRIPTION_READS) - before, READS_OF_HALF + 1,
		     "the line, and the first half again");
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	expect_all(1000);
	cr_expect_eq(counted(SUBSCRIPTION_TORN), 1);
}

/* Nothing is posted nor delivered until that READ has landed; then all comes. */
static void wait_for_the_page(enum fetch_kind kind, uint64_t records)
{
	const uint64_t before = notes.records;
	uint64_t reads;

	UNTIL(kind_held(kind) == 1);
	reads = counted(SUBSCRIPTION_READS);
	for (int i = 0; i < 10; i++)
		poll_once();
	cr_expect_eq(notes.records, before, "delivered while the page is READ into");
	cr_expect_eq(counted(SUBSCRIPTION_READS), reads, "posted while the page is READ into");
	cr_expect_eq(kind_held(kind), 1);
	late.page_held = false;
	expect_all(records);
}

Test(double_buffer, wait_while_names_are_on_their_way)
{
	read_on(4096, 1000, 0);
	UNTIL(slots_held() == 2 * READS_OF_HALF);
	late.page_held = true;
	land_half(0);
	wait_for_the_page(FETCH_NAMES, 1000);
}

Test(double_buffer, are_not_posted_while_the_line_is_on_its_way)
{
	two_read(0);
	late.page_held = true;
	source->look = true;
	UNTIL(kind_held(FETCH_PROGRESS) == 1);
	scene_publish(topic, 3, 5);
	cr_assert(notices_hint(source, 5));
	wait_for_the_page(FETCH_PROGRESS, 5);
}

Test(double_buffer, that_are_to_be_proven_wait_while_the_line_is_on_its_way)
{
	both_under_way(1000, TB_STRICT);
	late.page_held = true;
	land_half(0);
	wait_for_the_page(FETCH_PROGRESS, 1000);
}

/* By a line that was asked for when it had failed: before anything is READ anew. */
Test(double_buffer, behind_a_copy_that_failed_wait_for_a_line_that_was_asked_for_afterwards)
{
	both_under_way(1000, 0);
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	late.page_held = true;
	land_half(0);
	memset(late.story, 0, sizeof(late.story));
	poll_once();
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	cr_expect_eq(notes.records, 9);
	cr_expect_str_eq(late.story, "l");
	wait_for_the_page(FETCH_PROGRESS, 1000);
	cr_expect_eq(counted(SUBSCRIPTION_TORN), 1);
}

/* That the name cannot be asked for now says nothing of its record. */
Test(double_buffer, wait_with_a_name_while_the_queue_is_full)
{
	uint64_t before;

	read_on(4096, 1000, 0);
	UNTIL(slots_held() == 2 * READS_OF_HALF);
	before = counted(SUBSCRIPTION_READS);
	land_half(0);
	late.places = late.count;
	for (int i = 0; i < 10; i++)
		poll_once();
	cr_expect_eq(notes.records, 0);
	cr_expect_eq(counted(SUBSCRIPTION_READS), before, "what had landed was thrown away");
	late.places = HELD_MAX;
	expect_all(1000);
	cr_expect_eq(counted(SUBSCRIPTION_TORN), 0);
}

/* A publisher that hangs in the middle of its line, while what has landed waits for it. */
static void wait_for_the_line(void)
{
	_Atomic uint64_t *check = &topic->line->word[7];
	const uint64_t right = atomic_load(check);
	uint64_t reads;

	atomic_store(check, right ^ 1);
	late.at_once = true;
	UNTIL(source->invalid > 2);
	clock_stop();
	for (int i = 0; i < 4; i++)
		poll_once(); /* what was asked for before has landed */
	for (int looks = 0; looks < 100; looks++) {
		clock_pass(POLL_PAGE_MS);
		reads = counted(SUBSCRIPTION_READS);
		cr_expect(pull_read_due(source));
		poll_once(); /* asks */
		for (int i = 0; i < 100; i++) {
			poll_once();
			cr_expect_not(pull_read_due(source), "who waits for it may sleep");
		}
		cr_expect_eq(counted(SUBSCRIPTION_READS) - reads, 1);
	}
	atomic_store(check, right);
	clock_pass(POLL_PAGE_MS);
}

Test(double_buffer, look_at_a_line_that_is_not_valid_at_their_pace_when_a_copy_failed)
{
	both_under_way(1000, 0);
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	land_half(0);
	wait_for_the_line();
	cr_expect_eq(notes.records, 9);
	topic->ring[10 * topic->slot_bytes + RECORD_HEADER_BYTES] ^= 0x40;
	expect_all(1000);
}

Test(double_buffer, look_at_a_line_that_is_not_valid_at_their_pace_when_it_is_to_prove_them)
{
	both_under_way(1000, TB_STRICT);
	land_half(0);
	wait_for_the_line();
	cr_expect_eq(notes.records, 2);
	expect_all(1000);
}

/* Someone on the network is always a little ahead of the records, which come all the while: what a
 * hint says is there is not when it is READ, and is when the line is looked at. */
Test(double_buffer, of_what_is_not_there_yet_cost_one_look_in_a_millisecond)
{
	uint64_t looks;

	two_read(0);
	UNTIL(is_discovered());
	late.at_once = true;
	clock_stop();
	looks = counted(SUBSCRIPTION_LOOKS);
	notices_hint(source, 30);
	poll_once();
	for (uint64_t n = 3; n < 103; n++) {
		notices_hint(source, n + 30);
		poll_once();
		scene_publish(topic, n, n);
		poll_once();
		if (n % 20 == 0)
			clock_pass(POLL_PAGE_MS);
	}
	looks = counted(SUBSCRIPTION_LOOKS) - looks;
	cr_expect_leq(looks, 100 / 20 + 2, "%" PRIu64 " looks in 5 ms", looks);
	for (int ms = 0; ms < 1000 && notes.last < 102; ms++) {
		clock_pass(POLL_PAGE_MS);
		poll_once();
	}
	expect_all(102);
}

/* Strict: only the line says what a hint is worth. Nobody else asks for it. */
Test(double_buffer, keep_their_hint_until_the_line_can_be_asked_for)
{
	uint64_t asked_ms;

	two_read(TB_STRICT);
	source->armed = true;
	UNTIL(is_discovered() && late.count == 0 && !source->look);
	late.places = 0;
	asked_ms = source->fetched_ms;
	scene_publish(topic, 3, 3);
	cr_assert(notices_hint(source, 3));
	UNTIL(source->fetched_ms > asked_ms);
	cr_expect_eq(source->hint, 3);
	late.places = HELD_MAX;
	expect_all(3);
	cr_expect_eq(source->hint, 0);
}

Test(double_buffer, that_were_overwritten_are_told_exactly)
{
	both_under_way(1000, 0);
	land_half(0);
	scene_publish(topic, 1001, 4200); /* up to slots of the second one */
	tb_topic_end(topic);
	late.at_once = true;
	UNTIL(notes.ended);
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.records, 4200 - (104 - HALF_SLOTS - 2), "%" PRIu64 " of %" PRIu64,
		     notes.records, notes.lost);
	cr_expect(strstr(notes.text, "66 B update 66\ngap 67 104 overrun\n105 A update 105\n"));
}

Test(double_buffer, are_each_proven_by_a_line_that_was_asked_for_when_they_had_landed)
{
	const char *at;
	unsigned int line_for = 0;

	both_under_way(1000, TB_STRICT);
	memset(late.story, 0, sizeof(late.story));
	land_half(0);
	poll_once();
	cr_expect_eq(notes.records, 2, "delivered before it was proven");
	UNTIL(notes.records == 2 + HALF_SLOTS);
	land_half(0);
	poll_once();
	cr_expect_eq(notes.records, 2 + HALF_SLOTS, "the line was asked for before it had landed");
	UNTIL(notes.records == 2 + 2 * HALF_SLOTS);
	for (at = late.story; (at = strchr(at, 'l')); at++)
		line_for++;
	cr_expect_eq(line_for, 2, "one line for each: %s", late.story);
	expect_all(1000);
}

/* -- ends ---------------------------------------------------------------------------------------
 */

Test(double_buffer, that_are_under_way_when_the_connection_goes_are_read_over_the_next)
{
	both_under_way(1000, 0);
	land_half(0);
	late.cut = true;
	UNTIL(!late.cut && subscriber->welcomed && !source->orphan);
	expect_all(1000);
}

Test(double_buffer, that_are_under_way_may_be_closed)
{
	both_under_way(1000, 0);
	tb_subscriber_close(subscriber);
	subscriber = NULL;
	cr_expect_eq(late.count, 0);
}

static void end_it(void *user, const struct tb_source *of, const struct tb_record *record)
{
	notes_record(user, of, record);
	tb_unsubscribe(subscription);
}

Test(double_buffer, that_are_under_way_when_a_handler_ends_it_have_landed_before_they_are_freed)
{
	both_under_way(1000, 0);
	subscription->options.on_record = end_it;
	land_half(0);
	poll_once();
	cr_expect_eq(notes.records, 3);
	cr_assert(subscriber->table[0], "it was freed while READs into it are under way");
	land_half(0);
	UNTIL(!subscriber->table[0]);
}

Test(double_buffer, are_read_to_the_end_of_an_epoch_before_the_next)
{
	both_under_way(1000, 0);
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, 3);
	UNTIL(source->has_successor);
	land_half(READS_OF_HALF);
	for (int i = 0; i < 10; i++)
		poll_once();
	cr_expect_not(notes.restarted);
	late.at_once = true;
	UNTIL(notes.restarted && notes.last == 3);
	cr_expect_eq(notes.records, 1003);
	cr_expect(notes.lost == 0 && notes.wrong == 0);
}

/* -- anything -----------------------------------------------------------------------------------
 */

/* READs land in any order, late, or fail; the writer goes on and laps; polls take few or many. */
static void anything(uint32_t slots, uint32_t flags, uint64_t *random)
{
	const uint64_t total = 20000;
	uint64_t written = 10;

	notes.quiet = true;
	read_on(slots, written, flags);
	while (!notes.ended) {
		const uint64_t draw = random_draw(random);
		uint64_t more = draw % 8 ? draw / 8 % 40 : draw / 8 % (2 * slots);

		more = more < total - written ? more : total - written;
		if (more > 0 && draw >> 40 & 1) {
			scene_publish(topic, written + 1, written + more);
			written += more;
			notices_hint(source, written + (draw >> 41) % 3);
		}
		source->look |= draw >> 50 & 1;
		for (uint64_t lands = draw >> 51 & 7; lands > 0 && late.count > 0; lands--)
			land((unsigned int)(random_draw(random) % late.count),
			     random_draw(random) % 64 ? 0 : -EIO);
		cr_assert_geq(tb_poll(subscriber, 1 + (int)(draw >> 54) % 100), 0, "%s",
			      tb_error());
		if (written == total && !topic->ended)
			tb_topic_end(topic);
	}
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(notes.records + notes.lost, total, "%" PRIu64 " and %" PRIu64 " lost",
		     notes.records, notes.lost);
	cr_expect_gt(notes.records, slots);
	cr_expect_eq(counted(SUBSCRIPTION_LOST_CORRUPT), 0);
}

Test(double_buffer, account_for_everything_whatever_their_reads_do)
{
	uint64_t random = scene_seed();

	anything(1024, 0, &random);
}

Test(double_buffer, account_for_everything_in_a_ring_that_fits_in_one)
{
	uint64_t random = scene_seed();

	anything(64, 0, &random);
}

Test(double_buffer, account_for_everything_strictly)
{
	uint64_t random = scene_seed();

	anything(1024, TB_STRICT, &random);
}
