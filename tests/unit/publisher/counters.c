/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and unpublished names, as a client gets them. */

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "tests/unit/publisher/client.h"
#include "tickbus/inspect.h"

TestSuite(counters, .init = client_enter, .fini = client_leave, .timeout = 60);

Test(counters, topic_counters_come_with_names_and_units)
{
	const struct control_message *answer;
	const struct tb_counter *table;
	size_t count;
	struct control_message message = { .type = CONTROL_COUNTERS,
					   .counters = { .scope = TB_SCOPE_TOPIC } };
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);

	scene_publish(topic, 1, 5);
	tb_topic_unpublished(topic, "X");
	table = tb_counters(TB_SCOPE_TOPIC, &count);
	client_open(&client);
	answer = client_ask(&client, message);
	cr_assert_eq(answer->type, CONTROL_VALUES);
	cr_expect_eq(answer->values.blocks, 1);
	cr_expect_eq(answer->values.total, count);
	cr_expect_str_eq(answer->values.name, "t");
	for (uint32_t i = 0; i < answer->values.count; i++) {
		cr_expect_str_eq(answer->values.entry[i].name, table[i].name);
		cr_expect_str_eq(answer->values.entry[i].unit, table[i].unit);
	}
	cr_expect_eq(answer->values.entry[TOPIC_RECORDS].value, 5);
	cr_expect_eq(answer->values.entry[TOPIC_INSTRUMENTS].value, 2);
	cr_expect_eq(answer->values.entry[TOPIC_UNPUBLISHED].value, 1);
	cr_expect_eq(answer->values.entry[TOPIC_CAPACITY].value, 16);
	cr_expect_eq(answer->values.entry[TOPIC_SUBSCRIBERS].value, 0);
	cr_expect_eq(answer->values.entry[TOPIC_RESTARTS].value, 0);
	cr_expect_gt(answer->values.entry[TOPIC_FLUSHES].value, 5);
	cr_assert_eq(tb_topic_restart(topic), 0);
	cr_assert_eq(join(&client, 1, epoch_of("t"))->type, CONTROL_GRANT);
	answer = client_ask(&client, message);
	cr_expect_eq(answer->values.entry[TOPIC_SUBSCRIBERS].value, 1);
	cr_expect_eq(answer->values.entry[TOPIC_RESTARTS].value, 1);
	cr_expect_eq(answer->values.entry[TOPIC_RECORDS].value, 0);
	message.counters.after = (uint32_t)count - 1;
	answer = client_ask(&client, message);
	cr_expect_eq(answer->values.count, 1);
	cr_expect_str_eq(answer->values.entry[0].name, table[count - 1].name);
	message.counters.after = UINT32_MAX;
	cr_expect_eq(client_ask(&client, message)->values.count, 0);
	message.counters.index = 1;
	expect_refusal(client_ask(&client, message), 0, ENOENT,
		       "no block 1 of counters in scope 2");
	message.counters.scope = 77;
	expect_refusal(client_ask(&client, message), 0, ENOENT,
		       "no block 1 of counters in scope 77");
}

Test(counters, feed_counters_follow_their_table)
{
	static const struct tb_counter table[] = { { "eaten", "apples", "apples that were eaten" },
						   { "left", "apples", "apples that are left" } };
	static uint64_t values[2] = { 3, 4 };
	struct control_message message = { .type = CONTROL_COUNTERS,
					   .counters = { .scope = TB_SCOPE_FEED, .index = 1 } };
	const struct control_message *answer;

	cr_assert_eq(tb_publisher_count(publisher, "first", table, values, 1), 0);
	cr_assert_eq(tb_publisher_count(publisher, "second", table, values, 2), 0);
	client_open(&client);
	answer = client_ask(&client, message);
	cr_assert_eq(answer->type, CONTROL_VALUES);
	cr_expect_eq(answer->values.blocks, 2);
	cr_expect_eq(answer->values.index, 1);
	cr_expect_eq(answer->values.total, 2);
	cr_expect_str_eq(answer->values.name, "second");
	for (uint32_t i = 0; i < 2; i++) {
		cr_expect_str_eq(answer->values.entry[i].name, table[i].name);
		cr_expect_str_eq(answer->values.entry[i].unit, table[i].unit);
		cr_expect_eq(answer->values.entry[i].value, values[i]);
	}
	message.counters.index = 2;
	expect_refusal(client_ask(&client, message), 0, ENOENT,
		       "no block 2 of counters in scope 3");
}

Test(counters, unpublished_names_are_paged)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	struct control_message message = { .type = CONTROL_UNPUBLISHED,
					   .unpublished = { .topic_id = 1 } };
	const struct control_message *answer;
	uint32_t seen = 0;
	char name[32];

	for (unsigned int i = 0; i < 50; i++)
		for (unsigned int times = 0; times <= i; times++) {
			snprintf(name, sizeof(name), "N%u", i);
			tb_topic_unpublished(topic, name);
		}
	client_open(&client);
	do {
		answer = client_ask(&client, message);
		cr_assert_eq(answer->type, CONTROL_UNPUBLISHED_NAMES);
		cr_expect_eq(answer->unpublished_names.total, 50);
		for (uint32_t i = 0; i < answer->unpublished_names.count; i++, seen++) {
			snprintf(name, sizeof(name), "N%u", seen);
			cr_expect_str_eq(answer->unpublished_names.entry[i].name, name);
			cr_expect_eq(answer->unpublished_names.entry[i].records, seen + 1);
		}
		message.unpublished.after = seen;
	} while (answer->unpublished_names.count > 0);
	cr_expect_eq(seen, 50);
	message.unpublished.after = UINT32_MAX;
	cr_expect_eq(client_ask(&client, message)->unpublished_names.count, 0);
	message.unpublished.topic_id = 9;
	expect_refusal(client_ask(&client, message), 9, ENOENT,
		       "bus test: found topic id 9, expected an id from the catalogue");
}

static void keep_unpublished(void *user, const struct tb_unpublished *unpublished)
{
	snprintf(user, 32, "%s", unpublished->instrument);
}

/* A name that the directory refuses may have any bytes. */
Test(counters, non_ascii_name_is_counted_and_masked)
{
	struct tb_topic *topic = scene_topic(publisher, "t", 64, 0);
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = "shm:test" };
	char name[32] = "";

	cr_assert_eq(tb_instrument(topic, "M\xc3\x9cLLER"), -EINVAL);
	tb_topic_unpublished(topic, "M\xc3\x9cLLER");
	cr_assert_geq(tb_inspect_counters(&options, NULL, keep_unpublished, name), 0, "%s",
		      tb_error());
	cr_expect_str_eq(name, "M??LLER");
}
