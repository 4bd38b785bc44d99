/* SPDX-License-Identifier: Apache-2.0 */
/* The library's clocks under a test's control. The monotonic clocks are the coarse clock of all
 * threads, and the fine clock of the thread that calls. They can be stopped, so that a busy machine
 * makes no difference, and set forward by a long time at once. */
#ifndef TICKBUS_TESTS_CLOCK_H
#define TICKBUS_TESTS_CLOCK_H

#include <stdint.h>

void clock_stop(void);
void clock_go(void); /* runs on */
void clock_pass(uint64_t ms);
void clock_pass_ns(uint64_t ns);

/* Stops CLOCK_REALTIME of all threads at this time, until it is set again. */
void clock_real_set(uint64_t ns);

#endif
