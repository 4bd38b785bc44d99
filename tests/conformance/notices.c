/* SPDX-License-Identifier: Apache-2.0 */
/* Notices over a network: they arrive and are used, both sides work without them, and forged
 * notices do no harm. Built once for each fabric that has notices, with SCHEME. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/counters.h"
#include "bus/notice.h"
#include "bus/verbs/notice_udp.h"
#include "subscriber/state.h"
#include "tests/conformance/scheme.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/random.h"
#include "bus/bounds.h"
#include "tests/support/scene.h"

#define PUBLISH_MS 40 /* between records while forged notices arrive */

static struct tb_publisher *publisher;
static struct tb_topic *topic, *quiet;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct notes notes;
static char address[128], group[64], own_group[64];

static int port(void)
{
	return 20000 + (int)getpid() % 40000;
}

/* The address of the interface that receives notices. */
static const char *host(void)
{
	return strcmp(SCHEME, "rdma") == 0 ? getenv("TICKBUS_TEST_RDMA") : "127.0.0.1";
}

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	faulty_add(scene_seed());
	if (strcmp(SCHEME, "rdma") == 0)
		snprintf(address, sizeof(address), "rdma:%s:%d", host(), port());
	else
		snprintf(address, sizeof(address), "%s:test", SCHEME);
	/* Tests run side by side, and devices distinguish groups by address only. */
	snprintf(group, sizeof(group), "239.78.%d.%d:%d", (int)getpid() >> 8 & 255,
		 (int)getpid() & 255, port());
	snprintf(own_group, sizeof(own_group), "239.79.%d.%d:%d", (int)getpid() >> 8 & 255,
		 (int)getpid() & 255, port());
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	if (scene_has(SCHEME))
		scene_leave();
}

TestSuite(notices, .init = enter, .fini = leave, .timeout = 120);

static void begin(enum tb_notice notice, const char *knobs)
{
	const char *listen[] = { address };
	struct tb_publisher_options options = { .size = sizeof(options),
						.name = "test",
						.listen = listen,
						.listen_count = 1,
						.stale_ms = 1000,
						.exit_wait_ms = UINT32_MAX,
						.log = scene_log,
						.multicast = group,
						.notice = notice };
	struct tb_subscriber_options how = { .size = sizeof(how), .connect_ms = 20000 };
	char with[160];

	snprintf(with, sizeof(with), "%s%s", address, knobs);
	how.address = with;
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	topic = scene_topic(publisher, "t", 1024, TB_TOPIC_MANUAL_FLUSH);
	cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
	subscription = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
}

static uint64_t counter_of(const struct tb_subscription *whose, enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(whose, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

static uint64_t counter(enum subscription_counter which)
{
	return counter_of(subscription, which);
}

static void publish(uint64_t from, uint64_t to)
{
	scene_publish(topic, from, to);
	tb_flush(topic);
}

/* Publishes from last + 1 on until a notice arrives, so both sides have joined the group. Returns
 * the last sequence. */
static uint64_t first_notice(uint64_t last)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (counter(SUBSCRIPTION_NOTICES) == 0) {
		cr_assert_lt(scene_now_ms(), until_ms, "no notice arrived");
		publish(last + 1, last + 1);
		last++;
		cr_assert(scene_poll_until(subscriber, &notes.last, last));
	}
	return last;
}

static void notices_announce(enum tb_notice notice)
{
	uint64_t last, before;

	begin(notice, "");
	last = first_notice(0);
	before = counter(SUBSCRIPTION_NOTICES);
	for (int i = 0; i < 50; i++, last += 10) {
		publish(last + 1, last + 10);
		cr_assert(scene_poll_until(subscriber, &notes.last, last + 10));
	}
	cr_expect_geq(counter(SUBSCRIPTION_NOTICES) + counter(SUBSCRIPTION_NOTICES_LOST),
		      before + 49);
	cr_expect_eq(notes.records, last);
	cr_expect_eq(notes.wrong, 0);
	cr_expect_eq(counter(SUBSCRIPTION_FALSE_HINTS), 0);
}

Test(notices, idle_publisher_sends_a_notice_with_each_pulse)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	begin(TB_NOTICE_AUTO, "");
	while (counter(SUBSCRIPTION_HEARTBEATS) < 2) {
		cr_assert_lt(scene_now_ms(), until_ms, "no heartbeat arrived");
		tb_poll(subscriber, 16);
		tb_wait(subscriber, 10);
	}
	cr_expect_eq(counter(SUBSCRIPTION_NOTICES), 0, "a notice announced a record");
}

Test(notices, automatic_notices_announce_records)
{
	notices_announce(TB_NOTICE_AUTO);
}

Test(notices, udp_notices_announce_records)
{
	notices_announce(TB_NOTICE_UDP);
}

static void records_arrive_without_notices(enum tb_notice notice, const char *knobs)
{
	begin(notice, knobs);
	for (uint64_t last = 0; last < 100; last += 10) {
		publish(last + 1, last + 10);
		cr_assert(scene_poll_until(subscriber, &notes.last, last + 10));
	}
	cr_expect_eq(counter(SUBSCRIPTION_NOTICES), 0);
	cr_expect_eq(notes.records, 100);
}

Test(notices, subscriber_without_notices_gets_all_records)
{
	records_arrive_without_notices(TB_NOTICE_AUTO, ",notices=0");
}

Test(notices, publisher_without_notices_delivers_all_records)
{
	records_arrive_without_notices(TB_NOTICE_NONE, "");
}

static unsigned int descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (list && readdir(list))
		count++;
	if (list)
		closedir(list);
	return count;
}

/* A queue pair that is still attached to its group cannot be destroyed, nor can what it uses. */
Test(notices, closed_subscriber_leaves_no_descriptors)
{
	struct tb_subscriber_options how = { .size = sizeof(how),
					     .address = address,
					     .connect_ms = 20000 };
	unsigned int before = 0;

	begin(TB_NOTICE_AUTO, "");
	for (uint64_t i = 0, last = 0; i < 4; i++) {
		last = first_notice(last);
		tb_subscriber_close(subscriber);
		subscriber = NULL;
		if (i == 0)
			before = descriptors();
		/* The publisher closes its end of the connection some time later. */
		for (uint64_t until_ms = scene_now_ms() + deadline_ms();
		     descriptors() > before && scene_now_ms() < until_ms;)
			sched_yield();
		cr_expect_leq(descriptors(), before, "more descriptors after %llu rounds",
			      (unsigned long long)i + 1);
		notes_free(&notes);
		cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
		subscription = scene_subscribe(subscriber, "t", TB_FROM_NEWEST, &notes);
	}
}

/* -- groups -------------------------------------------------------------------------------------
 */

/* A bus with topic "t" in its own group and "quiet" in another, and a subscriber of "quiet". */
static void begin_quiet(void)
{
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = "quiet",
						  .schema = schema,
						  .slots = 1024,
						  .instruments = 16,
						  .flags = TB_TOPIC_MANUAL_FLUSH,
						  .multicast = own_group };

	begin(TB_NOTICE_AUTO, "");
	tb_unsubscribe(subscription);
	notes_free(&notes);
	cr_assert_eq(tb_topic_create(publisher, &options, &quiet), 0, "%s", tb_error());
	tb_schema_free(schema);
	subscription = scene_subscribe(subscriber, "quiet", TB_FROM_OLDEST, &notes);
}

static void publish_quiet(uint64_t from, uint64_t to)
{
	scene_publish(quiet, from, to);
	tb_flush(quiet);
}

static uint64_t first_quiet_notice(uint64_t last)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	const uint64_t before = counter(SUBSCRIPTION_NOTICES);

	while (counter(SUBSCRIPTION_NOTICES) == before) {
		cr_assert_lt(scene_now_ms(), until_ms, "no notice arrived");
		publish_quiet(last + 1, last + 1);
		last++;
		cr_assert(scene_poll_until(subscriber, &notes.last, last));
	}
	return last;
}

Test(notices, reader_of_topic_with_own_group_gets_no_other_notices)
{
	uint64_t last, others;

	begin_quiet();
	last = first_quiet_notice(0);
	others = counter(SUBSCRIPTION_NOTICES_OTHERS); /* in flight when "t" was left */
	for (uint64_t x = 1; x <= 500; x++) {
		publish(x, x);
		if (x % 100 == 0) {
			publish_quiet(last + 1, last + 1);
			cr_assert(scene_poll_until(subscriber, &notes.last, ++last));
		}
	}
	cr_expect_eq(counter(SUBSCRIPTION_NOTICES_OTHERS), others);
	cr_expect_eq(notes.records, last);
	cr_expect(notes.lost == 0 && notes.wrong == 0, "%s", notes.text);
}

/* Notices that a fabric with faults may hold, and let out after those that were sent later. */
#define LATE_MOST (strcmp(SCHEME, "faulty") == 0 ? 10u : 0u)

/* Two subscriptions of the group of "quiet", and one of the group of "t". */
Test(notices, group_is_received_until_its_last_reader_leaves)
{
	struct notes more = { 0 }, busy = { 0 };
	struct tb_subscription *second, *third;
	uint64_t last, seen, x = 0;

	begin_quiet();
	second = scene_subscribe(subscriber, "quiet", TB_FROM_OLDEST, &more);
	third = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &busy);
	last = first_quiet_notice(0);
	cr_expect_gt(counter_of(third, SUBSCRIPTION_NOTICES_OTHERS), 0,
		     "found no notice of the other group on the shared link");
	tb_unsubscribe(second);
	last = first_quiet_notice(last); /* once more */
	tb_unsubscribe(subscription);
	while (counter_of(third, SUBSCRIPTION_NOTICES) == 0) {
		publish(x + 1, x + 1);
		cr_assert(scene_poll_until(subscriber, &busy.last, ++x));
	}
	/* Without faults, those in flight have arrived. */
	seen = counter_of(third, SUBSCRIPTION_NOTICES_OTHERS);
	publish_quiet(last + 1, last + 100);
	for (int i = 0; i < 50; i++, x++) {
		publish_quiet(last + 101 + (uint64_t)i, last + 101 + (uint64_t)i);
		publish(x + 1, x + 1);
		cr_assert(scene_poll_until(subscriber, &busy.last, x + 1));
	}
	cr_expect_leq(counter_of(third, SUBSCRIPTION_NOTICES_OTHERS), seen + LATE_MOST,
		      "notices of the group that was left still arrive");
	notes_free(&notes);
	subscription = scene_subscribe(subscriber, "quiet", TB_FROM_OLDEST, &notes);
	first_quiet_notice(last + 150);
	notes_free(&more);
	notes_free(&busy);
}

static char shown_group[64];
static const char *shown_kind;

static void on_shown(void *user, const struct tb_topic_info *info)
{
	(void)user;
	snprintf(shown_group, sizeof(shown_group), "%s", info->multicast);
	shown_kind = strcmp(info->notice, "none") == 0 ? "none" : "some";
}

Test(notices, inspection_shows_group_before_any_join)
{
	const struct tb_inspect_options inspect = { .size = sizeof(inspect),
						    .address = address,
						    .timeout_ms = 20000 };

	begin_quiet();
	cr_assert_eq(tb_inspect_topics(&inspect, "quiet", NULL, on_shown, NULL), 1, "%s",
		     tb_error());
	cr_expect_str_eq(shown_group, own_group);
	cr_expect_str_eq(shown_kind, "some");
	cr_assert_eq(tb_inspect_topics(&inspect, "t", NULL, on_shown, NULL), 1, "%s", tb_error());
	cr_expect_str_eq(shown_group, group);
}

/* -- forged notices -----------------------------------------------------------------------------
 */

static uint64_t bus_id, epoch;

static void on_bus(void *user, const struct tb_bus_info *info)
{
	(void)user;
	bus_id = info->bus_id;
}

static void on_topic(void *user, const struct tb_topic_info *info)
{
	(void)user;
	epoch = info->epoch;
}

/* A notice with valid marks and false heads. Half of them are as any host on the network can forge
 * them, half as a client that has joined the topic can. */
static size_t forge(uint8_t bytes[BOUND_NOTICE_BYTES_MAX], uint64_t *random, uint64_t head)
{
	static uint64_t number = UINT64_C(1) << 40;
	const uint64_t heads[] = { head + 1, head + 100, head + 100000, UINT64_MAX, 0, head };
	struct notice_writer writer;
	uint64_t draw = random_draw(random);
	size_t length;

	notice_begin(&writer, bytes, BOUND_NOTICE_BYTES_MAX, draw % 16 ? bus_id : draw, draw);
	notice_number(&writer, 1, draw % 3 ? number++ : 7);
	notice_entry(&writer, 1, draw % 8 ? epoch : epoch + 1, heads[draw % 6]);
	if (draw >> 63)
		notice_seal(&writer, subscription->sources->mapping.notice_key);
	notice_entry(&writer, (uint32_t)(draw >> 32), epoch, heads[draw % 5]);
	length = notice_finish(&writer);
	if (draw % 32 == 0)
		length -= 1 + draw / 64 % (length - 1);
	if (draw % 32 == 1)
		bytes[draw / 64 % length] ^= 0x40;
	return length;
}

Test(notices, forged_notices_cost_one_look_per_interval_and_no_record)
{
	const struct tb_inspect_options inspect = { .size = sizeof(inspect),
						    .address = address,
						    .timeout_ms = 20000 };
	struct sockaddr_storage local, to;
	uint8_t bytes[BOUND_NOTICE_BYTES_MAX];
	uint64_t random = scene_seed(), last, began_ms, publish_ms = 0, reads, looks, sent = 0;
	int fd;

	begin(TB_NOTICE_UDP, "");
	last = first_notice(0);
	cr_assert_eq(tb_inspect_topics(&inspect, NULL, on_bus, on_topic, NULL), 1, "%s",
		     tb_error());
	cr_assert_eq(address_parse_host(host(), &local), 0);
	cr_assert_eq(address_parse_host(group, &to), 0);
	fd = notice_udp_sender(&local, &to, 1, 0);
	cr_assert_geq(fd, 0, "%s", tb_error());
	reads = counter(SUBSCRIPTION_READS);
	looks = counter(SUBSCRIPTION_LOOKS);
	began_ms = scene_now_ms();
	while (scene_now_ms() < began_ms + 2000) {
		for (int i = 0; i < 20; i++, sent++)
			send(fd, bytes, forge(bytes, &random, last), 0);
		cr_assert_geq(tb_poll(subscriber, 100), 0);
		if (scene_now_ms() >= publish_ms) {
			publish(last + 1, last + 5);
			last += 5;
			publish_ms = scene_now_ms() + PUBLISH_MS;
		}
	}
	cr_expect_gt(notes.last + 50, last, "forged notices delayed records: read %llu of %llu",
		     (unsigned long long)notes.last, (unsigned long long)last);
	reads = counter(SUBSCRIPTION_READS) - reads;
	looks = counter(SUBSCRIPTION_LOOKS) - looks;
	cr_expect(looks > 0 && looks <= scene_now_ms() - began_ms + 1,
		  "%llu looks at the progress line in %llu ms", (unsigned long long)looks,
		  (unsigned long long)(scene_now_ms() - began_ms));
	cr_assert(scene_poll_until(subscriber, &notes.last, last));
	close(fd);
	cr_expect_eq(notes.records, last);
	cr_expect(notes.lost == 0 && notes.wrong == 0, "%s", notes.text);
	cr_expect_gt(counter(SUBSCRIPTION_FALSE_HINTS), 0, "no member's notice arrived");
	cr_expect_gt(counter(SUBSCRIPTION_NOTICES_FORGED), 0, "no stranger's notice arrived");
	cr_expect_leq(counter(SUBSCRIPTION_NOTICES_LOST), 65536 * sent,
		      "a forged number counted for more lost notices than a burst has");
	/* Per millisecond a READ of slots for a hint, and a READ of the progress line. Per record
	 * published the same. */
	cr_expect_leq(reads, 2 * (scene_now_ms() - began_ms) + 4 * last, "found %llu READs",
		      (unsigned long long)reads);
}
