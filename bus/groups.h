/* SPDX-License-Identifier: Apache-2.0 */
/* The multicast groups of a bus's notices: its own group for each network address that it listens
 * at, and the groups that its topics request. Settings and a running publisher apply the same
 * rules.
 *
 * J1  A group has a single port: devices know the group by its address alone.
 * J2  The bus listens at an address of the group's family.
 * J3  Notices go to it: the topic is checked, the bus listens at a network address and sends
 *     notices.
 * J4  A bus has at most BOUND_NOTICE_GROUPS_MAX groups, its own included. */
#ifndef TICKBUS_BUS_GROUPS_H
#define TICKBUS_BUS_GROUPS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "bus/fabric.h"
#include "bus/bounds.h"
#include "tickbus/record.h"

struct groups {
	struct sockaddr_storage own[BOUND_LISTENERS_MAX]; /* at each network address */
	struct {
		struct sockaddr_storage where;
		char topic[TB_TOPIC_NAME_MAX + 1]; /* the first that requested it */
	} others[BOUND_NOTICE_GROUPS_MAX - 1];
	unsigned int own_count, count;
	bool four, six; /* address families that the bus listens at */
	bool silent;    /* it sends no notices */
};

/* Adds a network address, without its scheme, that the bus of this name listens at; at most
 * BOUND_LISTENERS_MAX times. Returns the group that notices go to from this address: `given`, or a
 * group made from the bus's name if `given` has no family. A topic may request another. */
const struct sockaddr_storage *groups_listen(struct groups *, const char *bus, const char *address,
					     const struct sockaddr_storage *given);

/* A topic requests "GROUP:PORT". 0: it is the bus's own group; n: it is others[n - 1], which may be
 * new. -EINVAL; -ENOSPC: no room for another group. */
int groups_take(struct groups *, const char *text, const char *topic, bool checked);

/* Removes the group that groups_take added last. */
void groups_drop(struct groups *);

#endif
