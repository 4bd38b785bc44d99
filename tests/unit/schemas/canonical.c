/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical text carries a whole schema, and the fingerprint changes exactly when a byte's
 * meaning does. */
#include "schemas.h"

static bool same_fields(const struct tb_field *a, size_t a_count, const struct tb_field *b,
			size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count; i++)
		if (strcmp(a[i].name, b[i].name) != 0 || strcmp(a[i].doc, b[i].doc) != 0 ||
		    strcmp(a[i].role, b[i].role) != 0 || a[i].type != b[i].type ||
		    a[i].scale != b[i].scale || a[i].offset != b[i].offset ||
		    a[i].bytes != b[i].bytes || a[i].count != b[i].count ||
		    a[i].array != b[i].array || a[i].optional != b[i].optional ||
		    !same_fields(a[i].members, a[i].member_count, b[i].members, b[i].member_count))
			return false;
	return true;
}

static void expect_round_trip(const struct tb_schema *schema)
{
	size_t length, again_length, count, again_count;
	const char *text = tb_schema_text(schema, &length);
	const struct tb_field *fields = tb_schema_fields(schema, &count);
	const struct tb_field *again_fields;
	struct tb_schema *again = parse(text);

	cr_expect_eq(strlen(text), length);
	cr_expect_str_eq(tb_schema_text(again, &again_length), text);
	cr_expect_eq(again_length, length);
	cr_expect_str_eq(tb_schema_name(again), tb_schema_name(schema));
	cr_expect_eq(tb_schema_version(again), tb_schema_version(schema));
	cr_expect_eq(tb_schema_fingerprint(again), tb_schema_fingerprint(schema));
	cr_expect_eq(tb_schema_bytes(again), tb_schema_bytes(schema));
	again_fields = tb_schema_fields(again, &again_count);
	cr_expect(same_fields(fields, count, again_fields, again_count));
	tb_schema_free(again);
}

Test(canonical, built_in_schema_reads_back_from_its_text)
{
	const char *const *names = tb_schema_builtins();
	struct tb_schema *schema;

	cr_assert_not_null(names[0]);
	for (; *names; names++) {
		cr_assert_eq(tb_schema_load(&schema, *names), 0, "%s", tb_error());
		cr_expect_str_eq(tb_schema_name(schema), *names);
		expect_round_trip(schema);
		tb_schema_free(schema);
	}
}

Test(canonical, every_type_and_awkward_docs_read_back)
{
	struct tb_schema *schema = brief(
		"all", 65535,
		"a i8; b i8; c i16; d i32; e i64; f u64 source_sequence; g u32; h u16; i u8;"
		"j u8[1]; k f64; l char[7]; m char[1][9]; n decimal64(0); o decimal64(18)[3];"
		"p time; q group[1] {; a u8 optional; pad[7]; b time[2] optional }; null u8; yes "
		"u8;"
		"y u8; n1 u8; pad[4]; r i64 optional; s decimal64(8)[2] optional; t f64 optional;"
		"u char[8] optional");

	expect_round_trip(schema);
	tb_schema_free(schema);
	schema = parse("name: \"off\"\nversion: 1\ndoc: \"\\\" \\\\ # : - {} [] '' %\"\nfields:\n"
		       "- {name: 'on', type: u8, doc: ' # leading, trailing: '}\n");
	expect_round_trip(schema);
	tb_schema_free(schema);
}

Test(canonical, canonical_text_is_as_documented)
{
	struct tb_schema *schema = parse(
		"version: 3\nfields:\n- {name: bids, doc: Levels., type: 'group[2]', fields: [\n"
		"  {name: n, doc: 'A \"number\".', type: u32}, {type: 'pad[4]'}]}\n"
		"- {name: s, type: u64, role: source_sequence, doc: Number.}\nname: mine\n");
	size_t length;

	cr_expect_str_eq(tb_schema_text(schema, &length), "name: mine\n"
							  "version: 3\n"
							  "fields:\n"
							  "  - type: group[2]\n"
							  "    name: bids\n"
							  "    doc: \"Levels.\"\n"
							  "    fields:\n"
							  "      - type: u32\n"
							  "        name: n\n"
							  "        doc: \"A \\\"number\\\".\"\n"
							  "      - type: pad[4]\n"
							  "  - type: u64\n"
							  "    name: s\n"
							  "    role: source_sequence\n"
							  "    doc: \"Number.\"\n");
	tb_schema_free(schema);
}

/* A schema written before fields could be optional keeps its text. */
Test(canonical, optional_has_a_line_behind_role_only_if_true)
{
	struct tb_schema *schema = parse("name: m\nversion: 1\nfields:\n"
					 "- {optional: true, doc: D., name: a, type: 'u32[2]'}\n"
					 "- {optional: false, doc: D., name: b, type: u64}\n"
					 "- {name: g, type: 'group[1]', fields: [ {name: y, type: "
					 "i64, optional: true} ]}\n");
	size_t length;

	cr_expect_str_eq(tb_schema_text(schema, &length), "name: m\n"
							  "version: 1\n"
							  "fields:\n"
							  "  - type: u32[2]\n"
							  "    name: a\n"
							  "    optional: true\n"
							  "    doc: \"D.\"\n"
							  "  - type: u64\n"
							  "    name: b\n"
							  "    doc: \"D.\"\n"
							  "  - type: group[1]\n"
							  "    name: g\n"
							  "    fields:\n"
							  "      - type: i64\n"
							  "        name: y\n"
							  "        optional: true\n");
	expect_round_trip(schema);
	tb_schema_free(schema);
}

Test(canonical, missing_doc_equals_empty_doc_and_leaves_its_line_out)
{
	struct tb_schema *with, *without, *empty;
	size_t length;

	with = parse("name: m\nversion: 1\nfields:\n- {name: x, type: u8, doc: X.}\n"
		     "- {name: g, type: 'group[1]', doc: G., fields: [ {name: y, type: u8, doc: "
		     "Y.} ]}\n");
	without = parse("name: m\nversion: 1\nfields:\n- {name: x, type: u8}\n"
			"- {name: g, type: 'group[1]', fields: [ {name: y, type: u8} ]}\n");
	empty = parse("name: m\nversion: 1\ndoc: ''\nfields:\n- {name: x, type: u8, doc: ''}\n"
		      "- {name: g, type: 'group[1]', doc: '', fields: [ {name: y, type: u8, doc: "
		      "''} ]}\n");
	cr_expect_str_eq(tb_schema_text(without, &length), "name: m\n"
							   "version: 1\n"
							   "fields:\n"
							   "  - type: u8\n"
							   "    name: x\n"
							   "  - type: group[1]\n"
							   "    name: g\n"
							   "    fields:\n"
							   "      - type: u8\n"
							   "        name: y\n");
	cr_expect_str_eq(tb_schema_text(empty, &length), tb_schema_text(without, &length));
	cr_expect_eq(tb_schema_fingerprint(without), tb_schema_fingerprint(with));
	cr_expect_str_eq(tb_schema_fields(without, &length)[0].doc, "");
	expect_round_trip(without);
	tb_schema_free(with);
	tb_schema_free(without);
	tb_schema_free(empty);
}

#define BASE "a u32; b u32; c decimal64(4); d group[2] {; e u64 }"

static uint64_t fingerprint(const char *name, unsigned version, const char *fields)
{
	struct tb_schema *schema = brief(name, version, fields);
	uint64_t value = tb_schema_fingerprint(schema);

	tb_schema_free(schema);
	return value;
}

Test(canonical, fingerprint_changes_with_each_part_of_the_meaning)
{
	static const char *const fields[] = {
		BASE,
		"b u32; a u32; c decimal64(4); d group[2] {; e u64 }",
		"a u32; x u32; c decimal64(4); d group[2] {; e u64 }",
		"a u32; b i32; c decimal64(4); d group[2] {; e u64 }",
		"a u32; pad[4]; c decimal64(4); d group[2] {; e u64 }",
		"a u32; b u32 source_sequence; c decimal64(4); d group[2] {; e u64 }",
		"a u32; b u32; c decimal64(5); d group[2] {; e u64 }",
		"a u32; b u32; c i64; d group[2] {; e u64 }",
		"a u32; b u32; c time; d group[2] {; e u64 }",
		"a u32; b u32; c decimal64(4)[1]; d group[2] {; e u64 }",
		"a u32; b u32; c decimal64(4); d group[3] {; e u64 }",
		"a u32; b u32; c decimal64(4); d group[2] {; x u64 }",
		"a u32; b u32; c decimal64(4); d group[2] {; e i64 }",
		"a u32; b u32; c decimal64(4); d group[1] {; e u64; f u64 }",
		"a u32; b u32; c decimal64(4); d u64[2]",
		"a u32; b u32; c decimal64(4)",
		BASE "; f u64",
		"a u32 optional; b u32; c decimal64(4); d group[2] {; e u64 }",
		"a u32; b u32 optional; c decimal64(4); d group[2] {; e u64 }",
		"a u32; b u32; c decimal64(4) optional; d group[2] {; e u64 }",
		"a u32; b u32; c decimal64(4); d group[2] {; e u64 optional }",
	};
	enum { COUNT = sizeof(fields) / sizeof(fields[0]) };
	uint64_t found[COUNT + 1];

	for (size_t i = 0; i < COUNT; i++)
		found[i] = fingerprint("t", 1, fields[i]);
	found[COUNT] = fingerprint("u", 1, BASE);
	for (size_t i = 0; i <= COUNT; i++)
		for (size_t k = 0; k < i; k++)
			cr_expect_neq(found[i], found[k], "%zu and %zu", i, k);
}

Test(canonical, fingerprint_ignores_version_and_docs)
{
	struct tb_schema *a =
		parse("name: t\nversion: 1\nfields:\n- {name: x, type: u8, doc: a}\n");
	struct tb_schema *b =
		parse("# words\ndoc: Other words.\nfields:\n  - name: x\n    doc: >-\n"
		      "      folded\n      words\n    type: \"u8\"\nversion: 2\nname: t\n");

	cr_expect_eq(tb_schema_fingerprint(a), tb_schema_fingerprint(b));
	tb_schema_free(a);
	tb_schema_free(b);
}

/* Peers of another release, and recordings, identify a schema by this number. */
Test(canonical, fingerprints_are_those_of_the_first_release)
{
	cr_expect_eq(fingerprint("t", 1, "x u8"), UINT64_C(0x1cb4c326170ce1a1), "%#" PRIx64,
		     fingerprint("t", 1, "x u8"));
	cr_expect_eq(fingerprint("t", 1, "x u8 optional"), UINT64_C(0x9c2fdc7fe53b069b),
		     "%#" PRIx64, fingerprint("t", 1, "x u8 optional"));
}
