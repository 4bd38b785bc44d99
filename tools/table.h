/* SPDX-License-Identifier: Apache-2.0 */
/* A table, printed when it is complete: aligned columns, CSV, or JSON lines from the same cells. */
#ifndef TICKBUS_TOOLS_TABLE_H
#define TICKBUS_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tickbus/schema.h"
#include "tools/output.h"

enum table_kind {
	TABLE_TEXT,
	TABLE_BARE, /* a number, true or false: not quoted in JSON. "": not known */
};

struct table_column {
	const char *name;
	enum table_kind kind;
};

struct table {
	const struct table_column *columns;
	size_t column_count;
	char **cells;
	size_t cell_count, room;
	int error;     /* errno value */
	bool headless; /* CSV: the header row was printed before */
};

/* Each call adds a cell, row by row. */
void table_text(struct table *table, const char *text);
void table_number(struct table *table, uint64_t number);
/* A number that does not exist: nothing in text and CSV, null in JSON. */
void table_none(struct table *table);
void table_flag(struct table *table, bool flag);
void table_id(struct table *table, uint64_t id); /* random 64 bits: 16 hexadecimal digits */

/* Prints the table on standard output and frees the cells. Returns the exit status. A failure is
 * reported on standard error after the command's name. */
int table_print(struct table *table, enum tb_format format, const char *command);
void table_free(struct table *table);

#endif
