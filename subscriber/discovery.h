/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and joins topics: catalogue, schema, join. */
#ifndef TICKBUS_SUBSCRIBER_DISCOVERY_H
#define TICKBUS_SUBSCRIBER_DISCOVERY_H

#include "bus/control.h"
#include "subscriber/state.h"

int discovery_open(struct tb_subscriber *);
void discovery_close(struct tb_subscriber *);
/* Abandons the outstanding request. Its subscription is served again later. */
void discovery_reset(struct tb_subscriber *);
/* Makes the next request, unless a request is outstanding. */
void discovery_step(struct tb_subscriber *);
/* Whether a request is outstanding or due. */
bool discovery_waits(const struct tb_subscriber *);
/* Takes an answer. False if it does not belong to the outstanding request. May call on_event. */
bool discovery_answer(struct tb_subscriber *, const struct control_message *);

#endif
