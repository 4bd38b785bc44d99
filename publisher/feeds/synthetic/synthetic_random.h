/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of the synthetic exchange: xoshiro256**, seeded through splitmix64, both by
 * Blackman and Vigna. The C library's generators differ from machine to machine. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_RANDOM_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_RANDOM_H

#include <stdint.h>

struct synthetic_random {
	uint64_t state[4];
};

static inline void synthetic_random_seed(struct synthetic_random *random, uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
		random->state[i] = z ^ (z >> 31);
	}
}

static inline uint64_t synthetic_random_turn(uint64_t word, unsigned bits)
{
	return word << bits | word >> (64 - bits);
}

static inline uint64_t synthetic_random_next(struct synthetic_random *random)
{
	uint64_t *s = random->state;
	uint64_t result = synthetic_random_turn(s[1] * 5, 7) * 9;
	uint64_t shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = synthetic_random_turn(s[3], 45);
	return result;
}

/* 0 to bound - 1; the bias of bound / 2^32 does not matter here. */
static inline uint32_t synthetic_random_below(struct synthetic_random *random, uint32_t bound)
{
	return (uint32_t)((synthetic_random_next(random) >> 32) * bound >> 32);
}

/* 0 to bound - 1, small values more often: the mean is a quarter of the bound. */
static inline uint32_t synthetic_random_small(struct synthetic_random *random, uint32_t bound)
{
	return synthetic_random_below(random, 1 + synthetic_random_below(random, bound));
}

#endif
