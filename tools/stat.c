/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus stat: prints the counters of a bus, its topics and its feeds, the unpublished records,
 * and the multicast groups. */
#include <stdio.h>
#include <string.h>

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

/* The instrument is in the column `counter`. */
static void on_unpublished(void *user, const struct tb_unpublished *unpublished)
{
	struct table *table = user;

	table_text(table, "unpublished");
	table_text(table, unpublished->topic);
	table_text(table, unpublished->instrument);
	table_number(table, unpublished->records);
	table_text(table, "records");
}

/* One row for the bus's group, then one for each topic with another group. */
struct groups {
	struct table *table;
	char notice[8], multicast[64];
};

/* The group is in the column `counter`. */
static void group_row(struct table *table, const char *name, const char *notice,
		      const char *multicast, uint32_t notice_bytes)
{
	char unit[32];

	snprintf(unit, sizeof(unit), "%s bytes", notice);
	table_text(table, "group");
	table_text(table, name);
	table_text(table, multicast);
	table_number(table, notice_bytes);
	table_text(table, unit);
}

static void on_bus(void *user, const struct tb_bus_info *bus)
{
	struct groups *groups = user;

	snprintf(groups->notice, sizeof(groups->notice), "%s", bus->notice);
	snprintf(groups->multicast, sizeof(groups->multicast), "%s", bus->multicast);
	if (bus->multicast[0])
		group_row(groups->table, bus->name, bus->notice, bus->multicast, bus->notice_bytes);
}

static void on_topic(void *user, const struct tb_topic_info *topic)
{
	struct groups *groups = user;

	if (topic->multicast[0] && (strcmp(topic->multicast, groups->multicast) != 0 ||
				    strcmp(topic->notice, groups->notice) != 0))
		group_row(groups->table, topic->name, topic->notice, topic->multicast,
			  topic->notice_bytes);
}

static int stat_print(const struct command *command, const char *address,
		      const struct command_look *look)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = address,
						    .timeout_ms = look->timeout_ms,
						    .ticket = look->ticket };
	struct table table = { .columns = columns,
			       .column_count = sizeof(columns) / sizeof(columns[0]) };
	struct groups groups = { .table = &table };
	int result = tb_inspect_counters(&options, on_counter, on_unpublished, &table);

	if (result >= 0)
		result = tb_inspect_topics(&options, NULL, on_bus, on_topic, &groups);
	if (result < 0) {
		table_free(&table);
		return command_failed(command, result);
	}
	return table_print(&table, look->format, command->name);
}

static int stat_run(struct command_call *call)
{
	struct command_look look;

	if (command_look(call, &look) < 0)
		return call->status;
	return stat_print(call->command, call->operands[0], &look);
}

const struct command stat_command = {
	.name = "stat",
	.operands = "ADDRESS",
	.words = "print the counters of a bus, its topics and its feeds",
	.options = command_look_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = stat_run,
};
