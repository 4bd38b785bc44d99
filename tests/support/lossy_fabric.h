/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric for tests, "lossy:NAME": bytewise with notices that go through memory, so that a test
 * without threads decides which arrive. There is one group. A subscriber at "lossy:NAME,notices=0"
 * gets no notices. For one thread. */
#ifndef TICKBUS_TESTS_LOSSY_FABRIC_H
#define TICKBUS_TESTS_LOSSY_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOSSY_BYTES 1024 /* of the longest notice */
#define LOSSY_SEEN  256

/* Adds the fabric, after bytewise. The seed determines which notices are lost. */
void lossy_add(uint64_t seed);
/* From now on this share of the publisher's notices is lost, each independently. */
void lossy_lose(unsigned int percent);
/* The next notices are lost, this many; a sender that is busy sends no notice. */
void lossy_lose_next(unsigned int count);
void lossy_busy_next(unsigned int count);
/* A stranger sends a datagram to the group: it arrives. */
void lossy_forge(const void *datagram, size_t bytes);

/* The last notices of the publisher, lost or not: what any host of the network may have heard. */
struct lossy_seen {
	uint8_t bytes[LOSSY_BYTES];
	size_t length;
};
extern struct lossy_seen lossy_seen[LOSSY_SEEN];
extern uint64_t lossy_seen_count; /* the last is at (lossy_seen_count - 1) % LOSSY_SEEN */

#endif
