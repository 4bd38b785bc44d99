/* SPDX-License-Identifier: Apache-2.0 */
/* The memory limits of this process's control groups. */
#ifndef TICKBUS_BUS_CGROUP_H
#define TICKBUS_BUS_CGROUP_H

#include <stddef.h>

/* Bytes that the process may still allocate before a group on its path reaches memory.max or
 * memory.high (version 2), or memory.limit_in_bytes (version 1). File pages that the kernel can
 * drop count as free. SIZE_MAX: no limit is known. `root` is put in front of each path; "" but for
 * tests. */
size_t cgroup_memory_left(const char *root);

#endif
