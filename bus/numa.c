/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA by one system call and three sysfs files. This avoids a dependency on a library. */
#include "bus/numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bus/error.h"

#define NODES      "/sys/devices/system/node/has_memory"
#define NODE_CPUS  "/sys/devices/system/node/node%d/cpulist"
#define NODES_MAX  1024
#define LIST_BYTES 4096

void numa_line(const char *path, char *text, size_t bytes)
{
	FILE *file = fopen(path, "re");

	if (!file || !fgets(text, (int)bytes, file))
		text[0] = '\0';
	if (file)
		fclose(file);
	text[strcspn(text, "\n")] = '\0';
}

static bool number_read(const char **text, unsigned long *number)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	*number = strtoul(*text, &end, 10);
	*text = end;
	return *number < CPU_SETSIZE;
}

bool numa_list(const char *text, cpu_set_t *set)
{
	CPU_ZERO(set);
	do {
		unsigned long first, last;

		if (!number_read(&text, &first))
			return false;
		last = first;
		if (*text == '-' && (text++, !number_read(&text, &last) || last < first))
			return false;
		for (; first <= last; first++)
			CPU_SET(first, set);
	} while (*text++ == ',');
	return text[-1] == '\0';
}

static int node_try(int node)
{
	void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int result;

	if (page == MAP_FAILED)
		return -errno;
	result = numa_prefer(page, 1, node);
	munmap(page, 1);
	return result;
}

int numa_check(int node)
{
	char text[LIST_BYTES];
	cpu_set_t nodes;
	int result;

	numa_line(NODES, text, sizeof(text));
	if (node < 0 || node >= NODES_MAX || !numa_list(text, &nodes) ||
	    !CPU_ISSET((size_t)node, &nodes))
		return error_set(EINVAL, "found node %d, expected one of %.256s", node,
				 text[0] ? text : "the nodes in " NODES ", which cannot be read");
	result = node_try(node);
	if (result < 0)
		return error_set(-result, "memory cannot be placed on node %d: %s", node,
				 strerror(-result));
	return 0;
}

bool numa_cpus(int node, cpu_set_t *set)
{
	char path[128], text[LIST_BYTES];

	snprintf(path, sizeof(path), NODE_CPUS, node);
	numa_line(path, text, sizeof(text));
	return numa_list(text, set);
}

int numa_prefer(void *base, size_t bytes, int node)
{
	const size_t word = 8 * sizeof(unsigned long);
	unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };

	nodes[(size_t)node / word] = 1ul << ((size_t)node % word);
	/* The kernel uses one bit less than this number. */
	if (syscall(SYS_mbind, base, bytes, MPOL_PREFERRED, nodes, (unsigned long)NODES_MAX + 1,
		    0ul) < 0)
		return -errno;
	return 0;
}
