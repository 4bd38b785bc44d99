/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a message, little-endian. One description serves both directions: the same calls write
 * a structure into bytes or read it from bytes, so the two cannot differ.
 *
 * No access ever goes beyond `limit`. `wrong` keeps the first error, and `at` its position; later
 * calls then do nothing. */
#ifndef TICKBUS_BUS_WIRE_H
#define TICKBUS_BUS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire {
	uint8_t *bytes;
	size_t limit;
	size_t at;
	bool reading;
	const char *wrong; /* NULL, or the first error */
};

/* Records an error that begins `back` bytes ago. */
void wire_wrong(struct wire *, size_t back, const char *what);

void wire_u8(struct wire *, uint8_t *value);
void wire_u16(struct wire *, uint16_t *value);
void wire_u32(struct wire *, uint32_t *value);
void wire_u64(struct wire *, uint64_t *value);
/* A value that must be from low to high. */
void wire_u32_within(struct wire *, uint32_t *value, uint32_t low, uint32_t high, const char *what);
/* Bytes without conversion. */
void wire_bytes(struct wire *, void *bytes, size_t count);
/* Bytes that must be zero. */
void wire_zero(struct wire *, size_t count);
/* A text of 0 to max bytes after its length (u16); text has room for max + 1. A read text must be
 * printable ASCII. When a text is written, other bytes become '?'. */
void wire_text(struct wire *, char *text, size_t max, const char *what);
/* A message must end where its bytes end. */
void wire_end(struct wire *);

#endif
