/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber as a whole: its end. */
#ifndef TICKBUS_SUBSCRIBER_SUBSCRIBER_H
#define TICKBUS_SUBSCRIBER_SUBSCRIBER_H

#include "subscriber/state.h"

/* Frees what has ended: sources without outstanding READs, subscriptions without sources. */
void subscriber_cleanup(struct tb_subscriber *);
void subscriber_free(struct tb_subscriber *);
/* A forked child shares the connection and its sleepers: ending something there would end it here.
 */
bool subscriber_in_forked_child(const struct tb_subscriber *);

#endif
