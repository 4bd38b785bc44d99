/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that are lost again and again: any thread takes the event, and all watch and unwatch
 * meanwhile. A plain program: the thread sanitizer cannot run Criterion's. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/verbs/verbs_async.h"

#define THREADS 4
#define ROUNDS  2000

/* Devices that are read by blocking: each event has one to read there. No event is of `quiet`. */
static struct ibv_context devices[2], quiet;
static struct verbs_async quiet_async;
static _Atomic unsigned int events_read, given_back, looked;

static void fail(const char *what)
{
	printf("not ok 1 - %s\n", what);
	exit(1);
}

int ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
	eventfd_t one;

	if (eventfd_read(verbs->async_fd, &one) != 0)
		return -1;
	*event = (struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL };
	atomic_fetch_add(&events_read, 1);
	return 0;
}

static void *look(void *unused)
{
	verbs_async_take(&devices[0]);
	return unused;
}

/* While the first event is held, another thread looks, and returns at once. */
void ibv_ack_async_event(struct ibv_async_event *event)
{
	pthread_t other;

	(void)event;
	if (atomic_fetch_add(&given_back, 1) > 0)
		return;
	if (pthread_create(&other, NULL, look, NULL) != 0 || pthread_join(other, NULL) != 0)
		fail("no thread");
	atomic_fetch_add(&looked, 1);
}

/* Threads share the devices. */
static void *owner(void *which)
{
	struct ibv_context *device = which;
	struct verbs_async async = { 0 };

	for (int i = 0; i < ROUNDS; i++) {
		verbs_async_watch(&async, device);
		if (eventfd_write(device->async_fd, 1) != 0)
			fail("an event cannot be written");
		while (!verbs_async_lost(&async))
			verbs_async_take(device);
		verbs_async_unwatch(&async);
		verbs_async_unwatch(&async);
		if (verbs_async_lost(&quiet_async))
			fail("an async of another device was marked");
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	devices[0].async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	devices[1].async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	verbs_async_watch(&quiet_async, &quiet);
	printf("1..1\n");
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, owner, &devices[i % 2]) != 0)
			fail("no thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	verbs_async_take(&devices[0]);
	verbs_async_take(&devices[1]);
	close(devices[0].async_fd);
	close(devices[1].async_fd);
	if (atomic_load(&events_read) == 0 || atomic_load(&given_back) != atomic_load(&events_read))
		fail("an event was not given back");
	if (atomic_load(&looked) != 1)
		fail("no other thread looked while an event was held");
	printf("ok 1 - each async is marked for its own device\n");
	return 0;
}
