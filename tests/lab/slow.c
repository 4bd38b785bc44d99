/* SPDX-License-Identifier: Apache-2.0 */
/* A slow clock, loaded before libc: a millisecond of the program takes SLOWNESS real milliseconds.
 * A bound per millisecond is then far below what an emulated machine could do. */
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLOWNESS  40
#define SECOND_NS INT64_C(1000000000)

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	const int result = (int)syscall(SYS_clock_gettime, clock, now);
	int64_t ns;

	if (result < 0 || clock != CLOCK_MONOTONIC)
		return result;
	ns = (now->tv_sec * SECOND_NS + now->tv_nsec) / SLOWNESS;
	now->tv_sec = ns / SECOND_NS;
	now->tv_nsec = ns % SECOND_NS;
	return 0;
}
