/* SPDX-License-Identifier: Apache-2.0 */
/* A hash for tables whose keys a stranger chooses: SipHash-2-4 with a random key of the table's
 * own. A stranger who does not know the key cannot find keys that collide. A fast unkeyed hash, or
 * a hash with a mere seed, gives no such promise.
 *
 * Threads  any; a key never changes. */
#ifndef TICKBUS_BUS_KEYED_H
#define TICKBUS_BUS_KEYED_H

#include <stddef.h>
#include <stdint.h>

#define KEYED_BYTES 16

struct keyed {
	uint8_t bytes[KEYED_BYTES];
};

/* Draws a key: 0, or an error of the system's random numbers. */
int keyed_open(struct keyed *);

uint64_t keyed_hash(const struct keyed *, const void *bytes, size_t length);

#endif
