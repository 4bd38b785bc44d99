/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of types: a name, its parameter in brackets, and "[n]" for an array.
 *
 *   i8 i16 i32 i64 u8 u16 u32 u64 f64 time   char[n]   decimal64(scale)   pad[n]   group[n]
 *
 * A type has exactly one text, so equal types have equal texts. */
#include "schemas/schema.h"

#include <stdbool.h>
#include <string.h>

#include "bus/bounds.h"

#define DECIMAL_SCALE_MAX 18

static const struct {
	const char *name;
	const char *c_name;
	const char *c_null;
	uint32_t bytes;
} types[] = {
	[TB_TYPE_I8] = { "i8", "int8_t", "INT8_MIN", 1 },
	[TB_TYPE_I16] = { "i16", "int16_t", "INT16_MIN", 2 },
	[TB_TYPE_I32] = { "i32", "int32_t", "INT32_MIN", 4 },
	[TB_TYPE_I64] = { "i64", "int64_t", "INT64_MIN", 8 },
	[TB_TYPE_U8] = { "u8", "uint8_t", "UINT8_MAX", 1 },
	[TB_TYPE_U16] = { "u16", "uint16_t", "UINT16_MAX", 2 },
	[TB_TYPE_U32] = { "u32", "uint32_t", "UINT32_MAX", 4 },
	[TB_TYPE_U64] = { "u64", "uint64_t", "UINT64_MAX", 8 },
	[TB_TYPE_F64] = { "f64", "double", "__builtin_nan(\"\")", 8 },
	[TB_TYPE_CHAR] = { "char", "char", "\"\"", 1 },
	[TB_TYPE_DECIMAL64] = { "decimal64", "int64_t", "INT64_MIN", 8 },
	[TB_TYPE_TIME] = { "time", "uint64_t", "UINT64_MAX", 8 },
	[TB_TYPE_PAD] = { "pad", "uint8_t", NULL, 1 },
	[TB_TYPE_GROUP] = { "group", NULL, NULL, 0 },
};

#define TYPES (sizeof(types) / sizeof(types[0]))

TB_API const char *tb_type_name(enum tb_type type)
{
	return (size_t)type < TYPES && types[type].name ? types[type].name : "";
}

const char *type_c_name(enum tb_type type)
{
	return types[type].c_name;
}

const char *type_c_null(enum tb_type type)
{
	return types[type].c_null;
}

uint32_t type_alignment(const struct tb_field *field)
{
	uint32_t alignment = 1;

	if (field->type != TB_TYPE_GROUP)
		return types[field->type].bytes;
	for (uint32_t i = 0; i < field->member_count; i++)
		if (type_alignment(&field->members[i]) > alignment)
			alignment = type_alignment(&field->members[i]);
	return alignment;
}

/* Parses a number in brackets. A number has one form: no leading zeros. */
static bool type_number(const char **at, const char brackets[2], uint32_t low, uint32_t high,
			uint32_t *value)
{
	const char *digits = *at + 1;
	size_t count;

	if (**at != brackets[0])
		return false;
	count = strspn(digits, "0123456789");
	if (count < 1 || count > 4 || digits[count] != brackets[1] ||
	    (count > 1 && digits[0] == '0'))
		return false;
	*value = 0;
	for (size_t i = 0; i < count; i++)
		*value = *value * 10 + (uint32_t)(digits[i] - '0');
	*at = digits + count + 1;
	return *value >= low && *value <= high;
}

static enum tb_type type_find(const char *text, size_t length)
{
	for (size_t i = 1; i < TYPES; i++)
		if (strlen(types[i].name) == length && !memcmp(types[i].name, text, length))
			return (enum tb_type)i;
	return 0;
}

const char *type_parse(const char *text, struct tb_field *field)
{
	const char *at = text + strcspn(text, "([");
	uint32_t scale = 0;

	field->type = type_find(text, (size_t)(at - text));
	if (!field->type)
		return "i8 to i64, u8 to u64, f64, char[n], decimal64(scale), time, pad[n] or "
		       "group[n]";
	field->bytes = types[field->type].bytes;
	field->count = 1;
	field->array = 0;
	if (field->type == TB_TYPE_CHAR &&
	    !type_number(&at, "[]", 1, TB_PAYLOAD_MAX, &field->bytes))
		return "char[1] to char[" BOUND_TEXT(TB_PAYLOAD_MAX) "]";
	if (field->type == TB_TYPE_PAD && !type_number(&at, "[]", 1, TB_PAYLOAD_MAX, &field->bytes))
		return "pad[1] to pad[" BOUND_TEXT(TB_PAYLOAD_MAX) "]";
	if (field->type == TB_TYPE_DECIMAL64 &&
	    !type_number(&at, "()", 0, DECIMAL_SCALE_MAX, &scale))
		return "decimal64(0) to decimal64(" BOUND_TEXT(DECIMAL_SCALE_MAX) ")";
	field->scale = (uint8_t)scale;
	if (field->type == TB_TYPE_GROUP || (*at && field->type != TB_TYPE_PAD)) {
		if (!type_number(&at, "[]", 1, TB_PAYLOAD_MAX, &field->count))
			return "[1] to [" BOUND_TEXT(TB_PAYLOAD_MAX) "] for an array";
		field->array = 1;
	}
	return *at ? "nothing after the type" : NULL;
}

const char *type_format(const struct tb_field *field, char text[TYPE_TEXT_BYTES])
{
	int used = snprintf(text, TYPE_TEXT_BYTES, "%s", tb_type_name(field->type));
	char *at = text + used;
	size_t left = TYPE_TEXT_BYTES - (size_t)used;

	if (field->type == TB_TYPE_CHAR || field->type == TB_TYPE_PAD)
		used = snprintf(at, left, "[%u]", field->bytes);
	else if (field->type == TB_TYPE_DECIMAL64)
		used = snprintf(at, left, "(%u)", field->scale);
	else
		used = 0;
	if (field->array)
		snprintf(at + used, left - (size_t)used, "[%u]", field->count);
	return text;
}
