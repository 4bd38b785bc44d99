/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how late this machine is. A thread on each processor sleeps for 10 ms again and again.
 * Any other program may oversleep by as much: the processor was busy, or its emulator was. Prints a
 * line for each delay of 2 ms or more: processor, due time (CLOCK_MONOTONIC, ms), and delay in ms.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define STEP_NS INT64_C(10000000)
#define LATE_NS INT64_C(2000000)

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void *tick(void *cpu)
{
	const struct timespec step = { .tv_nsec = STEP_NS };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)(intptr_t)cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
		return NULL;
	for (;;) {
		const int64_t due_ns = now_ns() + STEP_NS;
		int64_t late_ns;

		clock_nanosleep(CLOCK_MONOTONIC, 0, &step, NULL);
		late_ns = now_ns() - due_ns;
		if (late_ns >= LATE_NS) {
			printf("%d %.1f %.1f\n", (int)(intptr_t)cpu, (double)due_ns / 1e6,
			       (double)late_ns / 1e6);
			fflush(stdout);
		}
	}
}

int main(void)
{
	const long count = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t thread;

	puts("ticking");
	fflush(stdout);
	for (intptr_t cpu = 1; cpu < count; cpu++)
		if (pthread_create(&thread, NULL, tick, (void *)cpu) != 0)
			return 1;
	tick((void *)0);
	return 1;
}
