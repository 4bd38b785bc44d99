/* SPDX-License-Identifier: Apache-2.0 */
/* What clients of different realms see of one bus. */

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bus/words.h"
#include "tests/unit/publisher/client.h"

static const uint8_t desk[TB_TICKET_BYTES] = { [0] = 1 }, risk[TB_TICKET_BYTES] = { [31] = 1 };

#define UNKNOWN "the publisher does not know the ticket, or the dialled address was not test"

static void enter_realms(void)
{
	static const char *const quotes = "*.quote", *const all[] = { "a.*", ">" };
	const struct tb_realm realms[] = {
		{ sizeof(*realms), .name = "desk", .ticket = desk, .topics = &quotes,
		  .topic_count = 1 },
		{ sizeof(*realms), .name = "risk", .ticket = risk, .topics = all,
		  .topic_count = 2 },
	};
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .stale_ms = 400,
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log,
						      .realms = realms,
						      .realm_count = 2 };
	static const struct tb_counter table[] = { { "messages", "messages", "read" } };
	static const uint64_t messages = 7;

	scene_enter();
	ops = fabric_find("shm:test", &address);
	cr_assert_eq(tb_publisher_open(&publisher, &options), 0, "%s", tb_error());
	scene_topic(publisher, "a.trade", 64, 0);
	scene_topic(publisher, "a.quote", 64, 0);
	scene_topic(publisher, "b.trade", 64, 0);
	cr_assert_eq(tb_publisher_count(publisher, "a", table, &messages, 1), 0);
}

TestSuite(realms, .init = enter_realms, .fini = client_leave, .timeout = 60);

Test(realms, missing_or_wrong_ticket_is_refused)
{
	uint8_t ticket[TB_TICKET_BYTES] = { 0 };

	client_try_realm(&client, ticket);
	expect_refused(EACCES, "the subscriber has no ticket, but the publisher requires a ticket");
	for (size_t bit = 1; bit < 8 * TB_TICKET_BYTES; bit += 17) {
		memcpy(ticket, desk, TB_TICKET_BYTES);
		ticket[bit / 8] ^= (uint8_t)(1 << bit % 8);
		client_try_realm(&client, ticket);
		expect_refused(EACCES, UNKNOWN);
	}
}

/* Each request about the topic gets the same refusal. */
static void expect_nothing(uint32_t id, uint64_t epoch)
{
	const struct control_message asks[] = {
		{ .type = CONTROL_JOIN, .join = { .topic_id = id, .epoch = epoch } },
		{ .type = CONTROL_SCHEMA, .schema = { .topic_id = id } },
		{ .type = CONTROL_UNPUBLISHED, .unpublished = { .topic_id = id } },
	};
	char text[128];

	snprintf(text, sizeof(text),
		 "bus test: found topic id %u, expected an id from the catalogue", id);
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
		expect_refusal(client_ask(&client, asks[i]), id, ENOENT, text);
}

Test(realms, hidden_topics_look_like_missing_topics)
{
	const struct control_message *answer;
	struct control_message arm;
	uint64_t epochs[3];

	client_open_realm(&other, risk);
	answer = client_ask(&other, (struct control_message){ .type = CONTROL_CATALOGUE,
							      .catalogue = { .pattern = ">" } });
	cr_assert_eq(answer->topics.count, 3);
	for (size_t i = 0; i < 3; i++)
		epochs[i] = answer->topics.topic[i].shape.epoch;
	client_open_realm(&client, desk);
	answer = catalogue(">", 0);
	cr_assert_eq(answer->topics.count, 1);
	cr_expect_str_eq(answer->topics.topic[0].name, "a.quote");
	cr_expect_eq(answer->topics.more, 0);
	cr_expect_eq(catalogue("a.trade", 0)->topics.count, 0);
	cr_expect_eq(catalogue(">", 2)->topics.count, 0);
	expect_nothing(1, epochs[0]);
	expect_nothing(3, epochs[2]);
	expect_nothing(4, epochs[2]);
	arm = topic_message(CONTROL_ARM, 1, epochs[0], 0);
	client_send(&client, &arm);
	cr_expect_eq(join(&client, 2, epochs[1])->type, CONTROL_GRANT);
	cr_expect_eq(tb_publisher_joins(publisher, NULL, 0), 1);
	cr_expect_eq(client.wakes, 0);
}

static const struct control_message *block(struct client *at, uint32_t scope, uint32_t index)
{
	return client_ask(
		at, (struct control_message){ .type = CONTROL_COUNTERS,
					      .counters = { .scope = scope, .index = index } });
}

Test(realms, counters_cover_only_visible_topics_and_feeds)
{
	client_open_realm(&client, desk);
	client_open_realm(&other, risk);
	cr_expect_str_eq(block(&client, TB_SCOPE_TOPIC, 0)->values.name, "a.quote");
	cr_expect_eq(client.answer.values.blocks, 1);
	expect_refusal(block(&client, TB_SCOPE_TOPIC, 1), 0, ENOENT,
		       "no block 1 of counters in scope 2");
	expect_refusal(block(&client, TB_SCOPE_FEED, 0), 0, ENOENT,
		       "no block 0 of counters in scope 3");
	expect_refusal(block(&client, TB_SCOPE_BUS, 0), 0, ENOENT,
		       "no block 0 of counters in scope 1");
	cr_expect_str_eq(block(&other, TB_SCOPE_TOPIC, 2)->values.name, "b.trade");
	cr_expect_eq(other.answer.values.blocks, 3);
	cr_expect_str_eq(block(&other, TB_SCOPE_FEED, 0)->values.name, "a");
	cr_expect_str_eq(block(&other, TB_SCOPE_BUS, 0)->values.name, "test");
}

/* The entry of a topic on a client's page, read while it is written. False if empty. */
static bool entry_on_page(struct client *at, uint32_t index, struct bus_entry *entry)
{
	static const struct bus_entry none;
	const char *from = (const char *)ops->view(at->page) + sizeof(struct bus_pulse) +
			   index * sizeof(*entry);

	do
		words_load(entry, from, sizeof(*entry));
	while (memcmp(entry, &none, sizeof(none)) != 0 &&
	       bus_page_verify_entry(entry, index, at->welcome.bus_id) < 0);
	return entry->topic_id != 0;
}

static void pulse_on_page(struct client *at, struct bus_pulse *pulse)
{
	do
		words_load(pulse, ops->view(at->page), sizeof(*pulse));
	while (bus_page_verify_pulse(pulse, at->welcome.bus_id, at->welcome.topics_max) < 0);
}

/* How far the second page's count is ahead of the first's. Time raises both. */
static uint64_t pulses_ahead(void)
{
	struct bus_pulse pulse, others;
	struct bus_entry entry;

	publisher_lock(publisher);
	pulse_on_page(&client, &pulse);
	pulse_on_page(&other, &others);
	cr_expect(entry_on_page(&client, 1, &entry) && entry.beat == pulse.count);
	cr_expect(entry_on_page(&other, 1, &entry) && entry.beat == others.count);
	publisher_unlock(publisher);
	return others.count - pulse.count;
}

Test(realms, each_realm_has_its_own_bus_page)
{
	struct bus_pulse before, after, others;
	uint64_t ahead;
	struct bus_entry entry;

	client_open_realm(&client, desk);
	client_open_realm(&other, risk);
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(entry_on_page(&client, i, &entry), i == 1, "entry %u", i);
		cr_assert(entry_on_page(&other, i, &entry), "entry %u", i);
	}
	pulse_on_page(&client, &before);
	pulse_on_page(&other, &others);
	cr_expect_eq(before.topics, 2, "found %u, expected the highest id that is seen",
		     before.topics);
	cr_expect_eq(others.topics, 3);
	ahead = pulses_ahead();
	scene_topic(publisher, "c.trade", 64, 0);
	cr_expect_eq(pulses_ahead(), ahead + 1, "others' topic appeared");
	pulse_on_page(&other, &others);
	cr_assert_eq(tb_topic_restart(publisher->topics[2]), 0);
	do
		pulse_on_page(&other, &after);
	while (after.changes == others.changes);
	pulse_on_page(&client, &after);
	cr_expect_eq(after.changes, before.changes, "it was a topic of others");
	cr_expect_eq(after.topics, 2);
	cr_expect_eq(pulses_ahead(), ahead + 2, "others' topic began again");
	tb_topic_end(publisher->topics[2]);
	do
		cr_assert(entry_on_page(&other, 2, &entry));
	while (entry.state != TOPIC_ENDED);
	cr_expect_eq(pulses_ahead(), ahead + 3, "others' topic ended");
	cr_assert_eq(tb_topic_restart(publisher->topics[1]), 0);
	do
		pulse_on_page(&client, &after);
	while (after.changes == before.changes);
	cr_expect_eq(pulses_ahead(), ahead + 3, "a topic of both began again");
	cr_expect_eq(after.changes, before.changes + 1, "changes of others were counted");
	cr_expect_eq(after.topics, 2);
}

Test(realms, topic_in_no_realm_is_logged)
{
	static const char *const one = "x";
	const struct tb_realm lonely = { sizeof(lonely), .name = "anonymous", .topics = &one,
					 .topic_count = 1 };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "lonely",
						      .exit_wait_ms = UINT32_MAX,
						      .log = keep_log,
						      .realms = &lonely,
						      .realm_count = 1 };
	struct tb_publisher *bus;

	cr_assert_eq(tb_publisher_open(&bus, &options), 0, "%s", tb_error());
	scene_topic(bus, "x", 64, 0);
	cr_expect_not(was_logged("no realm includes it"));
	scene_topic(bus, "y", 64, 0);
	cr_expect(was_logged("topic y: no realm includes it, so no client can read it"));
	tb_publisher_close(bus);
}
