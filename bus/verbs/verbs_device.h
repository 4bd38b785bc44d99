/* SPDX-License-Identifier: Apache-2.0 */
/* Where an RDMA device is. */
#ifndef TICKBUS_BUS_VERBS_DEVICE_H
#define TICKBUS_BUS_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <stddef.h>

/* The NUMA node of a device, or -1 if it is not known; and the processors near it, "" if they are
 * not known. */
int verbs_device_node(const struct ibv_device *, char *cpus, size_t bytes);

#endif
