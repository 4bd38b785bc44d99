/* SPDX-License-Identifier: Apache-2.0 */
/* What clients must learn without a request: restarts, ends, and wakes.
 *
 * A join knows what its client must learn, so nothing is lost when the client's queue is full.
 * The end of each turn offers what is due. A client whose queue has no room gets the rest with the
 * next pulse, or after its next message, which shows that it reads. By the control thread, under
 * the lock.
 *
 * O1  A join with something due is in its session's list `owed`, and that session in one of the
 *     publisher's lists `ready` and `full`. */
#ifndef TICKBUS_PUBLISHER_OFFERS_H
#define TICKBUS_PUBLISHER_OFFERS_H

#include "publisher/state.h"

#define OFFERS_OF_A_TURN 512

/* Something is due to the join's client. */
void offers_owe(struct join *);
/* The client may have room in its queue again; all clients may. */
void offers_again(struct session *);
void offers_again_all(struct tb_publisher *);
/* Offers what is due, at most OFFERS_OF_A_TURN messages. May end sessions. */
void offers_make(struct tb_publisher *);
/* Whether another turn has offers to make at once. */
bool offers_left(const struct tb_publisher *);

#endif
