/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and samples are made before they are used, so that making them is not measured. */
#include <stdlib.h>

#include "bench/run.h"

struct maker *maker_open(const struct run *run)
{
	struct maker *maker = malloc(sizeof(*maker));

	if (!maker)
		machine_fail("no memory");
	maker->next = 1;
	maker->words = run->shape.payload_words;
	return maker;
}

const uint64_t *maker_make(struct maker *maker, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		payload_fill(maker->payloads + (size_t)i * maker->words, maker->words,
			     maker->next++);
	return maker->payloads;
}

double *samples_make(void)
{
	double *samples = malloc(SAMPLES_MAX * sizeof(*samples));

	if (!samples)
		machine_fail("no memory");
	for (size_t i = 0; i < SAMPLES_MAX; i++)
		((volatile double *)samples)[i] = 0;
	return samples;
}
