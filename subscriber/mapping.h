/* SPDX-License-Identifier: Apache-2.0 */
/* A topic's memory, opened from a grant. */
#ifndef TICKBUS_SUBSCRIBER_MAPPING_H
#define TICKBUS_SUBSCRIBER_MAPPING_H

#include "bus/control.h"
#include "subscriber/state.h"

/* Checks the grant and opens its memory. 0 or -errno. */
int mapping_open(struct tb_subscriber *, const struct tb_schema *,
		 const struct control_message *grant, struct mapping *);
/* Takes a mapping that is zeroed or half open, too. */
void mapping_close(struct tb_subscriber *, struct mapping *);
void mapping_names_free(struct mapping *);

#endif
