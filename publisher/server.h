/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread, and its turn as a function. */
#ifndef TICKBUS_PUBLISHER_SERVER_H
#define TICKBUS_PUBLISHER_SERVER_H

#include "publisher/state.h"

/* A turn looks at the joins of topics until it has seen so many, since it holds the lock. */
#define JOINS_OF_A_TURN 16384

/* The callbacks for endpoints_open: the only calls that go up, from a fabric's listener_poll. */
extern const struct listener_calls server_calls;

/* One turn: does all that is ready or due, and never waits. True: the bus is closing and all
 * subscribers have left, or exit_wait_ms has passed. Takes the lock. For one thread: the control
 * thread or, if it was not started, a test or simulation. */
bool server_turn(struct tb_publisher *);

/* Makes the descriptors that the control thread waits for, and starts the pulse. */
int server_open(struct tb_publisher *);
/* A topic has notices: the timer runs at the tick that repeats heads. Under the lock. 0 or -errno.
 */
int server_tick(struct tb_publisher *);
void server_close(struct tb_publisher *);
/* Starts the control thread, which waits and takes turns until one returns true. */
int server_start(struct tb_publisher *);

#endif
