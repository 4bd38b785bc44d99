/* SPDX-License-Identifier: Apache-2.0 */
/* Every random number of the library, in one place, so that a simulation can replace them: bus ids,
 * epochs, nonces, secrets.
 *
 * Threads  any. */
#ifndef TICKBUS_BUS_RANDOM_H
#define TICKBUS_BUS_RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A random number from the kernel. 0 or -errno with a message. */
int random_u64(uint64_t *);

/* At most 256 bytes of them. */
int random_bytes(void *, size_t bytes);

typedef ssize_t random_reader(void *, size_t bytes, unsigned int flags);

/* Replaces the source of random_u64(); NULL: getrandom(). For tests and simulations. */
void random_replace(random_reader *);

#endif
