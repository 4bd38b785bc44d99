/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding an encoded message gives the same fields, at offsets repeated here. Other bytes are
 * refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publisher/feeds/itch/itch.h"
#include "tickbus/error.h"

/* The name of a field in example rows, its offset in the structure, and its offset in the message.
 */
struct field {
	char type;
	const char *key;
	enum { NUMBER, PRICE, TEXT } kind;
	size_t place, bytes; /* in struct itch_message */
	size_t offset, wire; /* in the message */
};

#define FIELD(type, key, kind, member, offset, wire)                                               \
	{                                                                                          \
		type, key, kind, offsetof(struct itch_message, member),                            \
			sizeof(((struct itch_message *)0)->member), offset, wire                   \
	}

static const struct field fields[] = {
	FIELD('S', "ev", TEXT, event.event, 11, 1),
	FIELD('R', "stk", TEXT, directory.stock, 11, 8),
	FIELD('R', "cat", TEXT, directory.category, 19, 1),
	FIELD('R', "fin", TEXT, directory.financial, 20, 1),
	FIELD('R', "lot", NUMBER, directory.round_lot, 21, 4),
	FIELD('R', "rlo", TEXT, directory.round_lots_only, 25, 1),
	FIELD('R', "cls", TEXT, directory.classification, 26, 1),
	FIELD('R', "sub", TEXT, directory.subtype, 27, 2),
	FIELD('R', "auth", TEXT, directory.authenticity, 29, 1),
	FIELD('R', "sst", TEXT, directory.short_sale_threshold, 30, 1),
	FIELD('R', "ipo", TEXT, directory.ipo, 31, 1),
	FIELD('R', "luld", TEXT, directory.luld_tier, 32, 1),
	FIELD('R', "etp", TEXT, directory.etp, 33, 1),
	FIELD('R', "etpl", NUMBER, directory.etp_leverage, 34, 4),
	FIELD('R', "inv", TEXT, directory.inverse, 38, 1),
	FIELD('H', "stk", TEXT, action.stock, 11, 8),
	FIELD('H', "state", TEXT, action.state, 19, 1),
	FIELD('H', "res", TEXT, action.reserved, 20, 1),
	FIELD('H', "reason", TEXT, action.reason, 21, 4),
	FIELD('Y', "stk", TEXT, reg_sho.stock, 11, 8),
	FIELD('Y', "act", TEXT, reg_sho.action, 19, 1),
	FIELD('L', "mpid", TEXT, participant.mpid, 11, 4),
	FIELD('L', "stk", TEXT, participant.stock, 15, 8),
	FIELD('L', "pmm", TEXT, participant.primary, 23, 1),
	FIELD('L', "mode", TEXT, participant.mode, 24, 1),
	FIELD('L', "st", TEXT, participant.state, 25, 1),
	FIELD('V', "level1", NUMBER, decline.level1, 11, 8),
	FIELD('V', "level2", NUMBER, decline.level2, 19, 8),
	FIELD('V', "level3", NUMBER, decline.level3, 27, 8),
	FIELD('W', "level", TEXT, breach.level, 11, 1),
	FIELD('K', "stk", TEXT, ipo.stock, 11, 8),
	FIELD('K', "release", NUMBER, ipo.release_s, 19, 4),
	FIELD('K', "qualifier", TEXT, ipo.qualifier, 23, 1),
	FIELD('K', "px", PRICE, ipo.price, 24, 4),
	FIELD('J', "stk", TEXT, collar.stock, 11, 8),
	FIELD('J', "ref", PRICE, collar.reference_price, 19, 4),
	FIELD('J', "up", PRICE, collar.upper_price, 23, 4),
	FIELD('J', "lo", PRICE, collar.lower_price, 27, 4),
	FIELD('J', "ext", NUMBER, collar.extension, 31, 4),
	FIELD('h', "stk", TEXT, halt.stock, 11, 8),
	FIELD('h', "market", TEXT, halt.market, 19, 1),
	FIELD('h', "action", TEXT, halt.action, 20, 1),
	FIELD('A', "ref", NUMBER, add.reference, 11, 8),
	FIELD('A', "side", TEXT, add.side, 19, 1),
	FIELD('A', "sh", NUMBER, add.shares, 20, 4),
	FIELD('A', "stk", TEXT, add.stock, 24, 8),
	FIELD('A', "px", PRICE, add.price, 32, 4),
	/* By the names of A: both kinds of orders are read in the same way. */
	FIELD('F', "ref", NUMBER, add.reference, 11, 8),
	FIELD('F', "side", TEXT, add.side, 19, 1),
	FIELD('F', "sh", NUMBER, add.shares, 20, 4),
	FIELD('F', "stk", TEXT, add.stock, 24, 8),
	FIELD('F', "px", PRICE, add.price, 32, 4),
	FIELD('F', "mpid", TEXT, add_mpid.mpid, 36, 4),
	FIELD('E', "ref", NUMBER, executed.reference, 11, 8),
	FIELD('E', "sh", NUMBER, executed.shares, 19, 4),
	FIELD('E', "match", NUMBER, executed.match, 23, 8),
	FIELD('C', "ref", NUMBER, priced.reference, 11, 8),
	FIELD('C', "sh", NUMBER, priced.shares, 19, 4),
	FIELD('C', "match", NUMBER, priced.match, 23, 8),
	FIELD('C', "pr", TEXT, priced.printable, 31, 1),
	FIELD('C', "px", PRICE, priced.price, 32, 4),
	FIELD('X', "ref", NUMBER, cancel.reference, 11, 8),
	FIELD('X', "sh", NUMBER, cancel.shares, 19, 4),
	FIELD('D', "ref", NUMBER, deleted.reference, 11, 8),
	FIELD('U', "oref", NUMBER, replace.reference, 11, 8),
	FIELD('U', "nref", NUMBER, replace.new_reference, 19, 8),
	FIELD('U', "sh", NUMBER, replace.shares, 27, 4),
	FIELD('U', "px", PRICE, replace.price, 31, 4),
	FIELD('P', "ref", NUMBER, trade.reference, 11, 8),
	FIELD('P', "side", TEXT, trade.side, 19, 1),
	FIELD('P', "sh", NUMBER, trade.shares, 20, 4),
	FIELD('P', "stk", TEXT, trade.stock, 24, 8),
	FIELD('P', "px", PRICE, trade.price, 32, 4),
	FIELD('P', "match", NUMBER, trade.match, 36, 8),
	FIELD('Q', "sh", NUMBER, cross.shares, 11, 8),
	FIELD('Q', "stk", TEXT, cross.stock, 19, 8),
	FIELD('Q', "px", PRICE, cross.price, 27, 4),
	FIELD('Q', "match", NUMBER, cross.match, 31, 8),
	FIELD('Q', "ct", TEXT, cross.cross, 39, 1),
	FIELD('B', "match", NUMBER, broken.match, 11, 8),
	FIELD('I', "paired", NUMBER, imbalance.paired, 11, 8),
	FIELD('I', "imb", NUMBER, imbalance.imbalance, 19, 8),
	FIELD('I', "dir", TEXT, imbalance.direction, 27, 1),
	FIELD('I', "stk", TEXT, imbalance.stock, 28, 8),
	FIELD('I', "far", PRICE, imbalance.far_price, 36, 4),
	FIELD('I', "near", PRICE, imbalance.near_price, 40, 4),
	FIELD('I', "ref", PRICE, imbalance.reference_price, 44, 4),
	FIELD('I', "ct", TEXT, imbalance.cross, 48, 1),
	FIELD('I', "pvi", TEXT, imbalance.variation, 49, 1),
	FIELD('N', "stk", TEXT, retail.stock, 11, 8),
	FIELD('N', "flag", TEXT, retail.interest, 19, 1),
	FIELD('O', "stk", TEXT, listing.stock, 11, 8),
	FIELD('O', "eligible", TEXT, listing.eligible, 19, 1),
	FIELD('O', "min", PRICE, listing.lowest_price, 20, 4),
	FIELD('O', "max", PRICE, listing.highest_price, 24, 4),
	FIELD('O', "near", PRICE, listing.near_price, 28, 4),
	FIELD('O', "near_time", NUMBER, listing.near_time_ns, 32, 8),
	FIELD('O', "lower", PRICE, listing.lower_collar, 40, 4),
	FIELD('O', "upper", PRICE, listing.upper_collar, 44, 4),
};

#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

/* A message of that type, in which every byte differs from its neighbours. */
static void make_up(const struct itch_type *type, uint8_t *bytes)
{
	for (unsigned i = 0; i < type->length; i++)
		bytes[i] = (uint8_t)(0x31 + i * 7);
	bytes[0] = (uint8_t)type->code;
	bytes[5] = 0x1f; /* of a day's nanoseconds */
	if (type->code == 'A' || type->code == 'F')
		bytes[19] = 'S';
}

static uint64_t big_endian(const uint8_t *bytes, size_t count)
{
	uint64_t value = 0;

	for (size_t i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static uint64_t number_of(const struct itch_message *message, const struct field *field)
{
	const uint8_t *at = (const uint8_t *)message + field->place;
	uint64_t value = 0;

	memcpy(&value, at, field->bytes);
	return value;
}

Test(itch, every_field_is_decoded_from_its_offset)
{
	unsigned checked = 0;

	for (unsigned i = 0; i < ITCH_TYPE_COUNT; i++) {
		const struct itch_type *type = &itch_types[i];
		struct itch_message message;
		uint8_t bytes[ITCH_LENGTH_MAX];
		size_t covered = ITCH_HEAD_BYTES;

		make_up(type, bytes);
		cr_assert_eq(itch_decode(bytes, type->length, &message), 0, "%s", tb_error());
		cr_assert_eq(message.type, type->code);
		cr_assert_eq(message.locate, big_endian(bytes + 1, 2));
		cr_assert_eq(message.tracking, big_endian(bytes + 3, 2));
		cr_assert_eq(message.time_ns, big_endian(bytes + 5, 6));
		for (const struct field *field = fields; field < fields + FIELD_COUNT; field++) {
			if (field->type != type->code)
				continue;
			covered += field->wire;
			checked++;
			cr_assert_eq(field->bytes, field->wire);
			if (field->kind == TEXT)
				cr_assert_arr_eq((const uint8_t *)&message + field->place,
						 bytes + field->offset, field->bytes, "%c %s",
						 type->code, field->key);
			else
				cr_assert_eq(number_of(&message, field),
					     big_endian(bytes + field->offset, field->wire),
					     "%c %s", type->code, field->key);
		}
		cr_assert_eq(covered, type->length, "%c: fields of %zu bytes", type->code, covered);
	}
	cr_assert_eq(checked, FIELD_COUNT);
}

Test(itch, decoded_message_encodes_to_the_same_bytes)
{
	cr_assert_eq(ITCH_TYPE_COUNT, 23);
	for (unsigned i = 0; i < ITCH_TYPE_COUNT; i++) {
		uint8_t bytes[ITCH_LENGTH_MAX], again[ITCH_LENGTH_MAX] = { 0 };
		struct itch_message message;

		make_up(&itch_types[i], bytes);
		cr_assert_eq(itch_decode(bytes, itch_types[i].length, &message), 0);
		cr_assert_eq(itch_encode(&message, again), itch_types[i].length);
		cr_assert_arr_eq(again, bytes, itch_types[i].length, "%s", itch_types[i].name);
		cr_assert_eq(itch_index(itch_types[i].code), (int)i);
	}
}

Test(itch, wrong_length_is_refused_for_every_type)
{
	uint8_t bytes[70000] = { 0 };
	struct itch_message message;

	for (unsigned i = 0; i < ITCH_TYPE_COUNT; i++) {
		make_up(&itch_types[i], bytes);
		for (size_t length = 0; length < 300; length++)
			if (length != itch_types[i].length)
				cr_assert_eq(itch_decode(bytes, length, &message), -EMSGSIZE);
		cr_assert_eq(itch_decode(bytes, 65536u + itch_types[i].length, &message),
			     -EMSGSIZE);
		cr_assert(strstr(tb_error(), itch_types[i].name), "%s", tb_error());
	}
}

Test(itch, unknown_type_is_refused)
{
	uint8_t bytes[ITCH_LENGTH_MAX] = { 0 };
	struct itch_message message = { 0 };
	unsigned refused = 0;

	for (unsigned type = 0; type < 256; type++) {
		bytes[0] = (uint8_t)type;
		if (itch_index((char)type) >= 0)
			continue;
		refused++;
		message.type = (char)type;
		cr_assert_eq(itch_encode(&message, bytes), -ENOMSG);
		for (size_t length = 1; length <= ITCH_LENGTH_MAX; length++)
			cr_assert_eq(itch_decode(bytes, length, &message), -ENOMSG);
	}
	cr_assert_eq(refused, 256 - 23);
}

Test(itch, impossible_time_or_side_is_refused)
{
	uint8_t bytes[ITCH_LENGTH_MAX];
	struct itch_message message = { .type = 'D', .time_ns = ITCH_DAY_NS - 1 };
	struct itch_message add = { .type = 'A', .add = { .side = 'B' } };

	cr_assert_eq(itch_encode(&message, bytes), 19);
	cr_assert_eq(itch_decode(bytes, 19, &message), 0);
	message.time_ns = ITCH_DAY_NS;
	itch_encode(&message, bytes);
	cr_assert_eq(itch_decode(bytes, 19, &message), -EBADMSG);
	cr_assert(strstr(tb_error(), "86400000000000"), "%s", tb_error());
	for (unsigned side = 0; side < 256; side++) {
		add.add.side = (char)side;
		itch_encode(&add, bytes);
		cr_assert_eq(itch_decode(bytes, 36, &message),
			     side == 'B' || side == 'S' ? 0 : -EBADMSG);
	}
}

/* Example rows of the exchange: hex of a message, then its fields as key=value. */

static size_t from_hex(const char *text, uint8_t *bytes, size_t size)
{
	size_t count = 0;
	unsigned value;

	while (count < size && sscanf(text + 2 * count, "%2x", &value) == 1)
		bytes[count++] = (uint8_t)value;
	return count;
}

/* "87.39" is 873900. */
static uint64_t price_of(const char *text)
{
	char *point;
	uint64_t units = strtoull(text, &point, 10) * 10000, scale = 1000;

	if (*point == '.')
		for (point++; *point >= '0' && *point <= '9'; point++, scale /= 10)
			units += (uint64_t)(*point - '0') * scale;
	return units;
}

static void check_value(const struct itch_message *message, const char *key, const char *value)
{
	for (const struct field *field = fields; field < fields + FIELD_COUNT; field++) {
		size_t length = strlen(value);
		char text[9] = "        ";

		if (field->type != message->type || strcmp(field->key, key) != 0)
			continue;
		if (field->kind == NUMBER)
			cr_assert_eq(number_of(message, field), strtoull(value, NULL, 10), "%s",
				     key);
		if (field->kind == PRICE)
			cr_assert_eq(number_of(message, field), price_of(value), "%s", key);
		if (field->kind != TEXT)
			return;
		cr_assert_leq(length, field->bytes);
		memcpy(text, value, length);
		cr_assert_arr_eq((const uint8_t *)message + field->place, text, field->bytes);
		return;
	}
	if (!strcmp(key, "locate"))
		cr_assert_eq(message->locate, strtoull(value, NULL, 10));
	else if (!strcmp(key, "tracking"))
		cr_assert_eq(message->tracking, strtoull(value, NULL, 10));
	else
		cr_assert_fail("%c: no field for %s=%s", message->type, key, value);
}

/* Splits values, which may be quoted with spaces inside: "stk='A ' cat=N". Returns their number. */
static unsigned check_values(const struct itch_message *message, const char *row)
{
	unsigned hours, minutes, values = 0;
	char key[16], value[32], seconds[16];
	int used;

	for (row += strspn(row, " "); *row && *row != '\n'; row += strspn(row, " ")) {
		if (sscanf(row, "%15[a-z]='%31[^']'%n", key, value, &used) == 2 ||
		    sscanf(row, "%15[a-z]=%31[^ \n]%n", key, value, &used) == 2) {
			check_value(message, key, value);
			values++;
		} else if (sscanf(row, "%u:%u:%15[0-9.]%n", &hours, &minutes, seconds, &used) ==
			   3) {
			seconds[2] = 0;
			cr_assert_eq(message->time_ns,
				     ((hours * 60 + minutes) * 60 + strtoull(seconds, NULL, 10)) *
						     UINT64_C(1000000000) +
					     strtoull(seconds + 3, NULL, 10));
		} else {
			cr_assert_eq(*row, message->type, "row at %s", row);
			used = 1;
		}
		row += used;
	}
	return values;
}

Test(itch, decoded_messages_equal_example_rows_of_the_exchange)
{
	const char *folder = getenv("TICKBUS_TEST_DATA");
	char path[4096], line[512], row[512];
	struct itch_message message;
	uint8_t bytes[64], again[64];
	unsigned rows = 0, values = 0;
	FILE *file;

	if (!folder)
		cr_skip("TICKBUS_TEST_DATA is not set");
	snprintf(path, sizeof(path), "%s/itch/golden.txt", folder);
	file = fopen(path, "r");
	if (!file)
		cr_skip("%s is not there", path);
	while (fgets(line, sizeof(line), file) && fgets(row, sizeof(row), file)) {
		size_t length = from_hex(line, bytes, sizeof(bytes));

		cr_assert_eq(itch_decode(bytes, length, &message), 0, "%s", tb_error());
		values += check_values(&message, row);
		cr_assert_eq(itch_encode(&message, again), (int)length);
		cr_assert_arr_eq(again, bytes, length);
		rows++;
	}
	fclose(file);
	cr_assert_eq(rows, 17);
	cr_assert_gt(values, 100);
}
