/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/itch/itch.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "publisher/feeds/itch/itch_decode.h"

#define NAME(code, length, member, fields, name) { code, length, name },
const struct itch_type itch_types[ITCH_TYPE_COUNT] = { ITCH_TYPES(NAME) };

/* Every field list fills its message, and no message is longer than ITCH_LENGTH_MAX. With ascending
 * offsets (a wrong offset would overlap) every byte is accounted for. */
#define BYTES_INT(type, name, offset)   +sizeof(type)
#define BYTES_CODE(name, offset)        +1
#define BYTES_TEXT(name, offset, bytes) +bytes
#define CHECK(code, length, member, fields, name)                                                  \
	static_assert(ITCH_HEAD_BYTES fields(BYTES_INT, BYTES_CODE, BYTES_TEXT) == length, name);  \
	static_assert(length <= ITCH_LENGTH_MAX, name);
ITCH_TYPES(CHECK)

/* 1 + the index in itch_types; 0: unknown type. */
enum {
#define NUMBER(code, length, member, fields, name) NUMBER_##member,
	ITCH_TYPES(NUMBER)
};
#define NUMBER_OF(code, length, member, fields, name) [(uint8_t) code] = NUMBER_##member + 1,
static const uint8_t numbers[256] = { ITCH_TYPES(NUMBER_OF) };

#define LENGTH_OF(code, length, member, fields, name) [(uint8_t) code] = length,
const uint8_t itch_lengths[256] = { ITCH_TYPES(LENGTH_OF) };

int itch_index(char type)
{
	return numbers[(uint8_t)type] - 1;
}

static void put_uint16_t(uint8_t *bytes, uint16_t value)
{
	value = htobe16(value);
	memcpy(bytes, &value, sizeof(value));
}

static void put_uint32_t(uint8_t *bytes, uint32_t value)
{
	value = htobe32(value);
	memcpy(bytes, &value, sizeof(value));
}

static void put_uint64_t(uint8_t *bytes, uint64_t value)
{
	value = htobe64(value);
	memcpy(bytes, &value, sizeof(value));
}

#define PUT_INT(kind, name, offset)    put_##kind(bytes + (offset), from->name);
#define PUT_CODE(name, offset)         bytes[offset] = (uint8_t)from->name;
#define PUT_TEXT(name, offset, length) memcpy(bytes + (offset), from->name, length);

#define PUT_FIELDS(code, length, member, fields, name)                                             \
	static void put_##member(uint8_t *bytes, const struct itch_##member *from)                 \
	{                                                                                          \
		fields(PUT_INT, PUT_CODE, PUT_TEXT)                                                \
	}
ITCH_TYPES(PUT_FIELDS)

int itch_bad_frame(const uint8_t *bytes, size_t length)
{
	const struct itch_type *type;

	if (!length)
		return error_set(EMSGSIZE, "found a message of 0 bytes, expected at least %d",
				 ITCH_HEAD_BYTES);
	if (!numbers[bytes[0]])
		return error_set(ENOMSG, "found message type 0x%02x, expected a type of ITCH 5.0",
				 bytes[0]);
	type = &itch_types[numbers[bytes[0]] - 1];
	return error_set(EMSGSIZE, "found message %c (%s) of %zu bytes, expected %u", type->code,
			 type->name, length, type->length);
}

int itch_bad_value(const struct itch_message *message)
{
	if (message->time_ns >= ITCH_DAY_NS)
		return error_set(EBADMSG,
				 "message %c: found time of day %llu ns, expected below 24 hours",
				 message->type, (unsigned long long)message->time_ns);
	return error_set(EBADMSG, "message %c: found side 0x%02x, expected B or S", message->type,
			 (uint8_t)message->add.side);
}

int itch_decode(const uint8_t *bytes, size_t length, struct itch_message *message)
{
	return length ? itch_decode_type((char)bytes[0], bytes, length, message)
		      : itch_bad_frame(bytes, length);
}

int itch_encode(const struct itch_message *message, uint8_t *bytes)
{
	unsigned number = numbers[(uint8_t)message->type];

	if (!number)
		return error_set(ENOMSG, "found message type 0x%02x, expected a type of ITCH 5.0",
				 (uint8_t)message->type);
	bytes[0] = (uint8_t)message->type;
	put_uint16_t(bytes + 1, message->locate);
	put_uint16_t(bytes + 3, message->tracking);
	put_uint16_t(bytes + 5, (uint16_t)(message->time_ns >> 32));
	put_uint32_t(bytes + 7, (uint32_t)message->time_ns);
	switch (message->type) {
#define PUT(code, size, member, fields, name)                                                      \
	case code:                                                                                 \
		put_##member(bytes, &message->member);                                             \
		break;
		ITCH_TYPES(PUT)
	}
	return itch_types[number - 1].length;
}
