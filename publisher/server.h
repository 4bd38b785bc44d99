/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread. */
#ifndef TICKBUS_PUBLISHER_SERVER_H
#define TICKBUS_PUBLISHER_SERVER_H

#include "publisher/state.h"

/* What the listeners call, each with its endpoint as user. */
extern const struct listener_calls server_calls;

/* Makes the descriptors that the control thread waits for. */
int server_open(struct tb_publisher *);
void server_close(struct tb_publisher *);
/* Starts the control thread. */
int server_start(struct tb_publisher *);

#endif
