/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas that were learned from the publisher, by fingerprint. */
#ifndef TICKBUS_SUBSCRIBER_SCHEMAS_H
#define TICKBUS_SUBSCRIBER_SCHEMAS_H

#include "bus/control.h"
#include "subscriber/state.h"

#define SCHEMAS_KEPT 64 /* schemas learned before unused schemas are forgotten */

/* The schema, or NULL if it is not known. */
const struct tb_schema *schemas_find(const struct tb_subscriber *, uint64_t fingerprint);
/* Learns the topic's schema from the text that discovery has collected. 0 or -errno. */
int schemas_learn(struct tb_subscriber *, const struct control_topic *);
/* Forgets schemas that no joined topic uses. */
void schemas_forget(struct tb_subscriber *);

#endif
