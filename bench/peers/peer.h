/* SPDX-License-Identifier: Apache-2.0 */
/* What the peers share. A peer carries only payloads. The number of a message is found in its first
 * word, which payload_fill() makes of that number; each word has its own number. */
#ifndef TICKBUS_BENCH_PEER_H
#define TICKBUS_BENCH_PEER_H

#include <assert.h>

#include "bench/bench.h"

#define PEER_INVERSE UINT64_C(0xf1de83e19937733d)
#define PEER_LOOK    256 /* messages that a reader takes at a time */

static_assert(PEER_INVERSE * PAYLOAD_FACTOR == 1, "the inverse modulo 2^64");

/* Counts a message that came. *next: the number that the next message has if nothing is lost;
 * not of a timed shape. */
static inline void peer_take(struct tally *tally, uint64_t *next, const void *data, size_t bytes,
			     uint32_t words)
{
	const uint64_t *payload = data;
	uint64_t number;

	if (bytes != words * 8) {
		tally->wrong++;
		return;
	}
	if (tally->interval) {
		tally_timed(tally, payload, words);
		return;
	}
	number = payload[0] * PEER_INVERSE;
	if (number < *next || payload_wrong(payload, words, number)) {
		tally->wrong++;
		return;
	}
	tally->lost += number - *next;
	tally->received++;
	*next = number + 1;
}

#endif
