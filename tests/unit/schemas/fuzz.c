/* SPDX-License-Identifier: Apache-2.0 */
/* A damaged schema is refused with a message, or is a whole schema; it never causes a crash. */
#include <errno.h>

#include "schemas.h"

#define ROUNDS 20000

static const char *const snippets[] = {
	"fields:",
	"- ",
	"name: ",
	"type: ",
	"pad[4]",
	"group[2]",
	"group[4064]",
	"u64",
	"char[0]",
	"char[4064]",
	"decimal64(18)",
	"decimal64(",
	"[4064]",
	"[99999999999]",
	"role: ",
	"optional: true",
	"optional: ",
	"source_sequence",
	"doc: ",
	"\n",
	"\n  ",
	"\n      ",
	"&a ",
	"*a",
	"!!int ",
	"{",
	"}",
	"[",
	"]",
	"\"",
	"'",
	"|",
	">",
	"---\n",
	"...\n",
	"%YAML 9.9\n",
	"\t",
	"\xff",
	"\xc3\xa9",
	"\xe2\x80\xa8",
	"version: 65536",
	"? ",
	": ",
	"# ",
	"source_time",
	"int",
	"quote",
};

#define SNIPPETS (sizeof(snippets) / sizeof(snippets[0]))

struct text {
	char bytes[16384];
	size_t length;
};

static void splice(struct text *text, size_t at, size_t gone, const char *fresh, size_t count)
{
	if (text->length - gone + count > sizeof(text->bytes))
		return;
	memmove(text->bytes + at + count, text->bytes + at + gone, text->length - at - gone);
	memmove(text->bytes + at, fresh, count);
	text->length += count - gone;
}

static void damage(struct text *text, uint64_t *state)
{
	size_t at = draw(state) % (text->length + 1), left = text->length - at;
	size_t count = draw(state) % 64;
	const char *snippet = snippets[draw(state) % SNIPPETS];
	char copy[64];

	if (count > left)
		count = left;
	memcpy(copy, text->bytes + at, count);
	switch (draw(state) % 5) {
	case 0:
		if (left)
			text->bytes[at] = (char)draw(state);
		break;
	case 1:
		splice(text, at, count, "", 0);
		break;
	case 2:
		splice(text, draw(state) % (text->length + 1), 0, copy, count);
		break;
	case 3:
		splice(text, at, 0, snippet, strlen(snippet));
		break;
	default:
		splice(text, at, count % 8, snippet, strlen(snippet));
	}
}

/* The invariants of an accepted schema. */
static void expect_whole(const struct tb_schema *schema, uint64_t *state)
{
	static char line[1 << 20];
	uint8_t payload[TB_PAYLOAD_MAX];
	struct tb_schema *again;
	size_t length, count, bytes = tb_schema_bytes(schema);
	const char *text = tb_schema_text(schema, &length);
	const struct tb_field *fields = tb_schema_fields(schema, &count);
	const struct tb_field *last = &fields[count - 1];

	cr_assert(bytes >= 1 && bytes <= TB_PAYLOAD_MAX);
	cr_assert(count >= 1 && length <= TB_SCHEMA_TEXT_MAX);
	cr_assert_eq(last->offset + last->bytes * last->count, bytes);
	again = parse(text);
	cr_assert_eq(tb_schema_fingerprint(again), tb_schema_fingerprint(schema));
	cr_assert_eq(tb_schema_compatible(again, schema), 0);
	tb_schema_free(again);
	for (size_t i = 0; i < bytes; i++)
		payload[i] = (uint8_t)draw(state);
	for (int format = TB_FORMAT_TEXT; format <= TB_FORMAT_JSON; format++)
		cr_assert_lt(tb_schema_render(schema, (enum tb_format)format, payload, bytes, line,
					      sizeof(line)),
			     sizeof(line));
}

Test(fuzz, damaged_schema_is_refused_or_whole)
{
	const char *const *names = tb_schema_builtins();
	uint64_t state = seed();
	size_t kinds = 0, taken = 0;

	while (names[kinds])
		kinds++;
	for (int round = 0; round < ROUNDS; round++) {
		static struct text text;
		struct tb_schema *schema;
		const char *canonical;
		int result;

		cr_assert_eq(tb_schema_load(&schema, names[draw(&state) % kinds]), 0);
		canonical = tb_schema_text(schema, &text.length);
		memcpy(text.bytes, canonical, text.length);
		tb_schema_free(schema);
		for (uint64_t times = draw(&state) % 4 + 1; times; times--)
			damage(&text, &state);
		result = tb_schema_parse(&schema, text.bytes, text.length, "fuzz");
		if (result == 0) {
			expect_whole(schema, &state);
			tb_schema_free(schema);
			taken++;
			continue;
		}
		cr_assert_eq(result, -EINVAL, "%d: %s", result, tb_error());
		cr_assert_null(schema);
		cr_assert_eq(strncmp(tb_error(), "fuzz:", 5), 0, "%s", tb_error());
	}
	cr_expect(taken > ROUNDS / 100 && taken < ROUNDS, "%zu of %d were taken", taken, ROUNDS);
}
