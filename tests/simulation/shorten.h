/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TICKBUS_TESTS_SIMULATION_SHORTEN_H
#define TICKBUS_TESTS_SIMULATION_SHORTEN_H

#include "tests/simulation/history.h"

/* Takes steps out of a failing history as long as it still fails. Each trial is a process of its
 * own, so a history that crashes or hangs is shortened too. */
void shorten(struct history *);

#endif
