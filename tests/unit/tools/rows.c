/* SPDX-License-Identifier: Apache-2.0 */
/* Header rows of CSV with several topics, and causes of a newer library. The sources are those of
 * this file. */
#include "tools/rows.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tb_source {
	char topic[TB_TOPIC_NAME_MAX + 1];
	const struct tb_schema *schema;
};

const char *tb_source_topic(const struct tb_source *source)
{
	return source->topic;
}

const struct tb_schema *tb_source_schema(const struct tb_source *source)
{
	return source->schema;
}

static struct tb_schema *trade, *quote;
static struct rows rows;
static char path[] = "/tmp/tickbus-rows-XXXXXX";
static int file;

static void enter(void)
{
	file = mkstemp(path);
	cr_assert_geq(file, 0);
	cr_assert_eq(tb_schema_load(&trade, "trade"), 0, "%s", tb_error());
	cr_assert_eq(tb_schema_load(&quote, "quote"), 0, "%s", tb_error());
	rows_open(&rows, TB_FORMAT_CSV, true);
	rows.out.fd = file;
}

static void leave(void)
{
	rows.out.fd = file;
	rows_close(&rows, "test");
	tb_schema_free(trade);
	tb_schema_free(quote);
	close(file);
	unlink(path);
}

TestSuite(rows, .init = enter, .fini = leave, .timeout = 60);

/* Prints a record of the topic. Returns whether a header row came before it. */
static bool heads(struct tb_source *source, const char *topic, const struct tb_schema *schema)
{
	static const char payload[256];
	const struct tb_record record = { .size = sizeof(record),
					  .sequence = 1,
					  .name = "AAPL",
					  .data = payload,
					  .length = (uint16_t)tb_schema_bytes(schema),
					  .kind = TB_KIND_UPDATE };
	char text[8192], header[128];
	const off_t before = lseek(file, 0, SEEK_END);
	ssize_t bytes;

	strcpy(source->topic, topic);
	source->schema = schema;
	cr_assert_eq(rows_record(&rows, source, &record), 0);
	cr_assert_eq(output_flush(&rows.out), 0);
	bytes = pread(file, text, sizeof(text) - 1, before);
	cr_assert_gt(bytes, 0);
	text[bytes] = '\0';
	snprintf(header, sizeof(header), "%s,sequence,", topic);
	return strstr(text, header) == text;
}

Test(rows, header_comes_before_the_first_row_of_each_topic)
{
	struct tb_source first, second;

	cr_expect(heads(&first, "f.trade", trade));
	cr_expect(heads(&second, "f.quote", quote));
	cr_expect_not(heads(&first, "f.trade", trade));
	cr_expect_not(heads(&second, "f.quote", quote));
}

Test(rows, header_comes_again_with_another_schema)
{
	struct tb_source source;

	cr_expect(heads(&source, "f.trade", trade));
	cr_expect(heads(&source, "f.trade", quote));
	cr_expect_not(heads(&source, "f.trade", quote));
}

Test(rows, topic_in_the_memory_of_a_freed_source_has_its_header)
{
	struct tb_source source;

	cr_expect(heads(&source, "f.trade", trade));
	cr_expect(heads(&source, "g.trade", trade));
	cr_expect_not(heads(&source, "g.trade", trade));
}

Test(rows, topic_that_comes_back_with_another_source_needs_no_header)
{
	struct tb_source before, after;

	cr_expect(heads(&before, "f.trade", trade));
	cr_expect_not(heads(&after, "f.trade", trade));
	cr_expect_not(heads(&before, "f.trade", trade));
}

Test(rows, topic_beyond_the_table_has_a_header_before_each_row)
{
	static struct tb_source sources[ROWS_TOPICS_MAX + 1];
	char topic[32];

	for (unsigned int i = 0; i < ROWS_TOPICS_MAX; i++) {
		snprintf(topic, sizeof(topic), "f.%u", i);
		cr_assert(heads(&sources[i], topic, trade));
	}
	cr_expect(heads(&sources[ROWS_TOPICS_MAX], "f.last", trade));
	cr_expect(heads(&sources[ROWS_TOPICS_MAX], "f.last", trade));
	cr_expect_not(heads(&sources[0], "f.0", trade));
}

Test(rows, cause_of_a_newer_library_is_unknown)
{
	const struct tb_event event = { .size = sizeof(event),
					.kind = TB_EVENT_QUALITY,
					.topic = "t",
					.first = 5,
					.quality = TB_QUALITY_SUSPECT,
					.quality_cause = 77 };
	static const char line[] = "quality topic=t quality=suspect sequence=5 cause=unknown\n";
	char text[256] = "";

	rows.err.fd = file;
	rows_event(&rows, &event);
	cr_assert_eq(output_flush(&rows.err), 0);
	rows.err.fd = STDERR_FILENO;
	cr_assert_gt(pread(file, text, sizeof(text) - 1, 0), 0);
	cr_expect(strstr(text, line), "found %s", text);
}
