/* SPDX-License-Identifier: Apache-2.0 */
/* The machine is little-endian (asserted by the build), so an integer's bytes are its memory. */
#include "bus/wire.h"

#include <string.h>

void wire_wrong(struct wire *wire, size_t back, const char *what)
{
	if (wire->wrong)
		return;
	wire->wrong = what;
	wire->at -= back;
}

static bool wire_room(struct wire *wire, size_t count)
{
	if (!wire->wrong && count > wire->limit - wire->at)
		wire_wrong(wire, 0, "ends too early");
	return !wire->wrong;
}

void wire_bytes(struct wire *wire, void *bytes, size_t count)
{
	if (!wire_room(wire, count)) {
		if (wire->reading)
			memset(bytes, 0, count);
		return;
	}
	if (wire->reading)
		memcpy(bytes, wire->bytes + wire->at, count);
	else
		memcpy(wire->bytes + wire->at, bytes, count);
	wire->at += count;
}

void wire_u8(struct wire *wire, uint8_t *value)
{
	wire_bytes(wire, value, sizeof(*value));
}

void wire_u16(struct wire *wire, uint16_t *value)
{
	wire_bytes(wire, value, sizeof(*value));
}

void wire_u32(struct wire *wire, uint32_t *value)
{
	wire_bytes(wire, value, sizeof(*value));
}

void wire_u64(struct wire *wire, uint64_t *value)
{
	wire_bytes(wire, value, sizeof(*value));
}

void wire_u32_within(struct wire *wire, uint32_t *value, uint32_t low, uint32_t high,
		     const char *what)
{
	wire_u32(wire, value);
	if (wire->wrong || (*value >= low && *value <= high))
		return;
	wire_wrong(wire, sizeof(*value), what);
	if (wire->reading)
		*value = 0; /* it may be about to bound a loop */
}

void wire_zero(struct wire *wire, size_t count)
{
	if (!wire_room(wire, count))
		return;
	for (size_t i = 0; i < count && !wire->wrong; i++) {
		if (!wire->reading)
			wire->bytes[wire->at] = 0;
		if (wire->bytes[wire->at++] != 0)
			wire_wrong(wire, 1, "has a reserved byte that is not zero");
	}
}

/* Replaces bytes of the written text for which a reader would refuse the message. */
static void text_ascii(struct wire *wire, size_t length)
{
	for (uint8_t *byte = wire->bytes + wire->at - length; length > 0; byte++, length--)
		if (*byte < ' ' || *byte > '~')
			*byte = '?';
}

void wire_text(struct wire *wire, char *text, size_t max, const char *what)
{
	uint16_t length = (uint16_t)(wire->reading ? 0 : strnlen(text, max));

	wire_u16(wire, &length);
	if (length > max)
		wire_wrong(wire, sizeof(length), what);
	if (wire->wrong) {
		if (wire->reading)
			text[0] = '\0';
		return;
	}
	wire_bytes(wire, text, length);
	if (!wire->reading) {
		text_ascii(wire, wire->wrong ? 0 : length);
		return;
	}
	text[wire->wrong ? 0 : length] = '\0';
	for (size_t i = 0; i < length && !wire->wrong; i++)
		if (text[i] < ' ' || text[i] > '~')
			wire_wrong(wire, length - i, what);
}

void wire_end(struct wire *wire)
{
	if (wire->reading && wire->at != wire->limit)
		wire_wrong(wire, 0, "has bytes after its end");
}
