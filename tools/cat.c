/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus cat: prints records as they arrive. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/choose.h"
#include "tools/command.h"
#include "tools/past.h"
#include "tools/rows.h"
#include "tools/stop.h"
#include "tickbus/inspect.h"

#define BATCH      4096 /* records between two checks of signals and output */
#define TOPICS_MAX 1024

struct joined {
	char name[TB_TOPIC_NAME_MAX + 1];
	bool ended;
};

struct cat {
	const struct command *command;
	const struct command_call *call;
	struct rows rows;
	struct choose choose;
	struct past past;
	struct tb_schema *schema; /* records must be compatible with it; NULL: any schema */
	const char *pattern;
	bool exact; /* the pattern is one topic's name */
	bool until_end;
	bool wait, strict, spreadsheet;
	uint32_t timeout_ms;
	const uint8_t *ticket; /* NULL: no ticket */
	uint8_t shown[TB_TICKET_BYTES];
	enum tb_from from;
	enum tb_gap gap;
	uint64_t epoch, sequence;
	uint64_t left; /* records to print until the end, values of images included */
	struct joined *joined;
	size_t joined_count;
	bool ended; /* every joined topic has ended */
	bool done;
	int status;
};

static struct joined *joined_find(struct cat *cat, const char *name)
{
	for (size_t i = 0; i < cat->joined_count; i++)
		if (!strcmp(cat->joined[i].name, name))
			return &cat->joined[i];
	if (cat->joined_count == TOPICS_MAX)
		return NULL;
	snprintf(cat->joined[cat->joined_count].name, sizeof(cat->joined[0].name), "%s", name);
	return &cat->joined[cat->joined_count++];
}

/* A topic that is refused for good counts as ended: no record of it will come. */
static void note_end(struct cat *cat, const struct tb_event *event)
{
	struct joined *joined = joined_find(cat, event->topic);

	if (joined)
		joined->ended = event->kind == TB_EVENT_ENDED || event->kind == TB_EVENT_REFUSED;
	cat->ended = true;
	for (size_t i = 0; i < cat->joined_count; i++)
		cat->ended &= cat->joined[i].ended;
}

/* --until-end is reached when every topic of the bus that matches has ended. The topics that are
 * joined may be only some of them: short topics end while others wait to be joined. */
static bool end_reached(struct cat *cat, const char *address)
{
	const struct tb_inspect_options how = { .size = sizeof(how),
						.address = address,
						.timeout_ms = cat->timeout_ms,
						.ticket = cat->ticket };

	if (!cat->until_end || !cat->ended)
		return false;
	cat->ended = false; /* until the next topic ends */
	return cat->exact ||
	       tb_inspect_topics(&how, cat->pattern, NULL, NULL, NULL) <= (int)cat->joined_count;
}

/* The library retries a join that failed for lack of memory or descriptors, on either side. */
static bool is_transient(int code)
{
	return code == EAGAIN || code == EMFILE || code == ENFILE || code == ENOMEM;
}

/* With a pattern, a refused topic does not end the command. An event whose topic is the pattern
 * says that the connection was refused. */
static bool refused_all(const struct cat *cat, const struct tb_event *event)
{
	return cat->exact ? !is_transient(event->code)
			  : strcmp(event->topic, cat->pattern) == 0 &&
				    (event->code == EACCES || event->code == EPROTO);
}

/* Another process may have answered instead of the publisher, which may come back. */
static bool refused_for_now(const struct cat *cat, const struct tb_event *event)
{
	return cat->wait && (event->code == EACCES || event->code == EPROTO);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct cat *cat = user;

	if (cat->done)
		return;
	rows_event(&cat->rows, event);
	if (event->kind == TB_EVENT_APPEARED || event->kind == TB_EVENT_RESTART ||
	    event->kind == TB_EVENT_ENDED ||
	    (event->kind == TB_EVENT_REFUSED && !is_transient(event->code) &&
	     strcmp(event->topic, cat->pattern) != 0))
		note_end(cat, event);
	if (event->kind == TB_EVENT_REFUSED && refused_all(cat, event) &&
	    !refused_for_now(cat, event)) {
		cat->done = true;
		cat->status = COMMAND_REFUSED;
	}
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct cat *cat = user;

	if (cat->done)
		return;
	if (rows_record(&cat->rows, source, record) < 0) {
		fprintf(stderr,
			"tickbus cat: %s: record %llu has another schema than the header row\n",
			tb_source_topic(source), (unsigned long long)record->sequence);
		cat->done = true;
		cat->status = COMMAND_REFUSED;
		return;
	}
	cat->left--;
	cat->done = cat->left == 0;
}

/* Polls while there are records. Then waits for the bus, a signal, or the end of the reader. */
static int read_on(struct cat *cat, struct tb_subscriber *subscriber,
		   struct tb_subscription *subscription, const char *address, int stop_fd)
{
	struct pollfd ready[] = { { .fd = tb_subscriber_fd(subscriber), .events = POLLIN },
				  { .fd = stop_fd, .events = POLLIN },
				  output_watch(&cat->rows.out) };

	while (!cat->done && !stop_asked() && !cat->rows.out.error) {
		const int most = cat->left < BATCH ? (int)cat->left : BATCH;
		int count;

		if (stop_hung_up()) {
			choose_again(&cat->choose, cat->call, subscription);
			continue; /* a signal to stop may have come before */
		}
		count = tb_poll(subscriber, most);
		if (count < 0)
			return command_failed(cat->command, count);
		cat->done |= end_reached(cat, address);
		if (count > 0 || cat->done)
			continue;
		if (output_flush(&cat->rows.out) < 0)
			break;
		if (poll(ready, 3, -1) < 0 && errno != EINTR) {
			fprintf(stderr, "tickbus cat: cannot wait: %s\n", strerror(errno));
			return COMMAND_FAILED;
		}
		output_watched(&cat->rows.out, &ready[2]);
	}
	return cat->status;
}

/* Prints what the library waits for. False: it does not wait. */
static bool wait_report(void)
{
	const char *why = tb_error();

	if (*why)
		fprintf(stderr, "tickbus cat: waits: %s\n", why);
	return *why;
}

/* What became of the records, where some of them are left out on purpose. */
static void account(struct cat *cat, const struct tb_subscription *subscription)
{
	uint64_t values[ROWS_COUNTERS_MAX];
	size_t count;

	if (!choose_leaves_out(&cat->choose))
		return;
	count = tb_subscription_counters(subscription, values, ROWS_COUNTERS_MAX);
	rows_account(&cat->rows, values, count);
}

static int subscribe(struct cat *cat, const char *address, struct tb_subscription_options *what)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = address,
						   .connect_ms = cat->timeout_ms,
						   .topics_max = TOPICS_MAX,
						   .flags = cat->wait ? TB_WAIT : 0,
						   .ticket = cat->ticket };
	struct tb_subscriber *subscriber = NULL;
	struct tb_subscription *subscription = NULL;
	const bool patient = cat->wait || !cat->exact; /* a pattern always waits for topics */
	int stop_fd = stop_open(), result;
	bool waits;

	if (stop_fd < 0) {
		fprintf(stderr, "tickbus cat: cannot handle signals: %s\n", strerror(-stop_fd));
		return COMMAND_FAILED;
	}
	if (cat->choose.names.files)
		stop_hangups();
	result = tb_subscriber_open(&subscriber, &how);
	waits = result == 0 && cat->wait && wait_report();
	if (result == 0)
		result = tb_subscribe(subscriber, cat->pattern, what, &subscription);
	if (result == 0 && patient && !waits)
		wait_report();
	result = result < 0 ? command_failed(cat->command, result)
			    : read_on(cat, subscriber, subscription, address, stop_fd);
	if (subscription)
		account(cat, subscription);
	tb_subscriber_close(subscriber);
	return result;
}

/* A sequence, or epoch and sequence as in events: "7a060e162dabe845:1200". */
static bool position_take(struct cat *cat, const char *text)
{
	const char *colon = strchr(text, ':');
	char *end;

	cat->from = TB_FROM_SEQUENCE;
	cat->epoch = 0;
	if (colon) {
		if (colon - text != 16 || strspn(text, "0123456789abcdef") != 16)
			return false;
		cat->epoch = strtoull(text, NULL, 16);
		text = colon + 1;
	}
	errno = 0;
	cat->sequence = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && errno == 0 && cat->sequence > 0 &&
	       (!colon || cat->epoch > 0);
}

static int from_take(struct cat *cat, const struct command_call *call)
{
	if (!strcmp(call->value, "newest"))
		cat->from = TB_FROM_NEWEST;
	else if (!strcmp(call->value, "oldest"))
		cat->from = TB_FROM_OLDEST;
	else if (!strcmp(call->value, "image"))
		cat->from = TB_FROM_IMAGE;
	else if (!position_take(cat, call->value))
		return command_wrong(
			call,
			"--from: found \"%s\", expected oldest, newest, image, a sequence "
			"from 1 or EPOCH:SEQUENCE with an epoch of 16 hex digits",
			call->value);
	return 0;
}

static int gap_take(struct cat *cat, const struct command_call *call)
{
	if (!strcmp(call->value, "oldest"))
		cat->gap = TB_GAP_OLDEST;
	else if (!strcmp(call->value, "newest"))
		cat->gap = TB_GAP_NEWEST;
	else if (!strcmp(call->value, "image"))
		cat->gap = TB_GAP_IMAGE;
	else
		return command_wrong(call, "--gap: found \"%s\", expected oldest, newest or image",
				     call->value);
	return 0;
}

static int schema_take(struct cat *cat, const char *path)
{
	tb_schema_free(cat->schema);
	if (tb_schema_load(&cat->schema, path) == 0)
		return 0;
	fprintf(stderr, "tickbus cat: --schema: %s\n", tb_error());
	return COMMAND_FAILED;
}

static int option_take(struct cat *cat, const struct command_call *call, int letter)
{
	int status = choose_take(&cat->choose, call, letter);

	if (status == CHOOSE_NOT_MINE)
		status = past_take(&cat->past, call, letter);
	if (status != PAST_NOT_MINE)
		return status;
	switch (letter) {
	case 'r':
		return from_take(cat, call);
	case 'g':
		return gap_take(cat, call);
	case 'c':
		return command_number(call, "count", 1, UINT64_MAX, &cat->left);
	case 'u':
		cat->until_end = true;
		return 0;
	case 'w':
		cat->wait = true;
		return 0;
	case 'x':
		cat->strict = true;
		return 0;
	case 'p':
		cat->spreadsheet = true;
		return 0;
	case 's':
		return schema_take(cat, call->value);
	case 't':
		cat->ticket = cat->shown;
		return command_ticket(call, cat->shown);
	case 'm':
		return command_timeout(call, &cat->timeout_ms);
	default:
		return command_format(call, &cat->rows.format);
	}
}

/* The first option that says how to follow the topic; NULL: there is no option. */
static const char *follows(const struct cat *cat)
{
	return cat->from != TB_FROM_NEWEST   ? "--from"
	       : cat->gap != TB_GAP_OLDEST   ? "--gap"
	       : cat->left != UINT64_MAX     ? "--count"
	       : cat->until_end              ? "--until-end"
	       : cat->choose.watch           ? "--watch"
	       : cat->choose.conflate_us > 0 ? "--conflate"
	       : cat->choose.merge           ? "--merge"
	       : cat->choose.required        ? "--names-required"
					     : NULL;
}

/* Prints records of the past. */
static int cat_past(struct cat *cat, const struct command_call *call)
{
	const struct past_topic topic = {
		.how = { .size = sizeof(topic.how),
			 .address = call->operands[0],
			 .connect_ms = cat->timeout_ms,
			 .flags = cat->wait ? TB_WAIT : 0,
			 .ticket = cat->ticket },
		.name = cat->pattern,
		.schema = cat->schema,
		.names = cat->choose.names.source_count > 0 ? &cat->choose.names.chosen : NULL,
		.strict = cat->strict,
	};

	return past_print(&cat->past, call->command, &topic, &cat->rows);
}

/* Runs the command for its operands. */
static int cat_topic(struct cat *cat, struct command_call *call)
{
	const bool images = cat->from == TB_FROM_IMAGE || cat->gap == TB_GAP_IMAGE;
	struct tb_subscription_options what = { .size = sizeof(what),
						.on_record = on_record,
						.on_event = on_event,
						.user = cat,
						.from = cat->from,
						.epoch = cat->epoch,
						.sequence = cat->sequence,
						.flags = (cat->wait ? TB_WAIT : 0) |
							 (cat->strict ? TB_STRICT : 0),
						.schema = cat->schema,
						.gap = cat->gap };

	cat->pattern = call->operands[1];
	cat->exact = !strpbrk(cat->pattern, "*>");
	if (cat->strict && images)
		return command_wrong(call, "found --strict with an image, expected one of them: no "
					   "progress line bounds a stored value");
	if (choose_fill(&cat->choose, call, &what) != 0)
		return COMMAND_USAGE;
	if (past_check(&cat->past, call, follows(cat)) != 0)
		return COMMAND_USAGE;
	if (cat->spreadsheet && command_spreadsheet(call, &cat->rows.format) != 0)
		return COMMAND_USAGE;
	rows_open(&cat->rows, cat->rows.format, !cat->exact);
	cat->rows.images = images || cat->choose.conflate_us;
	cat->status = past_is_asked(&cat->past) ? cat_past(cat, call)
						: subscribe(cat, call->operands[0], &what);
	if (rows_close(&cat->rows, call->command->name) != 0)
		return COMMAND_FAILED;
	return cat->status;
}

static int cat_run(struct command_call *call)
{
	struct cat cat = { .command = call->command,
			   .call = call,
			   .timeout_ms = COMMAND_TIMEOUT_MS,
			   .rows.format = TB_FORMAT_TEXT,
			   .left = UINT64_MAX };
	int letter, status = 0;

	cat.joined = calloc(TOPICS_MAX, sizeof(*cat.joined));
	if (!cat.joined) {
		fputs("tickbus cat: out of memory\n", stderr);
		return COMMAND_FAILED;
	}
	while (status == 0 && (letter = command_next(call)) != 0)
		status = letter < 0 ? -1 : option_take(&cat, call, letter);
	if (status == 0)
		status = cat_topic(&cat, call);
	tb_schema_free(cat.schema);
	choose_free(&cat.choose);
	free(cat.joined);
	return status < 0 ? call->status : status;
}

static const struct command_option options[] = {
	{ "from", "oldest|newest|image|[EPOCH:]SEQUENCE", "where to begin (default newest)", 'r' },
	{ "gap", "oldest|newest|image", "where to go on after an overrun (default oldest)", 'g' },
	{ "count", "N", "exit after N records, values of an image included", 'c' },
	{ "until-end", NULL, "exit after the last record of an ended topic", 'u' },
	{ "format", "text|csv|json", "output format (default text)", 'f' },
	COMMAND_SPREADSHEET,
	CHOOSE_OPTIONS,
	PAST_OPTIONS,
	{ "strict", NULL, "verify each batch with a second progress READ", 'x' },
	{ "wait", NULL, "wait for the publisher and the topic", 'w' },
	{ "schema", "FILE|BUILTIN", "refuse topics that do not fit this schema", 's' },
	{ "ticket", "FILE", "use the ticket in this file", 't' },
	COMMAND_TIMEOUT,
	{ 0 },
};

const struct command cat_command = {
	.name = "cat",
	.operands = "ADDRESS TOPIC|PATTERN",
	.words = "print the records of a topic",
	.options = options,
	.operands_min = 2,
	.operands_max = 2,
	.run = cat_run,
};
