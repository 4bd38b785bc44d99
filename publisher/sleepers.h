/* SPDX-License-Identifier: Apache-2.0 */
/* Subscribers that sleep, and when to wake them. By the control thread, under the lock. */
#ifndef TICKBUS_PUBLISHER_SLEEPERS_H
#define TICKBUS_PUBLISHER_SLEEPERS_H

#include "publisher/state.h"

/* Looks at a topic's sleepers and wakes those that have something to read; for whom its queue has
 * no room with a later look, at the next pulse at the latest. */
void sleepers_wake(struct tb_topic *);
/* Arms the topic's word for its writer. */
void sleepers_arm(struct tb_topic *);
/* Wakes one; -ENOTCONN: its session is no more. */
int sleepers_wake_join(struct join *);
uint64_t sleepers_count(const struct tb_topic *);

#endif
