/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a whole schema or refused in words; a schema's own text means the same, and any
 * payload can be rendered by it. */
#include <errno.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tickbus/record.h"
#include "tickbus/schema.h"

static void render(const struct tb_schema *schema, const uint8_t *payload, size_t bytes)
{
	static char words[65536];
	const size_t lengths[] = { 0, bytes / 2, bytes };

	for (int format = TB_FORMAT_TEXT; format <= TB_FORMAT_JSON; format++)
		for (size_t i = 0; i < 3; i++) {
			const size_t whole =
				tb_schema_render(schema, (enum tb_format)format, payload,
						 lengths[i], words, sizeof(words));

			FUZZ_EXPECT(strlen(words) ==
				    (whole < sizeof(words) ? whole : sizeof(words) - 1));
			/* The same length where there is no room for it. */
			FUZZ_EXPECT(tb_schema_render(schema, (enum tb_format)format, payload,
						     lengths[i], words, 5) == whole);
		}
	(void)tb_schema_columns(schema, words, sizeof(words));
}

FUZZ_TARGET(data, size)
{
	struct tb_schema *schema, *again;
	uint8_t payload[TB_PAYLOAD_MAX];
	char *header;
	const char *text;
	size_t length;
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
	header = tb_schema_header(schema);
	FUZZ_EXPECT(header);
	free(header);
	tb_schema_free(again);
	tb_schema_free(schema);
	return 0;
}
