/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out that a device is lost: the one asynchronous event that nothing else shows. A queue
 * pair that failed shows in its completions.
 *
 * E1  librdmacm has one context for a device, and a context has one descriptor for its events. So a
 *     reader takes events that are meant for others. An event that a device is lost therefore marks
 *     every async of that device, under one lock. Owners check their marks when it suits them.
 * E2  An async in the list belongs to an owner that lives: it is unwatched before it is freed.
 * E3  Taking events never waits. A thread that finds the lock taken tries again at its next call.
 *     An event is read only when poll() reports it, since reading may block. */
#include "bus/verbs/verbs_async.h"

#include <poll.h>
#include <pthread.h>

#define EVENTS_PER_CALL 64

static struct verbs_async *watched;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void verbs_async_watch(struct verbs_async *async, const struct ibv_context *device)
{
	async->device = device;
	atomic_store_explicit(&async->lost, false, memory_order_relaxed);
	pthread_mutex_lock(&lock);
	async->next = watched;
	async->link = &watched;
	if (async->next)
		async->next->link = &async->next;
	watched = async;
	pthread_mutex_unlock(&lock);
}

void verbs_async_unwatch(struct verbs_async *async)
{
	pthread_mutex_lock(&lock);
	if (async->link) {
		*async->link = async->next;
		if (async->next)
			async->next->link = async->link;
	}
	async->link = NULL;
	pthread_mutex_unlock(&lock);
}

bool verbs_async_lost(const struct verbs_async *async)
{
	return atomic_load_explicit(&async->lost, memory_order_relaxed);
}

/* Under the lock. False: there is no event. */
static bool event_take(struct ibv_context *device)
{
	struct pollfd fd = { .fd = device->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, 0) != 1 || ibv_get_async_event(device, &event) != 0) /* E3 */
		return false;
	for (struct verbs_async *async = watched; async; async = async->next)
		if (event.event_type == IBV_EVENT_DEVICE_FATAL && async->device == device)
			atomic_store_explicit(&async->lost, true, memory_order_relaxed);
	ibv_ack_async_event(&event);
	return true;
}

void verbs_async_take(struct ibv_context *device)
{
	if (pthread_mutex_trylock(&lock) != 0) /* E3 */
		return;
	for (int i = 0; i < EVENTS_PER_CALL && event_take(device); i++)
		;
	pthread_mutex_unlock(&lock);
}
