/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of one message, for a caller that knows the type of most messages. It is inlined
 * there, and keeps only what that type needs. Others call itch_decode. */
#ifndef TICKBUS_FEEDS_ITCH_DECODE_H
#define TICKBUS_FEEDS_ITCH_DECODE_H

#include <endian.h>
#include <string.h>

#include "publisher/feeds/itch/itch.h"

#define ITCH_INLINE static inline __attribute__((always_inline))

ITCH_INLINE uint16_t itch_get_uint16_t(const uint8_t *bytes)
{
	uint16_t value;

	memcpy(&value, bytes, sizeof(value));
	return be16toh(value);
}

ITCH_INLINE uint32_t itch_get_uint32_t(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return be32toh(value);
}

ITCH_INLINE uint64_t itch_get_uint64_t(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return be64toh(value);
}

#define ITCH_GET_INT(kind, name, offset)    to->name = itch_get_##kind(bytes + (offset));
#define ITCH_GET_CODE(name, offset)         to->name = (char)bytes[offset];
#define ITCH_GET_TEXT(name, offset, length) memcpy(to->name, bytes + (offset), length);
#define ITCH_GET(code, length, member, fields, name)                                               \
	ITCH_INLINE void itch_get_##member(const uint8_t *bytes, struct itch_##member *to)         \
	{                                                                                          \
		fields(ITCH_GET_INT, ITCH_GET_CODE, ITCH_GET_TEXT)                                 \
	}
ITCH_TYPES(ITCH_GET)

/* The errors of itch_decode: a wrong type or length, and an impossible value. */
int itch_bad_frame(const uint8_t *bytes, size_t length);
int itch_bad_value(const struct itch_message *message);

/* itch_decode for a message of 1 byte or more that begins with `type`. */
ITCH_INLINE int itch_decode_type(char type, const uint8_t *bytes, size_t length,
				 struct itch_message *message)
{
	if (__builtin_expect(length != itch_lengths[(uint8_t)type], 0))
		return itch_bad_frame(bytes, length);
	message->type = type;
	message->locate = itch_get_uint16_t(bytes + 1);
	message->tracking = itch_get_uint16_t(bytes + 3);
	message->time_ns =
		(uint64_t)itch_get_uint16_t(bytes + 5) << 32 | itch_get_uint32_t(bytes + 7);
	if (__builtin_expect(message->time_ns >= ITCH_DAY_NS, 0))
		return itch_bad_value(message);
	switch (type) {
#define ITCH_CASE(code, size, member, fields, name)                                                \
	case code:                                                                                 \
		itch_get_##member(bytes, &message->member);                                        \
		break;
		ITCH_TYPES(ITCH_CASE)
#undef ITCH_CASE
	}
	if ((type == 'A' || type == 'F') && message->add.side != 'B' && message->add.side != 'S')
		return itch_bad_value(message);
	return 0;
}

/* The symbol a message carries, or NULL. */
ITCH_INLINE const char *itch_stock(const struct itch_message *message)
{
	switch (message->type) {
#define STOCK(code, member)                                                                        \
	case code:                                                                                 \
		return message->member.stock;
		STOCK('A', add)
		STOCK('F', add_mpid)
		STOCK('P', trade)
		STOCK('Q', cross)
		STOCK('I', imbalance)
		STOCK('R', directory)
		STOCK('H', action)
		STOCK('h', halt)
		STOCK('Y', reg_sho)
		STOCK('L', participant)
		STOCK('K', ipo)
		STOCK('J', collar)
		STOCK('N', retail)
		STOCK('O', listing)
#undef STOCK
	}
	return NULL;
}

/* The index in itch_types of a type that is in ITCH 5.0. */
ITCH_INLINE unsigned int itch_number(char type)
{
	enum {
#define ITCH_NUMBER(code, length, member, fields, name) ITCH_NUMBER_##member,
		ITCH_TYPES(ITCH_NUMBER)
#undef ITCH_NUMBER
	};

	switch (type) {
#define ITCH_CASE(code, length, member, fields, name)                                              \
	case code:                                                                                 \
		return ITCH_NUMBER_##member;
		ITCH_TYPES(ITCH_CASE)
#undef ITCH_CASE
	}
	return 0;
}

#endif
