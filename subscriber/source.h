/* SPDX-License-Identifier: Apache-2.0 */
/* One joined topic, from its grant until it is left. */
#ifndef TICKBUS_SUBSCRIBER_SOURCE_H
#define TICKBUS_SUBSCRIBER_SOURCE_H

#include "bus/control.h"
#include "subscriber/state.h"

/* Uses a grant; *out is its source. Returns 1 if the header is to be fetched next, 0 if nothing
 * more is to be done, or -errno. */
int source_grant(struct tb_subscription *, const struct tb_schema *,
		 const struct control_message *grant, struct tb_source **out);
/* Returns a join that no source uses: its grant was wrong, or its subscription has ended. */
void source_decline(struct tb_subscriber *, uint32_t topic_id, uint64_t epoch);
/* Sends the leaves that met a full queue, as far as there is room. */
void source_leaves_send(struct tb_subscriber *);
/* The connection was lost, and its joins with it. */
void source_leaves_forget(struct tb_subscriber *);
/* Whether the source's header or start is not known yet. */
bool source_is_settling(const struct tb_source *);
/* Puts the source into the subscriber's list of settling sources, or takes it out. */
void source_settling(struct tb_source *);
void source_settled(struct tb_source *);
/* Ends the source; source_reap() frees it later. */
void source_leave(struct tb_source *);
/* The topic was read to its end: ends the join, and reports the end. */
void source_end(struct tb_source *);
/* Frees a dead source, unless a READ is outstanding. */
void source_reap(struct tb_source *);
/* The connection was lost: what it owned is released, the position is kept. */
void source_orphan(struct tb_source *);

#endif
