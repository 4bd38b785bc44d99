/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus stat: prints the counters of a bus, its topics and its feeds, the unpublished records,
 * and the multicast groups. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tickbus/error.h"
#include "tickbus/inspect.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/sample.h"
#include "tools/stop.h"
#include "tools/table.h"

#define INTERVAL_MS_MIN 100
#define INTERVAL_MS_MAX 86400000
#define SECOND_NS       UINT64_C(1000000000)
#define MS_NS           UINT64_C(1000000)

/* The middle columns are those of a single look. */
static const struct table_column columns[] = {
	{ "time_ns", TABLE_BARE }, { "scope", TABLE_TEXT }, { "name", TABLE_TEXT },
	{ "counter", TABLE_TEXT }, { "value", TABLE_BARE }, { "unit", TABLE_TEXT },
	{ "rate", TABLE_BARE },    { "note", TABLE_TEXT },
};
#define COLUMNS        (sizeof(columns) / sizeof(columns[0]))
#define COLUMNS_SINGLE 5

struct stat {
	const struct command *command;
	const char *address;
	struct command_look look;
	uint64_t interval_ms; /* 0: a single look */
	uint64_t left;        /* looks until the end */
	bool counted;         /* --count was given */
	bool headed;          /* CSV: the header row was printed */
	bool away;            /* the last look found no publisher, which was reported */
	int stop_fd;
	struct sample before; /* the last printed sample */
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

/* What is there now rises and falls, so it has no rate. */
static bool is_level(const char *name)
{
	static const char *const levels[] = { "subscribers", "joins",   "sleepers", "instruments",
					      "capacity",    "quality", "orders",   "symbols" };

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (strcmp(name, levels[i]) == 0)
			return true;
	return false;
}

static void on_counter(void *user, const struct tb_counter_value *counter)
{
	sample_add(user, scope_word(counter->scope), counter->block, counter->name, counter->value,
		   counter->unit, !is_level(counter->name));
}

/* The instrument is in the column `counter`. */
static void on_unpublished(void *user, const struct tb_unpublished *unpublished)
{
	sample_add(user, "unpublished", unpublished->topic, unpublished->instrument,
		   unpublished->records, "records", true);
}

/* One row for the bus's group, then one for each topic with another group. */
struct groups {
	struct sample *sample;
	char notice[8], multicast[64];
};

/* The group is in the column `counter`. */
static void group_row(struct sample *sample, const char *name, const char *notice,
		      const char *multicast, uint32_t notice_bytes)
{
	char unit[32];

	snprintf(unit, sizeof(unit), "%s bytes", notice);
	sample_add(sample, "group", name, multicast, notice_bytes, unit, false);
}

static void on_bus(void *user, const struct tb_bus_info *bus)
{
	struct groups *groups = user;

	groups->sample->bus_id = bus->bus_id;
	snprintf(groups->notice, sizeof(groups->notice), "%s", bus->notice);
	snprintf(groups->multicast, sizeof(groups->multicast), "%s", bus->multicast);
	if (bus->multicast[0])
		group_row(groups->sample, bus->name, bus->notice, bus->multicast,
			  bus->notice_bytes);
}

static void on_topic(void *user, const struct tb_topic_info *topic)
{
	struct groups *groups = user;

	if (topic->multicast[0] && (strcmp(topic->multicast, groups->multicast) != 0 ||
				    strcmp(topic->notice, groups->notice) != 0))
		group_row(groups->sample, topic->name, topic->notice, topic->multicast,
			  topic->notice_bytes);
}

static uint64_t clock_now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* 0, or -errno with tb_error(). */
static int sample_take(const struct stat *stat, struct sample *sample)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = stat->address,
						    .timeout_ms = stat->look.timeout_ms,
						    .ticket = stat->look.ticket };
	struct groups groups = { .sample = sample };
	int result;

	sample->time_ns = clock_now_ns(CLOCK_REALTIME);
	sample->taken_ns = clock_now_ns(CLOCK_MONOTONIC);
	result = tb_inspect_counters(&options, on_counter, on_unpublished, sample);
	if (result >= 0)
		result = tb_inspect_topics(&options, NULL, on_bus, on_topic, &groups);
	if (result < 0)
		sample_free(sample);
	return result < 0 ? result : 0;
}

/* -- printing ---------------------------------------------------------------------------------- */

static void row_print(struct table *table, struct stat *stat, const struct sample *sample,
		      size_t at)
{
	const struct sample_row *row = &sample->rows[at];
	enum sample_note note;
	char text[32] = "";
	double rate;

	if (table->columns == columns)
		table_number(table, sample->time_ns);
	table_text(table, row->scope);
	table_text(table, row->name);
	table_text(table, row->counter);
	table_number(table, row->value);
	table_text(table, row->unit);
	if (stat->interval_ms == 0)
		return;
	note = sample_compare(&stat->before, sample, at, &rate);
	if (note == SAMPLE_RATE)
		snprintf(text, sizeof(text), "%.1f", rate);
	table_text(table, text);
	table_text(table, sample_note_word(note));
}

/* A person reads the time once, above each table. */
static void time_print(const struct sample *sample, bool headed)
{
	const time_t second = (time_t)(sample->time_ns / SECOND_NS);
	char text[64];
	struct output out;
	struct tm day;

	gmtime_r(&second, &day);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.", &day);
	output_open(&out, 1);
	if (headed)
		output_byte(&out, '\n');
	output_text(&out, text);
	output_digits(&out, sample->time_ns % SECOND_NS / MS_NS, 3);
	output_text(&out, "Z\n");
	output_flush(&out); /* the table finds the same failure */
	free(out.bytes);
}

static int sample_print(struct stat *stat, const struct sample *sample)
{
	const bool text = stat->look.format == TB_FORMAT_TEXT, repeated = stat->interval_ms > 0;
	struct table table = { .columns = repeated && !text ? columns : columns + 1,
			       .column_count = repeated ? COLUMNS - text : COLUMNS_SINGLE,
			       .error = sample->error,
			       .headless = stat->headed };

	for (size_t i = 0; i < sample->count; i++)
		row_print(&table, stat, sample, i);
	if (repeated && text)
		time_print(sample, stat->headed);
	stat->headed = true;
	return table_print(&table, stat->look.format, stat->command->name);
}

/* -- repeating --------------------------------------------------------------------------------- */

/* A publisher that is away may come back: reported once, and tried again. */
static int look_failed(struct stat *stat, int result)
{
	const bool lasting = stat->interval_ms == 0 || stat->before.count == 0 ||
			     command_status(result) != COMMAND_NO_PUBLISHER;

	if (lasting)
		return command_failed(stat->command, result);
	if (!stat->away)
		fprintf(stderr, "tickbus stat: %s; will try again at each interval\n", tb_error());
	stat->away = true;
	return COMMAND_DONE;
}

/* One sample: COMMAND_DONE to go on, or the exit status. */
static int look(struct stat *stat)
{
	struct sample sample = { 0 };
	int result = sample_take(stat, &sample);

	if (result < 0)
		return look_failed(stat, result);
	stat->away = false;
	stat->left--;
	result = sample_print(stat, &sample);
	sample_free(&stat->before);
	stat->before = sample;
	return result;
}

/* Waits until the time, a signal, or the end of the reader: COMMAND_DONE to go on. */
static int await(const struct stat *stat, uint64_t until_ns)
{
	struct output out;
	uint64_t now_ns;

	output_open(&out, 1);
	while (!out.error && !stop_asked() && (now_ns = clock_now_ns(CLOCK_MONOTONIC)) < until_ns) {
		struct pollfd ready[] = { { .fd = stat->stop_fd, .events = POLLIN },
					  output_watch(&out) };

		if (poll(ready, 2, (int)((until_ns - now_ns + MS_NS - 1) / MS_NS)) > 0)
			output_watched(&out, &ready[1]);
	}
	return output_close(&out, stat->command->name);
}

/* Looks begin a whole number of intervals after the first. A look that took longer than an interval
 * delays the next. */
static int stat_repeat(struct stat *stat)
{
	uint64_t due_ns = clock_now_ns(CLOCK_MONOTONIC);
	int status;

	stat->stop_fd = stop_open();
	if (stat->stop_fd < 0) {
		fprintf(stderr, "tickbus stat: cannot handle signals: %s\n",
			strerror(-stat->stop_fd));
		return COMMAND_FAILED;
	}
	for (;;) {
		status = look(stat);
		if (status != COMMAND_DONE || stat->left == 0 || stop_asked())
			return status;
		do
			due_ns += stat->interval_ms * MS_NS;
		while (due_ns <= clock_now_ns(CLOCK_MONOTONIC));
		status = await(stat, due_ns);
		if (status != COMMAND_DONE || stop_asked())
			return status;
	}
}

/* -- options ----------------------------------------------------------------------------------- */

/* Seconds with at most three decimals: "5", "0.5". */
static int interval_take(const struct command_call *call, uint64_t *interval_ms)
{
	const char *text = call->value;
	char *end = NULL;
	const double seconds = strtod(text, &end);
	const char *point = strchr(text, '.');

	if (*text && strspn(text, "0123456789.") == strlen(text) && !*end &&
	    (!point || strlen(point) <= 4) && seconds * 1000 >= INTERVAL_MS_MIN &&
	    seconds * 1000 <= INTERVAL_MS_MAX) {
		*interval_ms = (uint64_t)(seconds * 1000 + 0.5);
		return 0;
	}
	return command_wrong(call, "--interval: found \"%s\", expected seconds from 0.1 to 86400",
			     text);
}

static int option_take(struct stat *stat, const struct command_call *call, int letter)
{
	switch (letter) {
	case 'i':
		return interval_take(call, &stat->interval_ms);
	case 'c':
		stat->counted = true;
		return command_number(call, "count", 1, UINT64_MAX, &stat->left);
	default:
		return command_look_take(call, &stat->look, letter);
	}
}

static int stat_run(struct command_call *call)
{
	struct stat stat = { .command = call->command,
			     .look = { .format = TB_FORMAT_TEXT, .timeout_ms = COMMAND_TIMEOUT_MS },
			     .left = UINT64_MAX,
			     .stop_fd = -1 };
	int letter, status;

	while ((letter = command_next(call)) > 0) {
		status = option_take(&stat, call, letter);
		if (status != 0)
			return status;
	}
	if (letter < 0 || command_look_check(call, &stat.look) < 0)
		return call->status;
	if (stat.counted && stat.interval_ms == 0)
		return command_wrong(call, "found --count, expected --interval with it");
	stat.address = call->operands[0];
	status = stat.interval_ms > 0 ? stat_repeat(&stat) : look(&stat);
	sample_free(&stat.before);
	return status;
}

static const struct command_option options[] = {
	COMMAND_LOOK_OPTIONS,
	{ "interval", "SECONDS", "print again each 0.1 to 86400 seconds, with rates", 'i' },
	{ "count", "N", "exit after N prints; with --interval", 'c' },
	{ 0 },
};

const struct command stat_command = {
	.name = "stat",
	.operands = "ADDRESS",
	.words = "print the counters of a bus, its topics and its feeds",
	.options = options,
	.operands_min = 1,
	.operands_max = 1,
	.run = stat_run,
};
