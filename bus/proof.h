/* SPDX-License-Identifier: Apache-2.0 */
/* The cookie and the proofs of a handshake, which show that both sides know a ticket without
 * sending it (docs/protocol.md section 4.2).
 *
 * All of them are HMAC-SHA-256, truncated to 16 bytes. A cookie is a MAC under a secret of the
 * publisher, so that the publisher keeps nothing between the two requests of a client. A proof is
 * a MAC under the ticket; zeros stand for no ticket.
 *
 * Threads  any. Comparisons take the same time whatever the bytes are. */
#ifndef TICKBUS_BUS_PROOF_H
#define TICKBUS_BUS_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROOF_BYTES        16
#define PROOF_NONCE_BYTES  16
#define PROOF_COOKIE_BYTES 16
#define PROOF_TICKET_BYTES 32
#define PROOF_SECRET_BYTES 32
#define PROOF_WINDOW_MS    10000 /* a cookie is good in its window and in the next */
#define PROOF_ADDRESS_MAX  255   /* length of the dialled address */

/* What a cookie is bound to. */
struct proof_client {
	const uint8_t *nonce;  /* PROOF_NONCE_BYTES, from the client's request */
	const uint8_t *origin; /* the client's address, as the publisher's fabric sees it */
	uint8_t origin_bytes;
};

/* now_ms is on the publisher's own clock. */
void proof_cookie(const uint8_t secret[PROOF_SECRET_BYTES], const struct proof_client *,
		  uint64_t now_ms, uint8_t cookie[PROOF_COOKIE_BYTES]);
/* True if proof_cookie() made it for this client in this window or in the window before. */
bool proof_cookie_good(const uint8_t secret[PROOF_SECRET_BYTES], const struct proof_client *,
		       uint64_t now_ms, const uint8_t cookie[PROOF_COOKIE_BYTES]);

/* What both proofs cover. */
struct proof_handshake {
	uint8_t version_low, version_high; /* of the client's hello */
	uint8_t nonce[PROOF_NONCE_BYTES];
	uint8_t cookie[PROOF_COOKIE_BYTES]; /* the publisher's nonce */
	const char *address; /* as dialled; at most PROOF_ADDRESS_MAX bytes are covered */
};

/* The client's proof, in its second request. */
void proof_of_client(const uint8_t ticket[PROOF_TICKET_BYTES], const struct proof_handshake *,
		     uint8_t proof[PROOF_BYTES]);
/* The publisher's proof of a welcome, whose own proof field is zero while it is covered. */
void proof_of_publisher(const uint8_t ticket[PROOF_TICKET_BYTES], const struct proof_handshake *,
			const void *welcome, size_t bytes, uint8_t proof[PROOF_BYTES]);

/* Compares in a time that does not depend on the bytes. */
bool proof_same(const uint8_t a[PROOF_BYTES], const uint8_t b[PROOF_BYTES]);

#endif
