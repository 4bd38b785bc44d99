/* SPDX-License-Identifier: Apache-2.0 */
/* Each public call with NULL in place of its handle. The names are those of lib/libtickbus.map, so
 * a new call needs a row here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

enum expected {
	REFUSES,  /* returns -EINVAL */
	IS_EMPTY, /* returns NULL or 0, and errno is EINVAL */
	DOES_NOTHING,
	HAS_NO_HANDLE,
};

static const struct tb_record *record;
static struct tb_subscription *subscription;
static struct tb_topic *topic;
static struct tb_group *group;
static struct tb_update update;
static const uint32_t instrument;
static uint64_t number;
static size_t count;
static char text[8];

/* A row for each call. */
/* clang-format off */
#define CALLS(row) \
	row(tb_counters, HAS_NO_HANDLE, 0) \
	row(tb_doctor, HAS_NO_HANDLE, 0) \
	row(tb_error, HAS_NO_HANDLE, 0) \
	row(tb_field_is_null, REFUSES, tb_field_is_null(NULL, text)) \
	row(tb_field_set_null, REFUSES, tb_field_set_null(NULL, text)) \
	row(tb_find_time, REFUSES, tb_find_time(NULL, 1, &number)) \
	row(tb_group_create, REFUSES, tb_group_create(NULL, NULL, &group)) \
	row(tb_group_flush, REFUSES, tb_group_flush(NULL)) \
	row(tb_group_message, REFUSES, tb_group_message(NULL)) \
	row(tb_group_time, IS_EMPTY, tb_group_time(NULL)) \
	row(tb_inspect_counters, HAS_NO_HANDLE, 0) \
	row(tb_inspect_topics, HAS_NO_HANDLE, 0) \
	row(tb_instrument, REFUSES, tb_instrument(NULL, "A")) \
	row(tb_kind_name, HAS_NO_HANDLE, 0) \
	row(tb_flush, REFUSES, tb_flush(NULL)) \
	row(tb_get, REFUSES, tb_get(NULL, 0, &record)) \
	row(tb_get_many, REFUSES, tb_get_many(NULL, &instrument, 1, NULL, NULL)) \
	row(tb_names_add, REFUSES, tb_names_add(NULL, NULL, 0)) \
	row(tb_names_remove, REFUSES, tb_names_remove(NULL, NULL, 0)) \
	row(tb_poll, REFUSES, tb_poll(NULL, 1)) \
	row(tb_publish, REFUSES, tb_publish(NULL, &update)) \
	row(tb_publisher_begin, REFUSES, tb_publisher_begin(NULL)) \
	row(tb_publisher_close, DOES_NOTHING, (tb_publisher_close(NULL), 0)) \
	row(tb_publisher_count, REFUSES, tb_publisher_count(NULL, "a", NULL, NULL, 0)) \
	row(tb_publisher_joins, IS_EMPTY, tb_publisher_joins(NULL, NULL, 0)) \
	row(tb_publisher_open, HAS_NO_HANDLE, 0) \
	row(tb_publisher_ticket, REFUSES, tb_publisher_ticket(NULL, "a", NULL, 0)) \
	row(tb_read_back, REFUSES, tb_read_back(NULL, 0, 0, 1, NULL, NULL, NULL)) \
	row(tb_schema_builtins, HAS_NO_HANDLE, 0) \
	row(tb_schema_bytes, IS_EMPTY, tb_schema_bytes(NULL)) \
	row(tb_schema_columns, IS_EMPTY, tb_schema_columns(NULL, text, sizeof(text))) \
	row(tb_schema_compatible, REFUSES, tb_schema_compatible(NULL, NULL)) \
	row(tb_schema_fields, IS_EMPTY, tb_schema_fields(NULL, &count)) \
	row(tb_schema_fingerprint, IS_EMPTY, tb_schema_fingerprint(NULL)) \
	row(tb_schema_free, DOES_NOTHING, (tb_schema_free(NULL), 0)) \
	row(tb_schema_header, IS_EMPTY, tb_schema_header(NULL)) \
	row(tb_schema_load, HAS_NO_HANDLE, 0) \
	row(tb_schema_name, IS_EMPTY, tb_schema_name(NULL)) \
	row(tb_schema_parse, HAS_NO_HANDLE, 0) \
	row(tb_schema_render, IS_EMPTY, tb_schema_render(NULL, TB_FORMAT_CSV, text, 1, text, sizeof(text))) \
	row(tb_schema_text, IS_EMPTY, tb_schema_text(NULL, &count)) \
	row(tb_schema_version, IS_EMPTY, tb_schema_version(NULL)) \
	row(tb_source_epoch, IS_EMPTY, tb_source_epoch(NULL)) \
	row(tb_source_instrument, REFUSES, tb_source_instrument(NULL, "A")) \
	row(tb_source_instruments, REFUSES, tb_source_instruments(NULL)) \
	row(tb_source_name, IS_EMPTY, tb_source_name(NULL, 0)) \
	row(tb_source_quality, IS_EMPTY, tb_source_quality(NULL)) \
	row(tb_source_schema, IS_EMPTY, tb_source_schema(NULL)) \
	row(tb_source_topic, IS_EMPTY, tb_source_topic(NULL)) \
	row(tb_subscribe, REFUSES, tb_subscribe(NULL, "t", NULL, &subscription)) \
	row(tb_subscriber_close, DOES_NOTHING, (tb_subscriber_close(NULL), 0)) \
	row(tb_subscriber_fd, REFUSES, tb_subscriber_fd(NULL)) \
	row(tb_subscriber_open, HAS_NO_HANDLE, 0) \
	row(tb_subscriber_user, REFUSES, tb_subscriber_user(NULL, NULL)) \
	row(tb_subscription_counters, IS_EMPTY, tb_subscription_counters(NULL, &number, 1)) \
	row(tb_subscription_source, IS_EMPTY, tb_subscription_source(NULL, "t")) \
	row(tb_ticket_load, HAS_NO_HANDLE, 0) \
	row(tb_topic_create, REFUSES, tb_topic_create(NULL, NULL, &topic)) \
	row(tb_topic_end, REFUSES, tb_topic_end(NULL)) \
	row(tb_topic_quality, REFUSES, tb_topic_quality(NULL, 0, 0)) \
	row(tb_topic_restart, REFUSES, tb_topic_restart(NULL)) \
	row(tb_topic_sequence, IS_EMPTY, tb_topic_sequence(NULL)) \
	row(tb_topic_unpublished, IS_EMPTY, (tb_topic_unpublished(NULL, "A"), 0)) \
	row(tb_type_name, HAS_NO_HANDLE, 0) \
	row(tb_unsubscribe, DOES_NOTHING, (tb_unsubscribe(NULL), 0)) \
	row(tb_version, HAS_NO_HANDLE, 0) \
	row(tb_wait, REFUSES, tb_wait(NULL, 0))
/* clang-format on */

#define FUNCTION(name, what, call)                                                                 \
	static int64_t null_##name(void)                                                           \
	{                                                                                          \
		return (int64_t)(call);                                                            \
	}
CALLS(FUNCTION)

#define ROW(name, what, call) { #name, what, null_##name },
static const struct {
	const char *name;
	enum expected expected;
	int64_t (*call)(void);
} rows[] = { CALLS(ROW) };
#define ROWS (sizeof(rows) / sizeof(rows[0]))

Test(null_handles, each_call_refuses_null_in_place_of_its_handle)
{
	for (size_t i = 0; i < ROWS; i++) {
		char said[128];

		errno = 0;
		snprintf(said, sizeof(said), "%s: found NULL, expected a ", rows[i].name);
		cr_expect_eq(rows[i].call(), rows[i].expected == REFUSES ? -EINVAL : 0, "%s",
			     rows[i].name);
		if (rows[i].expected > IS_EMPTY)
			continue;
		cr_expect_eq(errno, EINVAL, "%s", rows[i].name);
		cr_expect_eq(strncmp(tb_error(), said, strlen(said)), 0, "%s: found \"%s\"",
			     rows[i].name, tb_error());
	}
}

static size_t row_of(const char *name)
{
	size_t at = 0;

	while (at < ROWS && strcmp(rows[at].name, name) != 0)
		at++;
	return at;
}

Test(null_handles, each_call_of_the_map_has_a_row)
{
	FILE *map = fopen(LIBRARY_MAP, "r");
	char line[128], name[128];
	size_t names = 0;

	cr_assert_not_null(map, "%s", LIBRARY_MAP);
	while (fgets(line, sizeof(line), map))
		if (sscanf(line, " %127[a-z_0-9];", name) == 1 && strncmp(name, "tb_", 3) == 0) {
			cr_expect_lt(row_of(name), ROWS, "%s has no row in this file", name);
			names++;
		}
	fclose(map);
	cr_expect_eq(names, ROWS);
}
