/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/cores.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

unsigned int cores_usable(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned int)CPU_COUNT(&set) : 1;
}

bool cores_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned int)cpu, &set);
	return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

/* The process's main thread has the cores that the process was given. */
void cores_avoid(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || sched_getaffinity(getpid(), sizeof(set), &set) < 0)
		return;
	CPU_CLR((unsigned int)cpu, &set);
	if (CPU_COUNT(&set) > 0)
		pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}
