/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds and defaults of a synthetic day. */
#include "publisher/feeds/synthetic/synthetic.h"

#include "bus/error.h"

#include <errno.h>
#include <inttypes.h>

#define RATE         100000
#define SYMBOLS      8000
#define PER_SYMBOL   64  /* messages per symbol, by default */
#define LEAST        512 /* messages of a whole day, without its symbols */
#define LEAST_SYMBOL 8   /* further messages for each symbol */

static void fill_in(struct synthetic_settings *settings)
{
	uint64_t expected = settings->messages;

	if (!settings->rate)
		settings->rate = expected && expected < RATE ? expected : RATE;
	if (!expected && settings->seconds)
		expected = settings->seconds * settings->rate;
	if (!settings->symbols) {
		settings->symbols = SYMBOLS;
		if (expected && expected < LEAST + PER_SYMBOL * SYMBOLS)
			settings->symbols = expected < LEAST + PER_SYMBOL
						    ? 1
						    : (uint32_t)((expected - LEAST) / PER_SYMBOL);
	}
	if (!settings->burst)
		settings->burst = BOUND_SYNTHETIC_BURST;
}

static int check_ranges(const struct synthetic_settings *settings)
{
	if (settings->messages && settings->seconds)
		return error_set(EINVAL,
				 "synthetic: found both messages %" PRIu64 " and seconds %" PRIu64
				 ", expected at most one limit",
				 settings->messages, settings->seconds);
	if (settings->seconds > SYNTHETIC_DAY_SECONDS)
		return error_set(EINVAL,
				 "synthetic: found seconds %" PRIu64
				 ", expected at most %d, a trading day",
				 settings->seconds, SYNTHETIC_DAY_SECONDS);
	if (settings->rate > SYNTHETIC_RATE_MAX)
		return error_set(EINVAL, "synthetic: found rate %" PRIu64 ", expected at most %d",
				 settings->rate, SYNTHETIC_RATE_MAX);
	if (settings->symbols > SYNTHETIC_SYMBOLS_MAX)
		return error_set(EINVAL,
				 "synthetic: found symbols %" PRIu32 ", expected at most %d",
				 settings->symbols, SYNTHETIC_SYMBOLS_MAX);
	if (settings->burst &&
	    (settings->burst < SYNTHETIC_BURST_MIN || settings->burst > SYNTHETIC_BURST_MAX))
		return error_set(EINVAL, "synthetic: found burst %" PRIu32 ", expected %d to %d",
				 settings->burst, SYNTHETIC_BURST_MIN, SYNTHETIC_BURST_MAX);
	return 0;
}

/* Checks the complete settings together. */
static int check_size(const struct synthetic_settings *settings)
{
	uint64_t least = LEAST + LEAST_SYMBOL * (uint64_t)settings->symbols;

	if (settings->messages && settings->messages < least)
		return error_set(EINVAL,
				 "synthetic: found messages %" PRIu64 ", expected at least %" PRIu64
				 " for a day of %" PRIu32 " symbols",
				 settings->messages, least, settings->symbols);
	if (settings->messages / settings->rate > SYNTHETIC_DAY_SECONDS)
		return error_set(EINVAL,
				 "synthetic: found messages %" PRIu64 " at rate %" PRIu64
				 ", which last %" PRIu64
				 " seconds, expected at most %d, a trading day",
				 settings->messages, settings->rate,
				 settings->messages / settings->rate, SYNTHETIC_DAY_SECONDS);
	if (settings->seconds && settings->seconds * settings->rate < LEAST)
		return error_set(EINVAL,
				 "synthetic: found seconds %" PRIu64 " at rate %" PRIu64
				 ", which hold %" PRIu64 " messages, expected at least %d",
				 settings->seconds, settings->rate,
				 settings->seconds * settings->rate, LEAST);
	return 0;
}

int synthetic_resolve(const struct synthetic_settings *settings,
		      struct synthetic_settings *resolved)
{
	int result = check_ranges(settings);

	if (result < 0)
		return result;
	*resolved = *settings;
	fill_in(resolved);
	return check_size(resolved);
}

int synthetic_check(const struct synthetic_settings *settings)
{
	struct synthetic_settings resolved;

	return synthetic_resolve(settings, &resolved);
}
