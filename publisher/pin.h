/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps memory that readers use in RAM. */
#ifndef TICKBUS_PUBLISHER_PIN_H
#define TICKBUS_PUBLISHER_PIN_H

#include "publisher/state.h"

/* Logs the first failure: memory that is not pinned still works. */
void pin_memory(struct tb_publisher *, const struct memory *);

#endif
