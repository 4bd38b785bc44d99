/* SPDX-License-Identifier: Apache-2.0 */
/* Every clock that the library reads, in one place, so that a simulation can replace time.
 *
 * Threads  any. */
#ifndef TICKBUS_BUS_CLOCK_H
#define TICKBUS_BUS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC: deadlines, paces. */
uint64_t clock_ns(void);
uint64_t clock_ms(void);
/* CLOCK_MONOTONIC_COARSE: cheap, behind clock_ms() by at most one tick of the kernel. */
uint64_t clock_coarse_ms(void);
/* CLOCK_REALTIME, nanoseconds since 1970: stamps of records, notices and log lines. */
uint64_t clock_real_ns(void);

typedef int clock_reader(clockid_t, struct timespec *);

/* Replaces the clock of all functions above; NULL: clock_gettime(). For tests and simulations. No
 * clock may return the time 0, which means "not set" in the library. */
void clock_replace(clock_reader *);

#endif
