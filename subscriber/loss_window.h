/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the last 1,000 numbers of a sender are missing. Bounded memory and work, whatever
 * numbers come. */
#ifndef TICKBUS_SUBSCRIBER_LOSS_WINDOW_H
#define TICKBUS_SUBSCRIBER_LOSS_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define LOSS_WINDOW_NUMBERS 1000
#define LOSS_WINDOW_MAX     10 /* missing numbers with which notices are still relied on */
#define LOSS_WINDOW_WORDS   ((LOSS_WINDOW_NUMBERS + 63) / 64)

struct loss_window {
	uint64_t missing[LOSS_WINDOW_WORDS]; /* a bit for each number; bit 0: the last that came */
	unsigned int count;
};

/* A number came, this much above the last number that came: 1 or more. */
void loss_window_pass(struct loss_window *, uint64_t step);
/* Whether more than 1 in 100 is missing. */
static inline bool loss_window_lossy(const struct loss_window *window)
{
	return window->count > LOSS_WINDOW_MAX;
}

#endif
