/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out over the connection: READs are posted, control messages are sent. */
#ifndef TICKBUS_SUBSCRIBER_CONNECTION_H
#define TICKBUS_SUBSCRIBER_CONNECTION_H

#include "bus/control.h"
#include "bus/fabric.h"
#include "subscriber/state.h"

/* Posts READs of a topic. Returns how many were posted, 0 if there is no room now, or -errno. */
int connection_read(struct tb_source *, const struct fabric_read *, unsigned int count);
/* 0 or -errno. */
int connection_send(struct tb_subscriber *, const struct control_message *);

#endif
