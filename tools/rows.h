/* SPDX-License-Identifier: Apache-2.0 */
/* Records and events as rows of a format.
 *
 * text  sequence time instrument kind field=value ...      events: standard error
 * csv   a header row, then a row per record                events: standard error
 * json  an object a line                                   events: in their place among the records
 */
#ifndef TICKBUS_TOOLS_ROWS_H
#define TICKBUS_TOOLS_ROWS_H

#include <stdbool.h>

#include "tickbus/subscriber.h"
#include "tools/output.h"

struct rows {
	struct output out, err;
	enum tb_format format;
	bool topics;          /* each row names its topic */
	bool headed;          /* CSV: the header row was printed */
	uint64_t fingerprint; /* CSV: of the schema that the header row is of */
	uint64_t second;      /* text: of the last time that was printed */
	char second_text[32];
};

void rows_open(struct rows *rows, enum tb_format format, bool topics);

/* CSV's header row; nothing in the other formats. */
void rows_header(struct rows *rows, const struct tb_schema *schema);

/* 0, or -EPROTO: a CSV row of another schema than the header's. */
int rows_record(struct rows *rows, const struct tb_source *source, const struct tb_record *record);
void rows_event(struct rows *rows, const struct tb_event *event);

/* The exit status, as output_close(). */
int rows_close(struct rows *rows, const char *command);

#endif
