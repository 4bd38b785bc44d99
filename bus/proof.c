/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/proof.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

enum role { ROLE_CLIENT = 1, ROLE_PUBLISHER };

static_assert(PROOF_SECRET_BYTES == crypto_auth_hmacsha256_KEYBYTES &&
		      PROOF_TICKET_BYTES == crypto_auth_hmacsha256_KEYBYTES,
	      "both are keys");
static_assert(PROOF_BYTES <= crypto_auth_hmacsha256_BYTES &&
		      PROOF_COOKIE_BYTES <= crypto_auth_hmacsha256_BYTES,
	      "a truncated MAC");

static void mac_end(crypto_auth_hmacsha256_state *state, uint8_t *out, size_t bytes)
{
	uint8_t whole[crypto_auth_hmacsha256_BYTES];

	crypto_auth_hmacsha256_final(state, whole);
	memcpy(out, whole, bytes);
	sodium_memzero(whole, sizeof(whole));
	sodium_memzero(state, sizeof(*state)); /* it can replace the ticket */
}

/* -- cookies ----------------------------------------------------------------------------------
 */

static void cookie_of_window(const uint8_t *secret, const struct proof_client *client,
			     uint64_t window, uint8_t *cookie)
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, secret, PROOF_SECRET_BYTES);
	crypto_auth_hmacsha256_update(&state, client->nonce, PROOF_NONCE_BYTES);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)&window, sizeof(window));
	crypto_auth_hmacsha256_update(&state, client->origin, client->origin_bytes);
	mac_end(&state, cookie, PROOF_COOKIE_BYTES);
}

void proof_cookie(const uint8_t secret[PROOF_SECRET_BYTES], const struct proof_client *client,
		  uint64_t now_ms, uint8_t cookie[PROOF_COOKIE_BYTES])
{
	cookie_of_window(secret, client, now_ms / PROOF_WINDOW_MS, cookie);
}

bool proof_cookie_good(const uint8_t secret[PROOF_SECRET_BYTES], const struct proof_client *client,
		       uint64_t now_ms, const uint8_t cookie[PROOF_COOKIE_BYTES])
{
	const uint64_t window = now_ms / PROOF_WINDOW_MS;
	uint8_t now[PROOF_COOKIE_BYTES], before[PROOF_COOKIE_BYTES];
	bool good;

	cookie_of_window(secret, client, window, now);
	cookie_of_window(secret, client, window - 1, before);
	good = sodium_memcmp(cookie, now, sizeof(now)) == 0;
	good |= sodium_memcmp(cookie, before, sizeof(before)) == 0;
	return good;
}

/* -- proofs -----------------------------------------------------------------------------------
 */

static void handshake_cover(crypto_auth_hmacsha256_state *state, enum role role,
			    const struct proof_handshake *handshake)
{
	const size_t length = strnlen(handshake->address, PROOF_ADDRESS_MAX);
	const uint8_t head[] = { (uint8_t)role, handshake->version_low, handshake->version_high,
				 (uint8_t)length };

	crypto_auth_hmacsha256_update(state, head, sizeof(head));
	crypto_auth_hmacsha256_update(state, handshake->nonce, PROOF_NONCE_BYTES);
	crypto_auth_hmacsha256_update(state, handshake->cookie, PROOF_COOKIE_BYTES);
	crypto_auth_hmacsha256_update(state, (const uint8_t *)handshake->address, length);
}

void proof_of_client(const uint8_t ticket[PROOF_TICKET_BYTES],
		     const struct proof_handshake *handshake, uint8_t proof[PROOF_BYTES])
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, ticket, PROOF_TICKET_BYTES);
	handshake_cover(&state, ROLE_CLIENT, handshake);
	mac_end(&state, proof, PROOF_BYTES);
}

void proof_of_publisher(const uint8_t ticket[PROOF_TICKET_BYTES],
			const struct proof_handshake *handshake, const void *welcome, size_t bytes,
			uint8_t proof[PROOF_BYTES])
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, ticket, PROOF_TICKET_BYTES);
	handshake_cover(&state, ROLE_PUBLISHER, handshake);
	crypto_auth_hmacsha256_update(&state, welcome, bytes);
	mac_end(&state, proof, PROOF_BYTES);
}

bool proof_same(const uint8_t a[PROOF_BYTES], const uint8_t b[PROOF_BYTES])
{
	return sodium_memcmp(a, b, PROOF_BYTES) == 0;
}
