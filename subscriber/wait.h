/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping until there is something to do: what is there already is not slept over. */
#ifndef TICKBUS_SUBSCRIBER_WAIT_H
#define TICKBUS_SUBSCRIBER_WAIT_H

#include "subscriber/state.h"

/* Before somebody sleeps on the descriptor: what is there already must make it readable. */
void wait_prepare(struct tb_subscriber *);
int wait_work(struct tb_subscriber *, int timeout_ms);
/* For a call that waits for answers: a turn, and joins go on; no record is delivered. */
void wait_turn(struct tb_subscriber *);
/* Sleeps for at most 1 ms and takes a turn: 0, or -ETIMEDOUT if until_ms has come. */
int wait_more(struct tb_subscriber *, uint64_t until_ms);

#endif
