/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MAX 64

void table_text(struct table *table, const char *text)
{
	char *copy = strdup(text);

	if (table->cell_count == table->room && !table->error) {
		const size_t room = table->room ? table->room * 2 : 256;
		char **cells = realloc(table->cells, room * sizeof(*cells));

		if (cells) {
			table->cells = cells;
			table->room = room;
		}
	}
	if (!copy || table->cell_count == table->room) {
		free(copy);
		table->error = ENOMEM;
		return;
	}
	table->cells[table->cell_count++] = copy;
}

void table_number(struct table *table, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	table_text(table, text);
}

void table_none(struct table *table)
{
	table_text(table, "");
}

void table_flag(struct table *table, bool flag)
{
	table_text(table, flag ? "true" : "false");
}

void table_id(struct table *table, uint64_t id)
{
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, id);
	table_text(table, text);
}

void table_free(struct table *table)
{
	for (size_t i = 0; i < table->cell_count; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct table){ 0 };
}

static void print_csv(const struct table *table, struct output *out, enum tb_format format)
{
	for (size_t i = 0; i < table->column_count && !table->headless; i++) {
		output_text(out, table->columns[i].name);
		output_byte(out, i + 1 < table->column_count ? ',' : '\n');
	}
	for (size_t i = 0; i < table->cell_count; i++) {
		const size_t column = i % table->column_count;

		output_value(out,
			     table->columns[column].kind == TABLE_BARE ? TB_FORMAT_CSV : format,
			     table->cells[i]);
		output_byte(out, column + 1 < table->column_count ? ',' : '\n');
	}
}

static void print_json(const struct table *table, struct output *out)
{
	for (size_t i = 0; i < table->cell_count; i++) {
		const size_t column = i % table->column_count;

		output_text(out, column ? ",\"" : "{\"");
		output_text(out, table->columns[column].name);
		output_text(out, "\":");
		if (table->columns[column].kind == TABLE_BARE)
			output_text(out, *table->cells[i] ? table->cells[i] : "null");
		else
			output_value(out, TB_FORMAT_JSON, table->cells[i]);
		if (column + 1 == table->column_count)
			output_text(out, "}\n");
	}
}

/* Aligns numbers right and text left, without spaces after the last column. */
static void print_cell(struct output *out, const struct table_column *column, const char *text,
		       size_t width, bool last)
{
	size_t length, fill;

	if (column->kind == TABLE_BARE && !*text)
		text = "-";
	length = strlen(text);
	fill = length < width ? width - length : 0;
	if (column->kind == TABLE_BARE)
		for (size_t i = 0; i < fill; i++)
			output_byte(out, ' ');
	output_value(out, TB_FORMAT_TEXT, text);
	if (column->kind == TABLE_TEXT && !last)
		for (size_t i = 0; i < fill; i++)
			output_byte(out, ' ');
	output_text(out, last ? "\n" : "  ");
}

static void print_text(const struct table *table, struct output *out)
{
	const size_t columns = table->column_count;
	size_t width[32] = { 0 };

	for (size_t i = 0; i < columns; i++)
		width[i] = strlen(table->columns[i].name);
	for (size_t i = 0; i < table->cell_count; i++) {
		const size_t length = strlen(table->cells[i]);

		if (length > width[i % columns])
			width[i % columns] = length < WIDTH_MAX ? length : WIDTH_MAX;
	}
	for (size_t i = 0; i < columns; i++)
		print_cell(out, &table->columns[i], table->columns[i].name, width[i],
			   i + 1 == columns);
	for (size_t i = 0; i < table->cell_count; i++)
		print_cell(out, &table->columns[i % columns], table->cells[i], width[i % columns],
			   i % columns + 1 == columns);
}

int table_print(struct table *table, enum tb_format format, const char *command)
{
	struct output out;

	output_open(&out, 1);
	out.error = table->error;
	if (format == TB_FORMAT_CSV || format == TB_FORMAT_SPREADSHEET)
		print_csv(table, &out, format);
	else if (format == TB_FORMAT_JSON)
		print_json(table, &out);
	else
		print_text(table, &out);
	table_free(table);
	return output_close(&out, command);
}
