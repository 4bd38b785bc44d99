/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA nodes, from sysfs. */
#ifndef TICKBUS_BUS_NUMA_H
#define TICKBUS_BUS_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#define NUMA_ANY (-1)

/* Checks that memory can be placed on a node: 0; -EINVAL with a message that names the existing
 * nodes; or the kernel's error. */
int numa_check(int node);
/* The processors of a node; false if sysfs does not list them. */
bool numa_cpus(int node, cpu_set_t *);
/* New pages of a mapping come from the node while it has free memory. For shared memory this
 * applies to every mapping of it. 0 or -errno. */
int numa_prefer(void *base, size_t bytes, int node);

/* Parses a list in the kernel's form, "0-3,8". False for other texts and for numbers from
 * CPU_SETSIZE on. */
bool numa_list(const char *text, cpu_set_t *);
/* Reads the single line of a file, without its end; "" if there is no line. */
void numa_line(const char *path, char *text, size_t bytes);

#endif
