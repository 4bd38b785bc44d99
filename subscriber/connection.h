/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out over the connection: READs are posted, control messages are sent. */
#ifndef TICKBUS_SUBSCRIBER_CONNECTION_H
#define TICKBUS_SUBSCRIBER_CONNECTION_H

#include <stdbool.h>

#include "bus/control.h"
#include "bus/fabric.h"
#include "subscriber/state.h"

/* Whether a topic's memory is certainly still readable (U1). Always true where there is a view. */
bool connection_may_read(const struct tb_source *);
/* An entry of the bus page showed this epoch, and was requested at that time (U1). */
void connection_shown(struct tb_source *, uint64_t epoch, uint64_t asked_ms);
/* How many READs of entries of the bus page may be posted now, at least 1. No other READ of the
 * page may be outstanding. */
unsigned int connection_entries_room(const struct tb_subscriber *);
/* Takes READs of a topic into the list that connection_post() posts. From now on they count as
 * outstanding. Returns how many were taken: 0 if there is no room now, or the memory may not be
 * READ now. */
int connection_read(struct tb_source *, const struct fabric_read *, unsigned int count);
/* Posts the list with one doorbell (U3). */
void connection_post(struct tb_subscriber *);
/* Comes before a topic delivers what was READ: posts the list, once in a turn (U3). */
void connection_deliver(struct tb_subscriber *);
/* The connection was ended: the READs of the list complete with an error. */
void connection_drop(struct tb_subscriber *);
/* Posts READs that the caller waits for, and first the list. Returns how many were posted, 0 if
 * there is no room now or the memory may not be READ now, or -errno. */
int connection_read_now(struct tb_source *, const struct fabric_read *, unsigned int count);
/* Posts a READ of the bus page on behalf of a topic: as above, but the topic's memory may be gone.
 */
int connection_read_page(struct tb_source *, const struct fabric_read *);
/* 0 or -errno. */
int connection_send(struct tb_subscriber *, const struct control_message *);

#endif
