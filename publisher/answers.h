/* SPDX-License-Identifier: Apache-2.0 */
/* What subscribers ask and what they are answered. By the control thread, under the lock. */
#ifndef TICKBUS_PUBLISHER_ANSWERS_H
#define TICKBUS_PUBLISHER_ANSWERS_H

#include "publisher/state.h"

/* -ENOTCONN: the session is no more. -EPROTO: no request. */
int answers_give(struct session *, const struct control_message *);

#endif
