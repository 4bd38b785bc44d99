/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and their joins: who has which topic. By the control thread, under the lock. */
#ifndef TICKBUS_PUBLISHER_SESSION_H
#define TICKBUS_PUBLISHER_SESSION_H

#include "publisher/state.h"

/* NULL: no memory. The realm is for good. */
struct session *session_open(struct endpoint *, struct peer *, const struct realm *);

struct join *session_find(const struct session *, const struct tb_topic *);
struct join *session_join(struct session *, struct tb_topic *);
void session_leave(struct join *);
void session_close(struct session *);
/* Sends; a subscriber that does not take it is dropped and its session freed: -ENOTCONN. */
int session_send(struct session *, const struct control_message *, struct exposure *given);
/* Sends what can wait: -EAGAIN when the subscriber's queue is full, else as session_send. */
int session_offer(struct session *, const struct control_message *);

#endif
