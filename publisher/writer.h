/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's writer: tb_publish, tb_flush, tb_instrument.
 *
 * E-I1  In a topic of a group, head moves only at a full step, with a quality, and in a flush of
 *       the group. A record follows the first two. So a flush moves the head of each topic that
 *       has records since the last flush. A sleeper that waits for W then wakes. */
#ifndef TICKBUS_PUBLISHER_WRITER_H
#define TICKBUS_PUBLISHER_WRITER_H

#include "publisher/state.h"

/* Sets what follows each record: a last value, the end of its message, a flush. A topic that needs
 * less pays nothing for the rest. Before the first record. */
void writer_aim(struct tb_topic *);
/* Writes the progress line with head at the last record; by the writing thread. */
void writer_line(struct tb_topic *);
/* What follows when the head has moved: wakes sleepers and notifies the network. */
void writer_announce(struct tb_topic *);
/* The writer's sign of life. */
void writer_touch(struct tb_topic *);
/* 0; or -EINVAL if the topic's group has no open message. */
int writer_message_check(const struct tb_topic *);

#endif
