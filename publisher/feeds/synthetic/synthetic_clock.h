/* SPDX-License-Identifier: Apache-2.0 */
/* The synthetic market's time, in nanoseconds since midnight: one tick per message.
 *
 * Trading is calm except for bursts: each period has one whole millisecond with `burst` times the
 * mean. A burst has at least 16 messages, so that slow markets have bursts too. An eighth of the
 * messages comes in bursts; the calm pace makes up for it, so that the mean is the rate. The first
 * millisecond of trading is a burst, so that every day has a burst. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_CLOCK_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_CLOCK_H

#include "publisher/feeds/synthetic/synthetic_random.h"

#include <stdbool.h>
#include <stdint.h>

#define SYNTHETIC_SECOND UINT64_C(1000000000)
#define SYNTHETIC_OPEN   (34200 * SYNTHETIC_SECOND) /* 09:30 */

struct synthetic_clock {
	struct synthetic_random random; /* its own: another pace leaves the market unchanged */
	uint64_t now;
	uint64_t early_gap, calm_gap, burst_gap;
	uint64_t period_ms, period_start, burst_start;
	bool open;
};

void synthetic_clock_init(struct synthetic_clock *, uint64_t seed, uint64_t rate, uint64_t burst);

/* Begins a day early enough that `messages` come before the open at the rate, at most an hour
 * early. */
void synthetic_clock_begin(struct synthetic_clock *, uint64_t rate, uint64_t messages);
void synthetic_clock_open(struct synthetic_clock *);
void synthetic_clock_tick(struct synthetic_clock *);

#endif
