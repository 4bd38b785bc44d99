/* SPDX-License-Identifier: Apache-2.0 */
/* The synthetic market's time, in nanoseconds since midnight: one tick a message.
 *
 * Trading is calm, but for one whole millisecond in each period that holds `burst` times the mean
 * (and at least 16 messages, so that slow markets have bursts too). An eighth of the messages comes
 * in bursts; the calm pace makes up for it, so that the mean is the rate. The first millisecond of
 * trading is a burst, so every day has one. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_CLOCK_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_CLOCK_H

#include "publisher/feeds/synthetic_random.h"

#include <stdbool.h>
#include <stdint.h>

#define SYNTHETIC_SECOND UINT64_C(1000000000)
#define SYNTHETIC_OPEN   (34200 * SYNTHETIC_SECOND) /* 09:30 */

struct synthetic_clock {
	struct synthetic_random
		random; /* its own, so that another pace leaves the market as it is */
	uint64_t now;
	uint64_t early_gap, calm_gap, burst_gap;
	uint64_t period_ms, period_start, burst_start;
	bool open;
};

void synthetic_clock_init(struct synthetic_clock *, uint64_t seed, uint64_t rate, uint64_t burst);

/* Begins a day so early that `messages` come before the open, at the rate, within an hour. */
void synthetic_clock_begin(struct synthetic_clock *, uint64_t rate, uint64_t messages);
void synthetic_clock_open(struct synthetic_clock *);
void synthetic_clock_tick(struct synthetic_clock *);

#endif
