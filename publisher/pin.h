/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the memory that readers use in RAM. */
#ifndef TICKBUS_PUBLISHER_PIN_H
#define TICKBUS_PUBLISHER_PIN_H

#include "publisher/state.h"

/* On failure logs one warning for the bus: memory that is not pinned still works. */
void pin_memory(struct tb_publisher *, const struct memory *);

#endif
