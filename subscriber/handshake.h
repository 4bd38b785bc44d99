/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's side of the handshake: its two hellos, and the check that the publisher knows
 * the ticket too. Each connection has a handshake of its own. */
#ifndef TICKBUS_SUBSCRIBER_HANDSHAKE_H
#define TICKBUS_SUBSCRIBER_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/control.h"
#include "bus/fabric.h"
#include "bus/proof.h"

struct handshake {
	struct proof_handshake covered;
	const uint8_t *ticket; /* TB_TICKET_BYTES, the caller's; zeros: no ticket */
	bool challenged;
	char identity[FABRIC_IDENTITY_BYTES]; /* of the address dialled */
};

/* Begins a handshake with a publisher at an address (without its scheme), and fills the first
 * hello. 0 or -errno with a text. */
int handshake_begin(struct handshake *, const struct fabric_ops *, const char *address,
		    const uint8_t *ticket, uint8_t hello[FABRIC_HELLO_BYTES]);
/* Fills the second hello, as link_calls.challenge asks for it. */
int handshake_answer(struct handshake *, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
		     uint8_t hello[FABRIC_HELLO_BYTES]);
/* Decodes a welcome whose proof is good. -EACCES: it comes from a process that does not know the
 * ticket. -EPROTO: it is no welcome that this library understands. */
int handshake_welcome(const struct handshake *, const void *bytes, size_t length,
		      struct control_welcome *);

#endif
