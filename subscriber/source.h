/* SPDX-License-Identifier: Apache-2.0 */
/* One joined topic, from the grant until it is left. */
#ifndef TICKBUS_SUBSCRIBER_SOURCE_H
#define TICKBUS_SUBSCRIBER_SOURCE_H

#include "bus/control.h"
#include "subscriber/state.h"

/* Takes a grant: *out is the source that it is for. Returns 1 if the header is to be fetched next,
 * 0 if nothing is to be done, or -errno. */
int source_grant(struct tb_subscription *, const struct tb_schema *,
		 const struct control_message *grant, struct tb_source **out);
/* Takes back a join whose grant was of no use, or came for nobody any more. */
void source_decline(struct tb_subscriber *, const struct control_topic *);
struct tb_source *source_find(const struct tb_subscription *, const char *name);
void source_leave(struct tb_source *);
/* It was read to its end: ends the join, and delivers the event. */
void source_end(struct tb_source *);
void source_reap(struct tb_source *); /* frees a dead one when nothing is under way */
void source_orphan(struct tb_source *);

#endif
