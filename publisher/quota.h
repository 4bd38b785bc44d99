/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of connections: no realm and no host takes all places of an address.
 *
 * A host is an IP address, or over shared memory a user. Only a session counts: a client has shown
 * its ticket before it takes a place. By the control thread, under the lock. */
#ifndef TICKBUS_PUBLISHER_QUOTA_H
#define TICKBUS_PUBLISHER_QUOTA_H

#include "publisher/state.h"

/* The default quota: three quarters of an address's places, rounded up. */
uint32_t quota_default(uint32_t subscribers_max);

/* Whether a session of this peer and realm has a place: 0, or -EUSERS with the quota as reason. */
int quota_check(struct endpoint *, const struct peer *, const struct realm *,
		char reason[FABRIC_REASON_BYTES]);
/* Counts the session. -ENOMEM. */
int quota_take(struct session *);
void quota_give(struct session *);

#endif
