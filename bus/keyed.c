/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/keyed.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "bus/random.h"

static_assert(crypto_shorthash_KEYBYTES == KEYED_BYTES && crypto_shorthash_BYTES == 8,
	      "SipHash-2-4");

int keyed_open(struct keyed *key)
{
	return random_bytes(key->bytes, sizeof(key->bytes));
}

uint64_t keyed_hash(const struct keyed *key, const void *bytes, size_t length)
{
	uint8_t hash[crypto_shorthash_BYTES];
	uint64_t result;

	crypto_shorthash(hash, bytes, length, key->bytes);
	memcpy(&result, hash, sizeof(result));
	return result;
}
