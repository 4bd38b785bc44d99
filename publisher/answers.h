/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the requests of subscribers. By the control thread, under the lock. */
#ifndef TICKBUS_PUBLISHER_ANSWERS_H
#define TICKBUS_PUBLISHER_ANSWERS_H

#include "publisher/state.h"

/* 0; -ENOTCONN: the session has ended and is freed; -EPROTO: the message is not a request. */
int answers_give(struct session *, const struct control_message *);

#endif
