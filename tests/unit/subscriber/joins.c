/* SPDX-License-Identifier: Apache-2.0 */
/* Joins and what becomes of them: refusals, shortages, subscriptions that end meanwhile. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "subscriber/state.h"
#include "tests/support/deadline.h"
#include "tests/support/scene.h"
#include "tests/unit/subscriber/net.h"

TestSuite(joins, .init = net_enter, .fini = net_leave, .timeout = 60);

Test(joins, user_that_listens_is_unknown_over_a_network)
{
	uint32_t user = 77;

	subscriber = scene_subscriber("net", 0);
	cr_expect_eq(tb_subscriber_user(subscriber, &user), -EOPNOTSUPP);
	cr_expect_str_eq(tb_error(), "net:test: a network does not say which user listens");
	cr_expect_eq(user, 77);
}

Test(joins, grant_after_unsubscribe_is_given_back)
{
	struct tb_subscription *subscription;

	subscriber = scene_subscriber("net", 0);
	subscription = scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	net.hold_join = 1;
	scene_topic(net.publisher, "t", 64, 0);
	UNTIL(net.holding, 100);
	tb_unsubscribe(subscription);
	net_release();
	UNTIL(net.leaves == 1 && net_joined(0), 100);
}

static struct tb_subscription *ended_inside;

static void end_inside(void *user, const struct tb_event *event)
{
	notes_event(user, event);
	tb_unsubscribe(ended_inside);
}

Test(joins, subscription_ended_in_handler_leaves_its_joins)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_schema *x = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_topic_options unfit = {
		.size = sizeof(unfit), .name = "z.b", .schema = y, .slots = 64
	};
	struct tb_topic *topic;
	struct tb_subscription_options how = { .size = sizeof(how),
					       .on_record = notes_record,
					       .on_event = end_inside,
					       .user = &notes };

	scene_topic(net.publisher, "t", 64, 0);
	subscriber = scene_subscriber("net", 0);
	cr_expect_eq(tb_subscribe(subscriber, "t", &how, &ended_inside), -ECANCELED);
	cr_expect_str_eq(tb_error(), "tb_subscribe: a handler ended the subscription");
	cr_expect_null(ended_inside);
	UNTIL(net_joined(0), 100);

	/* One topic is refused while the join of the other topic is outstanding; both schemas are
	 * known.
	 */
	net_topic("u", y);
	scene_subscribe(subscriber, "t", TB_FROM_OLDEST, &notes);
	scene_subscribe(subscriber, "u", TB_FROM_OLDEST, &notes);
	how.schema = x;
	scene_topic(net.publisher, "z.a", 64, 0);
	cr_assert_eq(tb_topic_create(net.publisher, &unfit, &topic), 0, "%s", tb_error());
	net.leaves = 0;
	net.hold_join = 3;
	cr_expect_eq(tb_subscribe(subscriber, "z.*", &how, &ended_inside), -ECANCELED);
	net_release();
	UNTIL(net.leaves == 1 && net_joined(2), 100);
	tb_schema_free(x);
	tb_schema_free(y);
}

/* The call waits while the publisher does not answer the join of the second topic. */
Test(joins, refused_topic_does_not_block_rest_of_pattern)
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

	cr_assert_eq(tb_topic_create(net.publisher, &unfit, &topic), 0, "%s", tb_error());
	topic = scene_topic(net.publisher, "b", 64, 0);
	subscriber = scene_subscriber("net", 0);
	net.hold_join = 2;
	net.held_ms = subscriber->connect_ms;
	cr_expect_eq(tb_subscribe(subscriber, ">", &how, &subscription), -ETIMEDOUT);
	cr_expect(notes.refused);
	net_release();
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

/* Only a shortage of the publisher is waited out, as in tb_subscriber_open(). */
Test(joins, own_shortage_fails_subscribe_at_once)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .flags = TB_WAIT };
	struct tb_subscription *subscription;

	scene_topic(net.publisher, "t", 64, 0);
	subscriber = scene_subscriber("net", TB_WAIT);
	net.landless = true;
	cr_expect_eq(tb_subscribe(subscriber, "t", &how, &subscription), -ENOMEM);
	cr_expect_str_eq(tb_error(), "no memory to land in");
}

/* The publisher has a shortage at the first join; the second is requested in the same call. */
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
	subscriber->page_ms =
		0; /* the page is requested at once, and arrives after the first join */
	net.landless = landless;
	return tb_subscribe(subscriber, "t", &how, &subscription);
}

Test(joins, shortage_over_during_subscribe_ends_the_wait)
{
	scene_publish(scene_topic(net.publisher, "t", 64, 0), 1, 2);
	cr_expect_eq(subscribe_twice(false, NULL), 0);
	cr_expect_str_eq(tb_error(), "");
	cr_expect_eq(net.joins, 2);
	UNTIL(notes.records == 2, 100);
	cr_expect_str_eq(notes.text, "appeared t 1\n1 A update 1\n2 B update 2\n");
}

Test(joins, shortage_of_replaced_publisher_is_not_waited_for)
{
	scene_topic(net.publisher, "t", 64, 0);
	net.succeeded = true;
	cr_expect_eq(subscribe_twice(false, NULL), 0);
	cr_expect_str_eq(tb_error(), "net:test: bus test has no topic t");
}

Test(joins, own_shortage_after_publishers_fails_subscribe)
{
	scene_topic(net.publisher, "t", 64, 0);
	cr_expect_eq(subscribe_twice(true, NULL), -ENOMEM);
	cr_expect_str_eq(tb_error(), "no memory to land in");
	cr_expect_eq(net.joins, 2);
}

Test(joins, schema_mismatch_after_shortage_fails_subscribe)
{
	struct tb_schema *x = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");

	scene_topic(net.publisher, "t", 64, 0);
	net.succeeded = true;
	net.successor = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	cr_expect_eq(subscribe_twice(false, x), -EPROTO);
	cr_expect_str_eq(
		tb_error(),
		"topic t: publisher has schema y version 1, subscriber expects x version 1");
	tb_schema_free(net.successor);
	tb_schema_free(x);
}

/* The event has the topic's name. The pattern would stand for the connection. */
Test(joins, refusal_with_known_schema_names_the_topic)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .schema = y };
	struct tb_subscription *subscription;

	scene_topic(net.publisher, "t", 64, 0);
	net_read_on(true);
	notes_free(&notes);
	cr_assert_eq(tb_subscribe(subscriber, ">", &how, &subscription), 0, "%s", tb_error());
	cr_expect_eq(notes.events, 1, "%s", notes.text);
	cr_expect(strstr(notes.text, "refused t 71 ") == notes.text, "%s", notes.text);
	tb_schema_free(y);
}

Test(joins, shortage_is_reported_again_after_another_refusal)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_subscription *subscription;
	const char *other;

	scene_topic(net.publisher, "t", 64, 0);
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

static unsigned int times_noted(const char *text)
{
	unsigned int times = 0;

	for (const char *at = notes.text; (at = strstr(at, text)); at++)
		times++;
	return times;
}

/* During a shortage, which requests the catalogue with each pulse. */
Test(joins, refusal_is_repeated_on_topic_change_only)
{
	struct tb_schema *y = scene_schema("y", 1, "- {name: y, type: u64, doc: d}\n");
	struct tb_schema *x = scene_schema("x", 1, "- {name: x, type: u64, doc: d}\n");
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .on_event = notes_event,
						     .user = &notes,
						     .schema = x };
	struct tb_subscription *subscription;

	net_publisher_again(SCENE_HASTY_MS);
	net_topic("a", y);
	scene_topic(net.publisher, "b", 64, 0);
	subscriber = scene_subscriber("net", 0);
	net.landless = true;
	cr_assert_eq(tb_subscribe(subscriber, ">", &how, &subscription), 0, "%s", tb_error());
	UNTIL(net.joins >= 10, 100);
	cr_expect_eq(notes.events, 2, "after %u joins: %s", net.joins, notes.text);
	net_topic("c", y);
	UNTIL(times_noted("refused a 71 ") == 2, 100);
	net.joins = 0;
	UNTIL(net.joins >= 10, 100);
	cr_expect_eq(times_noted("refused a 71 "), 2, "after %u joins: %s", net.joins, notes.text);
	cr_expect_eq(times_noted("refused b 12 "), 1, "after %u joins: %s", net.joins, notes.text);
	cr_expect_geq(times_noted("refused c 71 "), 1, "%s", notes.text);
	tb_schema_free(x);
	tb_schema_free(y);
}

Test(joins, first_of_two_readers_at_end_keeps_the_join)
{
	struct tb_topic *topic = scene_topic(net.publisher, "t", 64, 0);
	struct notes newest = { 0 };
	struct tb_subscription *second;

	scene_publish(topic, 1, 30);
	net_read_on(true);
	second = scene_subscribe(subscriber, "t", TB_FROM_NEWEST, &newest);
	tb_topic_end(topic);
	second->sources->look = true; /* at once */
	UNTIL(newest.ended, 1);
	cr_assert_not(notes.ended);
	cr_expect_eq(net.leaves, 0);
	cr_expect(net_joined(1));
	UNTIL(notes.ended, 1);
	cr_expect_eq(net.leaves, 1);
	UNTIL(net_joined(0), 1);
	notes_free(&newest);
}
