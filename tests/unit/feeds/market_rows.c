/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the market's records of an ITCH file as `tickbus cat --format csv` would, without a bus:
 * market-rows FILE SELECT DATE ZONE. Standard error has the counters, a line each, then the number
 * of nulls in each column (`null NAME COUNT`). CSV prints a null like a text of spaces. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "publisher/feeds/calendar/day.h"
#include "publisher/feeds/framings/source_file.h"
#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/itch/itch_counters.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "tickbus/error.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"

#define NULLS_MAX 64

/* The nulls of a field, or of a group's member. */
struct nulls {
	const struct tb_field *group, *field;
	uint64_t count;
};

struct rows {
	struct tb_schema *schema;
	uint64_t sequence;
	struct nulls nulls[NULLS_MAX];
	size_t null_count;
};

static void nulls_open(struct rows *rows, const struct tb_field *group,
		       const struct tb_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fields[i].optional && rows->null_count < NULLS_MAX)
			rows->nulls[rows->null_count++] = (struct nulls){ group, &fields[i], 0 };
		nulls_open(rows, &fields[i], fields[i].members, fields[i].member_count);
	}
}

static void nulls_count(struct nulls *nulls, const char *payload)
{
	const struct tb_field *group = nulls->group, *field = nulls->field;
	const uint32_t elements = group ? group->count : 1;

	for (uint32_t i = 0; i < elements; i++) {
		const uint32_t at = group ? group->offset + i * group->bytes : 0;

		for (uint32_t k = 0; k < field->count; k++)
			nulls->count += (uint64_t)tb_field_is_null(
				field, payload + at + field->offset + k * field->bytes);
	}
}

static void nulls_print(const struct rows *rows)
{
	for (size_t i = 0; i < rows->null_count; i++) {
		const struct nulls *nulls = &rows->nulls[i];

		if (nulls->count)
			fprintf(stderr, "null %s%s%s %" PRIu64 "\n",
				nulls->group ? nulls->group->name : "", nulls->group ? "." : "",
				nulls->field->name, nulls->count);
	}
}

static void print_row(void *user, const struct market_output *output)
{
	struct rows *rows = user;
	char text[8192];

	tb_schema_render(rows->schema, TB_FORMAT_CSV, output->data, output->length, text,
			 sizeof(text));
	printf("%" PRIu64 ",0,%s,%s,%s\n", ++rows->sequence, output->name,
	       tb_kind_name(output->kind), text);
	for (size_t i = 0; i < rows->null_count; i++)
		nulls_count(&rows->nulls[i], output->data);
}

static void print_header(const struct rows *rows)
{
	char text[8192];

	tb_schema_columns(rows->schema, text, sizeof(text));
	printf("sequence,time_ns,instrument,kind,%s\n", text);
}

static void print_malformed(void *user, uint64_t offset, const char *message)
{
	(void)user;
	fprintf(stderr, "malformed %" PRIu64 " %s\n", offset, message);
}

static void print_counters(const struct protocol *protocol)
{
	size_t count;
	const struct tb_counter *table = protocol_counter_table(protocol, &count);
	const uint64_t *values = protocol->counters;

	for (size_t i = 0; i < count; i++)
		fprintf(stderr, "%s %" PRIu64 "\n", table[i].name, values[i]);
}

/* All messages are of one day, whatever events they have. */
static int run(struct protocol *protocol, struct source *source, uint64_t midnight_ns)
{
	const struct day_marks begun = { .started = true, .end = 1 };
	struct source_message message;
	int result;

	protocol_date(protocol, midnight_ns);
	while ((result = source_next(source, &message)) > 0) {
		int taken;

		protocol->marks = (struct day_marks){ 0 };
		if (itch_protocol.mark(&message) != DAY_MARK_START)
			protocol->marks = begun;
		taken = protocol_message(protocol, &message);
		if (taken < 0)
			return taken;
	}
	return result;
}

int main(int count, char **arguments)
{
	struct rows rows = { 0 };
	const struct tb_field *fields;
	size_t field_count;
	struct protocol_options options = { .output = print_row,
					    .malformed = print_malformed,
					    .user = &rows };
	struct protocol *protocol = NULL;
	struct source *source = NULL;
	uint64_t midnight_ns;
	int result = -1;

	if (count != 5)
		return 2;
	for (unsigned i = 0; i < MARKET_SELECTS; i++)
		options.wanted |= strcmp(arguments[2], market_selects[i]) ? 0 : 1u << i;
	if (tb_schema_load(&rows.schema, arguments[2]) < 0 ||
	    day_begin(arguments[3], arguments[4], &midnight_ns) < 0 ||
	    protocol_open(&protocol, &itch_protocol, &options) < 0 ||
	    source_file_open(&source, arguments[1]) < 0)
		goto done;
	fields = tb_schema_fields(rows.schema, &field_count);
	nulls_open(&rows, NULL, fields, field_count);
	print_header(&rows);
	result = run(protocol, source, midnight_ns);
	print_counters(protocol);
	nulls_print(&rows);
done:
	if (result < 0)
		fprintf(stderr, "error %s\n", tb_error());
	source_close(source);
	protocol_close(protocol);
	tb_schema_free(rows.schema);
	return result < 0 ? 1 : 0;
}
