/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: datagrams that say how far topics are. */
#ifndef TICKBUS_SUBSCRIBER_NOTICES_H
#define TICKBUS_SUBSCRIBER_NOTICES_H

#include "bus/fabric.h"
#include "subscriber/state.h"

/* A source was granted, and needs the group that the grant told; it needs it no more. */
void notices_join(struct tb_source *, const struct fabric_notices *);
void notices_leave(const struct tb_source *);
/* With each pulse: groups that are needed and not received are tried again. */
void notices_keep(struct tb_subscriber *);
void notices_take(struct tb_subscriber *);
/* Whether a topic's come, so that nobody needs to look or to be woken for it. */
bool notices_alive(const struct tb_source *);
/* Somebody says that head was reached; false when that should be looked at. */
bool notices_hint(struct tb_source *, uint64_t head);
/* The progress line says that it was not. */
void notices_false(struct tb_source *);

#endif
