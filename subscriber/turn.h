/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of all that is not delivering: messages, completed READs, requests, the pulse, and the
 * connection, which is begun, lost and begun again. */
#ifndef TICKBUS_SUBSCRIBER_TURN_H
#define TICKBUS_SUBSCRIBER_TURN_H

#include "subscriber/state.h"

#define TURN_MS 50 /* a turn comes as often while records flow, or are waited for */

int turn_connect(struct tb_subscriber *);
void turn_disconnect(struct tb_subscriber *);
/* Collects completed READs. */
void turn_reap(struct tb_subscriber *);
/* The timer wakes a sleeper for its pulse, and often enough to connect again; the first time after
 * first_ns, if that is not 0. */
int turn_timer_set(struct tb_subscriber *, long first_ns);
void turn_take(struct tb_subscriber *);

#endif
