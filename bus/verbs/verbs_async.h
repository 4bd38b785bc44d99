/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a device is lost. */
#ifndef TICKBUS_BUS_VERBS_ASYNC_H
#define TICKBUS_BUS_VERBS_ASYNC_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Marked when the device reports that it is lost. */
struct verbs_async {
	struct verbs_async *next, **link;
	const struct ibv_context *device;
	_Atomic bool lost;
};

/* Once the device is used by its owner. */
void verbs_async_watch(struct verbs_async *, const struct ibv_context *);
/* Before the device is left. Takes a zeroed async. */
void verbs_async_unwatch(struct verbs_async *);
bool verbs_async_lost(const struct verbs_async *);
/* Takes the events of a device. If it is lost, marks every async of the device. Never waits: does
 * nothing while another thread holds the lock. */
void verbs_async_take(struct ibv_context *);

#endif
