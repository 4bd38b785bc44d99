/* SPDX-License-Identifier: Apache-2.0 */
/* Programs test and write nulls by field, at any alignment, and nothing beside the element. */
#include <errno.h>
#include <math.h>

#include "schemas.h"

static const char *const types[] = { "i8",   "i16",           "i32",     "i64",    "u8",
				     "u16",  "u32",           "u64",     "f64",    "time",
				     "char", "decimal64(18)", "char[1]", "char[9]" };

#define TYPES (sizeof(types) / sizeof(types[0]))

static struct tb_schema *schema;

static void tear_down(void)
{
	tb_schema_free(schema);
}

TestSuite(null, .fini = tear_down);

static const struct tb_field *field(const char *type, const char *optional)
{
	char words[64];
	size_t count;

	tb_schema_free(schema);
	snprintf(words, sizeof(words), "x %s%s", strcmp(type, "char") ? type : "char[3]", optional);
	schema = brief("t", 1, words);
	return tb_schema_fields(schema, &count);
}

Test(null, written_null_is_null_and_nothing_beside_it_changes)
{
	for (size_t i = 0; i < TYPES; i++) {
		const struct tb_field *x = field(types[i], " optional");

		for (size_t at = 1; at <= 8; at++) {
			uint8_t bytes[32];

			memset(bytes, 0x55, sizeof(bytes));
			cr_expect_not(tb_field_is_null(x, bytes + at), "%s", types[i]);
			cr_assert_eq(tb_field_set_null(x, bytes + at), 0, "%s", tb_error());
			cr_expect_eq(tb_field_is_null(x, bytes + at), 1, "%s", types[i]);
			for (size_t k = 0; k < sizeof(bytes); k++)
				cr_expect(bytes[k] == 0x55 || (k >= at && k < at + x->bytes),
					  "%s: byte %zu", types[i], k);
		}
	}
}

/* Each single bit that differs makes another value; of an f64 only those that leave no NaN. */
Test(null, any_other_value_is_not_null)
{
	for (size_t i = 0; i < TYPES; i++) {
		const struct tb_field *x = field(types[i], " optional");
		uint8_t bytes[16] = { 0 };
		double f64;

		cr_assert_eq(tb_field_set_null(x, bytes), 0);
		for (uint32_t bit = 0; bit < 8 * x->bytes; bit++) {
			int expected = 0;

			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			memcpy(&f64, bytes, sizeof(f64));
			if (x->type == TB_TYPE_F64)
				expected = isnan(f64) ? 1 : 0;
			cr_expect_eq(tb_field_is_null(x, bytes), expected, "%s: bit %u", types[i],
				     bit);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

Test(null, nulls_are_the_documented_values)
{
	int8_t i8 = 0;
	int64_t i64 = 0;
	uint16_t u16 = 0;
	uint64_t u64 = 0;
	double f64 = 0;
	char chars[3] = "ab";

	tb_field_set_null(field("i8", " optional"), &i8);
	cr_expect_eq(i8, INT8_MIN);
	tb_field_set_null(field("decimal64(4)", " optional"), &i64);
	cr_expect_eq(i64, INT64_MIN);
	tb_field_set_null(field("u16", " optional"), &u16);
	cr_expect_eq(u16, UINT16_MAX);
	tb_field_set_null(field("time", " optional"), &u64);
	cr_expect_eq(u64, UINT64_MAX);
	tb_field_set_null(field("f64", " optional"), &f64);
	cr_expect(isnan(f64));
	tb_field_set_null(field("char[3]", " optional"), chars);
	cr_expect_eq(memcmp(chars, "\0\0\0", 3), 0);
}

Test(null, only_optional_field_can_be_null)
{
	for (size_t i = 0; i < TYPES; i++) {
		const struct tb_field *optional = field(types[i], " optional"), *x;
		uint8_t null[16] = { 0 }, bytes[16] = { 7 };

		cr_assert_eq(tb_field_set_null(optional, null), 0);
		x = field(types[i], "");
		cr_expect_eq(tb_field_is_null(x, null), 0, "%s is null", types[i]);
		cr_expect_eq(tb_field_set_null(x, bytes), -EINVAL, "%s", types[i]);
		cr_expect_eq(bytes[0], 7);
		cr_expect_str_eq(tb_error(),
				 "field x: found a field that is not optional, expected "
				 "`optional: true` in its schema: other fields have no null");
	}
}
