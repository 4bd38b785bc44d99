/* SPDX-License-Identifier: Apache-2.0 */
/* What lost, forged and replayed notices cost a reader, beside a reader that polls at the same
 * interval. One thread takes all turns, and its clock alone passes time, so a latency counts steps
 * of that clock, not the machine's time. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/counters.h"
#include "bus/notice.h"
#include "publisher/announce.h"
#include "publisher/publisher.h"
#include "publisher/server.h"
#include "subscriber/loss_window.h"
#include "subscriber/notices.h"
#include "subscriber/state.h"
#include "tests/support/bytewise.h"
#include "tests/support/lossy_fabric.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define US              UINT64_C(1000)
#define MS              UINT64_C(1000000)
#define STEP_NS         (50 * US)
#define RECORD_NS       (5 * MS)
#define FORGE_NS        (100 * US) /* 10,000 a second */
#define INTERVAL_US     1000
#define POLLS_OF_A_STEP 4
#define STALE_MS        1000
#define WARM_RECORDS    200 /* of the first second */
#define RECORDS_MAX     5000
#define RECORDS         1200
#define ENTRIES         ((LOSSY_BYTES - NOTICE_HEADER) / NOTICE_ENTRY) /* of the longest datagram */
#define TOPICS          300 /* beside the topic that is read */

enum { NOTICED, POLLING, READERS };

struct reader {
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;
	uint64_t latency_ns[RECORDS_MAX], count, next, wrong;
	uint64_t looks; /* when the last record came */
};

static uint64_t now_ns = 1000000 * MS, seed, published_ns[WARM_RECORDS + RECORDS_MAX + 1], written;
static bool flowing;
static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct reader readers[READERS];

/* While subscribers connect, each look at the clock passes time, so that no call waits for ever. */
static int read_clock(clockid_t clock, struct timespec *now)
{
	(void)clock;
	if (flowing)
		now_ns += 100 * US;
	now->tv_sec = (time_t)(now_ns / (1000 * MS));
	now->tv_nsec = (long)(now_ns % (1000 * MS));
	return 0;
}

static const struct tb_source *source_of(const struct reader *reader)
{
	return reader->subscription->sources;
}

static uint64_t counter(const struct reader *reader, enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(reader->subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct reader *reader = user;

	(void)source;
	reader->wrong += record->sequence != ++reader->next;
	if (reader->subscription)
		reader->looks = counter(reader, SUBSCRIPTION_LOOKS);
	if (record->sequence > WARM_RECORDS && reader->count < RECORDS_MAX)
		reader->latency_ns[reader->count++] = now_ns - published_ns[record->sequence];
}

static void reader_open(struct reader *reader, const char *address)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .flags = TB_WAIT,
						       .connect_ms = 1,
						       .poll_us = INTERVAL_US };
	const struct tb_subscription_options how = {
		.size = sizeof(how), .on_record = on_record, .user = reader, .flags = TB_WAIT
	};

	flowing = true;
	cr_assert_eq(tb_subscriber_open(&reader->subscriber, &options), 0, "%s", tb_error());
	cr_assert_eq(tb_subscribe(reader->subscriber, "t", &how, &reader->subscription), 0, "%s",
		     tb_error());
	flowing = false;
}

/* -- time ----------------------------------------------------------------------------------------
 */

static void step(void)
{
	now_ns += STEP_NS;
	cr_assert_not(server_turn(publisher));
	for (int i = 0; i < POLLS_OF_A_STEP; i++)
		for (int which = 0; which < READERS; which++)
			cr_assert_geq(tb_poll(readers[which].subscriber, 100), 0, "%s", tb_error());
}

static void steps(unsigned int ms)
{
	for (uint64_t end_ns = now_ns + ms * MS; now_ns < end_ns;)
		step();
}

static void publish(void)
{
	written++;
	published_ns[written] = now_ns;
	scene_publish(topic, written, written);
	tb_flush(topic);
}

static bool is_reading(const struct reader *reader)
{
	return source_of(reader) && source_of(reader)->state == SOURCE_RUNNING;
}

static void enter(void)
{
	static const char *const listen[] = { "lossy:test" };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = listen,
						      .listen_count = 1,
						      .stale_ms = STALE_MS,
						      .topics_max = TOPICS + 1,
						      .log = scene_log };

	scene_enter();
	seed = scene_seed();
	bytewise_add(seed);
	lossy_add(seed + 1);
	clock_replace(read_clock);
	cr_assert_eq(publisher_open(&publisher, &options), 0, "%s", tb_error());
	topic = scene_topic(publisher, "t", 1024, TB_TOPIC_MANUAL_FLUSH);
	tb_instrument(topic, "A");
	tb_instrument(topic, "B");
	reader_open(&readers[NOTICED], "lossy:test");
	reader_open(&readers[POLLING], "lossy:test,notices=0");
	for (int i = 0; i < 100000 && !(is_reading(&readers[0]) && is_reading(&readers[1])); i++)
		step();
	cr_assert(is_reading(&readers[NOTICED]) && is_reading(&readers[POLLING]), "not joined");
	steps(STALE_MS); /* a pulse */
}

static void leave(void)
{
	for (int which = 0; which < READERS; which++)
		tb_subscriber_close(readers[which].subscriber);
	publisher_free(publisher);
	clock_replace(NULL);
	scene_leave();
}

TestSuite(lost_notices, .init = enter, .fini = leave, .timeout = 120);

/* -- forgers -------------------------------------------------------------------------------------
 */

struct forged {
	uint32_t sender;
	uint64_t number, head;
};

/* A notice with this tag's key, as of now. */
static void forge(struct forged forged, const uint8_t key[NOTICE_KEY_BYTES])
{
	uint8_t bytes[BOUND_NOTICE_BYTES_MIN];
	struct notice_writer writer;

	notice_begin(&writer, bytes, sizeof(bytes), publisher->bus_id, clock_real_ns());
	notice_number(&writer, forged.sender, forged.number);
	notice_entry(&writer, topic->shape.topic_id, topic->shape.epoch, forged.head);
	notice_seal(&writer, key);
	lossy_forge(bytes, notice_finish(&writer));
}

static uint64_t writer_number(void)
{
	return atomic_load(&topic->notices);
}

/* Any host of the network: it hears all notices and knows all but the key. */
static void forge_as_stranger(void)
{
	static const uint8_t wrong_key[NOTICE_KEY_BYTES] = { 1, 2, 3 };
	const uint64_t draw = random_draw(&seed),
		       heads[] = { written + 1 + draw % 64, UINT64_MAX, written, 0, written + 1 };
	struct lossy_seen seen;

	if (draw >> 60 < 8 || lossy_seen_count == 0) {
		forge((struct forged){ .sender = draw >> 50 & 1 ? topic->shape.topic_id : 0,
				       .number = writer_number() + (draw >> 40) % 1000,
				       .head = heads[(draw >> 32) % 5] },
		      wrong_key);
		return;
	}
	seen = lossy_seen[(lossy_seen_count - 1 -
			   draw % (lossy_seen_count < LOSSY_SEEN ? lossy_seen_count : LOSSY_SEEN)) %
			  LOSSY_SEEN];
	if (draw >> 60 < 12) /* a real datagram, changed */
		seen.bytes[16 + draw % (seen.length - 16)] ^= (uint8_t)(1 << (draw >> 32) % 8);
	lossy_forge(seen.bytes, seen.length);
}

/* A client that has joined the topic: it has the key. */
static uint64_t member_number[2];

static void forge_as_member(uint32_t sender, uint64_t number, uint64_t head)
{
	forge((struct forged){ sender, number, head }, topic->notice_key);
}

/* Claims records that do not exist, always under the next number. */
static void forge_false_heads(void)
{
	const uint64_t draw = random_draw(&seed);

	forge_as_member(topic->shape.topic_id, writer_number() + 1, written + 1 + draw % 64);
}

/* Says that nothing is new since the reader's last record, always ahead of the real numbers. */
static void forge_silence(void)
{
	for (uint32_t which = 0; which < 2; which++) {
		const uint64_t floor = which ? writer_number() : lossy_seen_count;

		if (member_number[which] < floor)
			member_number[which] = floor;
		forge_as_member(which ? topic->shape.topic_id : 0, ++member_number[which],
				readers[NOTICED].next);
	}
}

/* One notice with the last number that there is, for each sender. */
static void forge_last_number(void)
{
	forge_as_member(topic->shape.topic_id, UINT64_MAX, written);
	forge_as_member(0, UINT64_MAX, written);
}

/* Takes numbers that the writer never reaches, so that real notices are replays. When these
 * numbers fill the window of losses, claims a head this far ahead twice a second. */
static void forge_rarely(uint64_t ahead, bool heads)
{
	static uint64_t next_ns, count;
	const bool claims = count > LOSS_WINDOW_NUMBERS;
	const uint64_t number = UINT64_MAX / 2 + count, head = written + (claims ? ahead : 0);

	if (claims && now_ns < next_ns)
		return;
	count++;
	next_ns = now_ns + 500 * MS;
	if (heads)
		forge_as_member(0, number, head);
	forge_as_member(topic->shape.topic_id, number, head);
}

static void forge_far_head(void)
{
	forge_rarely(UINT64_MAX / 2, true);
}

static void forge_near_head(void)
{
	forge_rarely(100, false);
}

static void forge_anything(void)
{
	static void (*const kinds[])(void) = { forge_false_heads, forge_silence,
					       forge_as_stranger };

	kinds[random_draw(&seed) % 3]();
}

/* -- the bound -----------------------------------------------------------------------------------
 */

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t percentile_us(struct reader *reader, unsigned int percent)
{
	qsort(reader->latency_ns, reader->count, sizeof(reader->latency_ns[0]), by_size);
	return reader->latency_ns[(reader->count - 1) * percent / 100] / US;
}

/* A record each 5 ms, but for up to a millisecond, so that it comes at any time between two looks.
 * Returns how many looks each reader took after the first second. */
static void run(unsigned int records, void (*forger)(void), uint64_t looks[READERS])
{
	uint64_t record_ns = now_ns + RECORD_NS, forge_ns = now_ns;
	const uint64_t begun_ns = now_ns;

	while (written < WARM_RECORDS + records || readers[NOTICED].next < written ||
	       readers[POLLING].next < written) {
		if (now_ns >= record_ns && written < WARM_RECORDS + records) {
			publish();
			record_ns = begun_ns + (written + 1) * RECORD_NS + random_draw(&seed) % MS;
			for (int which = 0; which < READERS && written == WARM_RECORDS; which++)
				looks[which] = counter(&readers[which], SUBSCRIPTION_LOOKS);
		}
		for (; forger && forge_ns <= now_ns; forge_ns += FORGE_NS)
			forger();
		step();
		cr_assert_lt(now_ns - begun_ns, (WARM_RECORDS + records + 1000) * RECORD_NS,
			     "records did not arrive");
	}
	for (int which = 0; which < READERS; which++)
		looks[which] = counter(&readers[which], SUBSCRIPTION_LOOKS) - looks[which];
}

static void expect_bound(const char *what, unsigned int records, void (*forger)(void),
			 uint64_t looks[READERS])
{
	uint64_t p99_us[READERS];

	run(records, forger, looks);
	for (int which = 0; which < READERS; which++) {
		cr_expect_eq(readers[which].count, records);
		cr_expect_eq(readers[which].wrong, 0);
		p99_us[which] = percentile_us(&readers[which], 99);
	}
	fprintf(stderr, "%s: p50 %llu us, p99 %llu us, %llu looks; polling %llu, %llu, %llu\n",
		what, (unsigned long long)percentile_us(&readers[NOTICED], 50),
		(unsigned long long)p99_us[NOTICED], (unsigned long long)looks[NOTICED],
		(unsigned long long)percentile_us(&readers[POLLING], 50),
		(unsigned long long)p99_us[POLLING], (unsigned long long)looks[POLLING]);
	cr_expect_leq(2 * p99_us[NOTICED], 3 * p99_us[POLLING],
		      "%s: p99 of %llu us, while a reader that polls has %llu us", what,
		      (unsigned long long)p99_us[NOTICED], (unsigned long long)p99_us[POLLING]);
	cr_expect_leq(looks[NOTICED], looks[POLLING] + looks[POLLING] / 10,
		      "%s: %llu looks, while a reader that polls took %llu", what,
		      (unsigned long long)looks[NOTICED], (unsigned long long)looks[POLLING]);
}

#define BOUND(name, percent, records, forger)                                                      \
	Test(lost_notices, name)                                                                   \
	{                                                                                          \
		uint64_t looks[READERS];                                                           \
		lossy_lose(percent);                                                               \
		expect_bound(#name, records, forger, looks);                                       \
	}

BOUND(loss_of_1_percent_costs_at_most_polling, 1, RECORDS_MAX, NULL)
BOUND(loss_of_50_percent_costs_at_most_polling, 50, RECORDS, NULL)
BOUND(loss_of_99_percent_costs_at_most_polling, 99, RECORDS, NULL)
BOUND(loss_of_100_percent_costs_at_most_polling, 100, RECORDS, NULL)
BOUND(loss_of_1_percent_with_a_stranger_costs_at_most_polling, 1, RECORDS_MAX, forge_as_stranger)
BOUND(loss_of_50_percent_with_a_stranger_costs_at_most_polling, 50, RECORDS, forge_as_stranger)
BOUND(loss_of_99_percent_with_a_stranger_costs_at_most_polling, 99, RECORDS, forge_as_stranger)
BOUND(loss_of_100_percent_with_a_stranger_costs_at_most_polling, 100, RECORDS, forge_as_stranger)
BOUND(member_that_claims_false_heads_costs_at_most_polling, 0, RECORDS, forge_false_heads)
BOUND(member_that_hides_real_notices_costs_at_most_polling, 0, RECORDS, forge_silence)
BOUND(member_that_takes_the_last_number_costs_at_most_polling, 0, RECORDS, forge_last_number)
BOUND(member_that_hides_notices_behind_a_far_head_costs_at_most_polling, 0, RECORDS, forge_far_head)
BOUND(member_that_hides_notices_behind_a_near_head_costs_at_most_polling, 0, RECORDS,
      forge_near_head)
BOUND(far_heads_instead_of_real_notices_cost_at_most_polling, 100, RECORDS, forge_far_head)
BOUND(near_heads_instead_of_real_notices_cost_at_most_polling, 100, RECORDS, forge_near_head)
BOUND(member_that_forges_anything_costs_at_most_polling, 1, RECORDS, forge_anything)

/* Notices are relied on, whatever a stranger sends: the reader hardly polls. */
static void expect_few_looks(const char *what, void (*forger)(void))
{
	uint64_t looks[READERS];

	expect_bound(what, RECORDS, forger, looks);
	cr_expect_lt(looks[NOTICED], looks[POLLING] / 10, "%s: %llu looks", what,
		     (unsigned long long)looks[NOTICED]);
}

Test(lost_notices, notices_without_loss_need_no_polling)
{
	expect_few_looks("no loss", NULL);
}

Test(lost_notices, stranger_does_not_make_the_reader_poll)
{
	expect_few_looks("a stranger", forge_as_stranger);
	cr_expect_gt(counter(&readers[NOTICED], SUBSCRIPTION_NOTICES_FORGED), 1000);
	cr_expect_gt(counter(&readers[NOTICED], SUBSCRIPTION_NOTICES_REPLAYED), 1000);
	cr_expect_eq(counter(&readers[NOTICED], SUBSCRIPTION_FALSE_HINTS), 0);
}

/* -- repeats --------------------------------------------------------------------------------------
 */

static uint64_t pulses(void)
{
	return publisher->realms[0].pulse.count;
}

/* Notices arrive, all is read and repeated, and the next pulse is far away. */
static void rest(void)
{
	uint64_t count;

	for (int i = 0; i < 20; i++) {
		publish();
		steps(1);
	}
	for (count = pulses(); pulses() == count;)
		step();
	steps(10);
	cr_assert_eq(readers[NOTICED].next, written);
	cr_assert(notices_alive(source_of(&readers[NOTICED])));
}

static void expect_repair(const char *what)
{
	const uint64_t looks = counter(&readers[NOTICED], SUBSCRIPTION_LOOKS), count = pulses(),
		       heads = counter(&readers[NOTICED], SUBSCRIPTION_HEARTBEATS);
	uint64_t begun_ns = now_ns;

	publish();
	while (readers[NOTICED].next < written && pulses() == count)
		step();
	cr_expect_eq(pulses(), count, "%s: repaired by the pulse after %llu ms, not by the repeat",
		     what, (unsigned long long)((now_ns - begun_ns) / MS));
	cr_expect_leq(now_ns - begun_ns, 4 * MS + 4 * STEP_NS);
	cr_expect_eq(readers[NOTICED].looks, looks, "%s: by a look", what);
	cr_expect_eq(counter(&readers[NOTICED], SUBSCRIPTION_HEARTBEATS), heads + 1);
	publish();
	step();
	cr_expect(notices_alive(source_of(&readers[NOTICED])));
}

Test(lost_notices, lost_last_notice_is_repaired_by_the_repeat)
{
	rest();
	lossy_lose_next(1);
	expect_repair("lost");
}

Test(lost_notices, flush_with_a_busy_sender_is_repaired_by_the_repeat)
{
	rest();
	lossy_busy_next(1);
	expect_repair("busy");
}

Test(lost_notices, last_flush_is_repeated_once)
{
	uint64_t sent;

	rest();
	sent = lossy_seen_count;
	publish();
	steps(50);
	cr_expect_eq(lossy_seen_count, sent + 2, "%llu datagrams for one flush",
		     (unsigned long long)(lossy_seen_count - sent));
}

Test(lost_notices, flush_that_another_follows_is_not_repeated)
{
	uint64_t sent;

	rest();
	sent = lossy_seen_count;
	for (int i = 0; i < 50; i++) {
		publish();
		steps(1);
	}
	cr_expect_eq(lossy_seen_count, sent + 50, "%llu datagrams for 50 flushes",
		     (unsigned long long)(lossy_seen_count - sent));
}

/* The datagrams of one tick. */
static uint64_t tick(void)
{
	const uint64_t before = lossy_seen_count;

	announce_repeat(publisher);
	return lossy_seen_count - before;
}

/* The control thread has other work. Topics that wait are repeated by the next tick. */
Test(lost_notices, tick_repeats_a_bounded_number_of_heads)
{
	struct tb_topic *topics[TOPICS];
	struct join join = { 0 };
	char name[16];

	rest();
	for (int i = 0; i < TOPICS; i++) {
		snprintf(name, sizeof(name), "other.%d", i);
		topics[i] = scene_topic(publisher, name, 64, 0);
		scene_publish(topics[i], 1, 1);
		topics[i]->joins = &join; /* as if a client read it */
	}
	cr_expect_eq(tick(), 0, "the heads have moved");
	cr_expect_eq(tick(), (256 + ENTRIES - 1) / ENTRIES, "256 heads");
	cr_expect_eq(tick(), (TOPICS - 256 + ENTRIES - 1) / ENTRIES, "the others");
	cr_expect_eq(tick(), 0);
	for (int i = 0; i < TOPICS; i++)
		topics[i]->joins = NULL;
	scene_publish(topics[0], 2, 2);
	cr_expect_eq(tick() + tick(), 0, "a topic without a reader was repeated");
}

/* A new epoch has another key and no records. */
Test(lost_notices, restarted_topic_has_notices_of_its_new_key)
{
	uint8_t key[NOTICE_KEY_BYTES];
	uint64_t notices;

	rest();
	memcpy(key, topic->notice_key, sizeof(key));
	cr_assert_eq(tb_topic_restart(topic), 0, "%s", tb_error());
	cr_expect_neq(memcmp(key, topic->notice_key, sizeof(key)), 0);
	written = readers[NOTICED].next = readers[POLLING].next = 0;
	for (int i = 0;
	     i < 10000 && source_of(&readers[NOTICED])->mapping.shape.epoch != topic->shape.epoch;
	     i++)
		step();
	steps(10);
	notices = counter(&readers[NOTICED], SUBSCRIPTION_NOTICES);
	publish();
	steps(1);
	cr_expect_eq(counter(&readers[NOTICED], SUBSCRIPTION_NOTICES), notices + 1);
	cr_expect_eq(counter(&readers[NOTICED], SUBSCRIPTION_NOTICES_FORGED), 0);
	cr_expect_eq(readers[NOTICED].next, 1);
}

/* -- replays --------------------------------------------------------------------------------------
 */

/* A stranger sends what it heard before this subscriber joined. */
Test(lost_notices, notice_from_before_the_join_is_a_replay)
{
	struct lossy_seen heard[2];
	uint64_t noticed_ms, replayed;

	rest();
	lossy_lose(100);
	publish();
	steps(10); /* the repeat too */
	for (unsigned int i = 0; i < 2; i++)
		heard[i] = lossy_seen[(lossy_seen_count - 2 + i) % LOSSY_SEEN];
	tb_subscriber_close(readers[NOTICED].subscriber);
	readers[NOTICED] = (struct reader){ .next = written };
	reader_open(&readers[NOTICED], "lossy:test");
	while (!is_reading(&readers[NOTICED]))
		step();
	noticed_ms = source_of(&readers[NOTICED])->noticed_ms;
	replayed = counter(&readers[NOTICED], SUBSCRIPTION_NOTICES_REPLAYED);
	for (unsigned int i = 0; i < 2; i++)
		lossy_forge(heard[i].bytes, heard[i].length);
	steps(1);
	cr_expect_eq(counter(&readers[NOTICED], SUBSCRIPTION_NOTICES_REPLAYED), replayed + 2);
	cr_expect_eq(source_of(&readers[NOTICED])->noticed_ms, noticed_ms,
		     "a replay was taken for a sign that notices arrive");
}

/* No real notice arrives any more, and a stranger repeats the last that did. */
Test(lost_notices, replays_do_not_keep_a_reader_from_polling)
{
	struct lossy_seen last;
	uint64_t looks;

	rest();
	last = lossy_seen[(lossy_seen_count - 1) % LOSSY_SEEN];
	lossy_lose(100);
	for (int ms = 0; ms < 2 * STALE_MS; ms++) {
		lossy_forge(last.bytes, last.length);
		steps(1);
	}
	looks = counter(&readers[NOTICED], SUBSCRIPTION_LOOKS);
	for (int ms = 0; ms < 100; ms++) {
		lossy_forge(last.bytes, last.length);
		steps(1);
	}
	looks = counter(&readers[NOTICED], SUBSCRIPTION_LOOKS) - looks;
	cr_expect_geq(looks, 99, "%llu looks in 100 ms without a notice",
		      (unsigned long long)looks);
}

/* Each flush's own notice is lost, and each repeat arrives: a record would be some milliseconds
 * late. */
Test(lost_notices, reader_that_gets_heads_alone_polls)
{
	uint64_t looks = 0;

	rest();
	for (int i = 0; i < 2 * STALE_MS / 10; i++) {
		if (i == STALE_MS / 10 + 20)
			looks = counter(&readers[NOTICED], SUBSCRIPTION_LOOKS);
		lossy_lose_next(1);
		publish();
		steps(10);
	}
	looks = counter(&readers[NOTICED], SUBSCRIPTION_LOOKS) - looks;
	cr_expect_geq(looks, 720, "%llu looks in 800 ms without a notice of the writer",
		      (unsigned long long)looks);
}

/* All notices end at once. The bus page is written four times in the stale bound. */
Test(lost_notices, bus_page_shows_soon_that_notices_are_missing)
{
	const uint64_t looks = (rest(), counter(&readers[NOTICED], SUBSCRIPTION_LOOKS));

	lossy_lose(100);
	for (int ms = 0; ms < STALE_MS * 3 / 4; ms += 5) {
		publish();
		steps(5);
	}
	cr_expect_geq(counter(&readers[NOTICED], SUBSCRIPTION_LOOKS) - looks, STALE_MS / 4,
		      "%llu looks in %d ms without a notice",
		      (unsigned long long)(counter(&readers[NOTICED], SUBSCRIPTION_LOOKS) - looks),
		      STALE_MS * 3 / 4);
}

/* -- work -----------------------------------------------------------------------------------------
 */

/* A datagram that names these topics, the first of them last. */
static void forge_many(uint32_t first, uint32_t each)
{
	uint8_t bytes[LOSSY_BYTES];
	struct notice_writer writer;

	notice_begin(&writer, bytes, sizeof(bytes), publisher->bus_id, clock_real_ns());
	notice_number(&writer, 0, UINT64_MAX);
	for (uint32_t i = 0; notice_entry(&writer, first + i * each, topic->shape.epoch, 1) == 0;
	     i++)
		;
	lossy_forge(bytes, notice_finish(&writer));
}

/* A train of datagrams must not keep the caller's thread. */
/* Notices bring its records, so it has no other reason to read the line. */
Test(lost_notices, reader_ahead_of_the_head_learns_the_quality)
{
	struct notes notes = { .quiet = true };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_SEQUENCE,
						     .sequence = written + 4,
						     .flags = TB_WAIT };
	struct reader reader = { .subscriber = readers[NOTICED].subscriber };

	flowing = true;
	cr_assert_eq(tb_subscribe(reader.subscriber, "t", &how, &reader.subscription), 0, "%s",
		     tb_error());
	flowing = false;
	for (int i = 0; i < 100000 && !is_reading(&reader); i++)
		step();
	steps(STALE_MS);
	lossy_lose_next(1); /* a notice with a head before the start makes the reader look */
	cr_assert_eq(tb_topic_quality(topic, TB_QUALITY_SUSPECT, TB_QUALITY_USER), 0);
	scene_publish(topic, 2, how.sequence);
	tb_flush(topic);
	steps(2 * STALE_MS);
	cr_expect_eq(notes.records, 1);
	cr_expect_eq(notes.quality, TB_QUALITY_SUSPECT, "the quality before the start is missing");
}

/* The line was found invalid while no notices came. Then they come, so the reader need not poll. */
Test(lost_notices, topic_with_an_invalid_line_goes_live_when_the_line_is_valid)
{
	const struct tb_source *source = source_of(&readers[NOTICED]);
	_Atomic uint64_t *check = &topic->line->word[7];

	lossy_lose(100);
	*check ^= 1;
	steps(2 * STALE_MS);
	cr_assert(source->stale);
	lossy_lose(0);
	for (int i = 0; i < 100000 && !notices_alive(source); i++)
		step();
	cr_assert(notices_alive(source));
	*check ^= 1;
	steps(2 * STALE_MS);
	cr_expect_not(source->stale, "the topic stays stale");
}

Test(lost_notices, poll_takes_a_bounded_number_of_entries)
{
	struct tb_subscriber *subscriber = readers[NOTICED].subscriber;
	uint64_t before, most = 0, polls = 0;
	const uint64_t begun = (rest(), subscriber->datagrams);

	for (int i = 0; i < 500; i++)
		forge_many(1, 1);
	for (; subscriber->datagrams < begun + 500 && polls < 500; polls++) {
		before = subscriber->datagrams;
		cr_assert_geq(tb_poll(subscriber, 100), 0);
		if (subscriber->datagrams - before > most)
			most = subscriber->datagrams - before;
	}
	cr_expect_eq(subscriber->datagrams, begun + 500, "later polls take what is left");
	cr_expect_leq(most * ENTRIES, 256, "%llu entries in a poll",
		      (unsigned long long)(most * ENTRIES));
	cr_expect_eq(counter(&readers[NOTICED], SUBSCRIPTION_NOTICES_FORGED), 500);
}

Test(lost_notices, topic_is_used_once_in_a_datagram)
{
	rest();
	forge_many(1, 0);
	steps(1);
	cr_expect_eq(counter(&readers[NOTICED], SUBSCRIPTION_NOTICES_FORGED), 1);
}

/* With a thousand topics, a walk of all of them for each entry took milliseconds. */
Test(lost_notices, entry_finds_its_topic_without_a_walk_of_all)
{
	struct tb_subscriber *subscriber = readers[NOTICED].subscriber;
	const uint32_t used = (rest(), subscriber->table_used);
	struct tb_source **table = subscriber->table;

	forge_many(1, 0);
	subscriber->table = NULL; /* a walk would end here */
	notices_take(subscriber);
	subscriber->table = table;
	cr_expect_eq(subscriber->table_used, used);
	cr_expect_eq(counter(&readers[NOTICED], SUBSCRIPTION_NOTICES_FORGED), 1);
}
