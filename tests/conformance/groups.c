/* SPDX-License-Identifier: Apache-2.0 */
/* Topics with groups of their own, over a network that loses or refuses a group. A topic without
 * notices polls; the other topic keeps its notices. No record is lost. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/counters.h"
#include "bus/notice.h"
#include "bus/verbs/notice_udp.h"
#include "subscriber/notices.h"
#include "subscriber/state.h"
#include "tests/support/bytewise.h"
#include "tests/support/deadline.h"
#include "tests/support/multicast_fabric.h"
#include "bus/bounds.h"
#include "tests/support/scene.h"

enum { LOUD, QUIET, TOPICS };

static struct tb_publisher *publisher;
static struct tb_subscriber *subscriber;
static struct tb_topic *topics[TOPICS];
static struct tb_subscription *subscriptions[TOPICS];
static struct notes notes[TOPICS];
static char groups[TOPICS][64];

static void topic_add(int which)
{
	static const char *const names[] = { [LOUD] = "loud", [QUIET] = "quiet" };
	struct tb_schema *schema = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = names[which],
						  .schema = schema,
						  .slots = 1024,
						  .instruments = 16,
						  .flags = TB_TOPIC_MANUAL_FLUSH,
						  .multicast = groups[which] };

	snprintf(groups[which], sizeof(groups[which]), "239.77.252.%d:%d", which + 1,
		 20000 + (int)getpid() % 40000);
	cr_assert_eq(tb_topic_create(publisher, &options, &topics[which]), 0, "%s", tb_error());
	tb_schema_free(schema);
}

static void enter(void)
{
	scene_enter();
	bytewise_add(scene_seed());
	multicast_add();
	publisher = scene_publisher("multicast");
	for (int i = 0; i < TOPICS; i++)
		topic_add(i);
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	for (int i = 0; i < TOPICS; i++)
		notes_free(&notes[i]);
	scene_leave();
}

TestSuite(groups, .init = enter, .fini = leave, .timeout = 120);

static void subscribe(void)
{
	static const char *const names[] = { [LOUD] = "loud", [QUIET] = "quiet" };

	subscriber = scene_subscriber("multicast", 0);
	for (int i = 0; i < TOPICS; i++)
		subscriptions[i] = scene_subscribe(subscriber, names[i], TB_FROM_OLDEST, &notes[i]);
}

static uint64_t counter(int which, enum subscription_counter what)
{
	uint64_t values[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscriptions[which], values, SUBSCRIPTION_COUNTERS);
	return values[what];
}

static void publish(uint64_t from, uint64_t to)
{
	for (int i = 0; i < TOPICS; i++) {
		scene_publish(topics[i], from, to);
		tb_flush(topics[i]);
	}
	for (int i = 0; i < TOPICS; i++)
		cr_assert(scene_poll_until(subscriber, &notes[i].last, to), "topic %d", i);
}

static void poll_once(uint64_t until_ms)
{
	cr_assert_lt(scene_now_ms(), until_ms, "the expected state was not reached in time");
	cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
}

/* Polls until topic `which` has made 50 READs by itself, and returns the READs of the other topic.
 * Counts only while the other topic's notices arrive: a busy machine may delay them. */
static uint64_t looks_of_the_other(int which)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	uint64_t looks[TOPICS] = { 0 };

	while (looks[which] < 50) {
		const bool receives = notices_alive(subscriptions[!which]->sources);
		uint64_t before[TOPICS];

		for (int i = 0; i < TOPICS; i++)
			before[i] = counter(i, SUBSCRIPTION_READS);
		poll_once(until_ms);
		for (int i = 0; i < TOPICS && receives; i++)
			looks[i] += counter(i, SUBSCRIPTION_READS) - before[i];
	}
	return looks[!which];
}

/* A busy machine may make both topics stale for a while, but not a single topic. */
static void expect_whole(uint64_t records)
{
	for (int i = 0; i < TOPICS; i++) {
		cr_expect_eq(notes[i].records, records);
		cr_expect(notes[i].lost == 0 && notes[i].wrong == 0, "%s", notes[i].text);
	}
	cr_expect_eq(notes[LOUD].stale, notes[QUIET].stale);
}

/* The topic without notices polls its progress line; the other topic does not. */
Test(groups, lost_group_leaves_other_group_working)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	uint64_t before;

	subscribe();
	publish(1, 10);
	while (counter(LOUD, SUBSCRIPTION_NOTICES) == 0 ||
	       counter(QUIET, SUBSCRIPTION_NOTICES) == 0)
		poll_once(until_ms);
	multicast_lose(groups[QUIET], true);
	before = counter(QUIET, SUBSCRIPTION_NOTICES);
	looks_of_the_other(QUIET); /* until the loss of its notices is noticed */
	cr_expect_lt(looks_of_the_other(QUIET), 25);
	for (uint64_t x = 11; x <= 60; x++)
		publish(x, x);
	cr_expect_eq(counter(QUIET, SUBSCRIPTION_NOTICES), before,
		     "a notice of the lost group arrived");
	cr_expect_geq(
		counter(LOUD, SUBSCRIPTION_NOTICES) + counter(LOUD, SUBSCRIPTION_NOTICES_LOST), 50);
	multicast_lose(groups[QUIET], false);
	for (uint64_t x = 61; counter(QUIET, SUBSCRIPTION_NOTICES) == before; x++) {
		cr_assert_lt(scene_now_ms(), until_ms, "no notice arrived after the loss");
		publish(x, x);
	}
	expect_whole(notes[LOUD].last);
}

static uint64_t bus_id, epochs[TOPICS];

static void on_bus(void *user, const struct tb_bus_info *info)
{
	(void)user;
	bus_id = info->bus_id;
}

static void on_topic(void *user, const struct tb_topic_info *info)
{
	(void)user;
	epochs[strcmp(info->name, "quiet") == 0 ? QUIET : LOUD] = info->epoch;
}

static void inspect_topics(void)
{
	const struct tb_inspect_options inspect = { .size = sizeof(inspect),
						    .address = "multicast:test",
						    .timeout_ms = 20000 };

	cr_assert_eq(tb_inspect_topics(&inspect, NULL, on_bus, on_topic, NULL), TOPICS, "%s",
		     tb_error());
}

/* A notice of topic QUIET that a member forged, with a head before the topic's own. */
static size_t behind(uint8_t bytes[BOUND_NOTICE_BYTES_MIN])
{
	static uint64_t number = UINT64_C(1) << 40;
	struct notice_writer writer;

	notice_begin(&writer, bytes, BOUND_NOTICE_BYTES_MIN, bus_id, 0);
	notice_number(&writer, 0, number++);
	notice_entry(&writer, QUIET + 1, epochs[QUIET], 9);
	notice_seal(&writer, subscriptions[QUIET]->sources->mapping.notice_key);
	return notice_finish(&writer);
}

/* The forged datagrams do arrive: LOUD counts them as notices of other topics. */
Test(groups, forged_heads_do_not_hide_a_lost_group)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	uint8_t bytes[BOUND_NOTICE_BYTES_MIN];
	struct sockaddr_storage local, to;
	uint64_t others, from;
	size_t length;
	int fd;

	subscribe();
	publish(1, 10);
	while (counter(QUIET, SUBSCRIPTION_NOTICES) == 0)
		poll_once(until_ms);
	inspect_topics();
	cr_assert_eq(address_parse_host("127.0.0.1", &local), 0);
	cr_assert_eq(address_parse_group(groups[QUIET], &to), 0);
	fd = notice_udp_sender(&local, &to, 1, 0);
	cr_assert_geq(fd, 0, "%s", tb_error());
	multicast_lose(groups[QUIET], true);
	from = counter(QUIET, SUBSCRIPTION_READS);
	others = counter(LOUD, SUBSCRIPTION_NOTICES_OTHERS);
	while (counter(QUIET, SUBSCRIPTION_READS) < from + 50) {
		length = behind(bytes);
		send(fd, bytes, length, 0);
		poll_once(until_ms);
	}
	close(fd);
	cr_expect_gt(counter(LOUD, SUBSCRIPTION_NOTICES_OTHERS), others + 10);
}

Test(groups, unreceivable_group_falls_back_to_polling)
{
	multicast_refuse(groups[QUIET], true);
	subscribe();
	for (uint64_t x = 1; x <= 50; x++)
		publish(x, x);
	looks_of_the_other(QUIET);
	cr_expect_lt(looks_of_the_other(QUIET), 25);
	cr_expect_eq(counter(QUIET, SUBSCRIPTION_NOTICES), 0);
	cr_expect_gt(counter(LOUD, SUBSCRIPTION_NOTICES), 0);
	expect_whole(50);
}

/* Publishes until a notice of each topic arrives. */
static void until_noticed(uint64_t from)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	uint64_t before[TOPICS];

	for (int i = 0; i < TOPICS; i++)
		before[i] = counter(i, SUBSCRIPTION_NOTICES);
	for (uint64_t x = from; counter(LOUD, SUBSCRIPTION_NOTICES) == before[LOUD] ||
				counter(QUIET, SUBSCRIPTION_NOTICES) == before[QUIET];
	     x++) {
		cr_assert_lt(scene_now_ms(), until_ms, "no notice of a topic arrived");
		publish(x, x);
	}
}

Test(groups, unreceivable_group_is_retried)
{
	multicast_refuse(groups[QUIET], true);
	subscribe();
	for (uint64_t x = 1; x <= 50; x++)
		publish(x, x);
	cr_expect_eq(counter(QUIET, SUBSCRIPTION_NOTICES), 0);
	multicast_refuse(groups[QUIET], false);
	until_noticed(51);
}

Test(groups, group_whose_receiver_ended_is_retried)
{
	subscribe();
	until_noticed(1);
	multicast_end(groups[QUIET]);
	until_noticed(notes[LOUD].last + 1);
}

/* A new publisher, hence a new link. */
Test(groups, new_connection_joins_groups_again)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	uint64_t before[TOPICS];

	subscribe();
	publish(1, 10);
	while (counter(LOUD, SUBSCRIPTION_NOTICES) == 0 ||
	       counter(QUIET, SUBSCRIPTION_NOTICES) == 0)
		poll_once(until_ms);
	tb_publisher_close(publisher);
	for (int i = 0; i < TOPICS; i++)
		while (!notes[i].ended && !notes[i].stale)
			poll_once(until_ms);
	publisher = scene_publisher("multicast");
	for (int i = 0; i < TOPICS; i++) {
		before[i] = counter(i, SUBSCRIPTION_NOTICES);
		topic_add(i);
	}
	for (uint64_t x = 1; counter(LOUD, SUBSCRIPTION_NOTICES) == before[LOUD] ||
			     counter(QUIET, SUBSCRIPTION_NOTICES) == before[QUIET];
	     x++) {
		cr_assert_lt(scene_now_ms(), until_ms, "no notice after the new connection");
		for (int i = 0; i < TOPICS; i++) {
			scene_publish(topics[i], x, x);
			tb_flush(topics[i]);
		}
		for (int i = 0; i < TOPICS; i++)
			cr_assert(scene_poll_until(subscriber, &notes[i].records, 10 + x));
	}
}

Test(groups, restarted_topic_keeps_its_group)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	uint64_t before;

	subscribe();
	publish(1, 10);
	while (counter(QUIET, SUBSCRIPTION_NOTICES) == 0)
		poll_once(until_ms);
	cr_assert_eq(tb_topic_restart(topics[QUIET]), 0, "%s", tb_error());
	cr_assert(scene_poll_while(subscriber, &notes[QUIET].restarted));
	before = counter(QUIET, SUBSCRIPTION_NOTICES);
	for (uint64_t x = 1; counter(QUIET, SUBSCRIPTION_NOTICES) == before; x++) {
		cr_assert_lt(scene_now_ms(), until_ms, "no notice of the new epoch");
		scene_publish(topics[QUIET], x, x);
		tb_flush(topics[QUIET]);
		cr_assert(scene_poll_until(subscriber, &notes[QUIET].last, x));
	}
}
