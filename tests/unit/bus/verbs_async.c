/* SPDX-License-Identifier: Apache-2.0 */
/* What a device tells of one thread's queue pair, taken by whichever thread looks, while all set
 * and unset their events. A plain program: the thread sanitizer cannot run Criterion's. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/verbs/verbs.h"

#define THREADS 4
#define ROUNDS  2000

/* A device that is read by blocking: each event has one to read there. */
static struct ibv_context device;
static struct ibv_async_event told[THREADS * ROUNDS];
static unsigned int told_first, told_end;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned int given_back, looked;

static void fail(const char *what)
{
	printf("not ok 1 - %s\n", what);
	exit(1);
}

static void tells(const struct ibv_qp *qp)
{
	pthread_mutex_lock(&lock);
	told[told_end++] = (struct ibv_async_event){ .element.qp = (struct ibv_qp *)(uintptr_t)qp,
						     .event_type = IBV_EVENT_QP_FATAL };
	pthread_mutex_unlock(&lock);
	if (eventfd_write(device.async_fd, 1) != 0)
		fail("an event cannot be told");
}

int ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
	eventfd_t one;

	if (eventfd_read(verbs->async_fd, &one) != 0)
		return -1;
	pthread_mutex_lock(&lock);
	*event = told[told_first++];
	pthread_mutex_unlock(&lock);
	return 0;
}

static void *look(void *unused)
{
	verbs_async_take(&device);
	return unused;
}

/* Somebody else looks while an event is held: he is back before that is given back. */
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

static void *owner(void *unused)
{
	struct ibv_qp own = { 0 };
	struct verbs_async async = { 0 };

	for (int i = 0; i < ROUNDS; i++) {
		verbs_async_watch(&async, &device, &own, NULL);
		if (verbs_async_text(&async))
			fail("an async rings before anything was told");
		tells(&own);
		while (!verbs_async_text(&async))
			verbs_async_take(&device);
		verbs_async_unwatch(&async);
		verbs_async_unwatch(&async);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];

	device.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	printf("1..1\n");
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, owner, NULL) != 0)
			fail("no thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	close(device.async_fd);
	if (atomic_load(&given_back) != THREADS * ROUNDS || atomic_load(&looked) != 1)
		fail("an event was kept");
	printf("ok 1 - each async rings for what is its own\n");
	return 0;
}
