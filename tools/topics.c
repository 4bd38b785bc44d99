/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus topics: lists the topics of a bus. */
#include <stdio.h>
#include <string.h>

#include "tickbus/inspect.h"
#include "tools/command.h"
#include "tools/quality.h"
#include "tools/table.h"

static const struct table_column columns[] = {
	{ "topic", TABLE_TEXT },       { "schema", TABLE_TEXT },  { "schema_version", TABLE_BARE },
	{ "head", TABLE_BARE },        { "slots", TABLE_BARE },   { "slot_bytes", TABLE_BARE },
	{ "instruments", TABLE_BARE }, { "checked", TABLE_BARE }, { "last_value", TABLE_BARE },
	{ "state", TABLE_TEXT },       { "epoch", TABLE_TEXT },   { "fingerprint", TABLE_TEXT },
	{ "quality", TABLE_TEXT },     { "user", TABLE_TEXT },    { "uid", TABLE_BARE },
};

struct topics {
	struct table table;
	int64_t user; /* that listens; -1: over a network */
	bool realms;
};

static void on_bus(void *user, const struct tb_bus_info *bus)
{
	struct topics *topics = user;

	topics->user = bus->user;
	topics->realms = bus->realms;
}

static void on_topic(void *user, const struct tb_topic_info *topic)
{
	struct topics *topics = user;
	struct table *table = &topics->table;
	char name[COMMAND_USER_BYTES];

	table_text(table, topic->name);
	table_text(table, topic->schema);
	table_number(table, topic->schema_version);
	table_number(table, topic->head);
	table_number(table, topic->slots);
	table_number(table, topic->slot_bytes);
	table_number(table, topic->instruments);
	table_flag(table, topic->checked);
	table_flag(table, topic->last_value);
	table_text(table, topic->ended ? "ended" : "live");
	table_id(table, topic->epoch);
	table_id(table, topic->fingerprint);
	table_text(table, quality_word(topic->quality));
	table_text(table, command_user(topics->user, name));
	if (topics->user < 0)
		table_none(table);
	else
		table_number(table, (uint64_t)topics->user);
}

static int topics_print(const struct command *command, const char *address, const char *pattern,
			const struct command_look *look)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = address,
						    .timeout_ms = look->timeout_ms,
						    .ticket = look->ticket };
	struct topics topics = { .table = { .columns = columns,
					    .column_count = sizeof(columns) / sizeof(columns[0]) },
				 .user = -1 };
	int count = tb_inspect_topics(&options, pattern, on_bus, on_topic, &topics);

	if (count < 0) {
		table_free(&topics.table);
		return command_failed(command, count);
	}
	if (count == 0 && pattern && !strpbrk(pattern, "*>")) {
		fprintf(stderr, "tickbus topics: %s: no topic %s%s\n", address, pattern,
			!topics.realms ? ""
			: look->ticket ? " for this ticket"
				       : " for clients without a ticket");
		return COMMAND_REFUSED;
	}
	return table_print(&topics.table, look->format, command->name);
}

static int topics_run(struct command_call *call)
{
	struct command_look look;

	if (command_look(call, &look) < 0)
		return call->status;
	return topics_print(call->command, call->operands[0], call->operands[1], &look);
}

const struct command topics_command = {
	.name = "topics",
	.operands = "ADDRESS [PATTERN]",
	.words = "list the topics of a bus",
	.options = command_look_options,
	.operands_min = 1,
	.operands_max = 2,
	.run = topics_run,
};
