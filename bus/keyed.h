/* SPDX-License-Identifier: Apache-2.0 */
/* A hash for tables whose entries a stranger names: SipHash-2-4 with a random key of the table's
 * own. Without the key, a stranger cannot find names that collide. A fast hash with a seed does not
 * promise this.
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
