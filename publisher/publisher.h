/* SPDX-License-Identifier: Apache-2.0 */
/* A bus without its control thread, for tests and simulations: publisher_open, any number of
 * server_turn, publisher_end, server_turn until it returns true, publisher_free. */
#ifndef TICKBUS_PUBLISHER_PUBLISHER_H
#define TICKBUS_PUBLISHER_PUBLISHER_H

#include "publisher/state.h"

/* As tb_publisher_open, but starts no thread. */
int publisher_open(struct tb_publisher **, const struct tb_publisher_options *);
/* Ends all topics and starts the wait for subscribers to leave. */
void publisher_end(struct tb_publisher *);
/* After the last turn. Takes half-built publishers and NULL. */
void publisher_free(struct tb_publisher *);

#endif
