/* SPDX-License-Identifier: Apache-2.0 */
/* Which clients may connect. */
#ifndef TICKBUS_PUBLISHER_HELLO_H
#define TICKBUS_PUBLISHER_HELLO_H

#include "bus/fabric.h"

/* listener_calls.hello, with an endpoint as user. */
int hello_answer(void *endpoint, struct peer *, const void *hello, size_t bytes,
		 struct fabric_answer *);

#endif
