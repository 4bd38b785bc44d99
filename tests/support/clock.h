/* SPDX-License-Identifier: Apache-2.0 */
/* The library's coarse clock under a test's control. It can be stopped, so that a busy machine
 * makes no difference, and set forward by a long time at once. */
#ifndef TICKBUS_TESTS_CLOCK_H
#define TICKBUS_TESTS_CLOCK_H

#include <stdint.h>

void clock_stop(void);
void clock_pass(uint64_t ms);

#endif
