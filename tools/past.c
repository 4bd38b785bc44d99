/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the past. The ring is read backwards, so the records are kept until they are printed.
 */
#include "tools/past.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/ready.h"
#include "tools/stop.h"

#define SECOND_NS   UINT64_C(1000000000)
#define DATE_FORM   "0000-00-00T00:00:00" /* 0 stands for a digit */
#define OF_DAY_FORM "00:00:00"
#define DAY_NS      (24 * 60 * 60 * SECOND_NS)
#define RECORDS_MAX 16777216 /* the slots of the largest ring */

/* -- times ------------------------------------------------------------------------------------ */

/* Digits behind a decimal point, at most 9 of them, as nanoseconds; and the Z of UTC. */
static bool fraction_take(const char *text, uint64_t *ns)
{
	uint64_t unit = SECOND_NS;

	*ns = 0;
	if (*text == '.') {
		for (text++; *text >= '0' && *text <= '9' && unit > 1; text++) {
			unit /= 10;
			*ns += (uint64_t)(*text - '0') * unit;
		}
		if (unit == SECOND_NS)
			return false;
	}
	return *text == '\0' || !strcmp(text, "Z");
}

static bool is_fraction(const char *text)
{
	uint64_t ns;

	return fraction_take(text, &ns);
}

static bool nanoseconds_take(const char *text, uint64_t *ns)
{
	if (!*text || text[strspn(text, "0123456789")])
		return false;
	errno = 0;
	*ns = strtoull(text, NULL, 10);
	return errno == 0;
}

/* Whether the text has this form: 0 stands for a digit. */
static bool has_form(const char *text, const char *form)
{
	for (; *form; text++, form++)
		if (*form == '0' ? *text < '0' || *text > '9' : *text != *form)
			return false;
	return true;
}

static bool date_take(const char *text, uint64_t *ns)
{
	struct tm parsed = { 0 }, again;
	const char *end;
	uint64_t fraction;
	time_t second;

	if (!has_form(text, DATE_FORM))
		return false;
	end = strptime(text, "%Y-%m-%dT%H:%M:%S", &parsed);
	again = parsed;
	second = end ? timegm(&again) : -1;
	/* A day that the month lacks becomes another day. */
	if (second < 0 || again.tm_mday != parsed.tm_mday || parsed.tm_sec > 59 ||
	    (uint64_t)second >= UINT64_MAX / SECOND_NS || !fraction_take(end, &fraction))
		return false;
	*ns = (uint64_t)second * SECOND_NS + fraction;
	return true;
}

static bool of_day_take(const char *text, uint64_t *ns)
{
	struct tm parsed = { 0 };
	const char *end;
	uint64_t fraction;

	if (!has_form(text, OF_DAY_FORM))
		return false;
	end = strptime(text, "%H:%M:%S", &parsed);
	if (!end || parsed.tm_sec > 59 || !fraction_take(end, &fraction))
		return false;
	*ns = (uint64_t)(parsed.tm_hour * 3600 + parsed.tm_min * 60 + parsed.tm_sec) * SECOND_NS +
	      fraction;
	return true;
}

/* -- options ---------------------------------------------------------------------------------- */

/* What a text of a known form may be; NULL: the form is not known. */
static const char *times_of_form(const char *text)
{
	if (*text && !text[strspn(text, "0123456789")])
		return "at most 18446744073709551615 nanoseconds since 1970";
	if (has_form(text, DATE_FORM) && is_fraction(text + strlen(DATE_FORM)))
		return "on a day from 1970-01-01T00:00:00Z to 2554-07-21T23:34:32Z";
	if (has_form(text, OF_DAY_FORM) && is_fraction(text + strlen(OF_DAY_FORM)))
		return "from 00:00:00 to 23:59:59.999999999";
	return NULL;
}

static int time_take(struct past *past, const struct command_call *call)
{
	const char *times = times_of_form(call->value);

	past->at = call->value;
	past->of_day = of_day_take(call->value, &past->time_ns);
	if (past->of_day || nanoseconds_take(call->value, &past->time_ns) ||
	    date_take(call->value, &past->time_ns))
		return 0;
	if (times)
		return command_wrong(call, "--at: found \"%s\", expected a time in UTC, %s",
				     call->value, times);
	return command_wrong(call,
			     "--at: found \"%s\", expected a time in UTC as "
			     "2026-01-30T09:30:00.0012Z, 09:30:00.0012 of the newest record's day, "
			     "or nanoseconds since 1970",
			     call->value);
}

int past_take(struct past *past, const struct command_call *call, int letter)
{
	switch (letter) {
	case 'A':
		return time_take(past, call);
	case 'B':
		past->has_back = true;
		return command_number(call, "back", 0, RECORDS_MAX - 1, &past->back);
	case 'L':
		return command_number(call, "last", 1, RECORDS_MAX, &past->last);
	default:
		return PAST_NOT_MINE;
	}
}

bool past_is_asked(const struct past *past)
{
	return past->at || past->last > 0;
}

int past_check(const struct past *past, const struct command_call *call, const char *other)
{
	const char *topic = call->operands[1];

	if (past->has_back && !past->at)
		return command_wrong(call, "found --back without --at, expected both");
	if (!past_is_asked(past))
		return 0;
	if (past->at && past->last > 0)
		return command_wrong(call, "found --at with --last, expected one of them");
	if (other)
		return command_wrong(call,
				     "found %s with --%s, expected one of them: --%s prints "
				     "records of the past, and exits",
				     other, past->at ? "at" : "last", past->at ? "at" : "last");
	if (strpbrk(topic, "*>"))
		return command_wrong(call,
				     "found pattern \"%s\" with --%s, expected one topic's name",
				     topic, past->at ? "at" : "last");
	return 0;
}

/* -- the instruments -------------------------------------------------------------------------- */

/* A copy of a record. */
struct kept {
	struct tb_record record;
	void *data;
};

struct reader {
	const struct past_topic *topic;
	const struct tb_source *source;
	uint64_t each;       /* records of each instrument, or of all */
	uint32_t *left;      /* by instrument, still to be read; NULL: all instruments */
	uint32_t *chosen;    /* in the order of the names, without those that are unknown */
	size_t instruments;  /* of the topic, when the names were looked up */
	size_t chosen_count; /* of chosen */
	uint64_t open;       /* instruments with records left */
	struct kept *kept;   /* newest first */
	size_t kept_count, kept_room;
	int status;
};

static void choose(struct reader *reader, uint32_t instrument)
{
	if (reader->left[instrument] > 0)
		return;
	reader->left[instrument] = (uint32_t)reader->each;
	reader->chosen[reader->chosen_count++] = instrument;
	reader->open++;
}

/* Chooses the instruments with this name, or that match the pattern. */
static int word_choose(struct reader *reader, const char *word)
{
	const size_t before = reader->chosen_count;
	int result;

	if (!strpbrk(word, "*?[")) {
		result = tb_source_instrument(reader->source, word);
		if (result >= 0 && (size_t)result < reader->instruments)
			choose(reader, (uint32_t)result);
		if (result >= 0)
			return 0;
		if (result != -ENOENT && result != -EINVAL)
			return result;
		fprintf(stderr, "tickbus cat: %s\n", tb_error());
		reader->status = COMMAND_NO_VALUE;
		return 0;
	}
	for (uint32_t i = 0; i < reader->instruments; i++) {
		const char *name = tb_source_name(reader->source, i);

		if (name && fnmatch(word, name, 0) == 0)
			choose(reader, i);
	}
	if (reader->chosen_count == before) {
		fprintf(stderr, "tickbus cat: topic %s: no instrument matches %s\n",
			reader->topic->name, word);
		reader->status = COMMAND_NO_VALUE;
	}
	return 0;
}

static int names_choose(struct reader *reader)
{
	const struct wanted_list *names = reader->topic->names;
	const int count = tb_source_instruments(reader->source);
	int result = 0;

	if (count < 0)
		return count;
	reader->instruments = (size_t)count;
	reader->left = calloc((size_t)count + 1, sizeof(*reader->left));
	reader->chosen = calloc((size_t)count + 1, sizeof(*reader->chosen));
	if (!reader->left || !reader->chosen)
		return -ENOMEM;
	for (size_t i = 0; i < names->count && result == 0; i++)
		result = word_choose(reader, names->words[i]);
	return result;
}

/* -- records ---------------------------------------------------------------------------------- */

static int keep(struct reader *reader, const struct tb_record *record)
{
	struct kept *kept;

	if (reader->kept_count == reader->kept_room) {
		const size_t room = reader->kept_room ? 2 * reader->kept_room : 64;

		kept = realloc(reader->kept, room * sizeof(*kept));
		if (!kept)
			return -ENOMEM;
		reader->kept = kept;
		reader->kept_room = room;
	}
	kept = &reader->kept[reader->kept_count];
	kept->record = *record;
	kept->record.data = kept->data = malloc(record->length + 8u);
	if (!kept->data)
		return -ENOMEM;
	memcpy(kept->data, record->data, record->length);
	reader->kept_count++;
	return 0;
}

#define ENOUGH 1 /* ends tb_read_back: each instrument has its records */

static int on_past(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct reader *reader = user;
	int result;

	(void)source;
	if (stop_asked())
		return -EINTR;
	if (!reader->left)
		return keep(reader, record);
	if (record->instrument >= reader->instruments || reader->left[record->instrument] == 0)
		return 0;
	result = keep(reader, record);
	if (result == 0 && --reader->left[record->instrument] == 0 && --reader->open == 0)
		return ENOUGH;
	return result;
}

/* Instruments that have no record in the part of the ring that was read. */
static void missing_report(struct reader *reader, uint64_t oldest)
{
	for (size_t i = 0; i < reader->chosen_count; i++) {
		if (reader->left[reader->chosen[i]] < reader->each)
			continue;
		fprintf(stderr,
			"tickbus cat: topic %s: no record of %s was found down to record %" PRIu64
			", the oldest that is held\n",
			reader->topic->name, tb_source_name(reader->source, reader->chosen[i]),
			oldest);
		reader->status = COMMAND_NO_VALUE;
	}
}

/* Reads from a record on backwards, 0: from the newest. */
static int records_read(struct reader *reader, uint64_t sequence)
{
	uint32_t instrument = TB_ALL_INSTRUMENTS, count = UINT32_MAX;
	uint64_t oldest = 0;
	int result;

	if (reader->topic->names && reader->chosen_count == 0)
		return 0;
	if (!reader->topic->names)
		count = (uint32_t)reader->each;
	else if (reader->chosen_count == 1)
		instrument = reader->chosen[0];
	result =
		tb_read_back(reader->source, sequence, instrument, count, on_past, reader, &oldest);
	if (result < 0)
		return result;
	if (reader->left)
		missing_report(reader, oldest);
	return 0;
}

static int on_newest(void *user, const struct tb_source *source, const struct tb_record *record)
{
	uint64_t *time_ns = user;

	(void)source;
	*time_ns = record->time_ns;
	return 0;
}

/* The record to begin with: that of --at, or 0. */
static int sequence_find(const struct past *past, const struct tb_source *source,
			 uint64_t *sequence)
{
	uint64_t time_ns = past->time_ns, newest_ns = 0;
	int result;

	*sequence = 0;
	if (!past->at)
		return 0;
	if (past->of_day) {
		result =
			tb_read_back(source, 0, TB_ALL_INSTRUMENTS, 1, on_newest, &newest_ns, NULL);
		if (result < 0)
			return result;
		time_ns += newest_ns - newest_ns % DAY_NS;
	}
	return tb_find_time(source, time_ns, sequence);
}

static int source_read(const struct past *past, struct reader *reader)
{
	uint64_t sequence;
	int result = sequence_find(past, reader->source, &sequence);

	if (result == 0 && reader->topic->names)
		result = names_choose(reader);
	return result == 0 ? records_read(reader, sequence) : result;
}

static void records_print(struct reader *reader, struct rows *rows)
{
	rows_header(rows, tb_source_schema(reader->source));
	for (size_t i = reader->kept_count; i > 0 && !rows->out.error; i--)
		rows_record(rows, reader->source, &reader->kept[i - 1].record);
}

static void reader_free(struct reader *reader)
{
	for (size_t i = 0; i < reader->kept_count; i++)
		free(reader->kept[i].data);
	free(reader->kept);
	free(reader->left);
	free(reader->chosen);
}

/* -- the topic -------------------------------------------------------------------------------- */

static void ignore(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
}

static void on_event(void *user, const struct tb_event *event)
{
	const struct past_topic *topic = user;

	if (event->kind == TB_EVENT_REFUSED)
		fprintf(stderr, "tickbus cat: topic %s: refused: %s\n", topic->name, event->words);
}

/* Prints what the library waits for. False: it does not wait. */
static bool wait_report(const struct past_topic *topic)
{
	const bool waits = (topic->how.flags & TB_WAIT) && *tb_error();

	if (waits)
		fprintf(stderr, "tickbus cat: waits: %s\n", tb_error());
	return waits;
}

static int topic_read(const struct past *past, struct reader *reader,
		      struct tb_subscriber *subscriber, int stop_fd)
{
	const struct past_topic *topic = reader->topic;
	const uint32_t waits = topic->how.flags & TB_WAIT;
	const struct tb_subscription_options what = {
		.size = sizeof(what),
		.on_record = ignore,
		.on_event = on_event,
		.user = (void *)(uintptr_t)topic,
		.schema = topic->schema,
		.flags = waits | (topic->strict ? TB_STRICT : TB_VALUES),
	};
	struct tb_subscription *subscription;
	const bool reported = wait_report(topic); /* of the publisher */
	int result = tb_subscribe(subscriber, topic->name, &what, &subscription);

	if (result == 0) {
		if (!reported)
			wait_report(topic);
		result = ready_wait(subscriber, subscription, topic->name, waits, stop_fd,
				    &reader->source);
	}
	if (result == 0 && reader->source)
		result = source_read(past, reader);
	return result;
}

int past_print(const struct past *past, const struct command *command,
	       const struct past_topic *topic, struct rows *rows)
{
	struct reader reader = { .topic = topic, .each = past->at ? past->back + 1 : past->last };
	struct tb_subscriber *subscriber = NULL;
	const int stop_fd = stop_open();
	int result;

	if (stop_fd < 0) {
		fprintf(stderr, "tickbus cat: cannot handle signals: %s\n", strerror(-stop_fd));
		return COMMAND_FAILED;
	}
	result = tb_subscriber_open(&subscriber, &topic->how);
	if (result == 0)
		result = topic_read(past, &reader, subscriber, stop_fd);
	if (result == -EINTR || (result == 0 && !reader.source)) {
		reader.status = COMMAND_FAILED; /* a signal */
	} else if (result == -ENOMEM) {
		fputs("tickbus cat: out of memory\n", stderr);
		reader.status = COMMAND_FAILED;
	} else if (result < 0) {
		reader.status = command_failed(command, result);
	} else {
		records_print(&reader, rows);
	}
	reader_free(&reader);
	tb_subscriber_close(subscriber);
	return reader.status;
}
