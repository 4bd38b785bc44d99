/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the requests of subscribers. By the control thread, under the lock. */
#ifndef TICKBUS_PUBLISHER_ANSWERS_H
#define TICKBUS_PUBLISHER_ANSWERS_H

#include "publisher/state.h"

/* With an answer, of a connection. A subscriber joins at most 1,024 topics, and asks for a
 * catalogue, a schema and a join of each. */
#define REQUESTS_OF_A_SECOND 32768

/* 0; -ENOTCONN: the session has ended and is freed; -EPROTO: the message is not a request, or one
 * too many. */
int answers_give(struct session *, const struct control_message *);

#endif
