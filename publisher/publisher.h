/* SPDX-License-Identifier: Apache-2.0 */
/* A bus without its control thread, for tests and simulations that take its turns themselves: open,
 * server_turn() again and again, end, turns until one returns true, free. */
#ifndef TICKBUS_PUBLISHER_PUBLISHER_H
#define TICKBUS_PUBLISHER_PUBLISHER_H

#include "publisher/state.h"

/* As tb_publisher_open. */
int publisher_open(struct tb_publisher **, const struct tb_publisher_options *);
/* Ends all topics and begins to close. */
void publisher_end(struct tb_publisher *);
/* When no thread uses it any more. Takes half-built ones and NULL. */
void publisher_free(struct tb_publisher *);

#endif
