/* SPDX-License-Identifier: Apache-2.0 */
/* Choices that make up a history. All small histories are tried: the choices stand on a tape, whose
 * last choice counts up; behind the tape it is always the first. Larger histories are drawn. */
#ifndef TICKBUS_TESTS_TAPE_H
#define TICKBUS_TESTS_TAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/random.h"

#define TAPE_MAX 32

struct tape {
	bool drawn;
	uint64_t random;
	unsigned int length; /* choices of a small history */
	unsigned int choice[TAPE_MAX], bound[TAPE_MAX], used;
};

static inline unsigned int tape_choose(struct tape *tape, unsigned int bound)
{
	if (tape->drawn)
		return (unsigned int)random_below(&tape->random, bound);
	if (tape->used == tape->length)
		return 0;
	tape->bound[tape->used] = bound;
	return tape->choice[tape->used++];
}

/* Moves to the next small history. False: all were tried. */
static inline bool tape_next(struct tape *tape)
{
	for (unsigned int i = tape->length; i-- > 0;) {
		if (i < tape->used && ++tape->choice[i] < tape->bound[i]) {
			memset(&tape->choice[i + 1], 0,
			       (tape->length - i - 1) * sizeof(tape->choice[0]));
			return true;
		}
		tape->choice[i] = 0;
	}
	return false;
}

#endif
