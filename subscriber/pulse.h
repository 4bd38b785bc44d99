/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the publisher is alive: its pulse on the bus page. */
#ifndef TICKBUS_SUBSCRIBER_PULSE_H
#define TICKBUS_SUBSCRIBER_PULSE_H

#include "bus/fabric.h"
#include "subscriber/state.h"
#include "subscriber/tag.h"

/* Opens the bus page of a new connection. 0 or -errno. */
int pulse_open(struct tb_subscriber *, struct fabric_key);
void pulse_close(struct tb_subscriber *);
/* Looks at the bus page, at once where there is a view, else by READs, and judges the pulse. */
void pulse_look(struct tb_subscriber *);
/* A READ of the pulse or of entries has completed. */
void pulse_fetched(struct tb_subscriber *, struct tag, int status);
/* Whether the pulse has not arrived for twice the stale bound. */
bool pulse_unanswered(const struct tb_subscriber *);
/* The connection was lost. */
void pulse_lost(struct tb_subscriber *);
/* The publisher is alive but does not have this topic: reports it stale, with the text. Returns
 * false if readable records come first, of this epoch or of the next. */
bool pulse_topic_missing(struct tb_source *, const char *text);

#endif
