/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes sleeping subscribers. By the control thread, under the lock. */
#ifndef TICKBUS_PUBLISHER_SLEEPERS_H
#define TICKBUS_PUBLISHER_SLEEPERS_H

#include "publisher/state.h"

/* Wakes a topic's sleepers that have something to read. If a client's queue is full, a later call
 * wakes it, at the latest with the next pulse. */
void sleepers_wake(struct tb_topic *);
/* Makes the topic's writer signal its next flush. */
void sleepers_arm(struct tb_topic *);
/* Wakes one sleeper. 0; -ENOTCONN: its session has ended and is freed. */
int sleepers_wake_join(struct join *);
uint64_t sleepers_count(const struct tb_topic *);

#endif
