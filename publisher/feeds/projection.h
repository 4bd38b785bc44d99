/* SPDX-License-Identifier: Apache-2.0 */
/* Maps the payload that a feed makes to the payload of a topic's own schema, field by field.
 *
 * A topic's schema may pick and order the fields of its feed's output. Each field takes the value
 * of the feed's field with the same name and type. A decimal may have up to 9 more digits (so that
 * no price overflows), an array fewer elements. A whole number (u32 or u64) may become a decimal of
 * up to 9 digits, so that a size fills a field that holds fractions. A field with the role
 * source_sequence takes the number of the message within the feed, from 1.
 *
 * Nulls stay nulls, also with more digits, so an optional field fills only an optional field. A
 * field that is optional in the topic's schema alone is never null. A number that equals the null
 * becomes its neighbour, and zero bytes of a text become spaces. A NaN stays a NaN, and is null. A
 * number without room for more digits becomes the last number before the null. */
#ifndef TICKBUS_FEEDS_PROJECTION_H
#define TICKBUS_FEEDS_PROJECTION_H

#include <stdbool.h>
#include <stddef.h>

#include <stdint.h>

#include "tickbus/record.h"
#include "tickbus/schema.h"

struct projection_move {
	uint16_t from, to, bytes;
	uint32_t factor; /* 0: copies bytes; otherwise multiplies one number, to an i64 */
	uint8_t whole;   /* with a factor: bytes of an unsigned number; 0: an i64 */
	bool null;       /* with a factor: the source may be null */
	uint8_t apart; /* enum tb_type of an element that is never null; 0: nothing to keep apart */
};

struct projection {
	struct projection_move *moves;
	size_t count;
	uint32_t bytes;      /* of the topic's payload */
	bool same;           /* the payloads are equal */
	int32_t sequence_at; /* -1: none */
	uint8_t sequence_bytes;
};

/* 0; -EPROTO with a message that names the field; -ENOMEM. */
int projection_open(struct projection *, const struct tb_schema *from, const struct tb_schema *to);
void projection_close(struct projection *);

/* The payload to publish: `from` itself, or made in `to` (8-byte aligned). */
const void *projection_apply(const struct projection *, const void *from, uint64_t sequence,
			     void *to);

#endif
