/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus get: prints the present values of instruments. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/command.h"
#include "tools/ready.h"
#include "tools/rows.h"
#include "tools/stop.h"

struct get {
	const struct command *command;
	struct rows rows;
	const char *address, *topic;
	char **names; /* operands; NULL-terminated, empty: all instruments that have a value */
	bool wait, spreadsheet;
	uint32_t timeout_ms;
	const uint8_t *ticket; /* NULL: no ticket */
	uint8_t shown[TB_TICKET_BYTES];
	uint32_t *instruments;
	size_t count;
	int status;
};

/* -- values ----------------------------------------------------------------------------------- */

static void report_no_value(const struct get *get, const struct tb_record *record)
{
	if (record->kind == TB_KIND_CLEAR)
		fprintf(stderr,
			"tickbus get: topic %s: %s has no value: record %" PRIu64 " cleared it\n",
			get->topic, record->name, record->sequence);
	else
		fprintf(stderr,
			"tickbus get: topic %s: %s has no value: no record of it is a value\n",
			get->topic, record->name);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void on_value(void *user, const struct tb_source *source, int result,
		     const struct tb_record *record)
{
	struct get *get = user;

	get->rows.now_ns = now_ns();
	if (result == 1) {
		rows_record(&get->rows, source, record);
		return;
	}
	if (result == 0 && !*get->names)
		return;
	if (result == 0)
		report_no_value(get, record);
	else
		fprintf(stderr, "tickbus get: %s\n", tb_error());
	if (get->status == COMMAND_DONE)
		get->status = COMMAND_NO_VALUE;
}

/* The numbers of the instruments that were asked for. The others are reported. */
static int instruments_named(struct get *get, const struct tb_source *source)
{
	size_t names = 0;

	while (get->names[names])
		names++;
	get->instruments = calloc(names, sizeof(*get->instruments));
	if (!get->instruments)
		return -ENOMEM;
	for (size_t i = 0; i < names; i++) {
		const int result = tb_source_instrument(source, get->names[i]);

		if (result >= 0) {
			get->instruments[get->count++] = (uint32_t)result;
			continue;
		}
		if (result != -ENOENT && result != -EINVAL)
			return result;
		fprintf(stderr, "tickbus get: %s\n", tb_error());
		get->status = COMMAND_NO_VALUE;
	}
	return 0;
}

static int instruments_all(struct get *get, const struct tb_source *source)
{
	const int count = tb_source_instruments(source);

	if (count <= 0)
		return count;
	get->instruments = calloc((size_t)count, sizeof(*get->instruments));
	if (!get->instruments)
		return -ENOMEM;
	for (; get->count < (size_t)count; get->count++)
		get->instruments[get->count] = (uint32_t)get->count;
	return 0;
}

static int values_print(struct get *get, const struct tb_source *source)
{
	int result = tb_get_many(source, NULL, 0, on_value, get);

	if (result == -EOPNOTSUPP) /* a topic without values, whatever its instruments are */
		return command_failed(get->command, result);
	rows_header(&get->rows, tb_source_schema(source));
	result = *get->names ? instruments_named(get, source) : instruments_all(get, source);
	if (result == 0 && get->count > 0)
		result = tb_get_many(source, get->instruments, get->count, on_value, get);
	return result < 0 ? command_failed(get->command, result) : get->status;
}

/* -- the topic -------------------------------------------------------------------------------- */

static void on_event(void *user, const struct tb_event *event)
{
	const struct get *get = user;

	if (event->kind == TB_EVENT_REFUSED)
		fprintf(stderr, "tickbus get: topic %s: refused: %s\n", get->topic, event->words);
}

/* Between hosts, an age is only as right as their clocks. */
static void age_note(const struct get *get, const struct tb_subscriber *subscriber)
{
	uint32_t user;

	if (tb_subscriber_user(subscriber, &user) == -EOPNOTSUPP)
		fprintf(stderr,
			"tickbus get: %s: ages compare the publisher's clock with that of this "
			"host: they need synchronised clocks\n",
			get->address);
}

static int source_print(struct get *get, struct tb_subscriber *subscriber,
			const struct tb_subscription *subscription, int stop_fd)
{
	const struct tb_source *source;
	const int result =
		ready_wait(subscriber, subscription, get->topic, get->wait, stop_fd, &source);

	if (result < 0)
		return command_failed(get->command, result);
	if (!source)
		return COMMAND_FAILED; /* a signal */
	age_note(get, subscriber);
	return values_print(get, source);
}

/* Returns whether there is something to wait for. */
static bool wait_report(const struct get *get)
{
	const bool waits = get->wait && *tb_error();

	if (waits)
		fprintf(stderr, "tickbus get: waits: %s\n", tb_error());
	return waits;
}

static int get_print(struct get *get)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = get->address,
						   .connect_ms = get->timeout_ms,
						   .flags = get->wait ? TB_WAIT : 0,
						   .ticket = get->ticket };
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_event = on_event,
						      .user = get,
						      .flags = TB_VALUES |
							       (get->wait ? TB_WAIT : 0) };
	struct tb_subscriber *subscriber = NULL;
	struct tb_subscription *subscription;
	const int stop_fd = stop_open();
	bool waits = false;
	int result;

	if (stop_fd < 0) {
		fprintf(stderr, "tickbus get: cannot handle signals: %s\n", strerror(-stop_fd));
		return COMMAND_FAILED;
	}
	result = tb_subscriber_open(&subscriber, &how);
	if (result == 0)
		waits = wait_report(get);
	if (result == 0)
		result = tb_subscribe(subscriber, get->topic, &what, &subscription);
	if (result == 0 && !waits)
		wait_report(get);
	result = result < 0 ? command_failed(get->command, result)
			    : source_print(get, subscriber, subscription, stop_fd);
	tb_subscriber_close(subscriber);
	return result;
}

/* -- the command ------------------------------------------------------------------------------ */

static int option_take(struct get *get, const struct command_call *call, int letter)
{
	switch (letter) {
	case 'w':
		get->wait = true;
		return 0;
	case 'p':
		get->spreadsheet = true;
		return 0;
	case 't':
		get->ticket = get->shown;
		return command_ticket(call, get->shown);
	case 'm':
		return command_timeout(call, &get->timeout_ms);
	default:
		return command_format(call, &get->rows.format);
	}
}

static int get_topic(struct get *get, const struct command_call *call)
{
	int closed;

	get->address = call->operands[0];
	get->topic = call->operands[1];
	get->names = call->operands + 2;
	if (strpbrk(get->topic, "*>"))
		return command_wrong(call, "found pattern \"%s\", expected one topic's name",
				     get->topic);
	if (get->spreadsheet && command_spreadsheet(call, &get->rows.format) != 0)
		return COMMAND_USAGE;
	rows_open(&get->rows, get->rows.format, false);
	get->rows.ages = true;
	get->status = get_print(get);
	closed = rows_close(&get->rows, call->command->name);
	return closed != 0 ? COMMAND_FAILED : get->status;
}

static int get_run(struct command_call *call)
{
	struct get get = { .command = call->command,
			   .timeout_ms = COMMAND_TIMEOUT_MS,
			   .rows.format = TB_FORMAT_TEXT };
	int letter, status = 0;

	while (status == 0 && (letter = command_next(call)) != 0)
		status = letter < 0 ? -1 : option_take(&get, call, letter);
	if (status == 0)
		status = get_topic(&get, call);
	free(get.instruments);
	return status < 0 ? call->status : status;
}

static const struct command_option options[] = {
	{ "format", "text|csv|json", "output format (default text)", 'f' },
	COMMAND_SPREADSHEET,
	{ "wait", NULL, "wait for the publisher and the topic", 'w' },
	{ "ticket", "FILE", "use the ticket in this file", 't' },
	COMMAND_TIMEOUT,
	{ 0 },
};

const struct command get_command = {
	.name = "get",
	.operands = "ADDRESS TOPIC [INSTRUMENT...]",
	.words = "print the last values of instruments",
	.options = options,
	.operands_min = 2,
	.operands_max = INT16_MAX,
	.run = get_run,
};
