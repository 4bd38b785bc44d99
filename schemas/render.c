/* SPDX-License-Identifier: Apache-2.0 */
/* Prints payloads as text, CSV and JSON.
 *
 * All bytes pass through put(). It counts the bytes of the whole output, and writes those that fit.
 * A value is read from the payload only after a check that it ends within the payload's length. A
 * null prints like a field beyond that length: in both cases there is no value.
 * Nothing here depends on the locale. */
#include "schemas/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "bus/error.h"

#define SECOND_NS UINT64_C(1000000000)

struct row {
	char *buffer;
	size_t size;
	size_t used;           /* bytes of the whole output */
	enum tb_format format; /* never TB_FORMAT_SPREADSHEET, which is CSV here */
	bool spreadsheet;
	const uint8_t *payload; /* NULL: prints column names */
	size_t length;
	bool begun;
};

/* The path from the schema to a value: "bids[3]", then "price". */
struct path {
	const struct path *up;
	const struct tb_field *field;
	uint32_t index;
};

static void put(struct row *row, char c)
{
	if (row->used + 1 < row->size)
		row->buffer[row->used] = c;
	row->used++;
}

static void put_text(struct row *row, const char *text)
{
	for (; *text; text++)
		put(row, *text);
}

/* At least `least` digits, a point before the last `scale` of them. */
static void put_number(struct row *row, uint64_t value, unsigned least, unsigned scale)
{
	char digits[24]; /* of 2^64 there are 20 */
	unsigned count = 0;

	while (value || count < least) {
		digits[count++] = (char)('0' + value % 10);
		value /= 10;
	}
	while (count--) {
		put(row, digits[count]);
		if (count && count == scale)
			put(row, '.');
	}
}

static void put_signed(struct row *row, int64_t value, unsigned scale)
{
	uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;

	if (value < 0)
		put(row, '-');
	put_number(row, magnitude, scale + 1, scale);
}

static void put_double(struct row *row, double value)
{
	char digits[32];
	bool quoted = row->format == TB_FORMAT_JSON && !isfinite(value);

	if (quoted)
		put(row, '"');
	if (isnan(value))
		put_text(row, "nan"); /* without the sign that printf gives it */
	else
		snprintf(digits, sizeof(digits), "%.17g", value);
	for (char *at = isnan(value) ? "" : digits; *at; at++) {
		if (strchr("0123456789+-einf", *at))
			put(row, *at);
		else if (strchr("0123456789+-einf", at[1]))
			put(row, '.'); /* the locale's point, which may have several bytes */
	}
	if (quoted)
		put(row, '"');
}

/* Days since 1970 as a date, counted in years that begin in March: leap days come last. */
static void put_date(struct row *row, uint64_t days)
{
	uint64_t shifted = days + 719468; /* since 0000-03-01 */
	uint64_t era = shifted / 146097, day = shifted % 146097;
	uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	uint64_t day_of_year = day - (365 * year + year / 4 - year / 100);
	uint64_t month = (5 * day_of_year + 2) / 153;

	put_number(row, era * 400 + year + (month >= 10), 4, 0);
	put(row, '-');
	put_number(row, month < 10 ? month + 3 : month - 9, 2, 0);
	put(row, '-');
	put_number(row, day_of_year - (153 * month + 2) / 5 + 1, 2, 0);
}

static void put_time(struct row *row, uint64_t time_ns)
{
	uint64_t second = time_ns / SECOND_NS;

	if (row->format != TB_FORMAT_TEXT) {
		put_number(row, time_ns, 1, 0);
		return;
	}
	put_date(row, second / 86400);
	put(row, 'T');
	put_number(row, second / 3600 % 24, 2, 0);
	put(row, ':');
	put_number(row, second / 60 % 60, 2, 0);
	put(row, ':');
	put_number(row, second % 60, 2, 0);
	put(row, '.');
	put_number(row, time_ns % SECOND_NS, 9, 0);
	put(row, 'Z');
}

/* A row is one line of printable ASCII, whatever the publisher wrote. Other bytes are printed as
 * \xNN in text and CSV, and as \u00NN in JSON. Text and CSV double a backslash for that. */
static void put_byte(struct row *row, uint8_t byte)
{
	static const char hex[] = "0123456789abcdef";
	bool json = row->format == TB_FORMAT_JSON;

	if (byte == '\\' || (byte == '"' && json))
		put(row, '\\');
	if (byte == '"' && row->format == TB_FORMAT_CSV)
		put(row, '"');
	if (byte >= ' ' && byte <= '~') {
		put(row, (char)byte);
		return;
	}
	put_text(row, json ? "\\u00" : "\\x");
	put(row, hex[byte >> 4]);
	put(row, hex[byte & 15]);
}

/* Whether a spreadsheet would take the text for a formula. It may split fields at semicolons too,
 * and then drops quotes behind a semicolon. Tabs and line ends are escaped, so no field begins with
 * them. */
static bool is_formula(const uint8_t *chars, size_t at)
{
	return chars[at] && strchr("=+-@", chars[at]) &&
	       (at == 0 || chars[at - 1] == ';' || chars[at - 1] == '"');
}

static void put_chars(struct row *row, const uint8_t *chars, size_t count)
{
	bool quoted;

	while (count && (chars[count - 1] == ' ' || chars[count - 1] == '\0'))
		count--;
	quoted = row->format == TB_FORMAT_JSON ||
		 (row->format == TB_FORMAT_CSV &&
		  (memchr(chars, ',', count) || memchr(chars, '"', count)));
	if (quoted)
		put(row, '"');
	for (size_t i = 0; i < count; i++) {
		if (row->spreadsheet && is_formula(chars, i))
			put(row, '\'');
		put_byte(row, chars[i]);
	}
	if (quoted)
		put(row, '"');
}

static void put_integer(struct row *row, enum tb_type type, const uint8_t *bytes)
{
	union {
		int8_t i8;
		int16_t i16;
		int32_t i32;
		int64_t i64;
		uint64_t u64;
	} value = { .u64 = 0 };

	memcpy(&value, bytes,
	       type == TB_TYPE_I8 || type == TB_TYPE_U8     ? 1
	       : type == TB_TYPE_I16 || type == TB_TYPE_U16 ? 2
	       : type == TB_TYPE_I32 || type == TB_TYPE_U32 ? 4
							    : 8);
	if (type == TB_TYPE_I8)
		put_signed(row, value.i8, 0);
	else if (type == TB_TYPE_I16)
		put_signed(row, value.i16, 0);
	else if (type == TB_TYPE_I32)
		put_signed(row, value.i32, 0);
	else if (type == TB_TYPE_I64)
		put_signed(row, value.i64, 0);
	else
		put_number(row, value.u64, 1, 0); /* little-endian: the bytes above are zero */
}

static void put_decimal(struct row *row, const struct tb_field *field, const uint8_t *bytes)
{
	int64_t value;

	memcpy(&value, bytes, sizeof(value));
	if (row->format == TB_FORMAT_JSON)
		put(row, '"');
	put_signed(row, value, field->scale);
	if (row->format == TB_FORMAT_JSON)
		put(row, '"');
}

static void put_value(struct row *row, const struct tb_field *field, size_t offset)
{
	const uint8_t *bytes;
	uint64_t time_ns;
	double f64;

	if (offset + field->bytes > row->length || tb_field_is_null(field, row->payload + offset)) {
		put_text(row, row->format == TB_FORMAT_JSON   ? "null"
			      : row->format == TB_FORMAT_TEXT ? "-"
							      : "");
		return;
	}
	bytes = row->payload + offset;
	switch (field->type) {
	case TB_TYPE_CHAR:
		put_chars(row, bytes, field->bytes);
		break;
	case TB_TYPE_DECIMAL64:
		put_decimal(row, field, bytes);
		break;
	case TB_TYPE_TIME:
		memcpy(&time_ns, bytes, sizeof(time_ns));
		put_time(row, time_ns);
		break;
	case TB_TYPE_F64:
		memcpy(&f64, bytes, sizeof(f64));
		put_double(row, f64);
		break;
	default:
		put_integer(row, field->type, bytes);
	}
}

static void put_path(struct row *row, const struct path *path)
{
	if (path->up) {
		put_path(row, path->up);
		put(row, '.');
	}
	put_text(row, path->field->name);
	if (!path->field->array)
		return;
	put(row, '[');
	put_number(row, path->index, 1, 0);
	put(row, ']');
}

/* One column of a text or CSV row, or its name. */
static void put_column(struct row *row, const struct path *path, size_t offset)
{
	if (row->begun)
		put(row, row->format == TB_FORMAT_TEXT ? ' ' : ',');
	row->begun = true;
	if (!row->payload || row->format == TB_FORMAT_TEXT)
		put_path(row, path);
	if (row->payload && row->format == TB_FORMAT_TEXT)
		put(row, '=');
	if (row->payload)
		put_value(row, path->field, offset);
}

static void put_columns(struct row *row, const struct path *up, const struct tb_field *fields,
			size_t count, size_t base)
{
	for (const struct tb_field *field = fields; field < fields + count; field++) {
		struct path path = { .up = up, .field = field };

		if (field->type == TB_TYPE_PAD)
			continue;
		for (; path.index < field->count; path.index++) {
			size_t offset = base + field->offset + path.index * field->bytes;

			if (field->type == TB_TYPE_GROUP)
				put_columns(row, &path, field->members, field->member_count,
					    offset);
			else
				put_column(row, &path, offset);
		}
	}
}

static void put_json(struct row *row, const struct tb_field *fields, size_t count, size_t base)
{
	bool begun = false;

	for (const struct tb_field *field = fields; field < fields + count; field++) {
		if (field->type == TB_TYPE_PAD)
			continue;
		put_text(row, begun ? ",\"" : "\"");
		begun = true;
		put_text(row, field->name);
		put_text(row, field->array ? "\":[" : "\":");
		for (uint32_t i = 0; i < field->count; i++) {
			size_t offset = base + field->offset + i * field->bytes;

			if (i)
				put(row, ',');
			if (field->type != TB_TYPE_GROUP) {
				put_value(row, field, offset);
				continue;
			}
			put(row, '{');
			put_json(row, field->members, field->member_count, offset);
			put(row, '}');
		}
		if (field->array)
			put(row, ']');
	}
}

static size_t put_end(struct row *row)
{
	if (row->size)
		row->buffer[row->used < row->size ? row->used : row->size - 1] = '\0';
	return row->used;
}

TB_API size_t tb_schema_columns(const struct tb_schema *schema, char *buffer, size_t size)
{
	struct row row = { .buffer = buffer, .size = size, .format = TB_FORMAT_CSV };

	if (!schema) {
		error_null("schema");
		return 0;
	}
	put_columns(&row, NULL, schema->fields, schema->field_count, 0);
	return put_end(&row);
}

TB_API size_t tb_schema_render(const struct tb_schema *schema, enum tb_format format,
			       const void *payload, size_t length, char *buffer, size_t size)
{
	struct row row = { .buffer = buffer,
			   .size = size,
			   .format = format,
			   .payload = payload ? payload : (const void *)"",
			   .length = payload ? length : 0 };

	if (!schema) {
		error_null("schema");
		return 0;
	}
	if (format == TB_FORMAT_SPREADSHEET) {
		row.format = TB_FORMAT_CSV;
		row.spreadsheet = true;
	}
	if (format == TB_FORMAT_JSON)
		put_json(&row, schema->fields, schema->field_count, 0);
	else
		put_columns(&row, NULL, schema->fields, schema->field_count, 0);
	return put_end(&row);
}
