/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber as a whole. */
#ifndef TICKBUS_SUBSCRIBER_SUBSCRIBER_H
#define TICKBUS_SUBSCRIBER_SUBSCRIBER_H

#include "subscriber/state.h"

/* Frees what was ended: sources whose READs are done, subscriptions without sources. */
void subscriber_cleanup(struct tb_subscriber *);
void subscriber_free(struct tb_subscriber *);
bool subscriber_in_forked_child(const struct tb_subscriber *);

#endif
