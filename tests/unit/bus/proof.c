/* SPDX-License-Identifier: Apache-2.0 */
/* Cookies and proofs: the bytes of docs/protocol.md, and that each covered byte counts. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bus/proof.h"

TestSuite(proof, .timeout = 60);

#define NOW_MS  UINT64_C(1234567890)
#define ADDRESS "10.9.0.1:7471"

static uint8_t secret[PROOF_SECRET_BYTES], ticket[PROOF_TICKET_BYTES], nonce[PROOF_NONCE_BYTES];
static uint8_t welcome[100];
static const uint8_t origin[] = { 0xe8, 3, 0, 0, 0xe1, 0x10, 0, 0 }; /* user 1000, pid 4321 */

static struct proof_client a_client(void)
{
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)(64 + i);
	for (size_t i = 0; i < sizeof(nonce); i++)
		nonce[i] = (uint8_t)(100 + i);
	return (struct proof_client){ .nonce = nonce,
				      .origin = origin,
				      .origin_bytes = sizeof(origin) };
}

static struct proof_handshake a_handshake(void)
{
	struct proof_handshake handshake = { .version_low = 2,
					     .version_high = 2,
					     .address = ADDRESS };
	const struct proof_client client = a_client();

	for (size_t i = 0; i < sizeof(ticket); i++)
		ticket[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(welcome); i++)
		welcome[i] = i >= 68 && i < 84 ? 0 : (uint8_t)(i * 7); /* its proof is zeros */
	memcpy(handshake.nonce, nonce, sizeof(nonce));
	proof_cookie(secret, &client, NOW_MS, handshake.cookie);
	return handshake;
}

static void expect_hex(const uint8_t *bytes, const char *hex)
{
	char found[2 * PROOF_BYTES + 1];

	for (size_t i = 0; i < PROOF_BYTES; i++)
		snprintf(found + 2 * i, 3, "%02x", bytes[i]);
	cr_expect_str_eq(found, hex);
}

/* The vector of docs/protocol.md. */
Test(proof, known_input_gives_known_bytes)
{
	struct proof_handshake handshake = a_handshake();
	uint8_t proof[PROOF_BYTES];

	expect_hex(handshake.cookie, "c61897ecf5aa71ea0bbb0e1c01d0bc69");
	proof_of_client(ticket, &handshake, proof);
	expect_hex(proof, "0a47a7373cdf33146a20f9eb84a933d3");
	proof_of_publisher(ticket, &handshake, welcome, sizeof(welcome), proof);
	expect_hex(proof, "747f7f9d12179cfc98b2dbcc9bc1a645");
}

/* -- cookies ----------------------------------------------------------------------------------
 */

Test(proof, cookie_is_good_in_its_window_and_the_next)
{
	const struct proof_client client = a_client();
	const uint64_t begin = NOW_MS / PROOF_WINDOW_MS * PROOF_WINDOW_MS;
	uint8_t cookie[PROOF_COOKIE_BYTES];

	proof_cookie(secret, &client, begin, cookie);
	cr_expect(proof_cookie_good(secret, &client, begin, cookie));
	cr_expect(proof_cookie_good(secret, &client, begin + 2 * PROOF_WINDOW_MS - 1, cookie));
	cr_expect_not(proof_cookie_good(secret, &client, begin + 2 * PROOF_WINDOW_MS, cookie));
	cr_expect_not(proof_cookie_good(secret, &client, begin - 1, cookie));
}

Test(proof, cookie_is_refused_with_another_nonce_origin_or_secret)
{
	struct proof_client client = a_client();
	uint8_t cookie[PROOF_COOKIE_BYTES], other[sizeof(origin)];

	proof_cookie(secret, &client, NOW_MS, cookie);
	for (size_t i = 0; i < sizeof(cookie); i++) {
		cookie[i] ^= 1;
		cr_expect_not(proof_cookie_good(secret, &client, NOW_MS, cookie));
		cookie[i] ^= 1;
		nonce[i] ^= 1;
		cr_expect_not(proof_cookie_good(secret, &client, NOW_MS, cookie));
		nonce[i] ^= 1;
	}
	memcpy(other, origin, sizeof(other));
	other[4] ^= 1;
	client.origin = other;
	cr_expect_not(proof_cookie_good(secret, &client, NOW_MS, cookie));
	client.origin = origin;
	client.origin_bytes = 4;
	cr_expect_not(proof_cookie_good(secret, &client, NOW_MS, cookie));
	client.origin_bytes = sizeof(origin);
	cr_expect(proof_cookie_good(secret, &client, NOW_MS, cookie));
	secret[31] ^= 1;
	cr_expect_not(proof_cookie_good(secret, &client, NOW_MS, cookie));
}

/* -- proofs -----------------------------------------------------------------------------------
 */

Test(proof, proof_changes_with_each_covered_field)
{
	const struct proof_handshake handshake = a_handshake();
	struct proof_handshake others[6];
	uint8_t good[PROOF_BYTES], other[PROOF_BYTES];

	for (size_t i = 0; i < 6; i++)
		others[i] = handshake;
	others[0].version_low--;
	others[1].version_high++;
	others[2].nonce[15] ^= 1;
	others[3].cookie[0] ^= 1;
	others[4].address = "10.9.0.1:7472";
	others[5].address = "10.9.0.1:747";
	proof_of_client(ticket, &handshake, good);
	cr_expect(proof_same(good, good));
	for (size_t i = 0; i < 6; i++) {
		proof_of_client(ticket, &others[i], other);
		cr_expect_not(proof_same(good, other), "field %zu", i);
	}
	ticket[31] ^= 1;
	proof_of_client(ticket, &handshake, other);
	cr_expect_not(proof_same(good, other), "ticket");
}

/* So a publisher's proof cannot be made from a client's, whatever its welcome is. */
Test(proof, proofs_of_the_two_roles_differ)
{
	const struct proof_handshake handshake = a_handshake();
	uint8_t client[PROOF_BYTES], publisher[PROOF_BYTES];

	proof_of_client(ticket, &handshake, client);
	proof_of_publisher(ticket, &handshake, welcome, 0, publisher);
	cr_expect_not(proof_same(client, publisher));
}

Test(proof, publishers_proof_covers_each_byte_of_the_welcome)
{
	const struct proof_handshake handshake = a_handshake();
	uint8_t good[PROOF_BYTES], other[PROOF_BYTES];

	proof_of_publisher(ticket, &handshake, welcome, sizeof(welcome), good);
	for (size_t i = 0; i < sizeof(welcome); i++) {
		welcome[i] ^= 1;
		proof_of_publisher(ticket, &handshake, welcome, sizeof(welcome), other);
		cr_expect_not(proof_same(good, other), "byte %zu", i);
		welcome[i] ^= 1;
	}
	proof_of_publisher(ticket, &handshake, welcome, sizeof(welcome) - 1, other);
	cr_expect_not(proof_same(good, other), "length");
}
