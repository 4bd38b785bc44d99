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
	{ "quality", TABLE_TEXT },
};

static void on_topic(void *user, const struct tb_topic_info *topic)
{
	struct table *table = user;

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
}

static int topics_print(const struct command *command, const char *address, const char *pattern,
			const struct command_look *look)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = address,
						    .timeout_ms = look->timeout_ms,
						    .ticket = look->ticket };
	struct table table = { .columns = columns,
			       .column_count = sizeof(columns) / sizeof(columns[0]) };
	int count = tb_inspect_topics(&options, pattern, NULL, on_topic, &table);

	if (count < 0) {
		table_free(&table);
		return command_failed(command, count);
	}
	if (count == 0 && pattern && !strpbrk(pattern, "*>")) {
		fprintf(stderr, "tickbus topics: %s: no topic %s %s\n", address, pattern,
			look->ticket ? "for this ticket" : "for clients without a ticket");
		return COMMAND_REFUSED;
	}
	return table_print(&table, look->format, command->name);
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
