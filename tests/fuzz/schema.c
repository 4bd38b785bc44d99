/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a whole schema or refused with a message. A schema's canonical text has the same
 * meaning, and any payload can be rendered with it, nulls included. */
#include <errno.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"

static void render(const struct tb_schema *schema, const uint8_t *payload, size_t bytes)
{
	static char text[65536];
	const size_t lengths[] = { 0, bytes / 2, bytes };

	for (int format = TB_FORMAT_TEXT; format <= TB_FORMAT_JSON; format++)
		for (size_t i = 0; i < 3; i++) {
			const size_t whole =
				tb_schema_render(schema, (enum tb_format)format, payload,
						 lengths[i], text, sizeof(text));

			FUZZ_EXPECT(strlen(text) ==
				    (whole < sizeof(text) ? whole : sizeof(text) - 1));
			/* The length is the same with too little room. */
			FUZZ_EXPECT(tb_schema_render(schema, (enum tb_format)format, payload,
						     lengths[i], text, 5) == whole);
		}
	(void)tb_schema_columns(schema, text, sizeof(text));
}

/* Each element takes null if its field is optional, and no field without a value is optional. */
static void set_nulls(const struct tb_field *fields, size_t count, uint8_t *payload)
{
	for (size_t n = 0; n < count; n++) {
		const struct tb_field *field = &fields[n];

		FUZZ_EXPECT(!field->optional || (field->type != TB_TYPE_PAD &&
						 field->type != TB_TYPE_GROUP && !field->role[0]));
		for (uint32_t i = 0; i < field->count; i++) {
			uint8_t *element = payload + field->offset + i * field->bytes;

			set_nulls(field->members, field->member_count, element);
			FUZZ_EXPECT(tb_field_set_null(field, element) ==
				    (field->optional ? 0 : -EINVAL));
			FUZZ_EXPECT(tb_field_is_null(field, element) == field->optional);
		}
	}
}

FUZZ_TARGET(data, size)
{
	struct tb_schema *schema, *again;
	uint8_t payload[TB_PAYLOAD_MAX];
	char *header;
	const struct tb_field *fields;
	const char *text;
	size_t length, count;
	int result = tb_schema_parse(&schema, (const char *)data, size, "fuzz");

	if (result < 0) {
		FUZZ_EXPECT(result == -EINVAL && !schema);
		FUZZ_EXPECT(strncmp(tb_error(), "fuzz:", 5) == 0);
		return 0;
	}
	fuzz_deep = true;
	FUZZ_EXPECT(tb_schema_bytes(schema) >= 1 && tb_schema_bytes(schema) <= TB_PAYLOAD_MAX);
	text = tb_schema_text(schema, &length);
	FUZZ_EXPECT(strlen(text) == length && length <= TB_SCHEMA_TEXT_MAX);
	FUZZ_EXPECT(tb_schema_parse(&again, text, length, "again") == 0);
	FUZZ_EXPECT(tb_schema_fingerprint(again) == tb_schema_fingerprint(schema));
	FUZZ_EXPECT(tb_schema_compatible(schema, again) == 0);
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = size ? data[i % size] : 0;
	render(schema, payload, tb_schema_bytes(schema));
	fields = tb_schema_fields(schema, &count);
	set_nulls(fields, count, payload);
	render(schema, payload, tb_schema_bytes(schema));
	header = tb_schema_header(schema);
	FUZZ_EXPECT(header);
	free(header);
	tb_schema_free(again);
	tb_schema_free(schema);
	return 0;
}
