/* SPDX-License-Identifier: Apache-2.0 */
/* Nulls of optional fields.
 *
 * Null takes a value out of its type's range, so a payload needs no byte beside its fields. It is
 * the value that is rarely missed: the lowest negative number, the highest unsigned number, NaN,
 * and text without a single character. Zero stays a number: a price or a size may be 0. */
#include "schemas/schema.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "bus/error.h"

#define NAN_BITS UINT64_C(0x7ff8000000000000)

/* The null's bytes: little-endian, so the first of them belong to a shorter type too. */
static uint64_t null_bits(const struct tb_field *field)
{
	switch (field->type) {
	case TB_TYPE_I8:
	case TB_TYPE_I16:
	case TB_TYPE_I32:
	case TB_TYPE_I64:
	case TB_TYPE_DECIMAL64:
		return UINT64_C(1) << (8 * field->bytes - 1);
	case TB_TYPE_F64:
		return NAN_BITS;
	default:
		return UINT64_MAX;
	}
}

static int only_zeros(const char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i])
			return 0;
	return 1;
}

TB_API int tb_field_is_null(const struct tb_field *field, const void *element)
{
	uint64_t bits;
	double f64;

	if (!field)
		return error_null("field");
	if (!field->optional)
		return 0;
	if (field->type == TB_TYPE_CHAR)
		return only_zeros(element, field->bytes);
	if (field->type == TB_TYPE_F64) {
		memcpy(&f64, element, sizeof(f64));
		return isnan(f64) != 0;
	}
	bits = null_bits(field);
	return memcmp(element, &bits, field->bytes) == 0;
}

TB_API int tb_field_set_null(const struct tb_field *field, void *element)
{
	uint64_t bits;

	if (!field)
		return error_null("field");
	if (!field->optional)
		return error_set(EINVAL,
				 "field %s: found a field that is not optional, expected "
				 "`optional: true` in its schema: other fields have no null",
				 field->name);
	bits = null_bits(field);
	if (field->type == TB_TYPE_CHAR)
		memset(element, 0, field->bytes);
	else
		memcpy(element, &bits, field->bytes);
	return 0;
}
