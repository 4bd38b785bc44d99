/* SPDX-License-Identifier: Apache-2.0 */
/* The pace of a feed: maps the market's clock to the time when a message is due.
 *
 * The first paced message is due at once. Later messages follow at their distance on the market's
 * clock, divided by the speed. If the market's clock jumps by more than PACE_JUMP_NS, a new pace
 * begins. A new day is a jump back. A message with a wrong time is a jump too. If the next
 * message is near the message before it, the pace before the jump goes on.
 *
 * Threads  a single thread; pace_interrupt by any thread. */
#ifndef TICKBUS_FEEDS_PACE_H
#define TICKBUS_FEEDS_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PACE_JUMP_NS UINT64_C(3600000000000) /* smaller jumps back are disorder within a day */

enum pace_wait {
	PACE_SPIN = 1, /* reads the clock until the time: exact, uses a whole core */
	PACE_BACKOFF,  /* sleeps until shortly before, then spins, but rarely: see pace.c */
	PACE_SLEEP,    /* sleeps until the time */
};

struct pace_clock {
	uint64_t market_ns, own_ns; /* the beginning of the pace, on both clocks */
	uint64_t last_ns;           /* of the market's clock */
};

struct pace {
	uint32_t speed_milli; /* thousandths of the market's own pace; 0: as fast as possible */
	int event_fd;
	_Atomic bool interrupted;
	bool begun;
	bool jumped;                   /* at the last message */
	struct pace_clock now, before; /* `before` the jump */
	uint64_t jumps_ahead;          /* their number so far */
	uint64_t spun_ns;              /* when PACE_BACKOFF spun last, or will */
};

/* 0 or -errno. */
int pace_open(struct pace *, uint32_t speed_milli);
void pace_close(struct pace *);

/* The time when a message is due, in nanoseconds of clock_ns; 0: at once. */
uint64_t pace_due(struct pace *, uint64_t market_ns);

/* Waits until due_ns; false when interrupted. */
bool pace_until(struct pace *, enum pace_wait, uint64_t due_ns);

/* Ends current and later waits. */
void pace_interrupt(struct pace *);

#endif
