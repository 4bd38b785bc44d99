/* SPDX-License-Identifier: Apache-2.0 */
/* A bus whose every byte is known, for the tests of the tickbus command.
 *
 *   tools_bus NAME [TICKET [PATTERN]]
 *
 * TICKET is the file of a ticket. Clients with the ticket see t.quote and t.live. Clients without a
 * ticket are refused, or see the topics of PATTERN.
 *
 * Prints "ready" when its topics are complete. Then it runs commands from standard input and
 * answers each by "ok".
 *
 * publish N            adds N records to t.live
 * name X               adds a record of instrument X
 * clear X              removes the value of X
 * past X               corrects an older record of X
 * known X              registers X
 * mix N                adds N records of 7 instruments: updates, cancels and clears
 * plain                adds a topic t.plain without last values
 * lost X               counts a record of X as not published
 * quality STATE CAUSE  states the quality of t.live
 * group N              adds N messages to t.group, which belongs to a group: AA or BB, then CC
 * end                  ends t.live
 * restart              restarts it
 *
 * Ends with standard input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tickbus/publisher.h"

#define BEGIN_NS UINT64_C(1577716500000000000) /* 2019-12-30T14:35:00Z */

/* As the built-in schema quote has it. */
struct quote {
	int64_t bid_price, ask_price;
	uint32_t bid_size, ask_size;
	uint64_t source_time;
};

static void expect(int result)
{
	if (result >= 0)
		return;
	fprintf(stderr, "tools_bus: %s\n", tb_error());
	exit(1);
}

static struct tb_topic *create(struct tb_publisher *publisher, const struct tb_schema *schema,
			       const char *name, uint32_t slots)
{
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = name,
						  .schema = schema,
						  .slots = slots,
						  .instruments = 16 };
	struct tb_topic *topic;

	expect(tb_topic_create(publisher, &options, &topic));
	return topic;
}

/* Record n of a topic has the time BEGIN_NS + n and prices that follow from n. */
static void publish(struct tb_topic *topic, const char *name, uint8_t kind, uint16_t length)
{
	const uint64_t n = tb_topic_sequence(topic) + 1;
	const int instrument = tb_instrument(topic, name);
	const struct quote quote = { .bid_price = 2866700 + (int64_t)n,
				     .ask_price = -5,
				     .bid_size = (uint32_t)n,
				     .ask_size = UINT32_MAX,
				     .source_time = BEGIN_NS };
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)instrument,
					  .kind = kind,
					  .length = length,
					  .time_ns = BEGIN_NS + n,
					  .data = &quote };

	expect(instrument);
	expect(tb_publish(topic, &update));
}

static void publish_past(struct tb_topic *topic, const char *name)
{
	const struct quote quote = { .bid_price = 1 };
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)tb_instrument(topic, name),
					  .kind = TB_KIND_CORRECTION,
					  .flags = TB_FLAG_PAST,
					  .length = sizeof(quote),
					  .time_ns = BEGIN_NS,
					  .data = &quote };

	expect(tb_publish(topic, &update));
}

static void publish_many(struct tb_topic *topic, int count)
{
	for (int i = 0; i < count; i++)
		publish(topic, "ACME", TB_KIND_UPDATE, sizeof(struct quote));
}

static void publish_mix(struct tb_topic *topic, int count)
{
	char name[8];

	for (int i = 0; i < count; i++) {
		const uint64_t n = tb_topic_sequence(topic) + 1;
		const uint8_t kind = n % 11 == 0  ? TB_KIND_CLEAR
				     : n % 7 == 0 ? TB_KIND_CANCEL
						  : TB_KIND_UPDATE;

		snprintf(name, sizeof(name), "M%d", (int)(n * n % 13));
		publish(topic, name, kind, kind == TB_KIND_CLEAR ? 0 : sizeof(struct quote));
	}
}

static void fill(struct tb_publisher *publisher, const struct tb_schema *schema)
{
	struct tb_topic *topic = create(publisher, schema, "t.quote", 64);

	publish(topic, "ACME", TB_KIND_UPDATE, sizeof(struct quote));
	publish(topic, "A,\"B\\", TB_KIND_CORRECTION, sizeof(struct quote));
	publish(topic, "ACME", 130, 8);
	publish(topic, "ACME", TB_KIND_CANCEL, 0);
	expect(tb_topic_end(topic));
	topic = create(publisher, schema, "t.small", 64);
	publish_many(topic, 1000);
	expect(tb_topic_end(topic));
	topic = create(publisher, schema, "t.hole", 64);
	publish_many(topic, 1);
	publish(topic, "ACME", TB_KIND_HOLE, 0);
	publish(topic, "ACME", TB_KIND_HOLE, 0);
	publish_many(topic, 1);
	for (int i = 0; i < 3; i++)
		tb_topic_unpublished(topic, "LOST");
	expect(tb_topic_end(topic));
	expect(tb_topic_end(create(publisher, schema, "t.empty", 64)));
}

static void add_plain(struct tb_publisher *publisher, const struct tb_schema *schema)
{
	const struct tb_topic_options options = { .size = sizeof(options),
						  .name = "t.plain",
						  .schema = schema,
						  .flags = TB_TOPIC_NO_LAST_VALUE };
	struct tb_topic *topic;

	expect(tb_topic_create(publisher, &options, &topic));
	publish_many(topic, 1);
}

static void publish_group(struct tb_publisher *publisher, const struct tb_schema *schema, int count)
{
	static struct tb_group *group;
	static struct tb_topic *topic;
	const struct tb_group_options how = { .size = sizeof(how), .name = "g" };
	const struct quote quote = { .bid_price = 1 };
	struct tb_update update = { .size = sizeof(update),
				    .kind = TB_KIND_UPDATE,
				    .length = sizeof(quote),
				    .data = &quote };

	if (!group) {
		struct tb_topic_options options = { .size = sizeof(options),
						    .name = "t.group",
						    .schema = schema,
						    .slots = 64,
						    .instruments = 16 };

		expect(tb_group_create(publisher, &how, &group));
		options.group = group;
		expect(tb_topic_create(publisher, &options, &topic));
		expect(tb_instrument(topic, "DD"));
	}
	for (int i = 0; i < count; i++) {
		expect(tb_group_message(group));
		update.instrument = (uint32_t)tb_instrument(topic, i % 2 ? "BB" : "AA");
		expect(tb_publish(topic, &update));
		update.instrument = (uint32_t)tb_instrument(topic, "CC");
		expect(tb_publish(topic, &update));
	}
	expect(tb_group_flush(group));
}

static void obey(struct tb_publisher *publisher, const struct tb_schema *schema,
		 struct tb_topic *live, const char *line)
{
	uint32_t quality, cause;
	char name[32];
	int count;

	if (sscanf(line, "publish %d", &count) == 1)
		publish_many(live, count);
	else if (sscanf(line, "mix %d", &count) == 1)
		publish_mix(live, count);
	else if (sscanf(line, "quality %u %u", &quality, &cause) == 2)
		expect(tb_topic_quality(live, quality, cause));
	else if (sscanf(line, "name %24[^\n]", name) == 1)
		publish(live, name, TB_KIND_UPDATE, sizeof(struct quote));
	else if (sscanf(line, "clear %24[^\n]", name) == 1)
		publish(live, name, TB_KIND_CLEAR, 0);
	else if (sscanf(line, "past %24[^\n]", name) == 1)
		publish_past(live, name);
	else if (sscanf(line, "known %24[^\n]", name) == 1)
		expect(tb_instrument(live, name));
	else if (sscanf(line, "group %d", &count) == 1)
		publish_group(publisher, schema, count);
	else if (!strcmp(line, "plain\n"))
		add_plain(publisher, schema);
	else if (sscanf(line, "lost %24[^\n]", name) == 1)
		tb_topic_unpublished(live, name);
	else if (!strcmp(line, "end\n"))
		expect(tb_topic_end(live));
	else if (!strcmp(line, "restart\n"))
		expect(tb_topic_restart(live));
	else
		exit(2);
	puts("ok");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct tb_counter table[] = { { "messages", "messages", "messages read" } };
	static const uint64_t messages = 42;
	static const char *const seen[] = { "t.quote", "t.live" };
	uint8_t ticket[TB_TICKET_BYTES];
	const char *const *anyone = (const char *const *)&argv[argc > 3 ? 3 : 0];
	const struct tb_realm realms[] = {
		{ sizeof(realms[0]), .name = "desk", .ticket = ticket, .topics = seen,
		  .topic_count = 2 },
		{ sizeof(realms[0]), .name = "anonymous", .topics = anyone, .topic_count = 1 },
	};
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = argc > 1 ? argv[1] : "",
						      .stale_ms = 200,
						      .exit_wait_ms = UINT32_MAX,
						      .realms = realms,
						      .realm_count =
							      argc > 2 ? (size_t)argc - 2 : 0 };
	struct tb_publisher *publisher;
	struct tb_schema *schema;
	struct tb_topic *live;
	char line[64];

	if (argc > 2)
		expect(tb_ticket_load(argv[2], ticket));
	expect(tb_schema_load(&schema, "quote"));
	expect(tb_publisher_open(&publisher, &options));
	fill(publisher, schema);
	live = create(publisher, schema, "t.live", 64);
	expect(tb_publisher_count(publisher, "feed-1", table, &messages, 1));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		obey(publisher, schema, live, line);
	tb_publisher_close(publisher);
	tb_schema_free(schema);
	return 0;
}
