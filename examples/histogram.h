/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of nanoseconds with 32 equal buckets per power of two. A reported value is at most
 * 1/32 above the true value. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEPS   32
#define HISTOGRAM_BUCKETS (60 * HISTOGRAM_STEPS)

struct histogram {
	uint64_t count, max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
	const unsigned power = value < HISTOGRAM_STEPS ? 0 : 63 - (unsigned)__builtin_clzll(value);
	const uint64_t bucket =
		value < HISTOGRAM_STEPS
			? value
			: (power - 4) * HISTOGRAM_STEPS + (value >> (power - 5)) - HISTOGRAM_STEPS;

	histogram->buckets[bucket]++;
	histogram->count++;
	if (histogram->max < value)
		histogram->max = value;
}

/* The quantile part/whole of the values; 0 for an empty histogram. */
static inline uint64_t histogram_at(const struct histogram *histogram, uint64_t part,
				    uint64_t whole)
{
	const uint64_t wanted = histogram->count - histogram->count / whole * (whole - part);
	uint64_t seen = 0, upper;

	for (uint64_t i = 0; i < HISTOGRAM_BUCKETS && histogram->count; i++) {
		seen += histogram->buckets[i];
		if (seen < wanted)
			continue;
		upper = i < HISTOGRAM_STEPS ? i
					    : ((i % HISTOGRAM_STEPS + HISTOGRAM_STEPS + 1)
					       << (i / HISTOGRAM_STEPS - 1)) -
						      1;
		return upper < histogram->max ? upper : histogram->max;
	}
	return 0;
}

static inline void histogram_merge(struct histogram *into, const struct histogram *from)
{
	for (uint64_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
	into->count += from->count;
	if (into->max < from->max)
		into->max = from->max;
}

#endif
