/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: one for each client, with its joins. By the control thread, under the lock. */
#ifndef TICKBUS_PUBLISHER_SESSION_H
#define TICKBUS_PUBLISHER_SESSION_H

#include "publisher/state.h"

/* NULL: no memory. */
struct session *session_open(struct endpoint *, struct peer *, const struct realm *);

struct join *session_find(const struct session *, const struct tb_topic *);
/* Any of its joins; NULL: it has no join. */
struct join *session_any(const struct session *);
struct join *session_join(struct session *, struct tb_topic *);
void session_leave(struct join *);
void session_close(struct session *);
/* Sends a message. If the client does not take it, drops the client, frees the session and returns
 * -ENOTCONN. */
int session_send(struct session *, const struct control_message *, struct exposure *given);
/* Sends a message that can wait: -EAGAIN if the client's queue has no room for it, else as
 * session_send. */
int session_offer(struct session *, const struct control_message *);

#endif
