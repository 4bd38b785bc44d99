/* SPDX-License-Identifier: Apache-2.0 */
/* The cores that threads of a feed may use. */
#ifndef TICKBUS_FEEDS_CORES_H
#define TICKBUS_FEEDS_CORES_H

#include <stdbool.h>

/* The number of cores that this thread may run on. */
unsigned int cores_usable(void);

/* Lets this thread run on a single core; false: it may not. */
bool cores_pin(int cpu);

/* Lets this thread run on each core that the process may use, except for this one (-1: none). */
void cores_avoid(int cpu);

#endif
