/* SPDX-License-Identifier: Apache-2.0 */
/* When a reader naps, and for how long. */
#include "subscriber/nap.h"

#define WEIGHT      8                  /* of the past in the moving average */
#define INTERVALS   4                  /* naps end after this many intervals without an arrival */
#define SILENCE_NS  (2 * NAP_WORTH_NS) /* naps last at least this long: a feed has bursts */
#define INTERVAL_NS (4 * NAP_WORTH_NS) /* a longer silence counts as this */

static void learn(struct nap *nap, uint64_t now_ns)
{
	uint64_t interval_ns = now_ns - nap->news_ns;

	if (interval_ns > INTERVAL_NS)
		interval_ns = INTERVAL_NS;
	if (nap->news_ns != 0)
		nap->interval_ns =
			nap->interval_ns == 0
				? interval_ns
				: (nap->interval_ns * (WEIGHT - 1) + interval_ns) / WEIGHT;
	nap->news_ns = now_ns;
	nap->arrived = 0;
}

static uint64_t length_ns(const struct nap *nap)
{
	const uint64_t part_ns = nap->interval_ns / 8;

	if (part_ns < NAP_MIN_NS)
		return NAP_MIN_NS + nap->crowded_ns;
	return (part_ns > NAP_MAX_NS ? NAP_MAX_NS : part_ns) + nap->crowded_ns;
}

/* The silence after which records are due no more. */
static uint64_t silence_ns(const struct nap *nap)
{
	const uint64_t due_ns = INTERVALS * nap->interval_ns;

	return (due_ns > SILENCE_NS ? due_ns : SILENCE_NS) + 2 * length_ns(nap);
}

uint64_t nap_take(struct nap *nap, uint64_t now_ns)
{
	if (nap->arrived)
		learn(nap, now_ns);
	if (nap->interval_ns == 0 || nap->interval_ns > NAP_WORTH_NS ||
	    now_ns - nap->news_ns > silence_ns(nap))
		return 0;
	return nap->until_ns = now_ns + length_ns(nap);
}

bool nap_end(struct nap *nap, uint64_t now_ns)
{
	const uint64_t until_ns = nap->until_ns;

	nap->until_ns = 0;
	if (now_ns < until_ns)
		return true;
	if (now_ns - until_ns > length_ns(nap))
		nap->crowded_ns = 2 * nap->crowded_ns + NAP_MIN_NS;
	else
		nap->crowded_ns -= nap->crowded_ns / 8;
	if (nap->crowded_ns > NAP_CROWDED_NS)
		nap->crowded_ns = NAP_CROWDED_NS;
	return false;
}
