/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and joining topics: catalogue, schema, join. */
#ifndef TICKBUS_SUBSCRIBER_DISCOVERY_H
#define TICKBUS_SUBSCRIBER_DISCOVERY_H

#include "bus/control.h"
#include "subscriber/state.h"

int discovery_open(struct tb_subscriber *);
void discovery_close(struct tb_subscriber *);
void discovery_reset(struct tb_subscriber *);
void discovery_step(struct tb_subscriber *);
/* Whether a request is under way, or one is to be made. */
bool discovery_waits(const struct tb_subscriber *);
/* An answer; false if it was not for the request under way. */
bool discovery_answer(struct tb_subscriber *, const struct control_message *);

#endif
