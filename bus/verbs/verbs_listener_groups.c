/* SPDX-License-Identifier: Apache-2.0 */
/* The groups that a listener sends notices to.
 *
 * Y1  A group that was lost, or could not be joined, is tried again each GROUP_RETRY_MS. No event
 *     reports that a new subnet manager knows the group again. A join may take some seconds, and is
 *     given up after JOIN_LATE_MS. */
#include "bus/verbs/verbs_listener_groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/verbs/verbs.h"
#include "tickbus/error.h"

#define GROUP_RETRY_MS 1000
#define JOIN_LATE_MS   10000

/* Logs a change of a group, one line per outage (Y1). It is no error: without notices subscribers
 * poll. */
static void group_result(struct verbs_listener *listener, struct verbs_group *group, int result)
{
	char text[ADDRESS_TEXT_BYTES];

	address_text((const struct sockaddr *)&group->wish.group, text);
	if (result < 0) {
		if (-result != group->lost)
			peers_log(&listener->peers, FABRIC_LOG_INFO,
				  "address rdma:%s: no notices to %s: %s; will retry",
				  listener->text, text, tb_error());
		group->lost = -result;
		verbs_group_close(group);
	} else if (group->lost && verbs_group_ready(group)) {
		group->lost = 0;
		peers_log(&listener->peers, FABRIC_LOG_INFO,
			  "address rdma:%s: notices go to %s again", listener->text, text);
	}
}

/* Logs a change in the group's senders, one line per outage, whatever else other senders lack. */
static void senders_result(struct verbs_listener *listener, struct verbs_group *group, int result)
{
	char text[ADDRESS_TEXT_BYTES];

	if (group->round)
		verbs_timer_soon(&listener->timer); /* L3 */
	address_text((const struct sockaddr *)&group->wish.group, text);
	if (result < 0 && !group->missing)
		peers_log(&listener->peers, FABRIC_LOG_INFO,
			  "address rdma:%s: cannot create a sender to %s: %s; will retry",
			  listener->text, text, tb_error());
	if (result > 0)
		peers_log(&listener->peers, FABRIC_LOG_INFO,
			  "address rdma:%s: notices: a sender failed and was started again",
			  listener->text);
	if (result < 0) {
		group->missing = -result;
	} else if (group->missing && verbs_group_complete(group)) {
		group->missing = 0;
		peers_log(&listener->peers, FABRIC_LOG_INFO,
			  "address rdma:%s: notices: all senders to %s work again", listener->text,
			  text);
	}
}

static void group_open(struct verbs_listener *listener, struct verbs_group *group)
{
	group->tried_ms = clock_ms();
	group_result(listener, group,
		     verbs_group_open(group, listener->id, listener->pd, listener->events,
				      &listener->address));
	senders_result(listener, group, verbs_group_repair(group));
}

/* Y1 */
static bool is_join_due(const struct verbs_group *group)
{
	const uint64_t since_ms = clock_ms() - group->tried_ms;

	return group->kind == FABRIC_NOTICES_UD && !group->ah &&
	       since_ms >= (group->id ? JOIN_LATE_MS : GROUP_RETRY_MS);
}

static void group_reopen(struct verbs_listener *listener, struct verbs_group *group)
{
	verbs_group_close(group);
	group_open(listener, group);
}

/* The listener's group of an address (NULL: the bus's own), or NULL. */
static struct verbs_group *group_find(const struct verbs_listener *listener,
				      const struct sockaddr_storage *where)
{
	struct verbs_group *group = listener->groups;

	if (!where)
		where = &listener->notices.group;
	while (group && !address_same(&group->wish.group, where))
		group = group->next;
	return group;
}

static struct verbs_group *group_add(struct verbs_listener *listener,
				     const struct sockaddr_storage *where)
{
	struct verbs_group **link = &listener->groups;
	struct verbs_group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	while (*link)
		link = &(*link)->next;
	*link = group;
	group->wish = listener->notices;
	group->wish.group = *where;
	if (listener->listening)
		group_open(listener, group);
	return group;
}

void verbs_notices(const struct listener *base, const struct sockaddr_storage *where,
		   struct fabric_notices *notices)
{
	const struct verbs_group *group = group_find((const struct verbs_listener *)base, where);

	memset(notices, 0, sizeof(*notices));
	if (group)
		*notices = (struct fabric_notices){ .kind = group->kind,
						    .bytes = group->bytes,
						    .group = group->wish.group };
}

int verbs_announcer(struct listener *base, const struct sockaddr_storage *where, size_t bytes,
		    struct announcer **out)
{
	struct verbs_listener *listener = (struct verbs_listener *)base;
	struct verbs_group *group = group_find(listener, where);
	struct verbs_announcer *announcer;
	int result;

	*out = NULL;
	if (!where)
		where = &listener->notices.group;
	if (where->ss_family != listener->address.host.ss_family) {
		if (where == &listener->notices.group)
			peers_log(
				&listener->peers, FABRIC_LOG_INFO,
				"address rdma:%s: no notices: the bus's group is an IPv%d address",
				listener->text, where->ss_family == AF_INET ? 4 : 6);
		return 0;
	}
	if (!group)
		group = group_add(listener, where);
	if (!group)
		return error_set(ENOMEM, "address rdma:%s: no memory", listener->text);
	result = verbs_announcer_open(group, bytes, &announcer);
	if (!announcer)
		return result;
	announcer->base.ops = base->ops;
	*out = &announcer->base;
	senders_result(listener, group, result);
	return 0;
}

void verbs_listener_groups_event(struct verbs_listener *listener, const struct verbs_event *event)
{
	for (struct verbs_group *group = listener->groups; group; group = group->next)
		if (event->id == group->id) {
			group_result(listener, group, verbs_group_event(group, event));
			senders_result(listener, group, verbs_group_repair(group));
		}
}

/* A sender that fails as soon as it is started is started twice a second, not all the time. */
void verbs_listener_groups_repair(struct verbs_listener *listener, bool going_on)
{
	for (struct verbs_group *group = listener->groups; group; group = group->next) {
		if (is_join_due(group))
			group_reopen(listener, group);
		else if (group->round || !going_on)
			senders_result(listener, group, verbs_group_repair(group));
	}
}

void verbs_listener_groups_open(struct verbs_listener *listener)
{
	for (struct verbs_group *group = listener->groups; group; group = group->next)
		group_open(listener, group);
}

void verbs_listener_groups_stop(struct verbs_listener *listener)
{
	for (struct verbs_group *group = listener->groups; group; group = group->next) {
		verbs_group_close(group);
		group->kind = FABRIC_NOTICES_NONE; /* G1: no sender begins before it is open */
	}
}

void verbs_listener_groups_close(struct verbs_listener *listener)
{
	while (listener->groups) {
		struct verbs_group *group = listener->groups;

		listener->groups = group->next;
		free(group);
	}
}
