/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the sources of a subscriber by topic id and by topic name, without a walk of all sources.
 *
 * Each source that is not freed is in a list by id and in a list by name. Several subscriptions may
 * have a source of the same topic.
 *
 * The id is that of the last grant. A publisher that was replaced may have numbered its topics
 * differently; messages and notices come from the publisher of the last grant only. */
#ifndef TICKBUS_SUBSCRIBER_TOPIC_INDEX_H
#define TICKBUS_SUBSCRIBER_TOPIC_INDEX_H

#include "subscriber/state.h"

void topic_index_add(struct tb_source *, uint32_t topic_id);
/* A new grant has this id, at most BOUND_TOPICS_MAX. */
void topic_index_renumber(struct tb_source *, uint32_t topic_id);
void topic_index_remove(struct tb_source *);
/* The first source with this id, of any value. The others follow by next_of_id. */
struct tb_source *topic_index_first(const struct tb_subscriber *, uint32_t topic_id);
/* The subscription's source with this name that is not dead, or NULL. */
struct tb_source *topic_index_find(const struct tb_subscription *, const char *name);

#endif
