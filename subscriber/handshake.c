/* SPDX-License-Identifier: Apache-2.0 */
#include "subscriber/handshake.h"

#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "bus/random.h"

static void hello_fill(const struct handshake *handshake, bool proven,
		       uint8_t bytes[FABRIC_HELLO_BYTES])
{
	struct control_hello hello = { .version_low = handshake->covered.version_low,
				       .version_high = handshake->covered.version_high };

	memcpy(hello.nonce, handshake->covered.nonce, sizeof(hello.nonce));
	if (proven) {
		memcpy(hello.cookie, handshake->covered.cookie, sizeof(hello.cookie));
		proof_of_client(handshake->ticket, &handshake->covered, hello.proof);
	}
	control_hello_encode(&hello, bytes);
}

int handshake_begin(struct handshake *handshake, const struct fabric_ops *ops, const char *address,
		    const uint8_t *ticket, uint8_t hello[FABRIC_HELLO_BYTES])
{
	int result;

	*handshake = (struct handshake){ .ticket = ticket };
	handshake->covered.version_low = CONTROL_VERSION_LOW;
	handshake->covered.version_high = CONTROL_VERSION_HIGH;
	handshake->covered.address = handshake->identity;
	result = ops->identity(address, handshake->identity);
	if (result == 0)
		result = random_bytes(handshake->covered.nonce, sizeof(handshake->covered.nonce));
	if (result == 0)
		hello_fill(handshake, false, hello);
	return result;
}

int handshake_answer(struct handshake *handshake, const uint8_t challenge[FABRIC_CHALLENGE_BYTES],
		     uint8_t hello[FABRIC_HELLO_BYTES])
{
	memcpy(handshake->covered.cookie, challenge, sizeof(handshake->covered.cookie));
	handshake->challenged = true;
	hello_fill(handshake, true, hello);
	return 0;
}

/* Before anything else of the welcome is used. */
static int proof_check(const struct handshake *handshake, const uint8_t *bytes, size_t length)
{
	uint8_t copy[FABRIC_WELCOME_BYTES], proof[PROOF_BYTES];

	if (length < CONTROL_WELCOME_PROOF + PROOF_BYTES || length > sizeof(copy))
		return error_set(EPROTO, "welcome message of %zu bytes: expected %zu to %zu",
				 length, (size_t)CONTROL_WELCOME_PROOF + PROOF_BYTES, sizeof(copy));
	memcpy(copy, bytes, length);
	memset(copy + CONTROL_WELCOME_PROOF, 0, PROOF_BYTES);
	proof_of_publisher(handshake->ticket, &handshake->covered, copy, length, proof);
	if (!handshake->challenged || !proof_same(proof, bytes + CONTROL_WELCOME_PROOF))
		return error_set(EACCES, "the process that listens there does not prove to be the "
					 "publisher: found a welcome that does not fit this "
					 "subscriber's ticket");
	return 0;
}

int handshake_welcome(const struct handshake *handshake, const void *bytes, size_t length,
		      struct control_welcome *welcome)
{
	int result = proof_check(handshake, bytes, length);

	if (result == 0)
		result = control_welcome_decode(bytes, length, welcome);
	if (result == 0 &&
	    (welcome->version < CONTROL_VERSION_LOW || welcome->version > CONTROL_VERSION_HIGH))
		return error_set(EPROTO,
				 "the publisher chose protocol version %u, expected %d to "
				 "%d as this library supports",
				 welcome->version, CONTROL_VERSION_LOW, CONTROL_VERSION_HIGH);
	return result;
}
