/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of a whole connection: it is lost, or it stalls. */
#ifndef TICKBUS_BUS_FAULT_TROUBLE_H
#define TICKBUS_BUS_FAULT_TROUBLE_H

#include <stdbool.h>

#include "bus/fault/fault_link.h"

/* A READ or a message passes: draws whether the connection is lost with it, or stalls behind it. */
void fault_trouble(struct fault_link *);

/* Whether nothing comes or goes now. A lost connection does not stall. */
bool fault_is_stalled(const struct fault_link *);

#endif
