/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's own schema takes each field's value from its offset in the feed's payload. A field
 * without a source is refused with its name. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "publisher/feeds/projection.h"
#include "tests/support/random.h"
#include "tickbus/error.h"

#define OPEN "name: own\nversion: 1\nfields:\n"

static struct tb_schema *from, *to;
static struct projection projection;
static _Alignas(8) uint8_t source[TB_PAYLOAD_MAX], target[TB_PAYLOAD_MAX];

static void tear_down(void)
{
	projection_close(&projection);
	projection_close(&projection);
	tb_schema_free(from);
	tb_schema_free(to);
}

TestSuite(projection, .fini = tear_down);

static struct tb_schema *parse(const char *fields)
{
	struct tb_schema *schema = NULL;
	char text[4096];

	snprintf(text, sizeof(text), OPEN "%s", fields);
	cr_assert_eq(tb_schema_parse(&schema, text, strlen(text), "t"), 0, "%s\n%s", tb_error(),
		     text);
	return schema;
}

static int open_from(const char *builtin, const char *fields)
{
	projection_close(&projection);
	tb_schema_free(from);
	tb_schema_free(to);
	from = NULL;
	cr_assert_eq(tb_schema_load(&from, builtin), 0, "%s", tb_error());
	to = parse(fields);
	return projection_open(&projection, from, to);
}

static void put_u64(size_t at, uint64_t value)
{
	memcpy(source + at, &value, sizeof(value));
}

static void put_u32(size_t at, uint32_t value)
{
	memcpy(source + at, &value, sizeof(value));
}

static uint64_t u64_at(size_t at)
{
	uint64_t value;

	memcpy(&value, target + at, sizeof(value));
	return value;
}

static uint32_t u32_at(size_t at)
{
	uint32_t value;

	memcpy(&value, target + at, sizeof(value));
	return value;
}

/* bid_price 0, ask_price 8, bid_size 16, ask_size 20, source_time 24 */
static void a_quote(void)
{
	put_u64(0, 1234500);
	put_u64(8, 1234600);
	put_u32(16, 100);
	put_u32(20, 200);
	put_u64(24, 1577716200000000001);
}

static void apply(uint64_t sequence)
{
	memset(target, 0xee, sizeof(target));
	cr_assert_eq(projection_apply(&projection, source, sequence, target), target);
	for (size_t i = projection.bytes; i < sizeof(target); i++)
		cr_assert_eq(target[i], 0xee, "byte %zu is beyond the payload", i);
}

Test(projection, equal_schemas_use_the_payload_itself)
{
	struct tb_schema *same = NULL;

	cr_assert_eq(tb_schema_load(&from, "quote"), 0);
	cr_assert_eq(tb_schema_load(&same, "quote"), 0);
	cr_assert_eq(projection_open(&projection, from, same), 0);
	cr_expect_eq(projection.bytes, 32);
	cr_expect_eq(projection_apply(&projection, source, 9, target), source);
	tb_schema_free(same);
}

Test(projection, fields_are_picked_by_name_and_the_rest_is_zero)
{
	cr_assert_eq(open_from("quote",
			       "- {name: ask_size, type: u32, doc: d}\n"
			       "- {type: \"pad[4]\"}\n"
			       "- {name: source_time, type: time, doc: d}\n"
			       "- {name: bid_price, type: decimal64(4), optional: true, doc: d}\n"),
		     0, "%s", tb_error());
	a_quote();
	apply(1);
	cr_expect_eq(projection.bytes, 24);
	cr_expect_eq(u32_at(0), 200);
	cr_expect_eq(u32_at(4), 0);
	cr_expect_eq(u64_at(8), 1577716200000000001);
	cr_expect_eq(u64_at(16), 1234500);
}

Test(projection, more_digits_multiply_exactly_up_to_highest_price)
{
	static const uint64_t powers[] = { 1,      10,      100,      1000,      10000,
					   100000, 1000000, 10000000, 100000000, 1000000000 };
	char fields[200];

	for (unsigned int scale = 4; scale <= 13; scale++) {
		snprintf(fields, sizeof(fields),
			 "- {name: ask_price, type: decimal64(%u), optional: true, doc: d}\n"
			 "- {name: bid_price, type: decimal64(4), optional: true, doc: d}\n",
			 scale);
		cr_assert_eq(open_from("quote", fields), 0, "%s", tb_error());
		a_quote();
		apply(1);
		cr_expect_eq(u64_at(0), 1234600 * powers[scale - 4], "scale %u", scale);
		cr_expect_eq(u64_at(8), 1234500);
		put_u64(8, UINT32_MAX);
		apply(1);
		cr_expect_eq(u64_at(0), UINT32_MAX * powers[scale - 4]);
		put_u64(8, (uint64_t)-5);
		apply(1);
		cr_expect_eq((int64_t)u64_at(0), -5 * (int64_t)powers[scale - 4]);
	}
}

Test(projection, sequence_field_takes_the_message_number)
{
	cr_assert_eq(open_from("quote",
			       "- {name: bid_size, type: u32, doc: d}\n"
			       "- {type: \"pad[4]\"}\n"
			       "- {name: number, type: u64, role: source_sequence, doc: d}\n"
			       "- {name: ask_size, type: u32, doc: d}\n"
			       "- {type: \"pad[4]\"}\n"),
		     0, "%s", tb_error());
	a_quote();
	for (uint64_t sequence = 1; sequence; sequence *= 1000003) {
		apply(sequence);
		cr_expect_eq(u64_at(8), sequence);
		cr_expect_eq(u32_at(0), 100);
		cr_expect_eq(u32_at(16), 200);
		if (sequence > UINT64_MAX / 1000003)
			break;
	}
}

Test(projection, sequence_field_may_be_first)
{
	cr_assert_eq(open_from("quote",
			       "- {name: number, type: u64, role: source_sequence, doc: d}\n"
			       "- {name: bid_size, type: u32, doc: d}\n- {type: \"pad[4]\"}\n"),
		     0, "%s", tb_error());
	a_quote();
	apply(99);
	cr_expect_eq(u64_at(0), 99);
	cr_expect_eq(u32_at(8), 100);
}

/* source_time 0; bids from 8 and asks from 168: price, size, orders, 16 bytes each */
Test(projection, group_arrays_may_be_shorter_and_pick_members)
{
	cr_assert_eq(open_from("depth10",
			       "- name: asks\n  type: group[3]\n  doc: d\n  fields:\n"
			       "  - {name: orders, type: u32, doc: d}\n"
			       "  - {name: size, type: u32, doc: d}\n"
			       "- name: bids\n  type: group[2]\n  doc: d\n  fields:\n"
			       "  - {name: price, type: decimal64(6), optional: true, doc: d}\n"),
		     0, "%s", tb_error());
	for (uint32_t level = 0; level < 10; level++) {
		put_u64(8 + 16 * level, 1000 - level);
		put_u32(16 + 16 * level, 10 + level);
		put_u32(20 + 16 * level, 1 + level);
		put_u64(168 + 16 * level, 1001 + level);
		put_u32(176 + 16 * level, 20 + level);
		put_u32(180 + 16 * level, 2 + level);
	}
	apply(1);
	cr_expect_eq(projection.bytes, 40);
	for (uint32_t level = 0; level < 3; level++) {
		cr_expect_eq(u32_at(8 * level), 2 + level);
		cr_expect_eq(u32_at(4 + 8 * level), 20 + level);
	}
	cr_expect_eq(u64_at(24), 100000);
	cr_expect_eq(u64_at(32), 99900);
}

/* Every field of every built-in schema, in another order: each value is found again. */
Test(projection, every_field_of_built_in_schemas_can_be_picked)
{
	static const char *const made[] = { "quote",  "trade",     "depth10",
					    "status", "imbalance", "definition" };
	uint64_t state = random_seed();

	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		const struct tb_field *fields;
		size_t count;

		tb_schema_free(from);
		cr_assert_eq(tb_schema_load(&from, made[i]), 0);
		fields = tb_schema_fields(from, &count);
		random_fill(&state, source, tb_schema_bytes(from));
		for (size_t n = 0; n < count; n++) {
			const struct tb_field *field = &fields[n];
			const char *optional = field->optional ? "optional: true" : "doc: d";
			char text[200];

			if (field->type == TB_TYPE_PAD || field->type == TB_TYPE_GROUP)
				continue;
			if (field->type == TB_TYPE_DECIMAL64)
				snprintf(text, sizeof(text),
					 "- {name: %s, type: decimal64(%u), %s}\n", field->name,
					 field->scale, optional);
			else if (field->type == TB_TYPE_CHAR)
				snprintf(text, sizeof(text),
					 "- {name: %s, type: \"char[%u]\", %s}\n", field->name,
					 field->bytes, optional);
			else
				snprintf(text, sizeof(text), "- {name: %s, type: %s, %s}\n",
					 field->name, tb_type_name(field->type), optional);
			tb_schema_free(to);
			to = parse(text);
			cr_assert_eq(projection_open(&projection, from, to), 0, "%s", tb_error());
			apply(1);
			cr_expect_eq(memcmp(target, source + field->offset, field->bytes), 0, "%s",
				     field->name);
			projection_close(&projection);
		}
	}
}

static const struct {
	const char *builtin, *fields, *message;
} refused[] = {
	{ "quote", "- {name: last_price, type: decimal64(4), doc: d}\n",
	  "found field last_price, expected any of: bid_price, ask_price, bid_size, ask_size, "
	  "source_time" },
	{ "quote", "- {name: bid_size, type: u64, doc: d}\n",
	  "field bid_size: found u64 of 8 bytes and scale 0, expected u32 of 4 bytes and scale 0, "
	  "or decimal64 of scale 0 to 9" },
	{ "quote", "- {name: bid_size, type: decimal64(10), doc: d}\n",
	  "field bid_size: found decimal64 of 8 bytes and scale 10, expected u32 of 4 bytes and "
	  "scale 0, or decimal64 of scale 0 to 9" },
	{ "quote", "- {name: bid_price, type: i64, doc: d}\n",
	  "field bid_price: found i64 of 8 bytes and scale 0, expected decimal64 of 8 bytes and "
	  "scale 4 to 13" },
	{ "quote", "- {name: bid_price, type: decimal64(3), optional: true, doc: d}\n",
	  "field bid_price: found decimal64 of 8 bytes and scale 3, expected decimal64 of 8 bytes "
	  "and scale 4 to 13" },
	{ "quote", "- {name: bid_price, type: decimal64(14), optional: true, doc: d}\n",
	  "field bid_price: found decimal64 of 8 bytes and scale 14, expected decimal64 of 8 bytes "
	  "and scale 4 to 13" },
	{ "quote", "- {name: bid_price, type: \"decimal64(4)[1]\", optional: true, doc: d}\n",
	  "field bid_price: found decimal64 of 8 bytes and scale 4, expected decimal64 of 8 bytes "
	  "and scale 4 to 13" },
	{ "trade", "- {name: condition, type: \"char[4]\", doc: d}\n",
	  "field condition: found char of 4 bytes and scale 0, expected char of 3 bytes and scale "
	  "0" },
	{ "depth10",
	  "- name: bids\n  type: group[11]\n  doc: d\n  fields:\n"
	  "  - {name: size, type: u32, doc: d}\n",
	  "field bids: found 11 elements, expected at most 10" },
	{ "depth10",
	  "- name: bids\n  type: group[2]\n  doc: d\n  fields:\n"
	  "  - {name: shares, type: u32, doc: d}\n",
	  "found field shares, expected any of: price, size, orders" },
	{ "depth10", "- {name: bids, type: u32, doc: d}\n",
	  "field bids: found u32 of 4 bytes and scale 0, expected group of 16 bytes and scale 0" },
};

Test(projection, field_without_source_is_refused_by_name)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		cr_expect_eq(open_from(refused[i].builtin, refused[i].fields), -EPROTO, "%zu", i);
		cr_expect_str_eq(tb_error(), refused[i].message);
		cr_expect_null(projection.moves);
	}
}

/* Nine more digits are the most for which no price overflows, at any scale. */
Test(projection, digits_that_could_overflow_are_refused)
{
	from = parse("- {name: price, type: decimal64(0), doc: d}\n");
	to = parse("- {name: price, type: decimal64(10), optional: true, doc: d}\n");
	cr_expect_eq(projection_open(&projection, from, to), -EPROTO);
	cr_expect_str_eq(tb_error(), "field price: found decimal64 of 8 bytes and scale 10, "
				     "expected decimal64 of 8 bytes and scale 0 to 9");
	tb_schema_free(to);
	to = parse("- {name: price, type: decimal64(9), optional: true, doc: d}\n");
	cr_assert_eq(projection_open(&projection, from, to), 0, "%s", tb_error());
	put_u64(0, UINT32_MAX);
	apply(1);
	cr_expect_eq(u64_at(0), UINT32_MAX * UINT64_C(1000000000));
}

static void open_pair(const char *from_fields, const char *to_fields)
{
	projection_close(&projection);
	tb_schema_free(from);
	tb_schema_free(to);
	from = parse(from_fields);
	to = parse(to_fields);
	cr_assert_eq(projection_open(&projection, from, to), 0, "%s", tb_error());
}

/* -- whole numbers -------------------------------------------------------------------------------
 */

Test(projection, whole_number_becomes_a_decimal)
{
	static const int64_t units[] = { 0, 1, 4294967294, 4294967295 };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		open_pair("- {name: size, type: u32}\n- {name: n, type: u32}\n",
			  "- {name: size, type: decimal64(9)}\n- {name: n, type: decimal64(0)}\n");
		put_u32(0, (uint32_t)units[i]);
		put_u32(4, (uint32_t)units[i]);
		apply(1);
		cr_expect_eq((int64_t)u64_at(0), units[i] * 1000000000);
		cr_expect_eq((int64_t)u64_at(8), units[i]);
	}
}

Test(projection, null_of_a_whole_number_is_null_as_a_decimal)
{
	open_pair("- {name: a, type: u64, optional: true}\n- {name: b, type: u32, optional: true}\n"
		  "- {name: c, type: u32}\n",
		  "- {name: a, type: decimal64(8), optional: true}\n"
		  "- {name: b, type: decimal64(8), optional: true}\n"
		  "- {name: c, type: decimal64(8), optional: true}\n");
	put_u64(0, UINT64_MAX);
	put_u32(8, UINT32_MAX);
	put_u32(12, UINT32_MAX);
	apply(1);
	cr_expect_eq((int64_t)u64_at(0), INT64_MIN);
	cr_expect_eq((int64_t)u64_at(8), INT64_MIN);
	cr_expect_eq((int64_t)u64_at(16), UINT32_MAX * INT64_C(100000000));
}

Test(projection, whole_number_without_room_stops_at_the_highest_decimal)
{
	static const uint64_t numbers[][2] = { { UINT64_MAX, INT64_MAX },
					       { INT64_MAX / 100, INT64_MAX / 100 * 100 },
					       { INT64_MAX / 100 + 1, INT64_MAX } };

	open_pair("- {name: a, type: u64}\n", "- {name: a, type: decimal64(2)}\n");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		put_u64(0, numbers[i][0]);
		apply(1);
		cr_expect_eq(u64_at(0), numbers[i][1]);
	}
}

/* The built-in schemas with fractions and 8 digits take the records of a feed of whole units. */
Test(projection, wide_schemas_take_the_feeds_records)
{
	static const char *const pairs[][2] = { { "quote", "quote_wide" },
						{ "trade", "trade_wide" },
						{ "depth10", "depth10_wide" },
						{ "quote", "quote_seq" },
						{ "trade", "trade_seq" } };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		projection_close(&projection);
		tb_schema_free(from);
		tb_schema_free(to);
		cr_assert_eq(tb_schema_load(&from, pairs[i][0]), 0, "%s", tb_error());
		cr_assert_eq(tb_schema_load(&to, pairs[i][1]), 0, "%s", tb_error());
		cr_expect_eq(projection_open(&projection, from, to), 0, "%s", tb_error());
		if (i > 0)
			continue;
		a_quote();
		put_u64(8, (uint64_t)INT64_MIN);
		put_u32(20, 0);
		apply(1);
		cr_expect_eq(u64_at(0), 1234500 * UINT64_C(10000));
		cr_expect_eq((int64_t)u64_at(8), INT64_MIN);
		cr_expect_eq(u64_at(16), 100 * UINT64_C(100000000));
		cr_expect_eq(u64_at(24), 0);
		cr_expect_eq(u64_at(32), 1577716200000000001);
	}
}

/* -- nulls -------------------------------------------------------------------------------------
 */

Test(projection, optional_field_fills_only_an_optional_field)
{
	static const char *const pairs[][2] = {
		{ "- {name: price, type: decimal64(4), optional: true}\n",
		  "- {name: price, type: decimal64(4)}\n" },
		{ "- {name: price, type: decimal64(4), optional: true}\n",
		  "- {name: price, type: decimal64(6)}\n" },
		{ "- {name: g, type: 'group[2]', fields: [{name: price, type: i64, optional: "
		  "true}]}\n",
		  "- {name: g, type: 'group[1]', fields: [{name: price, type: i64}]}\n" },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		tb_schema_free(from);
		tb_schema_free(to);
		from = parse(pairs[i][0]);
		to = parse(pairs[i][1]);
		cr_expect_eq(projection_open(&projection, from, to), -EPROTO, "pair %zu", i);
		cr_expect_str_eq(tb_error(),
				 "field price: found a field that is not optional, expected "
				 "`optional: true`: the feed has records without this value");
		cr_expect_null(projection.moves);
	}
}

Test(projection, null_stays_null_with_more_digits_and_in_groups)
{
	open_pair("- {name: price, type: decimal64(4), optional: true}\n"
		  "- {name: g, type: 'group[2]', fields: [{name: x, type: decimal64(4), optional: "
		  "true}]}\n",
		  "- {name: g, type: 'group[2]', fields: [{name: x, type: decimal64(6), optional: "
		  "true}]}\n"
		  "- {name: price, type: decimal64(8), optional: true}\n");
	put_u64(0, (uint64_t)INT64_MIN);
	put_u64(8, (uint64_t)-5);
	put_u64(16, (uint64_t)INT64_MIN);
	apply(1);
	cr_expect_eq((int64_t)u64_at(0), -500);
	cr_expect_eq((int64_t)u64_at(8), INT64_MIN);
	cr_expect_eq((int64_t)u64_at(16), INT64_MIN);
	put_u64(0, 7);
	apply(1);
	cr_expect_eq((int64_t)u64_at(16), 70000);
}

/* The number keeps its sign, and differs from null: also where only the topic knows nulls. */
Test(projection, scaled_number_without_room_stops_at_the_end_of_its_range)
{
	static const char *const optional[][2] = { { "", "" },
						   { "", ", optional: true" },
						   { ", optional: true", ", optional: true" } };
	static const int64_t numbers[][2] = {
		{ INT64_MAX, INT64_MAX },
		{ INT64_MAX / 100, INT64_MAX / 100 * 100 },
		{ INT64_MAX / 100 + 1, INT64_MAX },
		{ -(INT64_MAX / 100), -(INT64_MAX / 100 * 100) },
		{ -(INT64_MAX / 100) - 1, -INT64_MAX },
		{ -INT64_MAX, -INT64_MAX },
		{ INT64_MIN, -INT64_MAX }, /* a number, if the feed has no nulls */
	};

	for (size_t o = 0; o < 3; o++) {
		char fields[2][80];

		for (size_t i = 0; i < 2; i++)
			snprintf(fields[i], sizeof(fields[i]),
				 "- {name: x, type: decimal64(%d)%s}\n", i ? 4 : 2, optional[o][i]);
		open_pair(fields[0], fields[1]);
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) - (o == 2); i++) {
			put_u64(0, (uint64_t)numbers[i][0]);
			apply(1);
			cr_expect_eq((int64_t)u64_at(0), numbers[i][1],
				     "%zu: %" PRId64 ": %" PRId64, o, numbers[i][0],
				     (int64_t)u64_at(0));
		}
	}
}

static const struct {
	const char *type;
	uint64_t null, becomes;
} kept_apart[] = {
	{ "i8", 0x80, 0x81 },
	{ "i16", 0x8000, 0x8001 },
	{ "i32", 0x80000000, 0x80000001 },
	{ "i64", 0x8000000000000000, 0x8000000000000001 },
	{ "decimal64(4)", 0x8000000000000000, 0x8000000000000001 },
	{ "u8", 0xff, 0xfe },
	{ "u16", 0xffff, 0xfffe },
	{ "u32", 0xffffffff, 0xfffffffe },
	{ "u64", 0xffffffffffffffff, 0xfffffffffffffffe },
	{ "time", 0xffffffffffffffff, 0xfffffffffffffffe },
	{ "\"char[3]\"", 0, 0x202020 },
	{ "f64", 0x7ff8000000000000, 0x7ff8000000000000 }, /* NaN is no number: it is null */
};

Test(projection, value_that_feed_always_has_stays_a_value)
{
	for (size_t i = 0; i < sizeof(kept_apart) / sizeof(kept_apart[0]); i++) {
		char fields[2][100];
		uint64_t value = kept_apart[i].becomes;

		snprintf(fields[0], sizeof(fields[0]), "- {name: x, type: %s}\n",
			 kept_apart[i].type);
		snprintf(fields[1], sizeof(fields[1]), "- {name: x, type: %s, optional: true}\n",
			 kept_apart[i].type);
		open_pair(fields[0], fields[1]);
		memcpy(source, &kept_apart[i].null, sizeof(uint64_t));
		apply(1);
		cr_expect_eq(memcmp(target, &value, projection.bytes), 0, "%s: null",
			     kept_apart[i].type);
		memcpy(source, &value, sizeof(value));
		apply(1);
		cr_expect_eq(memcmp(target, &value, projection.bytes), 0, "%s", kept_apart[i].type);
	}
}

/* Elements that are kept apart from null lie between two that are not. */
Test(projection, each_element_of_an_array_is_kept_apart_from_null)
{
	open_pair("- {name: a, type: 'u32[4]'}\n- {name: b, type: u32}\n- {name: c, type: u32}\n",
		  "- {name: b, type: u32}\n- {name: c, type: u32}\n"
		  "- {name: a, type: 'u32[3]', optional: true}\n");
	for (uint32_t i = 0; i < 6; i++)
		put_u32(4 * i, UINT32_MAX);
	put_u32(4, 17);
	apply(1);
	cr_expect_eq(projection.count, 4);
	cr_expect_eq(u32_at(0), UINT32_MAX);
	cr_expect_eq(u32_at(4), UINT32_MAX);
	cr_expect_eq(u32_at(8), UINT32_MAX - 1);
	cr_expect_eq(u32_at(12), 17);
	cr_expect_eq(u32_at(16), UINT32_MAX - 1);
}

Test(projection, adjacent_fields_are_moved_together)
{
	cr_assert_eq(open_from("quote",
			       "- {name: bid_price, type: decimal64(4), optional: true, doc: d}\n"
			       "- {name: ask_price, type: decimal64(4), optional: true, doc: d}\n"
			       "- {name: bid_size, type: u32, doc: d}\n"
			       "- {name: ask_size, type: u32, doc: d}\n"
			       "- {name: number, type: u64, role: source_sequence, doc: d}\n"),
		     0, "%s", tb_error());
	cr_expect_eq(projection.count, 1);
	a_quote();
	apply(77);
	cr_expect_eq(memcmp(target, source, 24), 0);
	cr_expect_eq(u64_at(24), 77);
}
