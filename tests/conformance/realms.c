/* SPDX-License-Identifier: Apache-2.0 */
/* Access by realm: two realms with a ticket each, and an anonymous realm. Built once per fabric,
 * with SCHEME. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/conformance/scheme.h"
#include "tests/support/deadline.h"
#include "tests/support/faulty_fabric.h"
#include "tests/support/scene.h"

static const uint8_t desk[TB_TICKET_BYTES] = { 1, 2, 3 }, risk[TB_TICKET_BYTES] = { 1, 2, 4 };
static const uint8_t unknown[TB_TICKET_BYTES] = { 1, 2 };
static const char *const every[] = { "a.quote", "b.quote", "common", "open" };
static const char *const desk_topics[] = { "a.quote", "common" };
static const char *const risk_patterns[] = { "b.*", "common" };
static const char *const risk_topics[] = { "b.quote", "common" };
static const char *const open_topic = "open";
static const struct tb_realm realms[] = {
	{ sizeof(*realms), .name = "desk", .ticket = desk, .topics = desk_topics,
	  .topic_count = 2 },
	{ sizeof(*realms), .name = "risk", .ticket = risk, .topics = risk_patterns,
	  .topic_count = 2 },
	{ sizeof(*realms), .name = "anonymous", .topics = &open_topic, .topic_count = 1 },
};

static struct tb_publisher *publisher;
static struct notes notes;
static char address[64];

static void bus_open(size_t realm_count)
{
	const char *const listen = address;
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = &listen,
						      .listen_count = 1,
						      .stale_ms = SCENE_STALE_MS,
						      .exit_wait_ms = UINT32_MAX,
						      .log = scene_log,
						      .realms = realms,
						      .realm_count = realm_count };

	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	for (size_t i = 0; i < 4; i++)
		scene_publish(scene_topic(publisher, every[i], 64, 0), 1, 3);
}

static void enter(void)
{
	if (!scene_has(SCHEME))
		cr_skip_test("no RDMA device: set TICKBUS_TEST_RDMA to its address");
	scene_enter();
	faulty_add(scene_seed());
	scene_address(SCHEME, address, sizeof(address));
}

static void leave(void)
{
	tb_publisher_close(publisher);
	notes_free(&notes);
	scene_leave();
}

TestSuite(realms, .init = enter, .fini = leave, .timeout = 60);

static int subscriber_open(struct tb_subscriber **subscriber, const uint8_t *ticket)
{
	const struct tb_subscriber_options options = {
		.size = sizeof(options), .address = address, .connect_ms = 20000, .ticket = ticket
	};

	return tb_subscriber_open(subscriber, &options);
}

static bool is_among(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* A topic by its name: visible, or refused as a topic that does not exist. */
static void expect_topic(struct tb_subscriber *subscriber, const char *name, bool visible)
{
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = notes_record,
						     .user = &notes };
	struct tb_subscription *subscription;
	char expected[64];

	cr_expect_eq(tb_subscribe(subscriber, name, &how, &subscription), visible ? 0 : -ENOENT,
		     "%s: %s", name, tb_error());
	snprintf(expected, sizeof(expected), "has no topic %s", name);
	if (!visible)
		cr_expect(strstr(tb_error(), expected), "%s", tb_error());
}

/* Exactly these topics are visible, by a pattern and by name. */
static void expect_topics(const uint8_t *ticket, const char *const *names, size_t count)
{
	struct tb_subscriber *subscriber;
	char expected[64];

	cr_assert_eq(subscriber_open(&subscriber, ticket), 0, "%s", tb_error());
	scene_subscribe(subscriber, ">", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, 3 * count), "%s", notes.text);
	cr_expect_eq(notes.records, 3 * count, "%s", notes.text);
	cr_expect_not(notes.refused, "%s", notes.text);
	for (size_t i = 0; i < 4; i++) {
		const bool visible = is_among(names, count, every[i]);

		snprintf(expected, sizeof(expected), "appeared %s 1\n", every[i]);
		cr_expect_eq(strstr(notes.text, expected) != NULL, visible, "%s", notes.text);
		expect_topic(subscriber, every[i], visible);
	}
	expect_topic(subscriber, "none", false);
	tb_subscriber_close(subscriber);
	notes_free(&notes);
}

Test(realms, ticket_shows_only_topics_of_its_realm)
{
	bus_open(3);
	expect_topics(desk, desk_topics, 2);
	expect_topics(risk, risk_topics, 2);
	expect_topics(NULL, &open_topic, 1);
}

static void expect_refused(const uint8_t *ticket, const char *reason)
{
	struct tb_subscriber *subscriber;

	cr_expect_eq(subscriber_open(&subscriber, ticket), -EACCES, "%s", tb_error());
	cr_expect_null(subscriber);
	cr_expect(strstr(tb_error(), reason), "%s", tb_error());
}

Test(realms, unknown_ticket_is_refused_with_reason)
{
	bus_open(3);
	expect_refused(unknown, "the publisher does not know the ticket");
}

Test(realms, bus_without_anonymous_realm_asks_for_a_ticket)
{
	bus_open(2);
	expect_refused(NULL, "the subscriber has no ticket, but the publisher requires a ticket");
	expect_topics(desk, desk_topics, 2);
}

Test(realms, bus_without_realms_shows_all_topics_and_refuses_tickets)
{
	bus_open(0);
	expect_topics(NULL, every, 4);
	expect_refused(desk, "the bus takes no tickets, or the dialled "
			     "address was not ");
}

static void count_refusals(void *user, const struct tb_counter_value *counter)
{
	if (counter->scope == TB_SCOPE_BUS && strcmp(counter->name, "refused") == 0)
		*(uint64_t *)user = counter->value;
}

/* How many connections the bus refused, by its own counter. Asks without a ticket. */
static uint64_t refusals(void)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = address,
						    .timeout_ms = 20000 };
	uint64_t count = 0;

	cr_assert_geq(tb_inspect_counters(&options, count_refusals, NULL, &count), 0, "%s",
		      tb_error());
	return count;
}

/* A subscriber with a ticket that waits for a bus. */
static struct tb_subscriber *waiting(void)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .flags = TB_WAIT,
						       .connect_ms = 50,
						       .ticket = risk };
	struct tb_subscriber *subscriber;

	cr_assert_eq(tb_subscriber_open(&subscriber, &options), 0, "%s", tb_error());
	return subscriber;
}

/* Polls until the bus has refused `times` connections. */
static void until_refused(struct tb_subscriber *subscriber, uint64_t times)
{
	const uint64_t until_ms = scene_now_ms() + deadline_ms();

	while (refusals() < times) {
		cr_assert_lt(scene_now_ms(), until_ms, "the subscriber does not try again");
		cr_assert_geq(tb_poll(subscriber, 1), 0);
	}
}

/* Without the event the subscriber would wait for ever, silently. */
Test(realms, waiting_subscriber_reports_refusal_once_per_bus)
{
	struct tb_subscriber *subscriber = waiting();

	scene_subscribe(subscriber, "*.quote", TB_FROM_OLDEST, &notes);
	bus_open(0);
	until_refused(subscriber, 4);
	cr_expect(strstr(notes.text, "refused *.quote 13 the bus takes no tickets, or the dialled "
				     "address was not ") == notes.text,
		  "%s", notes.text);
	cr_expect_eq(strchr(notes.text, '\n') + 1, notes.text + strlen(notes.text), "%s",
		     notes.text);
	tb_publisher_close(publisher);
	bus_open(2);
	cr_assert(scene_poll_until(subscriber, &notes.records, 3), "%s", notes.text);
	tb_publisher_close(publisher);
	notes.refused = false;
	bus_open(0);
	cr_assert(scene_poll_while(subscriber, &notes.refused), "%s", notes.text);
	cr_expect(strstr(strstr(notes.text, "appeared"), "refused *.quote 13 "), "%s", notes.text);
	tb_subscriber_close(subscriber);
}

/* Pauses of at least half of 50, 100, 200 and 400 ms lie between five refusals. A late machine
 * makes the time from the first to the fifth longer, never shorter. */
Test(realms, refused_subscriber_waits_longer_before_each_retry)
{
	struct tb_subscriber *subscriber = waiting();
	uint64_t began_ms;

	bus_open(0);
	began_ms = scene_now_ms();
	until_refused(subscriber, 5);
	cr_expect_geq(scene_now_ms(), began_ms + 375);
	tb_subscriber_close(subscriber);
}

/* A topic that appears later or restarts stays in its realm. */
Test(realms, later_topics_and_restarts_show_only_in_their_realm)
{
	struct tb_subscriber *subscriber;
	struct tb_topic *mine, *foreign;

	bus_open(3);
	cr_assert_eq(subscriber_open(&subscriber, risk), 0, "%s", tb_error());
	scene_subscribe(subscriber, ">", TB_FROM_OLDEST, &notes);
	cr_assert(scene_poll_until(subscriber, &notes.records, 6), "%s", notes.text);
	foreign = scene_topic(publisher, "c.late", 64, 0);
	mine = scene_topic(publisher, "b.late", 64, 0);
	scene_publish(foreign, 1, 5);
	scene_publish(mine, 1, 2);
	cr_assert(scene_poll_until(subscriber, &notes.records, 8), "%s", notes.text);
	cr_assert_eq(tb_topic_restart(mine), 0, "%s", tb_error());
	scene_publish(mine, 1, 1);
	cr_assert(scene_poll_until(subscriber, &notes.records, 9), "%s", notes.text);
	cr_expect(strstr(notes.text, "restart 2 2\n1 A update 1\n"), "%s", notes.text);
	cr_expect_null(strstr(notes.text, "c.late"), "%s", notes.text);
	tb_subscriber_close(subscriber);
}

struct shown {
	uint64_t heads;
	char names[256];
};

static void show(struct shown *shown, const char *name)
{
	snprintf(shown->names + strlen(shown->names), sizeof(shown->names) - strlen(shown->names),
		 "%s ", name);
}

static void show_topic(void *user, const struct tb_topic_info *info)
{
	show(user, info->name);
	((struct shown *)user)->heads += info->head;
}

static void show_counter(void *user, const struct tb_counter_value *counter)
{
	if (counter->scope == TB_SCOPE_TOPIC && strcmp(counter->name, "records") == 0)
		show(user, counter->block);
}

Test(realms, inspection_shows_only_topics_of_its_ticket)
{
	struct tb_inspect_options options = {
		.size = sizeof(options), .address = address, .timeout_ms = 20000, .ticket = risk
	};
	const uint64_t until_ms = scene_now_ms() + deadline_ms();
	struct shown shown = { 0 };

	bus_open(3);
	do { /* heads are at most a quarter of the stale bound old */
		cr_assert_lt(scene_now_ms(), until_ms, "%llu records",
			     (unsigned long long)shown.heads);
		shown = (struct shown){ 0 };
		cr_assert_eq(tb_inspect_topics(&options, NULL, NULL, show_topic, &shown), 2);
	} while (shown.heads != 6);
	cr_expect_str_eq(shown.names, "b.quote common ");
	shown = (struct shown){ 0 };
	cr_assert_geq(tb_inspect_counters(&options, show_counter, NULL, &shown), 0, "%s",
		      tb_error());
	cr_expect_str_eq(shown.names, "b.quote common ");
	options.ticket = unknown;
	cr_expect_eq(tb_inspect_topics(&options, NULL, NULL, show_topic, &shown), -EACCES);
	options.ticket = NULL;
	cr_expect_eq(tb_inspect_topics(&options, NULL, NULL, show_topic, &shown), 1);
}
