/* SPDX-License-Identifier: Apache-2.0 */
/* Decides by version, features and ticket whether a client may connect. */
#ifndef TICKBUS_PUBLISHER_HELLO_H
#define TICKBUS_PUBLISHER_HELLO_H

#include "publisher/state.h"

/* listener_calls.hello, with an endpoint as user. */
int hello_answer(void *endpoint, struct peer *, const void *hello, size_t bytes, void *welcome,
		 size_t *welcome_bytes, struct exposure **given, char reason[FABRIC_REASON_BYTES]);

#endif
