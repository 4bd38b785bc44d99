/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus stat: every counter of a bus, its topics and its feeds, and what could not be published.
 */
#include "tickbus/inspect.h"
#include "tools/command.h"
#include "tools/table.h"

static const struct table_column columns[] = {
	{ "scope", TABLE_TEXT }, { "name", TABLE_TEXT }, { "counter", TABLE_TEXT },
	{ "value", TABLE_BARE }, { "unit", TABLE_TEXT },
};

static const char *scope_word(enum tb_scope scope)
{
	switch (scope) {
	case TB_SCOPE_BUS:
		return "bus";
	case TB_SCOPE_TOPIC:
		return "topic";
	case TB_SCOPE_FEED:
		return "feed";
	case TB_SCOPE_SUBSCRIPTION:
		return "subscription";
	}
	return "unknown";
}

static void on_counter(void *user, const struct tb_counter_value *counter)
{
	struct table *table = user;

	table_text(table, scope_word(counter->scope));
	table_text(table, counter->block);
	table_text(table, counter->name);
	table_number(table, counter->value);
	table_text(table, counter->unit);
}

/* The instrument stands where a counter's name does. */
static void on_unpublished(void *user, const struct tb_unpublished *unpublished)
{
	struct table *table = user;

	table_text(table, "unpublished");
	table_text(table, unpublished->topic);
	table_text(table, unpublished->instrument);
	table_number(table, unpublished->records);
	table_text(table, "records");
}

static int stat_print(const struct command *command, const char *address, enum tb_format format)
{
	const struct tb_inspect_options options = { .size = sizeof(options), .address = address };
	struct table table = { .columns = columns,
			       .column_count = sizeof(columns) / sizeof(columns[0]) };
	int result = tb_inspect_counters(&options, on_counter, on_unpublished, &table);

	if (result < 0) {
		table_free(&table);
		return command_failed(command, result);
	}
	return table_print(&table, format, command->name);
}

static int stat_run(struct command_call *call)
{
	enum tb_format format;

	if (command_format_only(call, &format) < 0)
		return call->status;
	return stat_print(call->command, call->operands[0], format);
}

const struct command stat_command = {
	.name = "stat",
	.operands = "ADDRESS",
	.words = "print the counters of a bus, its topics and its feeds",
	.options = command_format_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = stat_run,
};
