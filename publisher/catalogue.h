/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for the catalogue. They are the costliest of the protocol: each may look at all topics,
 * with a pattern that takes long. So they wait until the end of a turn, and a turn answers a
 * bounded part of them. By the control thread, under the lock.
 *
 * CA1  A session with waiting requests is in the publisher's list `asking`. The sessions take
 *      turns, a request each, so a client that asks much waits for itself.
 * CA2  A turn begins no answer after CATALOGUE_ANSWERS answers, or after answers that looked at
 *      CATALOGUE_TOPICS topics.
 * CA3  At most FABRIC_UNANSWERED requests of a session wait. */
#ifndef TICKBUS_PUBLISHER_CATALOGUE_H
#define TICKBUS_PUBLISHER_CATALOGUE_H

#include "bus/control.h"
#include "publisher/state.h"

#define CATALOGUE_ANSWERS 64
#define CATALOGUE_TOPICS  1024

/* Keeps a request, whose pattern is valid, until it is answered. 0 or -errno: -EPROTO if too many
 * wait, -ENOMEM. */
int catalogue_ask(struct session *, const struct control_message *asked);
/* Answers some of the waiting requests. May end sessions. */
void catalogue_answer(struct tb_publisher *);
/* Whether another turn has requests to answer. */
bool catalogue_left(const struct tb_publisher *);

#endif
