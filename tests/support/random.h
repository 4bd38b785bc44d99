/* SPDX-License-Identifier: Apache-2.0 */
/* Reproducible random numbers: splitmix64 from a seed that is printed. */
#ifndef TICKBUS_TESTS_RANDOM_H
#define TICKBUS_TESTS_RANDOM_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* TICKBUS_TEST_SEED, or a seed from the clock. It is printed. */
static inline uint64_t random_seed(void)
{
	const char *given = getenv("TICKBUS_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = given ? strtoull(given, NULL, 0)
		     : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	fprintf(stderr, "seed: TICKBUS_TEST_SEED=%" PRIu64 "\n", seed);
	return seed;
}

static inline uint64_t random_draw(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static inline size_t random_below(uint64_t *state, size_t bound)
{
	return (size_t)(random_draw(state) % bound);
}

static inline void random_fill(uint64_t *state, void *bytes, size_t count)
{
	for (size_t at = 0; at < count; at += 8) {
		const uint64_t value = random_draw(state);

		memcpy((uint8_t *)bytes + at, &value, count - at < 8 ? count - at : 8);
	}
}

#endif
