/* SPDX-License-Identifier: Apache-2.0 */
/* The private data of an accept and of a reject: a mark, a number, the body. Some link layers pad
 * private data with zeros, so the number of an accept is the body's length. The number of a reject
 * is an errno value with a reason, or 0 with a challenge. */
#ifndef TICKBUS_BUS_VERBS_PRIVATE_DATA_H
#define TICKBUS_BUS_VERBS_PRIVATE_DATA_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"

struct verbs_private_data {
	uint16_t mark;
	uint16_t number;
	uint8_t body[FABRIC_WELCOME_BYTES];
};
#define VERBS_MARK                0x4254 /* "TB" */
#define VERBS_PRIVATE_DATA_HEADER 4
static_assert(VERBS_PRIVATE_DATA_HEADER + FABRIC_REASON_BYTES <= 148, "private data of a reject");
static_assert(sizeof(struct verbs_private_data) <= 196, "private data of an accept");

/* Reads the private data of an accept. 0, or -EPROTO: not from a tickbus publisher. */
int verbs_private_data_welcome(const uint8_t *data, size_t bytes, struct verbs_private_data *);
/* Reads the private data of a reject. True if it is a challenge. */
bool verbs_private_data_challenge(const uint8_t *data, size_t bytes,
				  uint8_t challenge[FABRIC_CHALLENGE_BYTES]);
/* Reads the private data of a reject that is no challenge: an errno value, with a printable reason.
 * 0: not from a tickbus publisher. */
int verbs_private_data_refusal(const uint8_t *data, size_t bytes,
			       char why[FABRIC_REASON_BYTES + 1]);

#endif
