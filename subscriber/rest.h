/* SPDX-License-Identifier: Apache-2.0 */
/* Which sources may rest (glance.h). */
#ifndef TICKBUS_SUBSCRIBER_REST_H
#define TICKBUS_SUBSCRIBER_REST_H

#include "subscriber/state.h"

/* Lets the source of a slot rest if it has nothing to do. A free slot rests. After advance_poll()
 * found no record. */
void rest_begin(struct tb_subscriber *, uint32_t slot);

#endif
