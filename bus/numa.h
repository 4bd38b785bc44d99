/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA nodes, as sysfs tells of them. */
#ifndef TICKBUS_BUS_NUMA_H
#define TICKBUS_BUS_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#define NUMA_ANY (-1)

/* Whether memory can be placed on a node: 0; -EINVAL with words that name those there are; what
 * the kernel refuses it with. */
int numa_check(int node);
/* The processors near a node; false where none are told. */
bool numa_cpus(int node, cpu_set_t *);
/* Pages of a mapping that are not there yet are taken from the node while it has any; of shared
 * memory that holds for every mapping. 0 or -errno. */
int numa_prefer(void *base, size_t bytes, int node);

/* A list as the kernel writes it, "0-3,8": false where it is none or has numbers from CPU_SETSIZE
 * on. */
bool numa_list(const char *text, cpu_set_t *);
/* A file's only line, without its end; "" where there is none. */
void numa_line(const char *path, char *text, size_t bytes);

#endif
