/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread. */
#ifndef TICKBUS_PUBLISHER_SERVER_H
#define TICKBUS_PUBLISHER_SERVER_H

#include "publisher/state.h"

/* What the listeners call, each with its endpoint as user. */
extern const struct listener_calls server_calls;

/* Does all that is ready or due, and never waits; under no lock. True: the bus is closing, and its
 * subscribers have read to the end and left, or the time for it is over. For one thread: the
 * control thread, or a test's or simulation's instead of it. */
bool server_turn(struct tb_publisher *);

/* Makes the descriptors that the control thread waits for. */
int server_open(struct tb_publisher *);
void server_close(struct tb_publisher *);
/* Starts the control thread, which waits and takes turns until they are done. */
int server_start(struct tb_publisher *);

#endif
