/* SPDX-License-Identifier: Apache-2.0 */
/* When a listener is polled next: twice a second, or at once to continue what a poll began. Polls
 * that continue never delay the polls that are due twice a second. */
#ifndef TICKBUS_BUS_VERBS_TIMER_H
#define TICKBUS_BUS_VERBS_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct verbs_timer {
	int fd; /* readable when a poll is due */
	bool soon;
	uint64_t due_ms;
};

enum verbs_timer_due { VERBS_TIMER_NOT_DUE, VERBS_TIMER_DUE, VERBS_TIMER_GO_ON };

/* 0, or -errno. */
int verbs_timer_open(struct verbs_timer *);
/* Makes the next poll due at once, to continue what this one began. */
void verbs_timer_soon(struct verbs_timer *);
/* Whether a poll is due: GO_ON after verbs_timer_soon, but DUE at least twice a second. */
enum verbs_timer_due verbs_timer_take(struct verbs_timer *);
/* Takes a timer with fd -1. */
void verbs_timer_close(struct verbs_timer *);

#endif
