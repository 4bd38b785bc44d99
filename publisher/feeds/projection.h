/* SPDX-License-Identifier: Apache-2.0 */
/* From the payload that a feed makes to the payload of a topic's own schema, field by field.
 *
 * A topic's schema may pick and order the fields of what its feed selects as it likes. Each of its
 * fields takes the value of the field of the same name, which must be of the same type; a decimal
 * may have up to 9 more digits (so that no price overflows), an array fewer elements. The field
 * with the role source_sequence takes the number of the message within the feed, from 1. */
#ifndef TICKBUS_FEEDS_PROJECTION_H
#define TICKBUS_FEEDS_PROJECTION_H

#include <stdbool.h>
#include <stddef.h>

#include <stdint.h>

#include "tickbus/record.h"
#include "tickbus/schema.h"

struct projection_move {
	uint16_t from, to, bytes;
	uint32_t factor; /* 0: bytes as they are; else one i64 times this */
};

struct projection {
	struct projection_move *moves;
	size_t count;
	uint32_t bytes;      /* of the topic's payload */
	bool same;           /* nothing to move */
	int32_t sequence_at; /* -1: none */
	uint8_t sequence_bytes;
};

/* 0; -EPROTO in words that name the field; -ENOMEM. */
int projection_open(struct projection *, const struct tb_schema *from, const struct tb_schema *to);
void projection_close(struct projection *);

/* The payload to publish: either `from` or made in `to` (8-byte aligned). */
const void *projection_apply(const struct projection *, const void *from, uint64_t sequence,
			     void *to);

#endif
