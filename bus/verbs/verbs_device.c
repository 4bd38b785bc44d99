/* SPDX-License-Identifier: Apache-2.0 */
/* Where an RDMA device is: its NUMA node and the processors near it, from sysfs. */
#include "bus/verbs/verbs_device.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "bus/numa.h"
#include "bus/address.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_events.h"

int verbs_device_node(const struct ibv_device *device, char *cpus, size_t bytes)
{
	char path[sizeof(device->ibdev_path) + 32], text[32], *end;
	long node;

	snprintf(path, sizeof(path), "%s/device/local_cpulist", device->ibdev_path);
	numa_line(path, cpus, bytes);
	snprintf(path, sizeof(path), "%s/device/numa_node", device->ibdev_path);
	numa_line(path, text, sizeof(text));
	node = strtol(text, &end, 10);
	return end == text || node < 0 || node > INT_MAX ? NUMA_ANY : (int)node;
}

/* Errors are not reported here: listen reports them. */
int verbs_node(const char *text)
{
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct address address;
	int node = NUMA_ANY;
	char cpus[8];

	if (address_parse(text, &address) < 0)
		return NUMA_ANY;
	events = rdma_create_event_channel();
	if (!events)
		return NUMA_ANY;
	id = verbs_id_bound(events, RDMA_PS_TCP, &address.host, 0);
	if (id) {
		node = verbs_device_node(id->verbs->device, cpus, sizeof(cpus));
		rdma_destroy_id(id);
	}
	rdma_destroy_event_channel(events);
	return node;
}
