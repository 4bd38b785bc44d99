/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the market's records of an ITCH file as `tickbus cat --format csv` would, without a bus:
 * market-rows FILE SELECT DATE ZONE. Standard error has the counters, a line each. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "publisher/feeds/day.h"
#include "publisher/feeds/market.h"
#include "tickbus/error.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"

struct rows {
	struct tb_schema *schema;
	uint64_t sequence;
};

static void print_row(void *user, const struct market_output *output)
{
	struct rows *rows = user;
	char text[8192];

	tb_schema_render(rows->schema, TB_FORMAT_CSV, output->data, output->length, text,
			 sizeof(text));
	printf("%" PRIu64 ",0,%s,%s,%s\n", ++rows->sequence, output->name,
	       tb_kind_name(output->kind), text);
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

static void print_counters(const struct market *market)
{
	size_t count;
	const struct tb_counter *table = market_counter_table(&count);
	const uint64_t *values = market_counters(market);

	for (size_t i = 0; i < count; i++)
		fprintf(stderr, "%s %" PRIu64 "\n", table[i].name, values[i]);
}

static int run(struct market *market, struct source *source)
{
	struct source_message message;
	int result;

	while ((result = source_next(source, &message)) > 0) {
		int taken = market_message(market, &message);

		if (taken < 0)
			return taken;
	}
	return result;
}

int main(int count, char **arguments)
{
	struct rows rows = { NULL, 0 };
	struct market_options options = { .output = print_row,
					  .malformed = print_malformed,
					  .user = &rows };
	struct market *market = NULL;
	struct source *source = NULL;
	int result = -1;

	if (count != 5)
		return 2;
	for (unsigned i = 0; i < MARKET_SELECTS; i++)
		options.wanted |= strcmp(arguments[2], market_selects[i]) ? 0 : 1u << i;
	if (tb_schema_load(&rows.schema, arguments[2]) < 0 ||
	    day_begin(arguments[3], arguments[4], &options.midnight_ns) < 0 ||
	    market_open(&market, &options) < 0 || source_file_open(&source, arguments[1]) < 0)
		goto done;
	print_header(&rows);
	result = run(market, source);
	print_counters(market);
done:
	if (result < 0)
		fprintf(stderr, "error %s\n", tb_error());
	source_close(source);
	market_close(market);
	tb_schema_free(rows.schema);
	return result < 0 ? 1 : 0;
}
