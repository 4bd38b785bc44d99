/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a bus's topics by name. Subscribers of many topics ask for each by its name, so a walk over
 * all topics would make their joins grow with the square. Under the publisher's lock. */
#ifndef TICKBUS_PUBLISHER_TOPIC_NAMES_H
#define TICKBUS_PUBLISHER_TOPIC_NAMES_H

#include "publisher/state.h"

/* The topic lives as long as the publisher. */
void topic_names_add(struct tb_publisher *, struct tb_topic *);
/* NULL: the bus has no topic of this name. */
struct tb_topic *topic_names_find(const struct tb_publisher *, const char *name);

#endif
