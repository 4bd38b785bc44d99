/* SPDX-License-Identifier: Apache-2.0 */
/* Prints records and events as rows.
 *
 * text  sequence time [age] instrument kind field=value ...      events: standard error
 * csv   a header row, then one row per record              events: standard error
 * json  one object per line                                events: among the records, at their
 * place
 *
 * If rows name their topics, CSV has the topic in the first column. A header row comes before the
 * first row of each topic, and again if the topic's schema changes. The first column of a header
 * row is the topic too, the second is the word `sequence`. So the rows of each topic are a CSV file
 * of their own.
 *
 * If images may come, text has the word `image` behind the kind of a value of an image. CSV and
 * JSON have a column `image` behind the kind, true or false. */
#ifndef TICKBUS_TOOLS_ROWS_H
#define TICKBUS_TOOLS_ROWS_H

#include <stdbool.h>

#include "tickbus/subscriber.h"
#include "tools/output.h"

#define ROWS_TOPICS_MAX   1024
#define ROWS_COUNTERS_MAX 64

/* A topic whose header row was printed. The name decides: a topic that comes back may have another
 * source, and the memory of a freed source may become that of another topic. */
struct rows_head {
	const struct tb_source *source; /* where the name was found last */
	uint64_t fingerprint;
	char topic[TB_TOPIC_NAME_MAX + 1];
};

struct rows {
	struct output out, err;
	enum tb_format format; /* of the rows */
	enum tb_format values; /* of names and payloads: format, or for a spreadsheet */
	bool topics;           /* each row names its topic */
	bool images;           /* each row says whether it is a value of an image */
	bool headed;           /* CSV of a single topic: the header row was printed */
	bool ages;             /* each row has the age of its record, at now_ns */
	uint64_t now_ns;
	uint64_t fingerprint; /* CSV: of the header row's schema */
	uint64_t second;      /* text: of the last printed time */
	char second_text[32];
	struct rows_head heads[ROWS_TOPICS_MAX]; /* CSV of several topics */
	size_t head_count;
};

void rows_open(struct rows *rows, enum tb_format format, bool topics);

/* For a single topic: prints CSV's header row once; prints nothing in other formats. */
void rows_header(struct rows *rows, const struct tb_schema *schema);

/* 0, or -EPROTO: the record's schema differs from the CSV header's. With topics always 0. */
int rows_record(struct rows *rows, const struct tb_source *source, const struct tb_record *record);
void rows_event(struct rows *rows, const struct tb_event *event);

/* Prints what became of the records, where events go: the subscription's counters of records. */
void rows_account(struct rows *rows, const uint64_t *counters, size_t count);

/* Returns the exit status, as output_close(). */
int rows_close(struct rows *rows, const char *command);

#endif
