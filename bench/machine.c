/* SPDX-License-Identifier: Apache-2.0 */
/* Cores, clocks and shared memory of the measured machine. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"

#define CALIBRATE_NS 20000000.0

void machine_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("tickbus-bench: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

void machine_pin(unsigned int index)
{
	cpu_set_t usable, one;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(usable), &usable) < 0)
		machine_fail("cannot list the cores: %s", strerror(errno));
	index %= (unsigned int)CPU_COUNT(&usable);
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &usable) && index-- == 0)
			CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		machine_fail("cannot pin to a core: %s", strerror(errno));
	if (getenv("TICKBUS_BENCH_REALTIME") &&
	    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 }) < 0)
		machine_fail("cannot get real-time priority: %s", strerror(errno));
}

void *machine_share(const char *folder, const char *name, size_t bytes)
{
	char path[512];
	void *base;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		machine_fail("%s: %s", path, strerror(errno));
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (base == MAP_FAILED)
		machine_fail("%s: %s", path, strerror(errno));
	close(fd);
	return base;
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double machine_ticks_per_ns(void)
{
	const double from_ns = now_ns();
	const uint64_t from = machine_ticks();
	double ns;

	while ((ns = now_ns() - from_ns) < CALIBRATE_NS)
		;
	return (double)(machine_ticks() - from) / ns;
}

int machine_clock(unsigned int ms)
{
	const double scale = machine_ticks_per_ns();
	const uint64_t from = machine_ticks(), until = from + (uint64_t)(scale * 1e6 * ms);
	struct timespec now;
	uint64_t to, count = 0;

	do {
		for (int i = 0; i < 64; i++)
			clock_gettime(CLOCK_REALTIME, &now);
		count += 64;
		to = machine_ticks();
	} while (to < until);
	printf("{\"value\": %.2f}\n", (double)(to - from) / scale / (double)count);
	return 0;
}

static int compare(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

double machine_quantile(double *values, size_t count, double quantile)
{
	if (count == 0)
		machine_fail("found no samples");
	qsort(values, count, sizeof(*values), compare);
	return values[(size_t)((double)(count - 1) * quantile)];
}
