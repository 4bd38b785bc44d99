/* SPDX-License-Identifier: Apache-2.0 */
/* The library's coarse clock under a test's control: it stands still while a busy machine keeps the
 * test from its processor, and a long time passes at once. */
#ifndef TICKBUS_TESTS_CLOCK_H
#define TICKBUS_TESTS_CLOCK_H

#include <stdint.h>

void clock_stop(void);
void clock_pass(uint64_t ms);

#endif
