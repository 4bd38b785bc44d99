/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas that were learned from the publisher, by fingerprint. */
#ifndef TICKBUS_SUBSCRIBER_SCHEMAS_H
#define TICKBUS_SUBSCRIBER_SCHEMAS_H

#include "bus/control.h"
#include "subscriber/state.h"

#define SCHEMAS_KEPT 64 /* learned, before those that no joined topic has are forgotten */

/* NULL: it was not learned. */
const struct tb_schema *schemas_find(const struct tb_subscriber *, uint64_t fingerprint);
/* Learns the topic's schema from the text that discovery has collected. */
int schemas_learn(struct tb_subscriber *, const struct control_topic *);
/* Forgets those that no joined topic has. */
void schemas_forget(struct tb_subscriber *);

#endif
