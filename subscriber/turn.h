/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of everything but delivery: messages, completed READs, requests, the pulse, and the
 * connection, which is opened, lost and opened again.
 *
 * The link's calls (struct link_calls) come up here and nowhere else; from here all calls go down.
 */
#ifndef TICKBUS_SUBSCRIBER_TURN_H
#define TICKBUS_SUBSCRIBER_TURN_H

#include "subscriber/state.h"

#define TURN_ANSWERS 128
#define TURN_MS      50 /* slowest pace of turns while records flow or a READ is outstanding */

/* Begins to connect. 0, or -errno: it is tried again after a pause. */
int turn_connect(struct tb_subscriber *);
/* Ends the connection. No READ is outstanding afterwards. */
void turn_disconnect(struct tb_subscriber *);
/* Before turn_disconnect, where the program closes: waits a short time until the connection left
 * nothing behind. */
void turn_settle(struct tb_subscriber *);
/* Hands completed READs to the source or the pulse that posted them. May call on_event. */
void turn_reap(struct tb_subscriber *);
/* Sets the timer that wakes a sleeper for the pulse and for the next try to connect. first_ns: time
 * of the first expiry; 0: as the others. 0 or -errno. */
int turn_timer_set(struct tb_subscriber *, long first_ns);
/* Takes the answers that come while topics are joined, about TURN_ANSWERS at most, and makes the
 * next requests. Returns how many came. May call on_event, never on_record. */
int turn_answers(struct tb_subscriber *);
/* May call on_event, never on_record. */
void turn_take(struct tb_subscriber *);

#endif
