/* SPDX-License-Identifier: Apache-2.0 */
/* The multicast groups that notices of a bus go to: its own, at each network address that it
 * listens at, and those that its topics ask for. One set of rules, for settings that are read as
 * for a publisher that runs.
 *
 * Q1  A group has one port: devices know it by its address alone.
 * Q2  It is of a kind of addresses that the bus listens at.
 * Q3  Notices go to it: only a checked topic has any, at a network's address, of a bus that sends
 *     them.
 * Q4  There are BOUND_NOTICE_GROUPS_MAX of them, one of these for the bus's own. */
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
		char topic[TB_TOPIC_NAME_MAX + 1]; /* that asked for it first */
	} others[BOUND_NOTICE_GROUPS_MAX - 1];
	unsigned int own_count, count;
	bool four, six; /* kinds of addresses that the bus listens at */
	bool silent;    /* it sends no notices */
};

/* The bus of this name listens at a network's address, without its scheme; at most
 * BOUND_LISTENERS_MAX times. Where notices go from there unless a topic asks otherwise: to
 * `given`, or, where that is of no family, to a group made of the name. */
const struct sockaddr_storage *groups_listen(struct groups *, const char *bus, const char *address,
					     const struct sockaddr_storage *given);

/* A topic asks for "GROUP:PORT": 0, it is the bus's own; or n, it is others[n - 1], which may be
 * new. -EINVAL; -ENOSPC: they are as many as there may be. */
int groups_take(struct groups *, const char *text, const char *topic, bool checked);

/* Takes back the one that was new last. */
void groups_drop(struct groups *);

#endif
