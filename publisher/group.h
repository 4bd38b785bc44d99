/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: topics that one thread writes in one order. */
#ifndef TICKBUS_PUBLISHER_GROUP_H
#define TICKBUS_PUBLISHER_GROUP_H

#include "publisher/state.h"

/* 0; or -EINVAL if the topic's group belongs to another bus. */
int group_check(const struct tb_publisher *, const struct tb_topic_options *);
/* Adds a new topic to its group. No effect on a topic without group. */
void group_add(struct tb_topic *);
/* Finishes the open message, and flushes unless the lines show all already. Takes NULL. */
void group_settle(struct tb_group *);
/* How often the clock was set back under the bus's groups. Under the lock. */
uint64_t groups_set_back(const struct tb_publisher *);
/* Frees all groups, after their topics. */
void groups_close(struct tb_publisher *);

#endif
