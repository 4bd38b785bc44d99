/* SPDX-License-Identifier: Apache-2.0 */
/* Prints records and events as rows.
 *
 * text  sequence time [age] instrument kind field=value ...      events: standard error
 * csv   a header row, then one row per record              events: standard error
 * json  one object per line                                events: among the records, at their
 * place
 *
 * If images may come, text has the word `image` behind the kind of a value of an image. CSV and
 * JSON have a column `image` behind the kind, true or false. */
#ifndef TICKBUS_TOOLS_ROWS_H
#define TICKBUS_TOOLS_ROWS_H

#include <stdbool.h>

#include "tickbus/subscriber.h"
#include "tools/output.h"

struct rows {
	struct output out, err;
	enum tb_format format; /* of the rows */
	enum tb_format values; /* of names and payloads: format, or for a spreadsheet */
	bool topics;           /* each row names its topic */
	bool images;           /* each row says whether it is a value of an image */
	bool headed;           /* CSV: the header row was printed */
	bool ages;             /* each row has the age of its record, at now_ns */
	uint64_t now_ns;
	uint64_t fingerprint; /* CSV: of the header row's schema */
	uint64_t second;      /* text: of the last printed time */
	char second_text[32];
};

void rows_open(struct rows *rows, enum tb_format format, bool topics);

/* Prints CSV's header row once; prints nothing in other formats. */
void rows_header(struct rows *rows, const struct tb_schema *schema);

/* 0, or -EPROTO: the record's schema differs from the CSV header's. */
int rows_record(struct rows *rows, const struct tb_source *source, const struct tb_record *record);
void rows_event(struct rows *rows, const struct tb_event *event);

/* Returns the exit status, as output_close(). */
int rows_close(struct rows *rows, const char *command);

#endif
