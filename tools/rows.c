/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tickbus/counters.h"
#include "tools/command.h"
#include "tools/quality.h"

#define PAYLOAD_ROOM 512 /* enough for most payloads; a longer payload is rendered twice */
#define SECOND_NS    UINT64_C(1000000000)

void rows_open(struct rows *rows, enum tb_format format, bool topics)
{
	*rows = (struct rows){ .format = format == TB_FORMAT_SPREADSHEET ? TB_FORMAT_CSV : format,
			       .values = format,
			       .topics = topics,
			       .second = UINT64_MAX };
	output_open(&rows->out, 1);
	output_open(&rows->err, 2);
}

int rows_close(struct rows *rows, const char *command)
{
	output_close(&rows->err, command);
	return output_close(&rows->out, command);
}

static void put_columns(struct output *out, const struct tb_schema *schema)
{
	const size_t length = tb_schema_columns(schema, NULL, 0);
	char *at = output_room(out, length + 1);

	if (!at)
		return;
	tb_schema_columns(schema, at, length + 1);
	out->used += length;
}

static void put_header(struct rows *rows, const struct tb_schema *schema)
{
	output_text(&rows->out, "sequence,time_ns,");
	output_text(&rows->out, rows->ages ? "age_ns," : "");
	output_text(&rows->out, "instrument,kind,");
	output_text(&rows->out, rows->images ? "image," : "");
	put_columns(&rows->out, schema);
	output_byte(&rows->out, '\n');
}

void rows_header(struct rows *rows, const struct tb_schema *schema)
{
	if (rows->format != TB_FORMAT_CSV || rows->headed)
		return;
	rows->headed = true;
	rows->fingerprint = tb_schema_fingerprint(schema);
	put_header(rows, schema);
}

/* The topic's place in the table; NULL: the table is full. Most rows find it by the source. */
static struct rows_head *head_find(struct rows *rows, const struct tb_source *source)
{
	const char *topic = tb_source_topic(source);
	struct rows_head *const end = rows->heads + rows->head_count;
	struct rows_head *head;

	for (head = rows->heads; head < end; head++)
		if (head->source == source && strcmp(head->topic, topic) == 0)
			return head;
	for (head = rows->heads; head < end; head++)
		if (strcmp(head->topic, topic) == 0)
			break;
	if (head == rows->heads + ROWS_TOPICS_MAX)
		return NULL;
	if (head == end) {
		rows->head_count++;
		snprintf(head->topic, sizeof(head->topic), "%s", topic);
	}
	head->source = source;
	return head;
}

/* A topic beyond the table gets a header row before each of its rows. */
static void topic_header(struct rows *rows, const struct tb_source *source)
{
	const struct tb_schema *schema = tb_source_schema(source);
	const uint64_t fingerprint = tb_schema_fingerprint(schema);
	struct rows_head *head = head_find(rows, source);

	if (head && head->fingerprint == fingerprint)
		return;
	if (head)
		head->fingerprint = fingerprint;
	output_value(&rows->out, rows->values, tb_source_topic(source));
	output_byte(&rows->out, ',');
	put_header(rows, schema);
}

static void put_payload(struct output *out, enum tb_format format, const struct tb_source *source,
			const struct tb_record *record)
{
	size_t room = PAYLOAD_ROOM, length;

	do {
		char *at = output_room(out, room);

		if (!at)
			return;
		room = out->size - out->used;
		length = tb_schema_render(tb_source_schema(source), format, record->data,
					  record->length, at, room);
		if (length < room)
			break;
		room = length + 1;
	} while (true);
	out->used += length;
}

/* Most rows have the same second as the row before: its text is kept. */
static void put_time(struct rows *rows, struct output *out, uint64_t time_ns)
{
	const uint64_t second = time_ns / SECOND_NS;

	if (second != rows->second) {
		const time_t since = (time_t)second;
		struct tm day;

		gmtime_r(&since, &day);
		strftime(rows->second_text, sizeof(rows->second_text), "%Y-%m-%dT%H:%M:%S.", &day);
		rows->second = second;
	}
	output_text(out, rows->second_text);
	output_digits(out, time_ns % SECOND_NS, 9);
	output_byte(out, 'Z');
}

/* Below zero if the publisher's clock is ahead of ours. */
static void put_age_ns(struct rows *rows, uint64_t time_ns)
{
	const bool ahead = time_ns > rows->now_ns;

	if (ahead)
		output_byte(&rows->out, '-');
	output_number(&rows->out, ahead ? time_ns - rows->now_ns : rows->now_ns - time_ns);
}

/* In seconds. */
static void put_age(struct rows *rows, uint64_t time_ns)
{
	const bool ahead = time_ns > rows->now_ns;
	const uint64_t age = ahead ? time_ns - rows->now_ns : rows->now_ns - time_ns;

	output_text(&rows->out, ahead ? "-" : "");
	output_number(&rows->out, age / SECOND_NS);
	output_byte(&rows->out, '.');
	output_digits(&rows->out, age % SECOND_NS, 9);
	output_byte(&rows->out, 's');
}

static void put_kind(struct rows *rows, const struct tb_record *record)
{
	const char *word = tb_kind_name(record->kind);

	if (record->flags & TB_FLAG_PAST)
		output_text(&rows->out, "past_");
	if (word)
		output_text(&rows->out, word);
	else
		output_number(&rows->out, record->kind);
}

static bool is_of_image(const struct tb_record *record)
{
	return record->flags & TB_FLAG_IMAGE;
}

static const char *truth(const struct tb_record *record)
{
	return is_of_image(record) ? "true" : "false";
}

static void put_json(struct rows *rows, const struct tb_source *source,
		     const struct tb_record *record)
{
	struct output *out = &rows->out;

	output_byte(out, '{');
	if (rows->topics) {
		output_text(out, "\"topic\":");
		output_value(out, TB_FORMAT_JSON, tb_source_topic(source));
		output_byte(out, ',');
	}
	output_text(out, "\"sequence\":");
	output_number(out, record->sequence);
	output_text(out, ",\"time_ns\":");
	output_number(out, record->time_ns);
	if (rows->ages) {
		output_text(out, ",\"age_ns\":");
		put_age_ns(rows, record->time_ns);
	}
	output_text(out, ",\"instrument\":");
	output_value(out, TB_FORMAT_JSON, record->name);
	output_text(out, ",\"kind\":\"");
	put_kind(rows, record);
	output_text(out, "\",");
	if (rows->images) {
		output_text(out, "\"image\":");
		output_text(out, truth(record));
		output_byte(out, ',');
	}
	put_payload(out, TB_FORMAT_JSON, source, record);
	output_text(out, "}\n");
}

/* Text and CSV differ in the separator and in the time. */
static void put_line(struct rows *rows, const struct tb_source *source,
		     const struct tb_record *record)
{
	const char between = rows->format == TB_FORMAT_CSV ? ',' : ' ';
	struct output *out = &rows->out;

	if (rows->topics) {
		output_value(out, rows->values, tb_source_topic(source));
		output_byte(out, between);
	}
	output_number(out, record->sequence);
	output_byte(out, between);
	if (rows->format == TB_FORMAT_CSV)
		output_number(out, record->time_ns);
	else
		put_time(rows, out, record->time_ns);
	output_byte(out, between);
	if (rows->ages && rows->format == TB_FORMAT_CSV)
		put_age_ns(rows, record->time_ns);
	else if (rows->ages)
		put_age(rows, record->time_ns);
	if (rows->ages)
		output_byte(out, between);
	output_value(out, rows->values, record->name);
	output_byte(out, between);
	put_kind(rows, record);
	output_byte(out, between);
	if (rows->format == TB_FORMAT_CSV && rows->images) {
		output_text(out, truth(record));
		output_byte(out, between);
	} else if (rows->images && is_of_image(record)) {
		output_text(out, "image ");
	}
	put_payload(out, rows->values, source, record);
	output_byte(out, '\n');
}

int rows_record(struct rows *rows, const struct tb_source *source, const struct tb_record *record)
{
	if (rows->format == TB_FORMAT_JSON) {
		put_json(rows, source, record);
		return 0;
	}
	if (rows->format == TB_FORMAT_CSV && rows->topics)
		topic_header(rows, source);
	else
		rows_header(rows, tb_source_schema(source));
	if (rows->format == TB_FORMAT_CSV && !rows->topics &&
	    tb_schema_fingerprint(tb_source_schema(source)) != rows->fingerprint)
		return -EPROTO;
	put_line(rows, source, record);
	return 0;
}

/* -- events -------------------------------------------------------------------------------------
 */

static const char *const event_words[] = {
	[TB_EVENT_APPEARED] = "appeared", [TB_EVENT_GAP] = "gap",
	[TB_EVENT_STALE] = "stale",       [TB_EVENT_LIVE] = "live",
	[TB_EVENT_RESTART] = "restart",   [TB_EVENT_ENDED] = "ended",
	[TB_EVENT_REFUSED] = "refused",   [TB_EVENT_QUALITY] = "quality",
	[TB_EVENT_IMAGE] = "image",       [TB_EVENT_COMPLETE] = "complete",
	[TB_EVENT_NO_VALUE] = "no_value", [TB_EVENT_NO_INSTRUMENT] = "no_instrument",
	[TB_EVENT_LEFT] = "left",
};

static const char *const cause_words[] = {
	[TB_CAUSE_OVERRUN] = "overrun",
	[TB_CAUSE_BEFORE_JOIN] = "before_join",
	[TB_CAUSE_UPSTREAM] = "upstream",
	[TB_CAUSE_CORRUPT] = "corrupt",
};

static const char *const quality_causes[] = {
	[TB_QUALITY_CAUSE_NONE] = "none", [TB_QUALITY_NO_START] = "no_start",
	[TB_QUALITY_NO_END] = "no_end",   [TB_QUALITY_DAMAGED] = "damaged",
	[TB_QUALITY_MISSING] = "missing",
};

/* A newer library may report kinds and causes that this program does not know. */
#define WORD_OF(words, at)                                                                         \
	((size_t)(at) < sizeof(words) / sizeof((words)[0]) && (words)[at] ? (words)[at] : "unknown")

static struct output *event_output(struct rows *rows)
{
	return rows->format == TB_FORMAT_JSON ? &rows->out : &rows->err;
}

static void put_key(struct rows *rows, const char *key)
{
	const bool json = rows->format == TB_FORMAT_JSON;
	struct output *out = event_output(rows);

	output_text(out, json ? ",\"" : " ");
	output_text(out, key);
	output_text(out, json ? "\":" : "=");
}

static void put_event_number(struct rows *rows, const char *key, uint64_t number)
{
	put_key(rows, key);
	output_number(event_output(rows), number);
}

static void put_event_text(struct rows *rows, const char *key, const char *text)
{
	put_key(rows, key);
	output_value(event_output(rows),
		     rows->format == TB_FORMAT_JSON ? TB_FORMAT_JSON : TB_FORMAT_TEXT, text);
}

static void put_event_id(struct rows *rows, const char *key, uint64_t id)
{
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, id);
	put_event_text(rows, key, text);
}

/* A program's own cause is a number. Without a record there is no cause. */
static void put_quality(struct rows *rows, const struct tb_event *event)
{
	put_event_text(rows, "quality", quality_word(event->quality));
	if (event->first == 0)
		return;
	put_event_number(rows, "sequence", event->first);
	if (event->quality_cause >= TB_QUALITY_USER)
		put_event_number(rows, "cause", event->quality_cause);
	else
		put_event_text(rows, "cause", WORD_OF(quality_causes, event->quality_cause));
}

static void put_event_time(struct rows *rows, uint64_t time_ns)
{
	if (rows->format == TB_FORMAT_JSON) {
		put_event_number(rows, "time_ns", time_ns);
		return;
	}
	put_key(rows, "time");
	put_time(rows, event_output(rows), time_ns);
}

static void put_user(struct rows *rows, int64_t user)
{
	char name[COMMAND_USER_BYTES];

	if (user < 0)
		return;
	put_event_text(rows, "user", command_user(user, name));
	put_event_number(rows, "uid", (uint64_t)user);
}

static void put_reason(struct rows *rows, const struct tb_event *event)
{
	if (event->code == 0)
		return;
	put_event_number(rows, "code", (uint64_t)event->code);
	put_event_text(rows, "words", event->words ? event->words : "");
}

static void put_details(struct rows *rows, const struct tb_event *event)
{
	switch (event->kind) {
	case TB_EVENT_APPEARED:
		put_event_id(rows, "epoch", event->epoch);
		put_event_number(rows, "first", event->first);
		if (event->first > event->head + 1) /* not written yet */
			put_event_number(rows, "head", event->head);
		if (event->time_ns > 0)
			put_event_time(rows, event->time_ns);
		put_user(rows, event->user);
		break;
	case TB_EVENT_GAP:
		put_event_number(rows, "first", event->first);
		put_event_number(rows, "last", event->last);
		put_event_text(rows, "cause", WORD_OF(cause_words, event->cause));
		if (event->lost != event->last - event->first + 1)
			put_event_number(rows, "lost", event->lost);
		if (event->skipped > 0)
			put_event_number(rows, "skipped", event->skipped);
		break;
	case TB_EVENT_RESTART:
		put_event_id(rows, "old_epoch", event->old_epoch);
		put_event_id(rows, "epoch", event->epoch);
		put_event_number(rows, "delivered", event->delivered);
		put_event_number(rows, "head", event->head);
		put_user(rows, event->user);
		break;
	case TB_EVENT_ENDED:
		put_event_number(rows, "head", event->head);
		break;
	case TB_EVENT_STALE:
	case TB_EVENT_REFUSED:
	case TB_EVENT_LEFT:
		put_reason(rows, event);
		break;
	case TB_EVENT_IMAGE:
		put_event_number(rows, "up_to", event->first);
		put_reason(rows, event);
		break;
	case TB_EVENT_COMPLETE: /* a merge's cut is a time */
		if (event->time_ns > 0)
			put_event_time(rows, event->time_ns);
		else
			put_event_number(rows, "delivered", event->delivered);
		break;
	case TB_EVENT_NO_INSTRUMENT:
		put_event_text(rows, "name", event->words);
		break;
	case TB_EVENT_NO_VALUE:
		put_event_text(rows, "instrument", event->words);
		break;
	case TB_EVENT_QUALITY:
		put_quality(rows, event);
		break;
	case TB_EVENT_LIVE:
		break;
	}
}

/* Flushes keep the order of records and events on a terminal. */
static void event_begin(struct rows *rows, const char *word)
{
	const bool json = rows->format == TB_FORMAT_JSON;
	struct output *out = event_output(rows);

	if (!json)
		output_flush(&rows->out);
	output_text(out, json ? "{\"event\":\"" : "tickbus cat: ");
	output_text(out, word);
	output_text(out, json ? "\"" : "");
}

static void event_end(struct rows *rows)
{
	const bool json = rows->format == TB_FORMAT_JSON;

	output_text(event_output(rows), json ? "}\n" : "\n");
	if (!json)
		output_flush(&rows->err);
}

void rows_event(struct rows *rows, const struct tb_event *event)
{
	event_begin(rows, WORD_OF(event_words, event->kind));
	if (rows->topics || rows->format != TB_FORMAT_JSON)
		put_event_text(rows, "topic", event->topic);
	put_details(rows, event);
	event_end(rows);
}

/* Of records and values: the others say how they were read. */
static bool is_of_records(const struct tb_counter *counter)
{
	return !strcmp(counter->unit, "records");
}

void rows_account(struct rows *rows, const uint64_t *counters, size_t count)
{
	size_t known;
	const struct tb_counter *table = tb_counters(TB_SCOPE_SUBSCRIPTION, &known);

	event_begin(rows, "account");
	for (size_t i = 0; i < known && i < count; i++)
		if (is_of_records(&table[i]))
			put_event_number(rows, table[i].name, counters[i]);
	event_end(rows);
}
