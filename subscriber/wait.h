/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeps until there is work. If work is pending, it returns at once. */
#ifndef TICKBUS_SUBSCRIBER_WAIT_H
#define TICKBUS_SUBSCRIBER_WAIT_H

#include "subscriber/state.h"

/* Before a caller sleeps on the descriptor: makes it readable if work is pending. */
void wait_prepare(struct tb_subscriber *);
/* tb_wait(). */
int wait_work(struct tb_subscriber *, int timeout_ms);
/* For a call that waits for answers: takes a turn and continues joins. May call on_event, never
 * on_record. */
void wait_turn(struct tb_subscriber *);
/* Sleeps for at most 1 ms and takes a turn. 0, or -ETIMEDOUT if until_ms has passed. */
int wait_more(struct tb_subscriber *, uint64_t until_ms);

#endif
