/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/prover.h"

#include <criterion/criterion.h>
#include <string.h>

#include "bus/control.h"
#include "bus/proof.h"
#include "tickbus/error.h"

static const uint8_t no_ticket[PROOF_TICKET_BYTES];

static struct control_hello hello_of(const void *bytes)
{
	struct control_hello hello;

	cr_assert_eq(control_hello_decode(bytes, FABRIC_HELLO_BYTES, &hello), 0, "%s", tb_error());
	return hello;
}

static struct proof_handshake handshake_of(const struct control_hello *hello, const char *identity)
{
	struct proof_handshake handshake = { .version_low = hello->version_low,
					     .version_high = hello->version_high,
					     .address = identity };

	memcpy(handshake.nonce, hello->nonce, sizeof(handshake.nonce));
	memcpy(handshake.cookie, hello->cookie, sizeof(handshake.cookie));
	return handshake;
}

bool prover_is_first(const void *bytes, size_t length)
{
	static const uint8_t none[PROOF_BYTES];
	const struct control_hello hello = hello_of(bytes);

	cr_assert_eq(length, FABRIC_HELLO_BYTES);
	return memcmp(hello.proof, none, sizeof(none)) == 0;
}

bool prover_checks(const void *bytes, const char *identity, const uint8_t *ticket)
{
	const struct control_hello hello = hello_of(bytes);
	const struct proof_handshake handshake = handshake_of(&hello, identity);
	uint8_t proof[PROOF_BYTES];

	proof_of_client(ticket ? ticket : no_ticket, &handshake, proof);
	return proof_same(proof, hello.proof);
}

void prover_signs(const void *bytes, const char *identity, const uint8_t *ticket, uint8_t *welcome,
		  size_t length)
{
	const struct control_hello hello = hello_of(bytes);
	const struct proof_handshake handshake = handshake_of(&hello, identity);
	uint8_t proof[PROOF_BYTES];

	if (length < CONTROL_WELCOME_PROOF + PROOF_BYTES)
		return;
	memset(welcome + CONTROL_WELCOME_PROOF, 0, PROOF_BYTES);
	proof_of_publisher(ticket ? ticket : no_ticket, &handshake, welcome, length, proof);
	memcpy(welcome + CONTROL_WELCOME_PROOF, proof, PROOF_BYTES);
}
