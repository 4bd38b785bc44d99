/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping until there is something to do: what is there already is not slept over. */
#ifndef TICKBUS_SUBSCRIBER_WAIT_H
#define TICKBUS_SUBSCRIBER_WAIT_H

#include "subscriber/state.h"

/* Before somebody sleeps on the descriptor: what is there already must make it readable. */
void wait_prepare(struct tb_subscriber *);
int wait_work(struct tb_subscriber *, int timeout_ms);
/* Keeps house until `done` or the time is over: 0 or -ETIMEDOUT. */
int wait_until(struct tb_subscriber *, uint64_t until_ms,
	       bool (*done)(struct tb_subscriber *, void *), void *what);

#endif
