/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and joins topics: catalogue, schema, join. */
#ifndef TICKBUS_SUBSCRIBER_DISCOVERY_H
#define TICKBUS_SUBSCRIBER_DISCOVERY_H

#include "bus/control.h"
#include "subscriber/state.h"

int discovery_open(struct tb_subscriber *);
void discovery_close(struct tb_subscriber *);
/* Forgets all requests: the connection is lost. The subscription is served again later. */
void discovery_reset(struct tb_subscriber *);
/* Makes the requests that are due and have a place. */
void discovery_step(struct tb_subscriber *);
/* Whether an answer is awaited, or a request is due. */
bool discovery_waits(const struct tb_subscriber *);
/* Takes an answer. False if it belongs to no outstanding request. May call on_event. */
bool discovery_answer(struct tb_subscriber *, const struct control_message *);

#endif
