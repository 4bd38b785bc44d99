/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/projection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

#define DIGITS_MAX 9 /* 2^32 - 1, the highest price of ITCH, times 10^9 fits an i64 */

static const struct tb_field *find(const struct tb_field *fields, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (fields[i].type != TB_TYPE_PAD && strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

static void names_list(const struct tb_field *fields, size_t count, char *list, size_t size)
{
	size_t used = 0;

	list[0] = '\0';
	for (size_t i = 0; i < count && used < size; i++)
		if (fields[i].type != TB_TYPE_PAD)
			used += (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "",
						 fields[i].name);
}

static bool copies(const struct projection_move *move)
{
	return !move->factor && !move->apart;
}

static int move_add(struct projection *projection, const struct projection_move *move)
{
	struct projection_move *last =
		projection->count ? &projection->moves[projection->count - 1] : NULL;

	if (last && copies(move) && copies(last) && last->from + last->bytes == move->from &&
	    last->to + last->bytes == move->to) {
		last->bytes = (uint16_t)(last->bytes + move->bytes);
		return 0;
	}
	/* At most one move for each byte of a payload. */
	if (projection->count % 64 == 0) {
		last = realloc(projection->moves, (projection->count + 64) * sizeof(*last));
		if (!last)
			return error_set(ENOMEM, "no memory to map one schema to another");
		projection->moves = last;
	}
	projection->moves[projection->count++] = *move;
	return 0;
}

static bool is_whole(const struct tb_field *field)
{
	return field->type == TB_TYPE_U32 || field->type == TB_TYPE_U64;
}

/* A number that becomes a decimal, or gets more digits. */
static bool is_scaled(const struct tb_field *from, const struct tb_field *to)
{
	return to->type == TB_TYPE_DECIMAL64 &&
	       (is_whole(from) || (from->type == TB_TYPE_DECIMAL64 && to->scale > from->scale));
}

static bool fits(const struct tb_field *from, const struct tb_field *to)
{
	if (is_scaled(from, to))
		return to->scale <= from->scale + DIGITS_MAX;
	return from->type == to->type && from->scale == to->scale &&
	       (from->type == TB_TYPE_GROUP || from->bytes == to->bytes);
}

static int expect_same(const struct tb_field *from, const struct tb_field *to)
{
	char more[48] = "";

	if (from->type == TB_TYPE_DECIMAL64)
		snprintf(more, sizeof(more), " to %u", (unsigned int)from->scale + DIGITS_MAX);
	if (is_whole(from))
		snprintf(more, sizeof(more), ", or decimal64 of scale 0 to %d", DIGITS_MAX);
	if (!fits(from, to) || from->array != to->array)
		return error_set(EPROTO,
				 "field %s: found %s of %u bytes and scale %u, expected %s of %u "
				 "bytes and scale %u%s",
				 to->name, tb_type_name(to->type), to->bytes, to->scale,
				 tb_type_name(from->type), from->bytes, from->scale, more);
	if (to->count > from->count)
		return error_set(EPROTO, "field %s: found %u elements, expected at most %u",
				 to->name, to->count, from->count);
	if (from->optional && !to->optional)
		return error_set(EPROTO,
				 "field %s: found a field that is not optional, expected "
				 "`optional: true`: the feed has records without this value",
				 to->name);
	return 0;
}

/* A feed's NaN is no number, so it may become null. */
static uint8_t apart_of(const struct tb_field *from, const struct tb_field *to)
{
	return to->optional && !from->optional && to->type != TB_TYPE_F64 && !is_scaled(from, to)
		       ? (uint8_t)to->type
		       : 0;
}

static uint32_t factor_of(const struct tb_field *from, const struct tb_field *to)
{
	uint32_t factor = 1;

	for (unsigned int i = from->scale; i < to->scale; i++)
		factor *= 10;
	return is_scaled(from, to) ? factor : 0;
}

static int map(struct projection *projection, const struct tb_field *from, size_t from_count,
	       const struct tb_field *to, size_t to_count, uint32_t from_at, uint32_t to_at);

static int map_field(struct projection *projection, const struct tb_field *from,
		     const struct tb_field *to, uint32_t from_at, uint32_t to_at)
{
	struct projection_move move = {
		.bytes = (uint16_t)to->bytes,
		.factor = factor_of(from, to),
		.whole = is_whole(from) ? (uint8_t)from->bytes : 0,
		.null = from->optional,
		.apart = apart_of(from, to),
	};
	int result = expect_same(from, to);

	for (uint32_t i = 0; i < to->count && result == 0; i++) {
		const uint32_t source = from_at + from->offset + i * from->bytes;
		const uint32_t target = to_at + to->offset + i * to->bytes;

		if (to->type == TB_TYPE_GROUP) {
			result = map(projection, from->members, from->member_count, to->members,
				     to->member_count, source, target);
			continue;
		}
		move.from = (uint16_t)source;
		move.to = (uint16_t)target;
		result = move_add(projection, &move);
	}
	return result;
}

static int map(struct projection *projection, const struct tb_field *from, size_t from_count,
	       const struct tb_field *to, size_t to_count, uint32_t from_at, uint32_t to_at)
{
	char names[512];
	int result = 0;

	for (size_t i = 0; i < to_count && result == 0; i++) {
		const struct tb_field *given;

		if (to[i].type == TB_TYPE_PAD)
			continue;
		if (to[i].role[0]) {
			projection->sequence_at = (int32_t)(to_at + to[i].offset);
			projection->sequence_bytes = (uint8_t)to[i].bytes;
			continue;
		}
		given = find(from, from_count, to[i].name);
		if (!given) {
			names_list(from, from_count, names, sizeof(names));
			return error_set(EPROTO, "found field %s, expected any of: %s", to[i].name,
					 names);
		}
		result = map_field(projection, given, &to[i], from_at, to_at);
	}
	return result;
}

int projection_open(struct projection *projection, const struct tb_schema *from,
		    const struct tb_schema *to)
{
	size_t from_count, to_count;
	const struct tb_field *from_fields = tb_schema_fields(from, &from_count);
	const struct tb_field *to_fields = tb_schema_fields(to, &to_count);
	int result;

	*projection =
		(struct projection){ .bytes = (uint32_t)tb_schema_bytes(to), .sequence_at = -1 };
	if (tb_schema_fingerprint(from) == tb_schema_fingerprint(to)) {
		projection->same = true;
		return 0;
	}
	result = map(projection, from_fields, from_count, to_fields, to_count, 0, 0);
	if (result < 0)
		projection_close(projection);
	return result;
}

void projection_close(struct projection *projection)
{
	free(projection->moves);
	projection->moves = NULL;
	projection->count = 0;
}

/* A whole number becomes a decimal, in the same way. */
static void make_decimal(const struct projection_move *move, const char *from, char *to)
{
	uint64_t value = 0;
	int64_t decimal;

	memcpy(&value, from, move->whole); /* little-endian */
	if (move->null && value == UINT64_MAX >> (64 - 8 * move->whole))
		decimal = INT64_MIN;
	else if (__builtin_mul_overflow(value, move->factor, &decimal))
		decimal = INT64_MAX;
	memcpy(to, &decimal, sizeof(decimal));
}

/* A number without room stops at the last number of the range; null lies below it. */
static void scale_up(const struct projection_move *move, const char *from, char *to)
{
	int64_t value, scaled;

	memcpy(&value, from, sizeof(value));
	if (move->null && value == INT64_MIN)
		scaled = INT64_MIN;
	else if (__builtin_mul_overflow(value, (int64_t)move->factor, &scaled))
		scaled = value < 0 ? -INT64_MAX : INT64_MAX;
	memcpy(to, &scaled, sizeof(scaled));
}

/* Copies an element. A number that equals null becomes its neighbour, zero bytes become spaces. The
 * lowest byte comes first: 0xff in an unsigned null, another byte in a signed null. */
static void copy_apart(const struct projection_move *move, const char *from, char *to)
{
	const struct tb_field field = { .type = (enum tb_type)move->apart,
					.bytes = move->bytes,
					.optional = 1 };

	memcpy(to, from, move->bytes);
	if (!tb_field_is_null(&field, to))
		return;
	if (field.type == TB_TYPE_CHAR)
		memset(to, ' ', move->bytes);
	else if (to[0] == (char)UINT8_MAX)
		to[0] = (char)(UINT8_MAX - 1);
	else
		to[0] = (char)(to[0] + 1);
}

const void *projection_apply(const struct projection *projection, const void *from,
			     uint64_t sequence, void *to)
{
	const char *source = from;
	char *target = to;

	if (projection->same)
		return from;
	memset(target, 0, projection->bytes);
	for (size_t i = 0; i < projection->count; i++) {
		const struct projection_move *move = &projection->moves[i];

		if (move->factor && move->whole)
			make_decimal(move, source + move->from, target + move->to);
		else if (move->factor)
			scale_up(move, source + move->from, target + move->to);
		else if (move->apart)
			copy_apart(move, source + move->from, target + move->to);
		else
			memcpy(target + move->to, source + move->from, move->bytes);
	}
	if (projection->sequence_at >= 0)
		memcpy(target + projection->sequence_at, &sequence, projection->sequence_bytes);
	return target;
}
