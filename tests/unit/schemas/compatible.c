/* SPDX-License-Identifier: Apache-2.0 */
/* Publishers that a program written for a schema may read, and the messages for the others. */
#include <errno.h>

#include "schemas.h"

#define QUOTE "price decimal64(4); size u32; pad[4]"
#define DEPTH "bids group[2] {; price decimal64(4); size u64 }"

static const struct {
	const char *publisher_name;
	unsigned publisher_version;
	const char *publisher;
	const char *subscriber_name;
	unsigned subscriber_version;
	const char *subscriber;
	const char *message; /* NULL: compatible */
} cases[] = {
	{ "q", 1, QUOTE, "q", 1, QUOTE, NULL },
	{ "q", 2, QUOTE, "q", 1, QUOTE, NULL },
	{ "q", 1, QUOTE, "q", 2, QUOTE, NULL },
	{ "q", 2, QUOTE "; id u64", "q", 1, QUOTE, NULL },
	{ "q", 2, DEPTH "; id u64", "q", 1, DEPTH, NULL },
	{ "q", 1, QUOTE "; id u64", "q", 1, QUOTE,
	  "publisher has schema q version 1, subscriber expects q version 1: first difference at "
	  "field 4: publisher has id u64, subscriber expects nothing" },
	{ "q", 1, QUOTE "; id u64", "q", 2, QUOTE,
	  "publisher has schema q version 1, subscriber expects q version 2: first difference at "
	  "field 4: publisher has id u64, subscriber expects nothing" },
	{ "q", 1, QUOTE, "q", 2, QUOTE "; id u64",
	  "publisher has schema q version 1, subscriber expects q version 2: first difference at "
	  "field 4: publisher has nothing, subscriber expects id u64" },
	{ "q", 3, QUOTE, "q", 2, QUOTE "; id u64",
	  "publisher has schema q version 3, subscriber expects q version 2: first difference at "
	  "field 4: publisher has nothing, subscriber expects id u64" },
	{ "q", 1, QUOTE, "r", 1, QUOTE,
	  "publisher has schema q version 1, subscriber expects r version 1" },
	{ "q", 2, "price decimal64(6); size u32; pad[4]", "q", 1, QUOTE,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 1: publisher has price decimal64(6), subscriber expects price decimal64(4)" },
	{ "q", 2, "price decimal64(4); size i32; pad[4]", "q", 1, QUOTE,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 2: publisher has size i32, subscriber expects size u32" },
	{ "q", 2, "price decimal64(4); quantity u32; pad[4]", "q", 1, QUOTE,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 2: publisher has quantity u32, subscriber expects size u32" },
	{ "q", 2, "price decimal64(4); size u32; level u32", "q", 1, QUOTE,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 3: publisher has level u32, subscriber expects pad[4]" },
	{ "q", 2, "a u8[2]", "q", 1, "a u8[3]",
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 1: publisher has a u8[2], subscriber expects a u8[3]" },
	{ "q", 2, "a u8", "q", 1, "a u8[1]",
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 1: publisher has a u8, subscriber expects a u8[1]" },
	{ "q", 2, "a char[2]", "q", 1, "a char[3]",
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 1: publisher has a char[2], subscriber expects a char[3]" },
	{ "q", 2, "a u64 source_sequence", "q", 1, "a u64",
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 1: publisher has a u64 as source_sequence, subscriber expects a u64" },
	{ "q", 1, QUOTE, "q", 1, "price decimal64(4) optional; size u32 optional; pad[4]", NULL },
	{ "q", 2, DEPTH, "q", 1, "bids group[2] {; price decimal64(4); size u64 optional }", NULL },
	{ "q", 1, "price decimal64(4) optional; size u32; pad[4]", "q", 1,
	  "price decimal64(4) optional; size u32; pad[4]", NULL },
	{ "q", 1, "price decimal64(4) optional; size u32; pad[4]", "q", 1, QUOTE,
	  "publisher has schema q version 1, subscriber expects q version 1: first difference at "
	  "field 1: publisher has optional price decimal64(4), subscriber expects price "
	  "decimal64(4)" },
	{ "q", 2, "price decimal64(4) optional; size i32; pad[4]", "q", 1,
	  "price decimal64(4) optional; size u32 optional; pad[4]",
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 2: publisher has size i32, subscriber expects optional size u32" },
	{ "q", 2, "bids group[2] {; price decimal64(4); size u64 optional }", "q", 1, DEPTH,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 2 of bids: publisher has optional size u64, subscriber expects size u64" },
	{ "q", 2, "bids group[3] {; price decimal64(4); size u64 }", "q", 1, DEPTH,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 1: publisher has bids group[3], subscriber expects bids group[2]" },
	{ "q", 2, "bids group[2] {; price decimal64(4); size i64 }", "q", 1, DEPTH,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 2 of bids: publisher has size i64, subscriber expects size u64" },
	{ "q", 2, "bids group[2] {; price decimal64(4); size u64; n u64 }", "q", 1, DEPTH,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 3 of bids: publisher has n u64, subscriber expects nothing" },
	{ "q", 2, "bids group[2] {; price decimal64(4) }", "q", 1, DEPTH,
	  "publisher has schema q version 2, subscriber expects q version 1: first difference at "
	  "field 2 of bids: publisher has nothing, subscriber expects size u64" },
};

Test(compatible, newer_version_may_only_append_fields)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tb_schema *publisher = brief(cases[i].publisher_name,
						    cases[i].publisher_version, cases[i].publisher);
		struct tb_schema *subscriber = brief(
			cases[i].subscriber_name, cases[i].subscriber_version, cases[i].subscriber);
		int result = tb_schema_compatible(publisher, subscriber);

		cr_expect_eq(result, cases[i].message ? -EPROTO : 0, "case %zu: %d", i, result);
		if (cases[i].message)
			cr_expect_str_eq(tb_error(), cases[i].message, "%s", tb_error());
		tb_schema_free(publisher);
		tb_schema_free(subscriber);
	}
}

Test(compatible, built_in_schema_is_compatible_only_with_itself)
{
	const char *const *names = tb_schema_builtins();

	for (size_t i = 0; names[i]; i++)
		for (size_t k = 0; names[k]; k++) {
			struct tb_schema *a, *b;

			cr_assert_eq(tb_schema_load(&a, names[i]), 0);
			cr_assert_eq(tb_schema_load(&b, names[k]), 0);
			cr_expect_eq(tb_schema_compatible(a, b), i == k ? 0 : -EPROTO);
			tb_schema_free(a);
			tb_schema_free(b);
		}
}
