/* SPDX-License-Identifier: Apache-2.0 */
/* Notices over a network: they come and are used, one can do without, and nobody is harmed by what
 * strangers send. Needs TICKBUS_TEST_RDMA. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/counters.h"
#include "bus/notice.h"
#include "bus/notice_udp.h"
#include "tests/support/random.h"
#include "tests/support/scene.h"

#define GROUP "239.77.250.1"

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct tb_subscription *subscription;
static struct notes notes;
static char address[128], group[64];

static int port(void)
{
	return 20000 + (int)getpid() % 40000;
}

static void enter(void)
{
	if (!scene_has("rdma"))
		cr_skip_test("no RDMA device: TICKBUS_TEST_RDMA is to name its address");
	snprintf(address, sizeof(address), "rdma:%s:%d", getenv("TICKBUS_TEST_RDMA"), port());
	snprintf(group, sizeof(group), GROUP ":%d", port());
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
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

static uint64_t counter(enum subscription_counter which)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, values, SUBSCRIPTION_COUNTERS);
	return values[which];
}

static void publish(uint64_t from, uint64_t to)
{
	scene_publish(topic, from, to);
	tb_flush(topic);
}

/* Publishes behind `last` until a notice came: the group was joined on both sides. The last. */
static uint64_t first_notice(uint64_t last)
{
	const uint64_t until_ms = scene_now_ms() + SCENE_DEADLINE_MS;

	while (counter(SUBSCRIPTION_NOTICES) == 0) {
		cr_assert_lt(scene_now_ms(), until_ms, "no notice came");
		publish(last + 1, last + 1);
		last++;
		cr_assert(scene_poll_until(subscriber, &notes.last, last));
	}
	return last;
}

static void tell_of_records(enum tb_notice notice)
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

Test(notices, tell_of_records_as_the_device_can)
{
	tell_of_records(TB_NOTICE_AUTO);
}

Test(notices, tell_of_records_over_udp)
{
	tell_of_records(TB_NOTICE_UDP);
}

static void come_without(enum tb_notice notice, const char *knobs)
{
	begin(notice, knobs);
	for (uint64_t last = 0; last < 100; last += 10) {
		publish(last + 1, last + 10);
		cr_assert(scene_poll_until(subscriber, &notes.last, last + 10));
	}
	cr_expect_eq(counter(SUBSCRIPTION_NOTICES), 0);
	cr_expect_eq(notes.records, 100);
}

Test(notices, are_not_needed_by_a_subscriber)
{
	come_without(TB_NOTICE_AUTO, ",notices=0");
}

Test(notices, are_not_needed_by_a_publisher)
{
	come_without(TB_NOTICE_NONE, "");
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

/* A queue pair that was not taken from its group first cannot be destroyed, and holds all the rest.
 */
Test(notices, that_a_subscriber_received_leave_nothing_behind_when_it_goes)
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
		cr_expect_eq(descriptors(), before, "after %llu", (unsigned long long)i + 1);
		notes_free(&notes);
		cr_assert_eq(tb_subscriber_open(&subscriber, &how), 0, "%s", tb_error());
		subscription = scene_subscribe(subscriber, "t", TB_FROM_NEWEST, &notes);
	}
}

/* -- strangers ----------------------------------------------------------------------------------
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

/* What anyone on the network can see and send: good marks, and whatever heads. */
static size_t forge(uint8_t bytes[NOTICE_BYTES_MAX], uint64_t *random, uint64_t head)
{
	const uint64_t heads[] = { head + 1, head + 100, head + 100000, UINT64_MAX, 0, head };
	struct notice_writer writer;
	uint64_t draw = random_draw(random);
	size_t length;

	notice_begin(&writer, bytes, NOTICE_BYTES_MAX, draw % 16 ? bus_id : draw, draw);
	notice_number(&writer, 1, draw % 3 ? draw : 7);
	notice_entry(&writer, 1, draw % 8 ? epoch : epoch + 1, heads[draw % 6]);
	notice_entry(&writer, (uint32_t)(draw >> 32), epoch, heads[draw % 5]);
	length = notice_finish(&writer);
	if (draw % 32 == 0)
		length -= 1 + draw / 64 % (length - 1);
	if (draw % 32 == 1)
		bytes[draw / 64 % length] ^= 0x40;
	return length;
}

Test(notices, of_strangers_cost_a_look_per_interval_and_never_a_gap_or_a_wrong_record)
{
	const struct tb_inspect_options inspect = { .size = sizeof(inspect),
						    .address = address,
						    .timeout_ms = 20000 };
	struct sockaddr_storage local, to;
	uint8_t bytes[NOTICE_BYTES_MAX];
	uint64_t random = scene_seed(), last, began_ms, reads, sent = 0;
	int fd;

	begin(TB_NOTICE_UDP, "");
	last = first_notice(0);
	cr_assert_eq(tb_inspect_topics(&inspect, NULL, on_bus, on_topic, NULL), 1, "%s",
		     tb_error());
	cr_assert_eq(address_parse_host(getenv("TICKBUS_TEST_RDMA"), &local), 0);
	cr_assert_eq(address_parse_host(group, &to), 0);
	fd = notice_udp_sender(&local, &to, 1, 0);
	cr_assert_geq(fd, 0, "%s", tb_error());
	reads = counter(SUBSCRIPTION_READS);
	began_ms = scene_now_ms();
	while (scene_now_ms() < began_ms + 2000) {
		for (int i = 0; i < 20; i++, sent++)
			send(fd, bytes, forge(bytes, &random, last), 0);
		cr_assert_geq(tb_poll(subscriber, 100), 0);
		if (sent % 2000 == 0) {
			publish(last + 1, last + 5);
			last += 5;
		}
	}
	cr_expect_gt(notes.last + 50, last, "strangers kept us from reading: %llu of %llu",
		     (unsigned long long)notes.last, (unsigned long long)last);
	reads = counter(SUBSCRIPTION_READS) - reads;
	cr_assert(scene_poll_until(subscriber, &notes.last, last));
	close(fd);
	cr_expect_eq(notes.records, last);
	cr_expect(notes.lost == 0 && notes.wrong == 0, "%s", notes.text);
	cr_expect_gt(counter(SUBSCRIPTION_FALSE_HINTS), 0, "the strangers were not even heard");
	cr_expect_leq(counter(SUBSCRIPTION_NOTICES_LOST), 65536 * sent,
		      "a number of a stranger counted for more than a burst");
	/* Per interval of a millisecond one READ of slots for a hint, and one to look it up; per
	 * record published the same. */
	cr_expect_leq(reads, 2 * (scene_now_ms() - began_ms) + 4 * last, "%llu READs",
		      (unsigned long long)reads);
}
