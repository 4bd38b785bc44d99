/* SPDX-License-Identifier: Apache-2.0 */
/* Lets go of removed devices, loaded before libibverbs.
 *
 * The drivers of software devices cannot take a device from its users: `rdma link del` waits until
 * every process has closed it. librdmacm keeps a device open after its last id, and has no call
 * that closes it. librdmacm holds a protection domain while an id is bound. When a removed
 * device has no protection domain left, its descriptors are replaced by /dev/null. The library does
 * not do this, as drivers of hardware do not need it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICES_MAX 64
#define VERBS       "libibverbs.so.1"
#define MANAGER     "librdmacm.so.1"
#define EXPORTED    __attribute__((visibility("default")))

static struct open_device {
	const struct ibv_context *verbs; /* librdmacm may have freed it, and the device */
	const struct ibv_device *device;
	int command, async;
	struct stat known; /* the file that `command` was */
	unsigned int domains;
} devices[DEVICES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of a context, or NULL. Without a context: a free entry. */
static struct open_device *entry_of(const struct ibv_context *verbs)
{
	for (size_t i = 0; i < DEVICES_MAX; i++)
		if (devices[i].verbs == verbs)
			return &devices[i];
	return NULL;
}

static bool is_listed(struct ibv_device **list, const struct ibv_device *device)
{
	for (; *list; list++)
		if (*list == device)
			return true;
	return false;
}

/* librdmacm may have closed the device meanwhile: then the number is another file's by now. */
static void let_go(const struct open_device *entry)
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

/* The library's own function; the library is loaded, perhaps not for all to see. ISO C has no cast
 * from an object's pointer to a function's. */
static void original(const char *library, const char *name, void *function, size_t bytes)
{
	void *const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	void *const found = dlsym(handle, name);

	memcpy(function, &found, bytes);
	dlclose(handle);
}

/* Under the lock: a device that is in the table and not in an older list may have come since. */
static void devices_check(void)
{
	struct ibv_device **(*list_get)(int *);
	void (*list_free)(struct ibv_device **);
	struct ibv_device **list;

	original(VERBS, "ibv_get_device_list", &list_get, sizeof(list_get));
	original(VERBS, "ibv_free_device_list", &list_free, sizeof(list_free));
	list = list_get(NULL);
	for (size_t i = 0; list && i < DEVICES_MAX; i++) {
		struct open_device *entry = &devices[i];

		if (entry->verbs && entry->domains == 0 && !is_listed(list, entry->device)) {
			let_go(entry);
			entry->verbs = NULL;
		}
	}
	if (list)
		list_free(list);
}

EXPORTED struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
	struct ibv_pd *(*next)(struct ibv_context *);
	struct open_device *entry;
	struct ibv_pd *pd;

	original(VERBS, "ibv_alloc_pd", &next, sizeof(next));
	pd = next(verbs);
	if (!pd)
		return NULL;
	pthread_mutex_lock(&lock);
	entry = entry_of(verbs);
	if (!entry)
		entry = entry_of(NULL);
	if (entry && entry->domains++ == 0) {
		entry->verbs = verbs;
		entry->device = verbs->device;
		entry->command = verbs->cmd_fd;
		entry->async = verbs->async_fd;
		fstat(verbs->cmd_fd, &entry->known);
	}
	pthread_mutex_unlock(&lock);
	return pd;
}

EXPORTED int ibv_dealloc_pd(struct ibv_pd *pd)
{
	const struct ibv_context *verbs = pd->context;
	int (*next)(struct ibv_pd *);
	struct open_device *entry;
	int result;

	original(VERBS, "ibv_dealloc_pd", &next, sizeof(next));
	result = next(pd);
	pthread_mutex_lock(&lock);
	entry = entry_of(verbs);
	if (result == 0 && entry && entry->domains > 0 && --entry->domains == 0)
		devices_check();
	pthread_mutex_unlock(&lock);
	return result;
}

/* A device may be removed while nothing is made of it: the next connection finds out. */
EXPORTED void rdma_destroy_event_channel(struct rdma_event_channel *events)
{
	void (*next)(struct rdma_event_channel *);

	original(MANAGER, "rdma_destroy_event_channel", &next, sizeof(next));
	next(events);
	pthread_mutex_lock(&lock);
	devices_check();
	pthread_mutex_unlock(&lock);
}
