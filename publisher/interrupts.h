/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds how often sleepers may interrupt publishing threads.
 *
 * Setting a topic's armed word costs its publishing thread a fence now (membarrier) and a system
 * call at its next flush. Anyone with a ticket may sleep, so both the sleepers of one session and
 * all sleepers of the bus have a bound. It is counted in short windows, so that no second begins
 * with a burst. */
#ifndef TICKBUS_PUBLISHER_INTERRUPTS_H
#define TICKBUS_PUBLISHER_INTERRUPTS_H

#include <stdbool.h>
#include <stdint.h>

/* 1,500 a second for a session, 2,000 a second in all: at about 5 us each, 1 % of a processor. */
#define INTERRUPTS_WINDOW_MS  20
#define INTERRUPTS_OF_SESSION 30
#define INTERRUPTS_IN_ALL     40

struct interrupts {
	uint64_t window; /* number of the window on CLOCK_MONOTONIC */
	uint32_t count;  /* in that window */
};

/* Counts an interrupt of a session at a time, unless a bound is reached: then false. */
bool interrupts_take(struct interrupts *session, struct interrupts *all, uint64_t now_ms);

#endif
