/* SPDX-License-Identifier: Apache-2.0 */
/* The groups that a listener sends notices to: opened with its device, repaired by the timer. */
#ifndef TICKBUS_BUS_VERBS_LISTENER_GROUPS_H
#define TICKBUS_BUS_VERBS_LISTENER_GROUPS_H

#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_listener.h"

/* The device is there: opens each group. */
void verbs_listener_groups_open(struct verbs_listener *);
/* The device goes: stops each group and its senders. */
void verbs_listener_groups_stop(struct verbs_listener *);
/* Frees the groups, once they are stopped. */
void verbs_listener_groups_close(struct verbs_listener *);
/* An event of a group's id. */
void verbs_listener_groups_event(struct verbs_listener *, const struct verbs_event *);
/* Joins lost groups again and starts senders again. going_on: only continues rounds that have
 * begun.
 */
void verbs_listener_groups_repair(struct verbs_listener *, bool going_on);

#endif
