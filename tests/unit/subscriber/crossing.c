/* SPDX-License-Identifier: Apache-2.0 */
/* What crosses on its way: joins and who asked for them, restarts and what was not read yet, lost
 * connections, signs of life and time spent elsewhere. Over a fabric that can be stopped at any
 * point, "net:NAME": shared memory that only READs reach, unless it is to be looked at. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "bus/error.h"
#include "bus/notice.h"
#include "bus/shm/shm.h"
#include "publisher/state.h"
#include "subscriber/subscriber.h"
#include "tests/support/clock.h"
#include "tests/support/deadline.h"
#include "bus/clock.h"
#include "bus/bounds.h"
#include "tests/support/scene.h"

#define STILL_MS 60000               /* the bound of a publisher that has a pulse every 15 s */
#define SOON_MS  (deadline_ms() / 2) /* before that */

#define QUEUE 16 /* notices that are received and not taken yet */

static struct fabric_ops net_ops;
static struct net {
	bool viewed;          /* memory can be looked at in place */
	enum fetch_kind held; /* READs of this kind and later ones are not taken; 0: all are */
	bool landless;        /* there is no memory for READs to land in */
	bool unanswered;      /* READs are taken, and never complete */
	bool short_once;      /* the publisher has no descriptor for the first join */
	bool succeeded;       /* and then another one takes its place */
	struct tb_schema *successor; /* of that one's topic t; NULL: it has none */
	uint32_t hold_join;          /* of this topic id: the publisher is held until let_go() */
	bool holding;
	uint32_t held_ms; /* pass at once when it is held */
	bool cut;         /* the connection is gone, once */
	bool away;        /* nobody listens */
	unsigned int leaves, reaps, tries;
	unsigned int schemas, joins; /* that were asked for */
	const char *landing;         /* of records */
	size_t landed;               /* up to here */
	uint8_t notices[QUEUE][BOUND_NOTICE_BYTES_MAX];
	size_t notice_bytes[QUEUE];
	unsigned int first_notice, notice_count;
} net;

static struct tb_publisher *publisher;
static struct tb_subscriber *subscriber;
static struct notes notes;

static struct tb_topic *topic_of(const char *name, struct tb_schema *schema);

static void let_go(void)
{
	cr_assert(net.holding, "no join was sent");
	net.holding = false;
	net.hold_join = 0;
	publisher_unlock(publisher);
}

/* -- the fabric ---------------------------------------------------------------------------------
 */

static int net_connect(struct link **link, const char *address, const void *hello, size_t bytes,
		       const struct link_calls *calls, void *user)
{
	net.tries++;
	if (net.away)
		return error_set(ECONNREFUSED, "nobody listens");
	return shm_connect(link, address, hello, bytes, calls, user);
}

static enum link_state net_state(const struct link *link)
{
	const bool cut = net.cut;

	net.cut = false;
	return cut ? LINK_GONE : shm_link_state(link);
}

/* Of this process, until the catalogue is asked for again. No page comes meanwhile: the first one
 * that does has it asked for within the same call. */
static void publisher_short(const struct control_message *said)
{
	static struct rlimit before;
	struct rlimit none;

	if (!net.short_once || net.joins != 1)
		return;
	if (said->type == CONTROL_JOIN) {
		cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
		none = (struct rlimit){ 4, before.rlim_max };
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	} else if (said->type == CONTROL_CATALOGUE) {
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
		if (net.succeeded) {
			net.succeeded = false;
			tb_publisher_close(publisher);
			publisher = scene_publisher("shm");
			if (net.successor)
				topic_of("t", net.successor);
		}
	}
}

static int net_send(struct link *link, const void *message, size_t bytes)
{
	struct control_message said;

	cr_assert_eq(control_decode(message, bytes, &said), 0, "%s", tb_error());
	net.leaves += said.type == CONTROL_LEAVE;
	net.schemas += said.type == CONTROL_SCHEMA;
	net.joins += said.type == CONTROL_JOIN;
	publisher_short(&said);
	if (said.type == CONTROL_JOIN && said.join.topic_id == net.hold_join) {
		publisher_lock(publisher);
		net.holding = true;
		clock_pass(net.held_ms);
	}
	return shm_link_send(link, message, bytes);
}

static const void *net_view(const struct remote *remote)
{
	return net.viewed ? shm_view(remote) : NULL;
}

static void *net_landing(struct link *link, size_t bytes)
{
	if (!net.landless)
		return shm_landing(link, bytes);
	error_set(ENOMEM, "no memory to land in");
	return NULL;
}

static int net_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	if (net.held && count > 0 && (reads[0].tag & 0xff) >= net.held)
		return 0;
	for (unsigned int i = 0; i < count; i++) {
		const char *into = reads[i].into;

		if ((reads[i].tag & 0xff) != FETCH_SLOTS)
			continue;
		if (!net.landing)
			net.landing = into;
		if ((size_t)(into - net.landing) + reads[i].bytes > net.landed)
			net.landed = (size_t)(into - net.landing) + reads[i].bytes;
	}
	return shm_read(link, reads, count);
}

static int net_reap(struct link *link, struct fabric_completion *done, unsigned int max)
{
	net.reaps++;
	return net.unanswered || (net.short_once && net.joins == 0) ? 0 : shm_reap(link, done, max);
}

static int net_sleep(struct link *link)
{
	return net.unanswered ? 0 : shm_sleep(link);
}

static int net_receive(struct link *link, const struct fabric_notices *notices)
{
	(void)link;
	(void)notices;
	return 0;
}

static void net_receive_end(struct link *link, const struct fabric_notices *notices)
{
	(void)link;
	(void)notices;
}

static size_t net_datagram(struct link *link, void *datagram, size_t room)
{
	const unsigned int at = net.first_notice % QUEUE;

	(void)link;
	if (net.notice_count == 0)
		return 0;
	cr_assert_leq(net.notice_bytes[at], room);
	memcpy(datagram, net.notices[at], net.notice_bytes[at]);
	net.first_notice++;
	net.notice_count--;
	return net.notice_bytes[at];
}

static void net_add(void)
{
	net_ops = shm_ops;
	net_ops.scheme = "net";
	net_ops.network = true;
	net_ops.connect = net_connect;
	net_ops.link_state = net_state;
	net_ops.link_send = net_send;
	net_ops.view = net_view;
	net_ops.landing = net_landing;
	net_ops.read = net_read;
	net_ops.reap = net_reap;
	net_ops.sleep = net_sleep;
	net_ops.receive = net_receive;
	net_ops.receive_end = net_receive_end;
	net_ops.datagram = net_datagram;
	cr_assert_eq(fabric_add(&net_ops), 0);
}

/* -- the scene ----------------------------------------------------------------------------------
 */

static void enter(void)
{
	scene_enter();
	net_add();
	publisher = scene_publisher("shm");
}

static void leave(void)
{
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(crossing, .init = enter, .fini = leave, .timeout = 60);

static void publisher_again(uint32_t stale_ms)
{
	tb_publisher_close(publisher);
	publisher = scene_publisher_of("shm", stale_ms);
}

static struct tb_source *read_on(bool viewed)
{
	net.viewed = viewed;
	subscriber = scene_subscriber("net", 0);
	return scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes)->sources;
}

static uint64_t counted(const struct tb_subscription *subscription,
			enum subscription_counter counter)
{
	uint64_t value[SUBSCRIPTION_COUNTERS];

	tb_subscription_counters(subscription, value, SUBSCRIPTION_COUNTERS);
	return value[counter];
}

/* Polls, at most `records` each time, until it is so. */
#define UNTIL(condition, records)                                                                  \
	do {                                                                                       \
		const uint64_t late_ms = scene_now_ms() + deadline_ms();                           \
		while (!(condition)) {                                                             \
			cr_assert_lt(scene_now_ms(), late_ms, "waited for " #condition ": %s",     \
				     notes.text ? notes.text : "");                                \
			cr_assert_geq(tb_poll(subscriber, records), 0, "%s", tb_error());          \
			sched_yield();                                                             \
		}                                                                                  \
	} while (0)

static bool joined(size_t joins)
{
	return tb_publisher_joins(publisher, NULL, 0) == joins;
}

/* Connected, and every topic that is to be joined has been. */
static bool served(void)
{
	bool asked = subscriber->welcomed && subscriber->discovery.phase == DISCOVERY_IDLE;

	for (struct tb_subscription *s = subscriber->subscriptions; s; s = s->next_subscription)
		asked = asked && !s->discover;
	return asked;
}

static void connect_again(void)
{
	net.cut = true;
	UNTIL(!net.cut, 100);
	UNTIL(served(), 100);
}

/* -- joins and who asked for them ---------------------------------------------------------------
 */

Test(crossing, a_grant_that_comes_after_its_subscription_went_is_given_back)
{
	struct tb_subscription *subscription;

	subscriber = scene_subscriber("net", 0);
	subscription = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	net.hold_join = 1;
	scene_topic(publisher, "t", 64, 0);
	UNTIL(net.holding, 100);
	tb_unsubscribe(subscription);
	let_go();
	UNTIL(net.leaves == 1 && joined(0), 100);
}

static struct tb_subscription *ended_inside;

static void end_inside(void *user, const struct tb_event *event)
{
	notes_event(user, event);
	tb_unsubscribe(ended_inside);
}

Test(crossing, a_subscription_that_its_handler_ends_is_not_returned_and_leaves_what_it_joins)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_schema *x = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options unfit = {
		.size = sizeof(unfit), .name = "z.a", .schema = y, .slots = 64
	};
	struct tb_topic *topic;
	struct tb_subscription_options how = { .size = sizeof(how),
					       .on_record = notes_record,
					       .on_event = end_inside,
					       .user = &notes };

	scene_topic(publisher, "t", 64, 0);
	subscriber = scene_subscriber("net", 0);
	cr_expect_eq(tb_subscribe(subscriber, "t", &how, &ended_inside), -ECANCELED);
	cr_expect_str_eq(tb_error(), "tb_subscribe: a handler ended the subscription");
	cr_expect_null(ended_inside);
	UNTIL(joined(0), 100);

	/* Refused one topic, and then the other one's join is under way: its schema is known of t.
	 */
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	how.schema = x;
	cr_assert_eq(tb_topic_create(publisher, &unfit, &topic), 0, "%s", tb_error());
	scene_topic(publisher, "z.b", 64, 0);
	net.leaves = 0;
	net.hold_join = 3;
	cr_expect_eq(tb_subscribe(subscriber, "z.*", &how, &ended_inside), -ECANCELED);
	let_go();
	UNTIL(net.leaves == 1 && joined(1), 100);
	tb_schema_free(x);
	tb_schema_free(y);
}

/* While the publisher does not answer the second one's join, the call is not over. */
Test(crossing, a_topic_that_is_refused_does_not_keep_a_pattern_from_the_others)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_schema *x = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options unfit = {
		.size = sizeof(unfit), .name = "a", .schema = y, .slots = 64
	};
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .schema = x };
	struct tb_subscription *subscription;
	struct tb_topic *topic;

	cr_assert_eq(tb_topic_create(publisher, &unfit, &topic), 0, "%s", tb_error());
	topic = scene_topic(publisher, "b", 64, 0);
	subscriber = scene_subscriber("net", 0);
	net.hold_join = 2;
	net.held_ms = subscriber->connect_ms;
	cr_expect_eq(tb_subscribe(subscriber, ">", &how, &subscription), -ETIMEDOUT);
	cr_expect(notes.refused);
	let_go();
	tb_subscriber_close(subscriber);
	notes_free(&notes);
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, ">", &how, &subscription), 0, "%s", tb_error());
	cr_expect_eq(notes.events, 2, "%s", notes.text);
	scene_publish(topic, 1, 1);
	UNTIL(notes.records == 1, 100);
	tb_schema_free(x);
	tb_schema_free(y);
}

/* As when it is opened: what the publisher is short of, is. */
Test(crossing, a_shortage_of_our_own_is_not_waited_out)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .flags = TB_WAIT };
	struct tb_subscription *subscription;

	scene_topic(publisher, "t", 64, 0);
	subscriber = scene_subscriber("net", TB_WAIT);
	net.landless = true;
	cr_expect_eq(tb_subscribe(subscriber, "t", &how, &subscription), -ENOMEM);
	cr_expect_str_eq(tb_error(), "no memory to land in");
}

/* The publisher is short at the first join, and the second is asked for in the same call. */
static int subscribe_twice(bool landless, const struct tb_schema *wanted)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .from = TB_FROM_OLDEST,
						     .flags = TB_WAIT,
						     .schema = wanted };
	struct tb_subscription *subscription;

	net.short_once = true;
	subscriber = scene_subscriber("net", 0);
	subscriber->page_ms = 0; /* it is asked for at once, and comes behind the first join */
	net.landless = landless;
	return tb_subscribe(subscriber, "t", &how, &subscription);
}

Test(crossing, a_shortage_that_is_over_before_the_call_is_is_not_waited_for)
{
	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 2);
	cr_expect_eq(subscribe_twice(false, NULL), 0);
	cr_expect_str_eq(tb_error(), "");
	cr_expect_eq(net.joins, 2);
	UNTIL(notes.records == 2, 100);
	cr_expect_str_eq(notes.text, "appeared t 1\n1 A update 1\n2 B update 2\n");
}

Test(crossing, a_shortage_of_who_is_gone_is_not_waited_for)
{
	scene_topic(publisher, "t", 64, 0);
	net.succeeded = true;
	cr_expect_eq(subscribe_twice(false, NULL), 0);
	cr_expect_str_eq(tb_error(), "net:test: bus test has no topic t, or not without a ticket");
}

Test(crossing, what_is_refused_behind_a_shortage_ends_the_call)
{
	scene_topic(publisher, "t", 64, 0);
	cr_expect_eq(subscribe_twice(true, NULL), -ENOMEM);
	cr_expect_str_eq(tb_error(), "no memory to land in");
	cr_expect_eq(net.joins, 2);
}

Test(crossing, what_is_refused_for_good_behind_a_shortage_ends_the_call)
{
	struct tb_schema *x = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");

	scene_topic(publisher, "t", 64, 0);
	net.succeeded = true;
	net.successor = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	cr_expect_eq(subscribe_twice(false, x), -EPROTO);
	cr_expect_str_eq(
		tb_error(),
		"topic t: publisher has schema y version 1, subscriber expects x version 1");
	tb_schema_free(net.successor);
	tb_schema_free(x);
}

/* In its own name, and not in the pattern's, which would be the connection's. */
Test(crossing, a_topic_that_is_refused_is_named_where_its_schema_was_known)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .schema = y };
	struct tb_subscription *subscription;

	scene_topic(publisher, "t", 64, 0);
	read_on(true);
	notes_free(&notes);
	cr_assert_eq(tb_subscribe(subscriber, ">", &how, &subscription), 0, "%s", tb_error());
	cr_expect_eq(notes.events, 1, "%s", notes.text);
	cr_expect(strstr(notes.text, "refused t 71 ") == notes.text, "%s", notes.text);
	tb_schema_free(y);
}

Test(crossing, a_shortage_is_told_again_where_something_else_was_refused_meanwhile)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_subscription *subscription;
	const char *other;

	scene_topic(publisher, "t", 64, 0);
	subscriber = scene_subscriber("net", 0);
	net.landless = true;
	subscription = scene_subscribe(subscriber, "t*", TB_FROM_OLDEST, &notes);
	cr_expect_eq(notes.events, 1, "%s", notes.text);
	subscription->options.schema = y;
	subscription->discover = true;
	UNTIL(notes.events == 2, 100);
	subscription->options.schema = NULL;
	subscription->discover = true;
	UNTIL(notes.events == 3, 100);
	other = strstr(notes.text, "refused t 71 ");
	cr_expect(other && strstr(other, "refused t 12 no memory to land in\n"), "%s", notes.text);
	tb_schema_free(y);
}

static unsigned int times_told(const char *words)
{
	unsigned int times = 0;

	for (const char *at = notes.text; (at = strstr(at, words)); at++)
		times++;
	return times;
}

/* Beside a shortage, for which the catalogue is asked with each pulse. */
Test(crossing, a_refusal_is_told_again_when_the_topics_change_and_not_with_each_pulse)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_schema *x = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .schema = x };
	struct tb_subscription *subscription;

	publisher_again(SCENE_HASTY_MS);
	topic_of("a", y);
	scene_topic(publisher, "b", 64, 0);
	subscriber = scene_subscriber("net", 0);
	net.landless = true;
	cr_assert_eq(tb_subscribe(subscriber, ">", &how, &subscription), 0, "%s", tb_error());
	UNTIL(net.joins >= 10, 100);
	cr_expect_eq(notes.events, 2, "after %u joins: %s", net.joins, notes.text);
	topic_of("c", y);
	UNTIL(times_told("refused a 71 ") == 2, 100);
	net.joins = 0;
	UNTIL(net.joins >= 10, 100);
	cr_expect_eq(times_told("refused a 71 "), 2, "after %u joins: %s", net.joins, notes.text);
	cr_expect_eq(times_told("refused b 12 "), 1, "after %u joins: %s", net.joins, notes.text);
	cr_expect_geq(times_told("refused c 71 "), 1, "%s", notes.text);
	tb_schema_free(x);
	tb_schema_free(y);
}

/* Not joined again, and not lost: its next epoch is. */
static void end_and_connect_again(bool viewed)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_source *source;

	scene_publish(topic, 1, 3);
	tb_topic_end(topic);
	source = read_on(viewed);
	UNTIL(notes.ended && joined(0), 100);
	connect_again();
	cr_expect(joined(0), "an ended topic that was read was joined again");
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, 2);
	UNTIL(notes.records == 5, 100);
	cr_expect(joined(1));
	cr_expect_not(source->orphan);
}

Test(crossing, an_ended_topic_is_not_joined_again_where_it_is_looked_at)
{
	end_and_connect_again(true);
}

Test(crossing, an_ended_topic_is_not_joined_again_where_it_is_read)
{
	end_and_connect_again(false);
}

Test(crossing, the_first_of_two_readers_at_the_end_does_not_leave_for_the_other)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct notes newest = { 0 };
	struct tb_subscription *second;

	scene_publish(topic, 1, 30);
	read_on(true);
	second = scene_subscribe(subscriber, "t", TB_FROM_NEWEST, &newest);
	tb_topic_end(topic);
	second->sources->look = true; /* as soon as it is told */
	UNTIL(newest.ended, 1);
	cr_assert_not(notes.ended);
	cr_expect_eq(net.leaves, 0);
	cr_expect(joined(1));
	UNTIL(notes.ended, 1);
	cr_expect_eq(net.leaves, 1);
	UNTIL(joined(0), 1);
	notes_free(&newest);
}

Test(crossing, an_epoch_that_is_begun_while_the_connection_is_away_is_joined_again)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_source *source;

	scene_publish(topic, 1, 60);
	source = read_on(true);
	cr_assert_eq(tb_topic_restart(topic), 0);
	/* Of the old epoch one record is read with each poll. */
	scene_publish(topic, 1, 2);
	for (int i = 0; i < 50 && !source->has_successor; i++) {
		const uint64_t late_ms = scene_now_ms() + deadline_ms();

		cr_assert_eq(tb_poll(subscriber, 1), 1);
		subscriber->kept_ms = 0; /* keep house with the next one */
		while (!tb_wait(subscriber, 20) && scene_now_ms() < late_ms)
			;
	}
	cr_assert(source->has_successor && !notes.restarted, "%s", notes.text);
	net.away = net.cut = true;
	UNTIL(notes.records == 62, 100);
	cr_assert(notes.restarted && !subscriber->welcomed);
	UNTIL(joined(0), 100);
	net.away = false;
	UNTIL(joined(1) && !source->orphan, 100);
}

/* Its successor may be there before the topic was told stale. */
Test(crossing, a_topic_that_the_next_publisher_does_not_have_is_stale_and_told_why)
{
	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 2);
	read_on(false);
	UNTIL(notes.last == 2, 100);
	net.away = net.cut = true;
	UNTIL(!net.cut && !subscriber->welcomed, 100);
	publisher_again(SCENE_STALE_MS);
	net.away = false;
	UNTIL(notes.text && strstr(notes.text, "stale 2 bus test has no topic t\n"), 100);
	scene_topic(publisher, "v", 64, 0);
	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 3);
	UNTIL(notes.records == 5, 100);
	cr_expect(strstr(notes.text, "2 B update 2\nstale\nstale 2 bus test has no topic t\n"
				     "restart 2 2\n"),
		  "%s", notes.text);
}

/* The words are not those of what a handler does before they are told. */
static void fails_when_stale(void *user, const struct tb_event *event)
{
	notes_event(user, event);
	if (event->kind == TB_EVENT_STALE)
		cr_expect_eq(tb_poll(subscriber, 1), -EBUSY);
}

Test(crossing, a_handler_that_fails_when_its_topic_is_stale_does_not_change_why)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = fails_when_stale,
						     .from = TB_FROM_OLDEST,
						     .user = &notes };
	struct tb_subscription *subscription;

	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 2);
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	UNTIL(notes.last == 2, 100);
	net.away = net.cut = true;
	UNTIL(!net.cut && !subscriber->welcomed, 100);
	publisher_again(SCENE_STALE_MS);
	net.away = false;
	UNTIL(notes.text && strstr(notes.text, "stale 2 "), 100);
	cr_expect(strstr(notes.text, "stale 2 bus test has no topic t\n"), "%s", notes.text);
}

Test(crossing, an_epoch_that_is_read_to_its_end_while_it_is_joined_again_is_left)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const char *end;

	scene_publish(topic, 1, 3);
	read_on(true);
	UNTIL(notes.last == 3, 100);
	net.hold_join = 1;
	net.cut = true;
	UNTIL(net.holding, 100);
	tb_topic_end(topic);
	UNTIL(notes.ended, 100);
	let_go();
	UNTIL(net.leaves == 1 && joined(0), 100);
	end = strstr(notes.text, "ended 3\n");
	cr_expect(end && !strstr(end + 1, "ended"), "%s", notes.text);
}

/* -- schemas ------------------------------------------------------------------------------------
 */

static struct tb_topic *topic_of(const char *name, struct tb_schema *schema)
{
	const struct tb_topic_options options = {
		.size = sizeof(options), .name = name, .schema = schema, .slots = 64
	};
	struct tb_topic *topic;

	cr_assert_eq(tb_topic_create(publisher, &options, &topic), 0, "%s", tb_error());
	return topic;
}

static bool schema_known(const struct tb_schema *schema)
{
	for (const struct schema_cache *c = subscriber->schemas; c; c = c->next)
		if (c->schema == schema)
			return true;
	return false;
}

static unsigned int schemas_kept(void)
{
	unsigned int count = 0;

	for (const struct schema_cache *c = subscriber->schemas; c; c = c->next)
		count++;
	return count;
}

/* Whatever a publisher has to tell, only what is read of it stays. */
Test(crossing, schemas_of_topics_that_are_refused_are_forgotten)
{
	struct tb_subscription_options how = { .size = sizeof(how),
					       .on_record = notes_record,
					       .on_event = notes_event,
					       .user = &notes };
	struct tb_schema *wanted = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	struct tb_subscription *subscription;
	char text[64];

	scene_topic(publisher, "t", 64, 0);
	read_on(false);
	how.schema = wanted;
	for (unsigned int i = 0; i < 8; i++) {
		struct tb_schema *unfit;

		snprintf(text, sizeof(text), "- {name: y%u, type: u64, doc: d}\n", i);
		unfit = scene_schema("y", 1, text);
		snprintf(text, sizeof(text), "u%u", i);
		topic_of(text, unfit);
		tb_schema_free(unfit);
		cr_assert_eq(tb_subscribe(subscriber, text, &how, &subscription), -EPROTO);
	}
	cr_expect_eq(schemas_kept(), 2, "%u are kept", schemas_kept());
	cr_expect(schema_known(tb_source_schema(subscriber->table[0])));
	tb_schema_free(wanted);
}

/* Of topics that cannot be joined for now, and are asked for with each pulse. */
Test(crossing, a_schema_is_asked_for_once_while_a_shortage_lasts)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	unsigned int before;

	publisher_again(SCENE_HASTY_MS);
	scene_topic(publisher, "t", 64, 0);
	topic_of("u", y);
	tb_schema_free(y);
	subscriber = scene_subscriber("net", 0);
	net.landless = true;
	scene_subscribe(subscriber, "t*", TB_FROM_OLDEST, &notes);
	scene_subscribe(subscriber, "u*", TB_FROM_OLDEST, &notes);
	UNTIL(net.joins >= 4, 100); /* each of them with a pulse, too */
	before = net.schemas;
	UNTIL(net.joins >= 16, 100);
	net.landless = false;
	UNTIL(joined(2), 100);
	cr_expect_eq(net.schemas, before, "%u schemas for %u joins", net.schemas, net.joins);
}

/* Though there may be others without end, and a shortage that never is over. */
Test(crossing, no_more_schemas_are_kept_for_a_shortage_than_are_told)
{
	const unsigned int count = SCHEMAS_KEPT + 8;
	char text[64];

	publisher_again(SCENE_HASTY_MS);
	for (unsigned int i = 0; i < count; i++) {
		struct tb_schema *own;

		snprintf(text, sizeof(text), "- {name: y%u, type: u64, doc: d}\n", i);
		own = scene_schema("y", 1, text);
		snprintf(text, sizeof(text), "t%u", i);
		topic_of(text, own);
		tb_schema_free(own);
	}
	subscriber = scene_subscriber("net", 0);
	net.landless = true;
	scene_subscribe(subscriber, "t*", TB_FROM_OLDEST, &notes);
	UNTIL(net.joins >= 2 * count, 100);
	cr_expect_leq(schemas_kept(), SCHEMAS_KEPT, "%u are kept", schemas_kept());
	net.landless = false;
	UNTIL(joined(count) && served(), 100);
	for (unsigned int i = 0; i < count; i++)
		cr_expect(schema_known(tb_source_schema(subscriber->table[i])));
}

Test(crossing, the_schema_of_the_next_epoch_is_kept_while_the_old_one_is_read)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_source *source;

	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 60);
	source = read_on(true);
	tb_publisher_close(publisher);
	publisher = scene_publisher("shm");
	topic_of("t", y);
	tb_schema_free(y);
	for (int i = 0; i < 50 && !source->has_successor; i++) {
		cr_assert_eq(tb_poll(subscriber, 1), 1);
		subscriber->kept_ms = 0; /* keep house with the next one */
		tb_wait(subscriber, 20);
	}
	cr_assert(source->has_successor && !notes.restarted, "%s", notes.text);
	source->subscription->discover = true;
	discovery_step(subscriber);
	cr_expect(schema_known(source->place.schema));
	cr_expect(schema_known(source->successor.schema));
	UNTIL(notes.restarted, 100);
	cr_expect_str_eq(tb_schema_name(tb_source_schema(source)), "y");
}

/* -- restarts -----------------------------------------------------------------------------------
 */

Test(crossing, an_old_epoch_that_is_only_slow_to_read_is_read_to_its_end)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 1024, 0);
	struct tb_source *source = read_on(false);

	scene_publish(topic, 1, 100);
	cr_assert_eq(tb_topic_restart(topic), 0);
	net.held = FETCH_HEADER;
	UNTIL(source->has_successor, 100);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0, "%s", notes.text);
	cr_assert_not(notes.restarted, "left after %u records", (unsigned int)notes.records);
	net.held = FETCH_NONE;
	UNTIL(notes.restarted, 100);
	cr_expect(strstr(notes.text, "100 B update 100\nrestart 100 100\n"), "%s", notes.text);
}

/* A subscription to t, of which nothing of this kind was READ yet. */
static void subscribe_unread(enum fetch_kind kind)
{
	subscriber = scene_subscriber("net", 0);
	subscriber->connect_ms = 1; /* nor will be before it returns */
	net.held = kind;
	scene_subscribe(subscriber, "t", TB_FROM_NEWEST, &notes);
	UNTIL(joined(1) && subscriber->table[0], 100);
}

Test(crossing, a_topic_that_begins_again_before_its_reader_did_appears_in_its_new_epoch)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);

	scene_publish(topic, 1, 2);
	subscribe_unread(FETCH_HEADER);
	cr_assert_eq(tb_topic_restart(topic), 0);
	scene_publish(topic, 1, 3);
	UNTIL(subscriber->table[0]->place.shape.epoch == topic->shape.epoch, 100);
	net.held = FETCH_NONE;
	UNTIL(notes.events == 1, 100);
	scene_publish(topic, 4, 4);
	UNTIL(notes.records == 1, 100);
	cr_expect_str_eq(notes.text, "appeared t 4\n4 B update 4\n");
}

Test(crossing, what_did_not_appear_yet_is_not_told_stale)
{
	scene_topic(publisher, "t", 64, 0);
	subscribe_unread(FETCH_PROGRESS);
	UNTIL(subscriber->table[0]->state == SOURCE_START, 100);
	tb_publisher_close(publisher);
	publisher = NULL;
	UNTIL(subscriber->lost, 100);
	for (int i = 0; i < 100; i++) {
		subscriber->page_ms = 0; /* look whether it lives */
		subscriber->kept_ms = 0;
		clock_pass(POLL_PAGE_MS); /* and once more for the line, which is gone as well */
		cr_assert_geq(tb_poll(subscriber, 100), 0);
	}
	cr_expect_eq(notes.events, 0, "%s", notes.text);
}

/* -- signs of life ------------------------------------------------------------------------------
 */

/* Five tries to connect take as many times 50 ms; of each a timer tells, once or twice. */
Test(crossing, who_has_not_begun_sleeps_while_nobody_listens)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	unsigned int wakes = 0;

	scene_topic(publisher, "t", 64, 0);
	subscribe_unread(FETCH_HEADER);
	net.away = net.cut = true;
	UNTIL(!subscriber->welcomed, 100);
	for (net.tries = 0; net.tries < 5; wakes++) {
		cr_assert_geq(tb_poll(subscriber, 100), 0, "%s", tb_error());
		cr_assert_geq(tb_wait(subscriber, 1000), 0, "%s", tb_error());
		cr_assert_lt(scene_now_ms(), until_ms);
	}
	cr_expect_lt(wakes, 50, "woken %u times", wakes);
}

Test(crossing, who_was_away_for_the_bound_looks_before_it_tells_stale)
{
	uint64_t moved_ms;

	scene_topic(publisher, "t", 64, 0);
	read_on(false);
	UNTIL(subscriber->pulse_known && !subscriber->page_under_way, 100);
	/* As if it had looked last ten seconds ago. */
	subscriber->pulse_count--;
	moved_ms = subscriber->pulse_ms -= 10000;
	subscriber->page_ms = subscriber->kept_ms = 0;
	UNTIL(subscriber->pulse_ms != moved_ms, 100);
	cr_expect_eq(counted(subscriber->subscriptions, SUBSCRIPTION_STALES), 0, "%s", notes.text);
}

Test(crossing, a_page_that_was_on_its_way_for_a_while_is_as_good_as_any)
{
	uint64_t moved_ms;

	scene_topic(publisher, "t", 64, 0);
	read_on(false);
	UNTIL(subscriber->pulse_known && !subscriber->page_under_way, 100);
	net.unanswered = true;
	subscriber->page_ms = subscriber->kept_ms = 0;
	UNTIL(subscriber->page_under_way, 100);
	subscriber->page_asked_ms -= 10;
	subscriber->pulse_count--; /* so that it brings news */
	moved_ms = subscriber->pulse_ms -= 20;
	net.unanswered = false;
	UNTIL(subscriber->pulse_ms != moved_ms, 100);
	cr_expect_eq(counted(subscriber->subscriptions, SUBSCRIPTION_STALES), 0, "%s", notes.text);
}

Test(crossing, a_page_that_never_comes_is_told_stale_before_the_connection_is_given_up)
{
	publisher_again(SCENE_HASTY_MS);
	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 1);
	read_on(false);
	UNTIL(notes.records == 1 && subscriber->pulse_known, 100);
	net.unanswered = true;
	UNTIL(notes.stale, 100);
	cr_expect(subscriber->page_under_way && subscriber->welcomed && !subscriber->lost);
	net.unanswered = false;
	UNTIL(notes.live, 100);
}

Test(crossing, a_pulse_that_cannot_be_read_after_connecting_again_is_told_stale)
{
	publisher_again(SCENE_HASTY_MS);
	scene_topic(publisher, "t", 64, 0);
	read_on(true);
	subscriber->page_ms = clock_coarse_ms(); /* so that it connects before it looks */
	net.landless = net.cut = true;
	UNTIL(notes.stale, 100);
	net.landless = false;
	UNTIL(notes.live, 100);
}

Test(crossing, the_stale_bound_is_the_one_of_the_publisher_that_is_there_now)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "net:test",
						       .stale_ms = 777,
						       .connect_ms = deadline_ms() };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);

	scene_publish(topic, 1, 1);
	read_on(true);
	cr_expect_eq(subscriber->stale_ms, SCENE_STALE_MS);
	publisher_again(SCENE_HASTY_MS);
	scene_topic(publisher, "t", 64, 0);
	UNTIL(notes.restarted, 100);
	cr_expect_eq(subscriber->stale_ms, SCENE_HASTY_MS);
	tb_subscriber_close(subscriber);
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	cr_expect_eq(subscriber->stale_ms, 777, "as it was asked for");
}

/* The line says that record 9 is there, and is not valid; the pulse goes on. */
static void damage_line(bool viewed)
{
	struct tb_topic *topic;

	publisher_again(SCENE_HASTY_MS);
	topic = scene_topic(publisher, "t", 64, 0);
	scene_publish(topic, 1, 8);
	read_on(viewed);
	UNTIL(notes.last == 8, 100);
	atomic_store(&topic->line->word[0], 9);
	UNTIL(notes.stale, 100);
	scene_publish(topic, 9, 9); /* writes the line anew */
	UNTIL(notes.live && notes.last == 9, 100);
	cr_expect_eq(notes.lost, 0);
}

Test(crossing, a_line_that_stays_invalid_is_told_stale_where_it_is_looked_at)
{
	damage_line(true);
}

/* Who reads batches looks at slots and the head alone, and what a page says is known by then. */
Test(crossing, a_line_that_was_invalid_is_not_held_against_who_reads_batches)
{
	struct tb_topic *topic;

	publisher_again(SCENE_HASTY_MS);
	topic = scene_topic(publisher, "t", 64, 0);
	scene_publish(topic, 1, 8);
	read_on(true);
	UNTIL(notes.last == 8, 100);
	atomic_fetch_xor(&topic->line->word[7], 1);
	UNTIL(notes.stale, 100);
	scene_publish(topic, 9, 60);
	UNTIL(notes.live && notes.last == 60, 100);
	cr_expect_eq(subscriber->table[0]->invalid, 0, "it would never sleep");
}

Test(crossing, a_line_that_stays_invalid_is_told_stale_where_it_is_read)
{
	damage_line(false);
}

/* -- what is there is not slept over ------------------------------------------------------------
 */

/* By the descriptor, at a publisher that is still. */
static void wait_for_records(uint64_t records)
{
	struct pollfd ready = { .fd = tb_subscriber_fd(subscriber), .events = POLLIN };

	for (int turns = 0; turns < 1000; turns++) {
		int count;

		while ((count = tb_poll(subscriber, 100)) > 0)
			;
		cr_assert_eq(count, 0, "%s", tb_error());
		if (notes.records >= records)
			return;
		cr_assert_eq(poll(&ready, 1, (int)SOON_MS), 1, "slept with something there: %s",
			     notes.text);
	}
	cr_assert(false, "turned round and round: %s", notes.text);
}

Test(crossing, a_descriptor_is_readable_for_a_new_epoch)
{
	struct tb_topic *topic;

	publisher_again(STILL_MS);
	topic = scene_topic(publisher, "t", 64, 0);
	read_on(true);
	for (uint64_t round = 1; round <= 5; round++) {
		scene_publish(topic, 1, 1);
		wait_for_records(round);
		cr_assert_eq(tb_topic_restart(topic), 0);
	}
}

Test(crossing, a_descriptor_is_readable_for_records_that_have_landed)
{
	struct tb_topic *topic;
	struct tb_source *source;

	publisher_again(STILL_MS);
	topic = scene_topic(publisher, "t", 64, 0);
	source = read_on(false);
	for (uint64_t round = 1; round <= 5; round++) {
		scene_publish(topic, round, round);
		source->noticed_ms = clock_coarse_ms(); /* so that nobody wakes it */
		cr_assert(notices_hint(source, round));
		wait_for_records(round);
	}
}

/* A strict reader READs nothing on a hint's word, but looks at once how far the topic is. */
Test(crossing, a_strict_reader_looks_when_it_is_hinted_at)
{
	const struct tb_subscription_options strict = { .size = sizeof(strict),
							.on_record = notes_record,
							.on_event = notes_event,
							.user = &notes,
							.from = TB_FROM_OLDEST,
							.flags = TB_STRICT };
	struct tb_subscription *subscription;
	struct tb_topic *topic;

	publisher_again(STILL_MS);
	topic = scene_topic(publisher, "t", 64, 0);
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &strict, &subscription), 0, "%s", tb_error());
	for (uint64_t round = 1; round <= 5; round++) {
		scene_publish(topic, round, round);
		subscription->sources->noticed_ms = clock_coarse_ms();
		cr_assert(notices_hint(subscription->sources, round));
		wait_for_records(round);
	}
	/* Of a false one it is told by the line, and no more is made of it. */
	cr_assert(notices_hint(subscription->sources, 20));
	UNTIL(subscription->sources->hint == 0 && subscription->sources->under_way == 0, 100);
	cr_expect_eq(subscription->sources->head, 5);
	cr_expect_eq(notes.events, 1, "%s", notes.text);
}

/* -- more notices than the queue takes ----------------------------------------------------------
 */

/* The number-th notice of the topic; true: it was received, false: the queue was full. */
static bool notice_send(const struct tb_source *source, uint64_t number, uint64_t head)
{
	const unsigned int at = (net.first_notice + net.notice_count) % QUEUE;
	struct notice_writer writer;

	if (net.notice_count == QUEUE)
		return false;
	notice_begin(&writer, net.notices[at], BOUND_NOTICE_BYTES_MAX, subscriber->welcome.bus_id,
		     number);
	notice_number(&writer, source->place.shape.topic_id, number);
	notice_entry(&writer, source->place.shape.topic_id, source->place.shape.epoch, head);
	net.notice_bytes[at] = notice_finish(&writer);
	net.notice_count++;
	return true;
}

Test(crossing, a_burst_of_notices_that_the_queue_does_not_take_costs_only_time)
{
	const struct fabric_notices notices = { .kind = FABRIC_NOTICES_UDP };
	struct tb_topic *topic = scene_topic(publisher, "t", 1024, 0);
	struct tb_source *source = read_on(false);
	uint64_t received = 0, lost = 0, burst = 0, n = 0;

	notices_join(source, &notices);
	for (int bursts = 0; bursts < 5; bursts++) {
		lost += burst;
		burst = 0;
		for (int i = 0; i < 100; i++) {
			n++;
			scene_publish(topic, n, n);
			if (notice_send(source, n, n))
				received++;
			else
				burst++;
		}
		cr_assert_gt(burst, 0);
		UNTIL(notes.last == n, 100);
	}
	cr_expect_eq(notes.records, n);
	cr_expect(notes.lost == 0 && notes.wrong == 0, "%s", notes.text);
	cr_expect_eq(counted(source->subscription, SUBSCRIPTION_NOTICES), received);
	cr_expect_eq(counted(source->subscription, SUBSCRIPTION_NOTICES_LOST), lost,
		     "seen by their numbers");
	cr_expect_eq(counted(source->subscription, SUBSCRIPTION_FALSE_HINTS), 0);
}

/* -- one call and what it does ------------------------------------------------------------------
 */

static struct tb_topic *lapping;
static unsigned int laps;

/* While the handler of a gap runs, the writer laps the reader again. */
static void lap_in_handler(void *user, const struct tb_event *event)
{
	const uint64_t head = event->kind == TB_EVENT_GAP ? tb_topic_sequence(lapping) : 0;

	notes_event(user, event);
	if (head > 0 && laps++ < 100)
		scene_publish(lapping, head + 1, head + 100);
}

Test(crossing, a_poll_returns_though_its_reader_is_lapped_all_the_time)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = lap_in_handler,
						     .user = &notes,
						     .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;

	lapping = scene_topic(publisher, "t", 64, 0);
	net.viewed = true;
	subscriber = scene_subscriber("net", 0);
	cr_assert_eq(tb_subscribe(subscriber, "t", &how, &subscription), 0, "%s", tb_error());
	scene_publish(lapping, 1, 200);
	cr_assert_geq(tb_poll(subscriber, 1000), 0);
	cr_expect_leq(laps, 8, "%u gaps in one call", laps);
	tb_topic_end(lapping);
	laps = 100;
	UNTIL(notes.ended, 1000);
	cr_expect_eq(notes.records + notes.lost, tb_topic_sequence(lapping));
	cr_expect_eq(notes.wrong, 0);
}

Test(crossing, a_long_batch_is_landed_in_to_its_end)
{
	const uint32_t bytes = 1 << 20;
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = "net:test",
						       .batch_bytes = bytes,
						       .connect_ms = deadline_ms() };

	notes.quiet = true;
	scene_publish(scene_topic(publisher, "t", 32768, 0), 1, 20000);
	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	UNTIL(notes.last == 20000, 1000);
	cr_expect_gt(net.landed, bytes - subscriber->read_bytes, "%zu bytes", net.landed);
	cr_expect_leq(net.landed, bytes);
}

Test(crossing, a_slot_that_was_never_written_is_not_busy)
{
	const struct tb_source *source;

	scene_topic(publisher, "t", 64, 0);
	source = read_on(true);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(tb_poll(subscriber, 100), 0);
	cr_expect_eq(counted(source->subscription, SUBSCRIPTION_BUSY), 0);
}

Test(crossing, tries_of_a_slot_do_not_count_for_the_one_behind_a_hole)
{
	const struct tb_update hole = { .size = sizeof(hole), .kind = TB_KIND_HOLE, .time_ns = 1 };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct tb_source *source = read_on(true);

	scene_publish(topic, 1, 1);
	UNTIL(source->next == 2, 100);
	source->tries = TRIES_MAX - 1;
	cr_assert_eq(tb_publish(topic, &hole), 0, "%s", tb_error());
	UNTIL(source->next == 3, 100);
	cr_expect_eq(source->tries, 0);
}

static unsigned int shown;

static void show(void *user, const struct tb_topic_info *info)
{
	(void)user;
	shown++;
	cr_expect_eq(info->head, 0, "it could not be read");
}

Test(crossing, who_inspects_a_bus_sleeps_while_its_page_does_not_come)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = "net:test",
						    .timeout_ms = 2000 };

	scene_publish(scene_topic(publisher, "t", 64, 0), 1, 3);
	net.unanswered = true;
	cr_expect_eq(tb_inspect_topics(&options, NULL, NULL, show, NULL), 1, "%s", tb_error());
	cr_expect_eq(shown, 1);
	cr_expect_lt(net.reaps, 100, "looked %u times", net.reaps);
}
