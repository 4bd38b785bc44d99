/* SPDX-License-Identifier: Apache-2.0 */
/* The pace of a feed: when a message of the market's own clock is due on ours.
 *
 * The first message that is paced is due at once; the others as much later as they are on the
 * market's clock, divided by the speed. A market's clock that jumps back (a day begins again)
 * begins a new pace.
 *
 * Threads  one; pace_interrupt by any. */
#ifndef TICKBUS_FEEDS_PACE_H
#define TICKBUS_FEEDS_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum pace_wait {
	PACE_SPIN = 1, /* reads the clock until it is time: exact, and a core's whole work */
	PACE_BACKOFF,  /* sleeps until shortly before, then spins */
	PACE_SLEEP,    /* sleeps until it is time: some 50 microseconds late */
};

struct pace {
	uint32_t speed_milli; /* thousandths of the market's own pace; 0: as fast as it can */
	int event_fd;
	_Atomic bool interrupted;
	bool begun;
	uint64_t market_ns, own_ns; /* where the pace began, on both clocks */
	uint64_t last_ns;           /* of the market's clock */
};

/* 0 or -errno. */
int pace_open(struct pace *, uint32_t speed_milli);
void pace_close(struct pace *);

/* When a message of this time is due, in nanoseconds of clock_ns; 0: at once. */
uint64_t pace_due(struct pace *, uint64_t market_ns);

/* Waits until then; false when interrupted. */
bool pace_until(struct pace *, enum pace_wait, uint64_t due_ns);

/* Ends all waiting, now and later. */
void pace_interrupt(struct pace *);

#endif
