/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that librdmacm opened for us, where they are, and how a removed one is let go of.
 *
 * The library keeps a device open once an id was bound to it, and has no call that closes one. It
 * looks which are still there when it meets one it does not know, and does nothing where none is
 * left. A kernel that cannot take a device from its users waits until they have closed it. So it is
 * counted what of ours is made of each device, and when that is nothing and the device is gone, its
 * descriptors are made to stand for /dev/null: the numbers stay the library's, which closes them
 * when it finds out. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/numa.h"
#include "bus/verbs/verbs.h"

#define DEVICES_MAX 64

static struct open_device {
	const struct ibv_context *verbs; /* a name: the library may have freed it */
	const struct ibv_device *device; /* likewise */
	int command, async;
	struct stat known; /* the file that `command` was */
	unsigned int users;
} devices[DEVICES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of a context, or NULL; of none: a free entry. */
static struct open_device *entry_of(const struct ibv_context *verbs)
{
	for (size_t i = 0; i < DEVICES_MAX; i++)
		if (devices[i].verbs == verbs)
			return &devices[i];
	return NULL;
}

void verbs_device_use(struct ibv_context *verbs)
{
	struct open_device *entry;

	pthread_mutex_lock(&lock);
	entry = entry_of(verbs);
	if (!entry)
		entry = entry_of(NULL);
	if (entry && entry->users++ == 0) {
		entry->verbs = verbs;
		entry->device = verbs->device;
		entry->command = verbs->cmd_fd;
		entry->async = verbs->async_fd;
		fstat(verbs->cmd_fd, &entry->known);
	}
	pthread_mutex_unlock(&lock);
}

static bool is_there(struct ibv_device **list, const struct ibv_device *device)
{
	for (; *list; list++)
		if (*list == device)
			return true;
	return false;
}

/* The library may have closed it meanwhile: then the number is another file's by now. */
static void device_void(const struct open_device *entry)
{
	const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct stat now;

	if (nothing < 0)
		return;
	if (fstat(entry->command, &now) == 0 && now.st_ino == entry->known.st_ino &&
	    now.st_dev == entry->known.st_dev && now.st_rdev == entry->known.st_rdev) {
		dup3(nothing, entry->command, O_CLOEXEC);
		dup3(nothing, entry->async, O_CLOEXEC);
	}
	close(nothing);
}

/* What is there is asked under the lock: what is in the table and not in an older list may have
 * come since. */
void verbs_device_leave(struct ibv_context *verbs)
{
	struct ibv_device **list;
	struct open_device *entry;

	pthread_mutex_lock(&lock);
	list = ibv_get_device_list(NULL);
	entry = verbs ? entry_of(verbs) : NULL;
	if (entry && entry->users > 0)
		entry->users--;
	for (size_t i = 0; list && i < DEVICES_MAX; i++) {
		entry = &devices[i];
		if (entry->verbs && entry->users == 0 && !is_there(list, entry->device)) {
			device_void(entry);
			entry->verbs = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
	if (list)
		ibv_free_device_list(list);
}

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

/* What keeps the address from being listened at will be told then. */
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
		struct ibv_context *device = id->verbs;

		verbs_device_use(device);
		node = verbs_device_node(device->device, cpus, sizeof(cpus));
		rdma_destroy_id(id);
		verbs_device_leave(device);
	}
	rdma_destroy_event_channel(events);
	return node;
}
