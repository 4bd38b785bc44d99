/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of a schema give the position, what was found and what was expected. */
#include <errno.h>

#include "schemas.h"

#define HEAD          "name: t\nversion: 1\nfields:\n"
#define X             "- {name: x, type: u8, doc: d}\n"
#define NAME_63       "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"
#define TYPES         "i8 to i64, u8 to u64, f64, char[n], decimal64(scale), time, pad[n] or group[n]"
#define NAME_EXPECTED "a name of 1 to 63 of a-z, 0-9 and _ that begins with a letter"
#define ROW_NAMES                                                                                  \
	"a name that rows do not use already: sequence, time_ns, instrument, kind, topic, event"

#define AGAIN_4 "found this key again, expected it once (first on line 4)"
#define DOC_77  "ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
#define DOC_201 DOC_77 DOC_77 "ddddddddddddddddddddddddddddddddddddddddddddddd"

/* A text, and all its errors. */
static const char *const cases[][2] = {
	/* the schema */
	{ "[]\n", "t.yaml:1:1: found a list, expected a mapping" },
	{ "hello\n", "t.yaml:1:1: found \"hello\", expected a mapping" },
	{ "", "t.yaml:1:1: found nothing, expected a mapping" },
	{ HEAD X "colour: red\n", "t.yaml:5:1: colour: found an unknown key" },
	{ HEAD X "filds: red\n", "t.yaml:5:1: filds: found an unknown key, did you mean fields?" },
	/* name */
	{ "version: 1\nfields:\n" X,
	  "t.yaml:1:1: name: found nothing, expected the schema's name" },
	{ "name: [a]\nversion: 1\nfields:\n" X,
	  "t.yaml:1:7: name: found a list, expected a text of 1 to 63 bytes" },
	{ "name: ''\nversion: 1\nfields:\n" X,
	  "t.yaml:1:7: name: found \"\", expected a text of 1 to 63 bytes" },
	{ "name: " NAME_63 "x\nversion: 1\nfields:\n" X,
	  "t.yaml:1:7: name: found \"" NAME_63 "x\", expected a text of 1 to 63 bytes" },
	{ "name: Quote\nversion: 1\nfields:\n" X,
	  "t.yaml:1:7: name: found \"Quote\", expected " NAME_EXPECTED },
	{ "name: struct\nversion: 1\nfields:\n" X,
	  "t.yaml:1:7: name: found \"struct\", expected a name that is no keyword of C or C++" },
	{ HEAD X "name: t\n",
	  "t.yaml:5:1: name: found this key again, expected it once (first on line 1)" },
	/* version */
	{ "name: t\nfields:\n" X,
	  "t.yaml:1:1: version: found nothing, expected a whole number from 1 to 65535" },
	{ "name: t\nversion: one\nfields:\n" X,
	  "t.yaml:2:10: version: found \"one\", expected a whole number from 1 to 65535" },
	{ "name: t\nversion: 0\nfields:\n" X,
	  "t.yaml:2:10: version: found \"0\", expected a whole number from 1 to 65535" },
	{ "name: t\nversion: 65536\nfields:\n" X,
	  "t.yaml:2:10: version: found \"65536\", expected a whole number from 1 to 65535" },
	{ HEAD X "version: 1\n",
	  "t.yaml:5:1: version: found this key again, expected it once (first on line 2)" },
	/* doc */
	{ "doc: {}\n" HEAD X,
	  "t.yaml:1:6: doc: found a mapping, expected a text of 0 to 200 bytes" },
	{ "doc: |\n  a\n  b\n" HEAD X,
	  "t.yaml:1:6: doc: found several lines, expected a single line" },
	{ "doc: a\ndoc: b\n" HEAD X,
	  "t.yaml:2:1: doc: found this key again, expected it once (first on line 1)" },
	/* fields */
	{ "name: t\nversion: 1\n", "t.yaml:1:1: fields: found nothing, expected a list of fields" },
	{ "name: t\nversion: 1\nfields: 7\n",
	  "t.yaml:3:9: fields: found \"7\", expected a list of fields" },
	{ "name: t\nversion: 1\nfields: []\n",
	  "t.yaml:3:9: fields: found 0 fields, expected 1 to 1024" },
	{ HEAD "- x\n", "t.yaml:4:3: fields[0]: found \"x\", expected a mapping" },
	{ HEAD X "fields: []\n",
	  "t.yaml:5:1: fields: found this key again, expected it once (first on line 3)" },
	/* a field */
	{ HEAD "- {name: x, type: u8, doc: d, typ: u8}\n",
	  "t.yaml:4:31: fields[0].typ: found an unknown key, did you mean type?" },
	{ HEAD "- {type: u8, doc: d}\n",
	  "t.yaml:4:3: fields[0]: name: found nothing, expected a field's name" },
	{ HEAD "- {name: {}, type: u8, doc: d}\n",
	  "t.yaml:4:10: fields[0].name: found a mapping, expected a text of 1 to 63 bytes" },
	{ HEAD "- {name: 9x, type: u8, doc: d}\n",
	  "t.yaml:4:10: fields[0].name: found \"9x\", expected " NAME_EXPECTED },
	{ HEAD "- {name: kind, type: u8, doc: d}\n",
	  "t.yaml:4:10: fields[0].name: found \"kind\", expected " ROW_NAMES },
	{ HEAD X X, "t.yaml:5:10: fields[1].name: found x again, expected each name once" },
	{ HEAD "- {name: x, type: u8, doc: []}\n",
	  "t.yaml:4:28: fields[0].doc: found a list, expected a text of 0 to 200 bytes" },
	{ HEAD "- {name: x, name: y, type: u8, doc: d}\n",
	  "t.yaml:4:13: fields[0].name: " AGAIN_4 },
	{ HEAD "- {name: x, type: u8, type: u8, doc: d}\n",
	  "t.yaml:4:23: fields[0].type: " AGAIN_4 },
	{ HEAD "- {name: x, type: u8, doc: d, doc: e}\n", "t.yaml:4:31: fields[0].doc: " AGAIN_4 },
	{ HEAD "- {name: x, type: u8, doc: " DOC_201 "}\n",
	  "t.yaml:4:28: fields[0].doc: found \"" DOC_77 "\", expected a text of 0 to 200 bytes" },
	{ HEAD "- {name: " NAME_63 "x, type: u8, doc: d}\n",
	  "t.yaml:4:10: fields[0].name: found \"" NAME_63 "x\", expected a text of 1 to 63 bytes" },
	/* types */
	{ HEAD "- {name: x, doc: d}\n",
	  "t.yaml:4:3: fields[0]: type: found nothing, expected a type" },
	{ HEAD "- {name: x, type: [], doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found a list, expected a text of 1 to 47 bytes" },
	{ HEAD "- {name: x, type: int, doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found \"int\", expected " TYPES },
	{ HEAD "- {name: x, type: 'char[0]', doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found \"char[0]\", expected char[1] to char[4064]" },
	{ HEAD "- {name: x, type: 'char[4065]', doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found \"char[4065]\", expected char[1] to char[4064]" },
	{ HEAD "- {type: 'pad[0]'}\n",
	  "t.yaml:4:10: fields[0].type: found \"pad[0]\", expected pad[1] to pad[4064]" },
	{ HEAD "- {name: x, type: decimal64(19), doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found \"decimal64(19)\", expected decimal64(0) to "
	  "decimal64(18)" },
	{ HEAD "- {name: x, type: decimal64, doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found \"decimal64\", expected decimal64(0) to "
	  "decimal64(18)" },
	{ HEAD "- {name: x, type: 'u8[0]', doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found \"u8[0]\", expected [1] to [4064] for an array" },
	{ HEAD "- {name: x, type: 'u8[01]', doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found \"u8[01]\", expected [1] to [4064] for an array" },
	{ HEAD "- {name: x, type: 'u8[2][2]', doc: d}\n",
	  "t.yaml:4:19: fields[0].type: found \"u8[2][2]\", expected nothing after the type" },
	/* pad */
	{ HEAD X "- {type: 'pad[1]', name: y}\n",
	  "t.yaml:5:26: fields[1].name: found this key for type pad, which does not take it" },
	{ HEAD X "- {type: 'pad[1]', doc: y}\n",
	  "t.yaml:5:25: fields[1].doc: found this key for type pad, which does not take it" },
	/* role */
	{ HEAD "- {name: x, type: u64, doc: d, role: sequence}\n",
	  "t.yaml:4:38: fields[0].role: found \"sequence\", expected source_sequence" },
	{ HEAD "- {name: x, type: i8, doc: d, role: source_sequence}\n",
	  "t.yaml:4:37: fields[0].role: found this role for i8, expected it for a u32 or u64 "
	  "outside arrays "
	  "and groups" },
	{ HEAD "- {name: x, type: u64, doc: d, role: source_sequence}\n"
	       "- {name: y, type: u64, doc: d, role: source_sequence}\n",
	  "t.yaml:5:38: fields[1].role: found a second source_sequence, expected one (first on "
	  "line 4)" },
	{ HEAD "- {name: x, type: u64, doc: d, role: []}\n",
	  "t.yaml:4:38: fields[0].role: found a list, expected source_sequence" },
	{ HEAD "- {name: x, type: u64, doc: d, role: source_sequence, role: source_sequence}\n",
	  "t.yaml:4:55: fields[0].role: " AGAIN_4 },
	/* optional */
	{ HEAD "- {name: x, type: u8, doc: d, optional: maybe}\n",
	  "t.yaml:4:41: fields[0].optional: found \"maybe\", expected true or false" },
	{ HEAD "- {name: x, type: u8, doc: d, optional: 'true'}\n",
	  "t.yaml:4:41: fields[0].optional: found \"true\" in quotes, expected true or false" },
	{ HEAD "- {name: x, type: u8, doc: d, optional: []}\n",
	  "t.yaml:4:41: fields[0].optional: found a list, expected true or false" },
	{ HEAD "- {name: x, type: u8, doc: d, optional: true, optional: true}\n",
	  "t.yaml:4:47: fields[0].optional: " AGAIN_4 },
	{ HEAD X "- {type: 'pad[1]', optional: true}\n",
	  "t.yaml:5:30: fields[1].optional: found this key for type pad, which does not take it" },
	{ HEAD "- {name: x, type: 'group[2]', optional: true, fields: [{name: y, type: u8}]}\n",
	  "t.yaml:4:41: fields[0].optional: found this key for type group, which does not take "
	  "it" },
	{ HEAD "- {name: x, type: u64, optional: true, role: source_sequence}\n",
	  "t.yaml:4:34: fields[0].optional: found this key for role source_sequence, expected it "
	  "for a field without a role" },
	/* groups */
	{ HEAD "- {name: x, type: 'group[0]', doc: d, fields: [{name: y, type: u8, doc: d}]}\n",
	  "t.yaml:4:19: fields[0].type: found \"group[0]\", expected [1] to [4064] for an array" },
	{ HEAD "- {name: x, type: 'group[2]', doc: d, fields: 7}\n",
	  "t.yaml:4:47: fields[0].fields: found \"7\", expected a list of fields" },
	{ HEAD "- {name: x, type: 'group[2]', doc: d, fields: []}\n",
	  "t.yaml:4:47: fields[0].fields: found 0 fields, expected 1 to 1024" },
	{ HEAD
	  "- {name: x, type: 'group[2]', doc: d, fields: [{name: y, type: u8, doc: d}], fields: "
	  "[]}\n",
	  "t.yaml:4:78: fields[0].fields: " AGAIN_4 },
	{ HEAD "- {name: x, type: 'group[2]', doc: d}\n",
	  "t.yaml:4:3: fields[0]: fields: found nothing, expected the fields of the group" },
	{ HEAD "- {name: x, type: u8, doc: d, fields: []}\n",
	  "t.yaml:4:39: fields[0].fields: found this key for type u8, which does not take it" },
	{ HEAD
	  "- {name: x, type: 'group[2]', doc: d, fields: [{name: y, type: 'group[2]', doc: d}]}\n",
	  "t.yaml:4:64: fields[0].fields[0].type: found a group inside a group, expected a field "
	  "that is no group" },
	{ HEAD "- {name: x, type: 'group[2]', doc: d, fields: [{name: y, type: u8, doc: d}]}\n"
	       "- {name: x_y, type: u8, doc: d}\n",
	  "t.yaml:4:1: fields: found a field x_y and a member y of x, expected names whose macros "
	  "in C differ" },
	{ HEAD
	  "- {name: a, type: 'group[2]', fields: [{name: b_c, type: u8}]}\n"
	  "- {name: a_b, type: 'group[2]', fields: [{name: d, type: u8}, {name: c, type: u8}]}\n",
	  "t.yaml:4:1: fields: found a member b_c of a and a member c of a_b, expected names whose "
	  "macros in C differ" },
	{ HEAD "- {name: a_b, type: 'group[2]', fields: [{name: c, type: u8}]}\n"
	       "- {name: a, type: 'group[2]', fields: [{type: 'pad[1]'}, {name: b_c, type: u8}]}\n",
	  "t.yaml:4:1: fields: found a member b_c of a and a member c of a_b, expected names whose "
	  "macros in C differ" },
	/* places */
	{ HEAD X "- {name: y, type: u64, doc: d}\n",
	  "t.yaml:5:3: fields[1]: found this field at byte 1, expected a multiple of 8: put pad[7] "
	  "before "
	  "it" },
	{ HEAD "- {name: y, type: u64, doc: d}\n" X,
	  "t.yaml:1:1: found 9 bytes, expected a multiple of 8: put pad[7] at the end" },
	{ HEAD
	  "- {name: x, type: 'group[2]', doc: d, fields: [{name: y, type: u64, doc: d}, {name: "
	  "z, type: u8, doc: d}]}\n",
	  "t.yaml:4:3: fields[0]: found 9 bytes, expected a multiple of 8: put pad[7] at the end" },
	{ HEAD "- {name: x, type: 'u64[508]', doc: d}\n- {name: y, type: u8, doc: d}\n",
	  "t.yaml:5:3: fields[1]: found 1 bytes from byte 4064 on, expected at most 4064 in all" },
	{ HEAD "- {name: x, type: 'u64[4064]', doc: d}\n",
	  "t.yaml:4:3: fields[0]: found 32512 bytes from byte 0 on, expected at most 4064 in all" },
	/* all in one run */
	{ "name: T\nversion: 0\nfields:\n- {name: X, type: u7, doc: d}\n",
	  "t.yaml:1:7: name: found \"T\", expected " NAME_EXPECTED "\n"
	  "t.yaml:2:10: version: found \"0\", expected a whole number from 1 to 65535\n"
	  "t.yaml:4:19: fields[0].type: found \"u7\", expected " TYPES "\n"
	  "t.yaml:4:10: fields[0].name: found \"X\", expected " NAME_EXPECTED },
	{ HEAD X "- {name: x, type: u7, doc: d}\n- {name: x, type: u8, optional: 7, doc: d}\n",
	  "t.yaml:5:19: fields[1].type: found \"u7\", expected " TYPES "\n"
	  "t.yaml:5:10: fields[1].name: found x again, expected each name once\n"
	  "t.yaml:6:33: fields[2].optional: found \"7\", expected true or false\n"
	  "t.yaml:6:10: fields[2].name: found x again, expected each name once" },
	/* refusals of the YAML reader */
	{ "name: *a\nversion: 1\nfields:\n- {name: x, type: u8, doc: &d d}\n",
	  "t.yaml:1:7: name: found an alias, expected a plain value: put a text that begins with * "
	  "in quotes\n"
	  "t.yaml:4:28: fields[0].doc: found an anchor, expected a plain value: put a text that "
	  "begins with & in quotes" },
	{ HEAD "- {name: x, type: !!str u8, doc: \"\\x07\"}\n",
	  "t.yaml:4:19: fields[0].type: found a tag, expected a plain value: put a text that "
	  "begins with ! in quotes\n"
	  "t.yaml:4:34: fields[0].doc: found a control character, expected printable text" },
	{ "name: [\n", "t.yaml:2:1: YAML syntax: did not find expected node content, while parsing "
		       "a flow node" },
};

Test(read, error_says_position_found_and_expected)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tb_schema *schema;

		cr_expect_eq(tb_schema_parse(&schema, cases[i][0], strlen(cases[i][0]), "t.yaml"),
			     -EINVAL, "%s", cases[i][0]);
		cr_expect_null(schema);
		cr_expect_str_eq(tb_error(), cases[i][1], "%s\n  found    %s\n  expected %s",
				 cases[i][0], tb_error(), cases[i][1]);
	}
}

Test(read, groups_with_like_names_are_taken_if_macros_differ)
{
	struct tb_schema *schema =
		parse(HEAD "- {name: a, type: 'group[1]', fields: [{name: b_, type: u8}, "
			   "{name: bd_c, type: u8}, {type: 'pad[1]'}]}\n"
			   "- {name: a_b, type: 'group[1]', fields: [{name: c, type: u8}]}\n"
			   "- {name: ab, type: 'group[1]', fields: [{name: b, type: u8}]}\n");

	tb_schema_free(schema);
}

Test(read, fields_below_1_or_above_1024_are_refused)
{
	static char text[65536];
	struct tb_schema *schema;
	size_t used = (size_t)snprintf(text, sizeof(text), HEAD);

	for (int i = 0; i < 1024; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "- {name: f%d, type: u8, doc: d}\n", i);
	cr_expect_eq(tb_schema_parse(&schema, text, used, "t.yaml"), 0, "%s", tb_error());
	tb_schema_free(schema);
	snprintf(text + used, sizeof(text) - used, X);
	cr_expect_eq(tb_schema_parse(&schema, text, strlen(text), "t.yaml"), -EINVAL);
	cr_expect_str_eq(tb_error(), "t.yaml:4:1: fields: found 1025 fields, expected 1 to 1024");
}

Test(read, doc_line_above_200_bytes_is_refused)
{
	char text[512];
	struct tb_schema *schema;

	snprintf(text, sizeof(text), "doc: %0200d\n" HEAD X, 1);
	cr_expect_eq(tb_schema_parse(&schema, text, strlen(text), "t.yaml"), 0, "%s", tb_error());
	tb_schema_free(schema);
	snprintf(text, sizeof(text), "doc: %0201d\n" HEAD X, 1);
	cr_expect_eq(tb_schema_parse(&schema, text, strlen(text), "t.yaml"), -EINVAL);
}

/* A schema of 600 fields, with a last doc line of this length. */
static int parse_long(struct tb_schema **schema, int last_doc)
{
	static char text[100000];
	size_t used = (size_t)snprintf(text, sizeof(text), HEAD);

	for (int i = 0; i < 600; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "- {name: f%03d, type: u8, doc: %0*d}\n", i,
					 i < 599 ? 69 : last_doc, 1);
	return tb_schema_parse(schema, text, used, "t.yaml");
}

Test(read, canonical_text_above_65535_bytes_is_refused)
{
	struct tb_schema *schema;
	size_t length;
	int more;

	cr_assert_eq(parse_long(&schema, 1), 0, "%s", tb_error());
	tb_schema_text(schema, &length);
	more = (int)(TB_SCHEMA_TEXT_MAX - length);
	cr_assert(more > 0 && more < 199, "%d", more);
	tb_schema_free(schema);
	cr_assert_eq(parse_long(&schema, 1 + more), 0, "%s", tb_error());
	tb_schema_text(schema, &length);
	cr_expect_eq(length, TB_SCHEMA_TEXT_MAX);
	tb_schema_free(schema);
	cr_expect_eq(parse_long(&schema, 2 + more), -EINVAL);
	cr_expect_str_eq(tb_error(),
			 "t.yaml:1:1: found 65536 bytes in canonical form, expected at most 65535: "
			 "fewer fields or shorter lines of doc");
}

Test(read, errors_without_room_are_counted_and_lines_stay_whole)
{
	char text[8192] = HEAD;
	size_t used = strlen(text);
	struct tb_schema *schema;
	unsigned int shown = 0, more = 0;

	for (int i = 0; i < 150; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "- {name: X%d, type: u8, doc: d}\n", i);
	cr_assert_eq(tb_schema_parse(&schema, text, strlen(text), "t.yaml"), -EINVAL);
	for (const char *at = tb_error(); sscanf(at, "and %u more errors", &more) != 1;) {
		char expected[128];

		snprintf(expected, sizeof(expected),
			 "t.yaml:%u:10: fields[%u].name: found \"X%u\", expected " NAME_EXPECTED
			 "\n",
			 4 + shown, shown, shown);
		cr_assert(strncmp(at, expected, strlen(expected)) == 0, "%s", at);
		at += strlen(expected);
		shown++;
	}
	cr_expect(shown > 10 && shown + more == 150, "%u and %u", shown, more);
}

Test(read, unknown_name_lists_the_built_in_schemas)
{
	struct tb_schema *schema;

	cr_expect_eq(tb_schema_load(&schema, "quotes"), -ENOENT);
	cr_expect_str_eq(
		tb_error(),
		"quotes: found no file of this name, expected a file or a built-in schema: quote, "
		"trade, depth10, status, imbalance, definition, quote_seq, trade_seq, quote_wide, "
		"trade_wide, depth10_wide",
		"%s", tb_error());
	cr_expect_eq(tb_schema_load(&schema, "/"), -EINVAL);
	cr_expect_str_eq(tb_error(), "/: found a folder, expected a file", "%s", tb_error());
}

Test(read, offsets_follow_from_field_order)
{
	struct tb_schema *schema =
		brief("t", 1, "a u32; b char[3]; pad[1]; c group[3] {; d u16; e u8[2] }; f u32");
	size_t count;
	const struct tb_field *fields = tb_schema_fields(schema, &count);

	cr_assert_eq(count, 5);
	cr_expect_eq(fields[1].offset, 4);
	cr_expect_eq(fields[3].offset, 8);
	cr_expect_eq(fields[3].bytes, 4);
	cr_expect_eq(fields[3].members[1].offset, 2);
	cr_expect_eq(fields[4].offset, 20);
	cr_expect_eq(tb_schema_bytes(schema), 24);
	tb_schema_free(schema);
}
