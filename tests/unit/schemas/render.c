/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads are printed exactly, bounded, and safely for any bytes. */
#include <locale.h>

#include "schemas.h"

static const char *render(const struct tb_schema *schema, enum tb_format format,
			  const void *payload, size_t length)
{
	static char words[65536];

	cr_assert_lt(tb_schema_render(schema, format, payload, length, words, sizeof(words)),
		     sizeof(words));
	return words;
}

static void expect_one(const char *type, const void *payload, const char *text, const char *csv,
		       const char *json)
{
	char fields[64], expected[256];
	struct tb_schema *schema;

	snprintf(fields, sizeof(fields), "x %s", type);
	schema = brief("t", 1, fields);
	snprintf(expected, sizeof(expected), "x=%s", text);
	cr_expect_str_eq(render(schema, TB_FORMAT_TEXT, payload, tb_schema_bytes(schema)), expected,
			 "%s: %s", type, render(schema, TB_FORMAT_TEXT, payload, 8));
	cr_expect_str_eq(render(schema, TB_FORMAT_CSV, payload, tb_schema_bytes(schema)), csv,
			 "%s: %s, expected %s", type,
			 render(schema, TB_FORMAT_CSV, payload, tb_schema_bytes(schema)), csv);
	snprintf(expected, sizeof(expected), "\"x\":%s", json);
	cr_expect_str_eq(render(schema, TB_FORMAT_JSON, payload, tb_schema_bytes(schema)), expected,
			 "%s: %s, expected %s", type,
			 render(schema, TB_FORMAT_JSON, payload, tb_schema_bytes(schema)),
			 expected);
	tb_schema_free(schema);
}

Test(render, extreme_integers_print_to_the_last_digit)
{
	static const struct {
		const char *type;
		uint64_t bits;
		const char *words;
	} cases[] = {
		{ "i8", 0x80, "-128" },
		{ "i8", 0x7f, "127" },
		{ "i8", 0xff, "-1" },
		{ "i16", 0x8000, "-32768" },
		{ "i16", 0x7fff, "32767" },
		{ "i32", 0x80000000, "-2147483648" },
		{ "i32", 0x7fffffff, "2147483647" },
		{ "i64", 0x8000000000000000, "-9223372036854775808" },
		{ "i64", 0x7fffffffffffffff, "9223372036854775807" },
		{ "i64", 0, "0" },
		{ "u8", 0, "0" },
		{ "u8", 0xff, "255" },
		{ "u16", 0xffff, "65535" },
		{ "u32", 0xffffffff, "4294967295" },
		{ "u64", 0xffffffffffffffff, "18446744073709551615" },
		{ "u64", 10, "10" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_one(cases[i].type, &cases[i].bits, cases[i].words, cases[i].words,
			   cases[i].words);
}

Test(render, decimals_print_all_digits_of_their_scale)
{
	static const struct {
		const char *type;
		int64_t value;
		const char *words;
	} cases[] = {
		{ "decimal64(0)", INT64_MIN, "-9223372036854775808" },
		{ "decimal64(0)", INT64_MAX, "9223372036854775807" },
		{ "decimal64(0)", 0, "0" },
		{ "decimal64(0)", -7, "-7" },
		{ "decimal64(4)", INT64_MIN, "-922337203685477.5808" },
		{ "decimal64(4)", 2866700, "286.6700" },
		{ "decimal64(4)", 0, "0.0000" },
		{ "decimal64(4)", -1, "-0.0001" },
		{ "decimal64(4)", 10000, "1.0000" },
		{ "decimal64(2)", 5, "0.05" },
		{ "decimal64(18)", INT64_MIN, "-9.223372036854775808" },
		{ "decimal64(18)", INT64_MAX, "9.223372036854775807" },
		{ "decimal64(18)", -1, "-0.000000000000000001" },
		{ "decimal64(18)", 0, "0.000000000000000000" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char json[64];

		snprintf(json, sizeof(json), "\"%s\"", cases[i].words);
		expect_one(cases[i].type, &cases[i].value, cases[i].words, cases[i].words, json);
	}
}

Test(render, times_print_as_nanoseconds_and_iso_8601)
{
	uint64_t zero = 0, real = 1577716500000155705, last = UINT64_MAX;

	expect_one("time", &zero, "1970-01-01T00:00:00.000000000Z", "0", "0");
	expect_one("time", &real, "2019-12-30T14:35:00.000155705Z", "1577716500000155705",
		   "1577716500000155705");
	expect_one("time", &last, "2554-07-21T23:34:33.709551615Z", "18446744073709551615",
		   "18446744073709551615");
}

Test(render, dates_until_2554_equal_gmtime)
{
	struct tb_schema *schema = brief("t", 1, "x time");

	for (uint64_t day = 0; day <= UINT64_MAX / 86400000000000u; day++) {
		uint64_t time_ns = day * 86400000000000u;
		time_t second = (time_t)(day * 86400);
		char expected[64];
		struct tm date;

		cr_assert_not_null(gmtime_r(&second, &date));
		strftime(expected, sizeof(expected), "x=%Y-%m-%dT%H:%M:%S.000000000Z", &date);
		cr_assert_str_eq(render(schema, TB_FORMAT_TEXT, &time_ns, 8), expected);
	}
	tb_schema_free(schema);
}

static const struct {
	uint64_t bits;
	const char *words;
	bool quoted;
} doubles[] = {
	{ 0x0000000000000000, "0", false },
	{ 0x8000000000000000, "-0", false },
	{ 0x3fb999999999999a, "0.10000000000000001", false },
	{ 0x3ff8000000000000, "1.5", false },
	{ 0x7fefffffffffffff, "1.7976931348623157e+308", false },
	{ 0x0000000000000001, "4.9406564584124654e-324", false },
	{ 0x7ff0000000000000, "inf", true },
	{ 0xfff0000000000000, "-inf", true },
	{ 0x7ff8000000000000, "nan", true },
	{ 0xfff8000000000000, "nan", true },
};

static void expect_doubles(void)
{
	for (size_t i = 0; i < sizeof(doubles) / sizeof(doubles[0]); i++) {
		const char *quote = doubles[i].quoted ? "\"" : "";
		char json[64];

		snprintf(json, sizeof(json), "%s%s%s", quote, doubles[i].words, quote);
		expect_one("f64", &doubles[i].bits, doubles[i].words, doubles[i].words, json);
	}
}

Test(render, floats_read_back_equal)
{
	expect_doubles();
}

/* Compiled into a folder of the test's own: a small machine may have no locale installed. */
static bool locale_with_comma(const char *folder)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "localedef --no-archive -f UTF-8 -i de_DE %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
	return system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
	       setlocale(LC_ALL, "de_DE.UTF-8");
}

Test(render, locale_with_decimal_comma_changes_nothing)
{
	char folder[] = "/tmp/tickbus-locale-XXXXXX", command[64], words[8];
	bool there;

	cr_assert(mkdtemp(folder));
	there = locale_with_comma(folder);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_assert_eq(system(command), 0);
	if (!there)
		cr_skip("the sources of the locale de_DE are not installed");
	snprintf(words, sizeof(words), "%g", 0.5);
	cr_assert_str_eq(words, "0,5");
	expect_doubles();
}

/* The bytes of a null and of the value next to it, and how the value prints. */
static const struct {
	const char *type;
	uint64_t null, value;
	const char *text, *csv, *json; /* of the value; NULL: as text */
} nulls[] = {
	{ "i8", 0x80, 0x81, "-127", NULL, NULL },
	{ "i16", 0x8000, 0x8001, "-32767", NULL, NULL },
	{ "i32", 0x80000000, 0x80000001, "-2147483647", NULL, NULL },
	{ "i64", 0x8000000000000000, 0x8000000000000001, "-9223372036854775807", NULL, NULL },
	{ "u8", 0xff, 0xfe, "254", NULL, NULL },
	{ "u16", 0xffff, 0xfffe, "65534", NULL, NULL },
	{ "u32", 0xffffffff, 0xfffffffe, "4294967294", NULL, NULL },
	{ "u64", 0xffffffffffffffff, 0xfffffffffffffffe, "18446744073709551614", NULL, NULL },
	{ "time", 0xffffffffffffffff, 0xfffffffffffffffe, "2554-07-21T23:34:33.709551614Z",
	  "18446744073709551614", "18446744073709551614" },
	{ "decimal64(8)", 0x8000000000000000, 0x8000000000000001, "-92233720368.54775807",
	  "-92233720368.54775807", "\"-92233720368.54775807\"" },
	{ "f64", 0x7ff8000000000000, 0x7ff0000000000000, "inf", "inf", "\"inf\"" },
	{ "f64", 0xfff8000000000000, 0xfff0000000000000, "-inf", "-inf", "\"-inf\"" },
	{ "f64", 0x7ff0000000000001, 0, "0", NULL, NULL },
	{ "char[1]", 0, ' ', "", "", "\"\"" },
	{ "char[8]", 0, 0x2020202020202020, "", "", "\"\"" },
	{ "char[8]", 0, 0x2d, "-", "-", "\"-\"" },
	{ "char[2]", 0, 0x4100, "\\x00A", "\\x00A", "\"\\u0000A\"" },
};

#define NULLS (sizeof(nulls) / sizeof(nulls[0]))

Test(render, null_prints_dash_nothing_and_json_null)
{
	for (size_t i = 0; i < NULLS; i++) {
		const char *text = nulls[i].text;
		char type[32];

		snprintf(type, sizeof(type), "%s optional", nulls[i].type);
		expect_one(type, &nulls[i].null, "-", "", "null");
		expect_one(type, &nulls[i].value, text, nulls[i].csv ? nulls[i].csv : text,
			   nulls[i].json ? nulls[i].json : text);
	}
}

Test(render, null_of_a_field_that_is_not_optional_is_a_number)
{
	const int64_t lowest = INT64_MIN;
	const uint32_t highest = UINT32_MAX;

	expect_one("decimal64(4)", &lowest, "-922337203685477.5808", "-922337203685477.5808",
		   "\"-922337203685477.5808\"");
	expect_one("u32", &highest, "4294967295", "4294967295", "4294967295");
	expect_one("char[2]", "\0", "", "", "\"\"");
}

Test(render, each_element_of_an_array_or_group_may_be_null)
{
	struct tb_schema *schema =
		brief("t", 1,
		      "x i16[3] optional; y u16; bids group[2] {; price decimal64(2) "
		      "optional; size u32; orders u32 optional }");
	const struct {
		int16_t x[3];
		uint16_t y;
		struct {
			int64_t price;
			uint32_t size, orders;
		} bids[2];
	} payload = { { 1, INT16_MIN, -1 },
		      UINT16_MAX,
		      { { -12345, 7, UINT32_MAX }, { INT64_MIN, 0, 0 } } };

	cr_assert_eq(tb_schema_bytes(schema), sizeof(payload));
	cr_expect_str_eq(render(schema, TB_FORMAT_TEXT, &payload, sizeof(payload)),
			 "x[0]=1 x[1]=- x[2]=-1 y=65535 bids[0].price=-123.45 bids[0].size=7 "
			 "bids[0].orders=- bids[1].price=- bids[1].size=0 bids[1].orders=0");
	cr_expect_str_eq(render(schema, TB_FORMAT_CSV, &payload, sizeof(payload)),
			 "1,,-1,65535,-123.45,7,,,0,0");
	cr_expect_str_eq(render(schema, TB_FORMAT_SPREADSHEET, &payload, sizeof(payload)),
			 "1,,-1,65535,-123.45,7,,,0,0");
	cr_expect_str_eq(
		render(schema, TB_FORMAT_JSON, &payload, sizeof(payload)),
		"\"x\":[1,null,-1],\"y\":65535,\"bids\":[{\"price\":\"-123.45\",\"size\":7,"
		"\"orders\":null},{\"price\":null,\"size\":0,\"orders\":0}]");
	tb_schema_free(schema);
}

/* A price of a future below zero, and a size that is a fraction of a coin. */
Test(render, negative_prices_and_fractions_of_coins_print_exactly)
{
	const struct {
		int64_t price, size, change;
	} payload = { -3763, 12345, -100000001 };
	struct tb_schema *schema =
		brief("t", 1, "price decimal64(2); size decimal64(8); change decimal64(8)");

	cr_expect_str_eq(render(schema, TB_FORMAT_TEXT, &payload, sizeof(payload)),
			 "price=-37.63 size=0.00012345 change=-1.00000001");
	cr_expect_str_eq(render(schema, TB_FORMAT_CSV, &payload, sizeof(payload)),
			 "-37.63,0.00012345,-1.00000001");
	tb_schema_free(schema);
}

Test(render, characters_print_escaped_without_padding)
{
	static const struct {
		const char *type;
		const char *bytes;
		const char *text, *csv, *json;
	} cases[] = {
		{ "char[4]", "AB  ", "AB", "AB", "\"AB\"" },
		{ "char[4]", "AB\0\0", "AB", "AB", "\"AB\"" },
		{ "char[4]", "AB \0", "AB", "AB", "\"AB\"" },
		{ "char[4]", "    ", "", "", "\"\"" },
		{ "char[4]", " A B", " A B", " A B", "\" A B\"" },
		{ "char[4]", "A\0B\0", "A\\x00B", "A\\x00B", "\"A\\u0000B\"" },
		{ "char[4]", "a,b ", "a,b", "\"a,b\"", "\"a,b\"" },
		{ "char[4]", "a\"b ", "a\"b", "\"a\"\"b\"", "\"a\\\"b\"" },
		{ "char[4]", "a\\b ", "a\\\\b", "a\\\\b", "\"a\\\\b\"" },
		{ "char[4]", "\r\n\t\x7f", "\\x0d\\x0a\\x09\\x7f", "\\x0d\\x0a\\x09\\x7f",
		  "\"\\u000d\\u000a\\u0009\\u007f\"" },
		{ "char[2]", "\xc3\xa9", "\\xc3\\xa9", "\\xc3\\xa9", "\"\\u00c3\\u00a9\"" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_one(cases[i].type, cases[i].bytes, cases[i].text, cases[i].csv,
			   cases[i].json);
}

#define NESTED                                                                                     \
	"pad[2]; tags char[1][2]; a u32; bids group[2] {; price decimal64(1); size u16[2];"        \
	"pad[4] }; z u8"

struct nested {
	uint8_t pad0[2];
	char tags[2][1];
	uint32_t a;
	struct {
		int64_t price;
		uint16_t size[2];
		uint8_t pad12[4];
	} bids[2];
	uint8_t z, pad41[7];
};

static struct tb_schema *nested_schema(void)
{
	return brief("nested", 1, NESTED "; pad[7]");
}

static const struct nested nested = {
	.tags = { { 'x' }, { 'y' } },
	.a = 7,
	.bids = { { 15, { 1, 2 }, { 0 } }, { -15, { 3, 4 }, { 0 } } },
	.z = 9,
};

Test(render, arrays_and_groups_print_as_columns_and_json)
{
	struct tb_schema *schema = nested_schema();
	char columns[512];

	cr_assert_eq(tb_schema_bytes(schema), sizeof(nested));
	tb_schema_columns(schema, columns, sizeof(columns));
	cr_expect_str_eq(columns, "tags[0],tags[1],a,bids[0].price,bids[0].size[0],bids[0].size[1],"
				  "bids[1].price,bids[1].size[0],bids[1].size[1],z");
	cr_expect_str_eq(render(schema, TB_FORMAT_CSV, &nested, sizeof(nested)),
			 "x,y,7,1.5,1,2,-1.5,3,4,9");
	cr_expect_str_eq(render(schema, TB_FORMAT_TEXT, &nested, sizeof(nested)),
			 "tags[0]=x tags[1]=y a=7 bids[0].price=1.5 bids[0].size[0]=1 "
			 "bids[0].size[1]=2 bids[1].price=-1.5 bids[1].size[0]=3 bids[1].size[1]=4 "
			 "z=9");
	cr_expect_str_eq(
		render(schema, TB_FORMAT_JSON, &nested, sizeof(nested)),
		"\"tags\":[\"x\",\"y\"],\"a\":7,\"bids\":[{\"price\":\"1.5\",\"size\":[1,2]"
		"},{\"price\":\"-1.5\",\"size\":[3,4]}],\"z\":9");
	tb_schema_free(schema);
}

Test(render, fields_beyond_the_payload_are_missing)
{
	struct tb_schema *schema = nested_schema();

	cr_expect_str_eq(render(schema, TB_FORMAT_CSV, &nested, 17), "x,y,7,1.5,,,,,,");
	cr_expect_str_eq(render(schema, TB_FORMAT_CSV, &nested, 18), "x,y,7,1.5,1,,,,,");
	cr_expect_str_eq(render(schema, TB_FORMAT_TEXT, &nested, 3),
			 "tags[0]=x tags[1]=- a=- bids[0].price=- bids[0].size[0]=- "
			 "bids[0].size[1]=- bids[1].price=- bids[1].size[0]=- bids[1].size[1]=- "
			 "z=-");
	cr_expect_str_eq(render(schema, TB_FORMAT_JSON, &nested, 8),
			 "\"tags\":[\"x\",\"y\"],\"a\":7,\"bids\":[{\"price\":null,\"size\":[null,"
			 "null]},{\"price\":null,\"size\":[null,null]}],\"z\":null");
	cr_expect_str_eq(render(schema, TB_FORMAT_CSV, NULL, 0), ",,,,,,,,,");
	tb_schema_free(schema);
}

/* The payload lies at the end of its allocation, so that ASan sees a read beyond the length. */
Test(render, bytes_beyond_the_payload_are_never_read)
{
	struct tb_schema *schema = nested_schema();

	for (size_t length = 1; length <= sizeof(nested); length++) {
		uint8_t *payload = malloc(length);

		cr_assert_not_null(payload);
		memcpy(payload, &nested, length);
		for (int format = TB_FORMAT_TEXT; format <= TB_FORMAT_JSON; format++)
			render(schema, (enum tb_format)format, payload, length);
		free(payload);
	}
	tb_schema_free(schema);
}

Test(render, small_buffer_holds_the_beginning)
{
	struct tb_schema *schema = nested_schema();
	char whole[512], part[512];

	for (int format = TB_FORMAT_TEXT; format <= TB_FORMAT_JSON; format++) {
		size_t length = tb_schema_render(schema, (enum tb_format)format, &nested,
						 sizeof(nested), whole, sizeof(whole));

		cr_assert_eq(strlen(whole), length);
		for (size_t size = 0; size <= length + 1; size++) {
			memset(part, '#', sizeof(part));
			cr_assert_eq(tb_schema_render(schema, (enum tb_format)format, &nested,
						      sizeof(nested), part, size),
				     length);
			if (size) {
				cr_assert_eq(strlen(part), size - 1);
				cr_assert_eq(memcmp(part, whole, size - 1), 0);
			}
			cr_assert_eq(part[size], '#');
		}
		cr_assert_eq(tb_schema_render(schema, (enum tb_format)format, &nested,
					      sizeof(nested), NULL, 0),
			     length);
	}
	tb_schema_free(schema);
}

static void expect_spreadsheet(const char *type, const void *payload, const char *csv,
			       const char *spreadsheet)
{
	char fields[64];
	struct tb_schema *schema;

	snprintf(fields, sizeof(fields), "x %s", type);
	schema = brief("t", 1, fields);
	cr_expect_str_eq(render(schema, TB_FORMAT_CSV, payload, tb_schema_bytes(schema)), csv);
	cr_expect_str_eq(render(schema, TB_FORMAT_SPREADSHEET, payload, tb_schema_bytes(schema)),
			 spreadsheet);
	tb_schema_free(schema);
}

Test(render, spreadsheet_defuses_text_and_keeps_numbers)
{
	static const struct {
		char text[8];
		const char *csv, *spreadsheet;
	} cases[] = {
		{ "=1+1", "=1+1", "'=1+1" },
		{ "+1", "+1", "'+1" },
		{ "-1", "-1", "'-1" },
		{ "@A1", "@A1", "'@A1" },
		{ "\t=1", "\\x09=1", "\\x09=1" },
		{ "\r=1", "\\x0d=1", "\\x0d=1" },
		{ "\n-1", "\\x0a-1", "\\x0a-1" },
		{ "=a,b", "\"=a,b\"", "\"'=a,b\"" },
		{ "=\"a\"", "\"=\"\"a\"\"\"", "\"'=\"\"a\"\"\"" },
		{ "\"=1", "\"\"\"=1\"", "\"\"\"'=1\"" },
		{ "a;\"=1", "\"a;\"\"=1\"", "\"a;\"\"'=1\"" },
		{ "a;=1", "a;=1", "a;'=1" },
		{ ";;@1", ";;@1", ";;'@1" },
		{ "a=1-b", "a=1-b", "a=1-b" },
		{ "", "", "" },
	};
	static const int64_t minus = -5;
	static const double infinite = -1.0 / 0.0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_spreadsheet("char[8]", cases[i].text, cases[i].csv, cases[i].spreadsheet);
	expect_spreadsheet("i64", &minus, "-5", "-5");
	expect_spreadsheet("decimal64(4)", &minus, "-0.0005", "-0.0005");
	expect_spreadsheet("f64", &infinite, "-inf", "-inf");
}

/* Reads back the output of put_chars; returns the number of bytes. */
static size_t unescape(enum tb_format format, const char *words, uint8_t *bytes)
{
	size_t count = 0, length = strlen(words);
	bool quoted = length && words[0] == '"' && format != TB_FORMAT_TEXT;
	const char *end = words + length - quoted;

	for (const char *at = words + quoted; at < end; at++) {
		unsigned byte = (unsigned char)*at;

		cr_assert(*at >= ' ' && *at <= '~');
		if (format == TB_FORMAT_CSV && *at == '"')
			cr_assert_eq(*++at, '"');
		if (format == TB_FORMAT_CSV && *at == ',')
			cr_assert(quoted);
		if (*at == '\\' && at[1] == (format == TB_FORMAT_JSON ? 'u' : 'x')) {
			unsigned digits = format == TB_FORMAT_JSON ? 4 : 2;

			byte = (unsigned)strtoul((char[]){ at[digits], at[digits + 1], '\0' }, NULL,
						 16);
			at += digits + 1;
		} else if (*at == '\\') {
			byte = (unsigned char)*++at;
		}
		bytes[count++] = (uint8_t)byte;
	}
	return count;
}

Test(render, any_bytes_print_as_one_line_that_reads_back)
{
	static const size_t skip[] = {
		[TB_FORMAT_TEXT] = 2, [TB_FORMAT_CSV] = 0, [TB_FORMAT_JSON] = 4
	};
	static const char likely[] = "\"\\,\r\n \0x4";
	struct tb_schema *schema = brief("t", 1, "x char[12]");
	uint64_t state = seed();

	for (int round = 0; round < 20000; round++) {
		uint8_t payload[12], back[64];
		size_t count = sizeof(payload);

		for (size_t i = 0; i < sizeof(payload); i++)
			payload[i] = draw(&state) % 2 ? (uint8_t)draw(&state)
						      : (uint8_t)likely[draw(&state) % 9];
		while (count && (payload[count - 1] == ' ' || payload[count - 1] == '\0'))
			count--;
		for (int format = TB_FORMAT_TEXT; format <= TB_FORMAT_JSON; format++) {
			const char *words = render(schema, (enum tb_format)format, payload, 12);

			cr_assert_eq(unescape((enum tb_format)format, words + skip[format], back),
				     count, "%s", words);
			cr_assert_eq(memcmp(back, payload, count), 0, "%s", words);
		}
	}
	tb_schema_free(schema);
}
