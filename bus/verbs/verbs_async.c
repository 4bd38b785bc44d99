/* SPDX-License-Identifier: Apache-2.0 */
/* What a device tells by itself: a queue pair or a queue of it failed, it is lost itself, something
 * happened to a port.
 *
 * A1  librdmacm has one context for a device, whoever uses it, and a context has one descriptor for
 *     what it tells: who reads it takes what is meant for others. So each event is passed on, under
 *     one lock, by a mark in the async of whoever it concerns, who looks at it in its own time.
 * A2  Whose event was taken is not destroyed before it was given back. It is given back under the
 *     lock, so an async that is in the list is of something that lives.
 * A3  A context may have queue pairs that are none of ours: they are compared, never looked into.
 * A4  Nobody waits for what comes here. What is told of a queue pair fails what is sent by it as
 *     well; so this is looked at now and then, by all who have a timer. Whoever finds the lock
 *     taken looks the next time, and nothing is read that is not there: reading may block.
 * A5  What happened to a port is for the owner of the device's async, however many others look. */
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "bus/verbs/verbs.h"

#define EVENTS_PER_LOOK 64

static struct verbs_async *watched;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void verbs_async_watch(struct verbs_async *async, const struct ibv_context *device,
		       const struct ibv_qp *qp, const struct ibv_cq *cq)
{
	async->device = device;
	async->qp = qp;
	async->cq = cq;
	async->port_event_count = 0;
	atomic_store_explicit(&async->failure, NULL, memory_order_relaxed);
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

const char *verbs_async_text(struct verbs_async *async)
{
	return atomic_load_explicit(&async->failure, memory_order_relaxed);
}

static bool concerns(const struct verbs_async *async, const struct ibv_context *device,
		     const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return async->qp && async->qp == event->element.qp; /* A3 */
	case IBV_EVENT_CQ_ERR:
		return async->cq && async->cq == event->element.cq;
	case IBV_EVENT_DEVICE_FATAL:
		return async->device == device;
	default:
		return false;
	}
}

static bool is_of_port(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
	       type == IBV_EVENT_LID_CHANGE || type == IBV_EVENT_PKEY_CHANGE ||
	       type == IBV_EVENT_SM_CHANGE || type == IBV_EVENT_CLIENT_REREGISTER ||
	       type == IBV_EVENT_GID_CHANGE;
}

/* A5. Of more than there is room for the first are kept. */
static void port_event_add(struct verbs_async *async, const struct ibv_async_event *event)
{
	if (async->port_event_count < VERBS_PORT_EVENTS_MAX)
		async->port_events[async->port_event_count++] =
			(struct verbs_port_event){ .type = event->event_type,
						   .port = event->element.port_num };
}

/* Takes an event, if there is one, and rings whom it concerns. Under the lock. */
static bool event_take(struct ibv_context *device)
{
	struct pollfd fd = { .fd = device->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, 0) != 1 || ibv_get_async_event(device, &event) != 0) /* A4 */
		return false;
	for (struct verbs_async *async = watched; async; async = async->next) {
		if (concerns(async, device, &event))
			atomic_store_explicit(&async->failure, ibv_event_type_str(event.event_type),
					      memory_order_relaxed);
		if (is_of_port(event.event_type) && !async->qp && async->device == device)
			port_event_add(async, &event);
	}
	ibv_ack_async_event(&event); /* A2 */
	return true;
}

void verbs_async_take(struct ibv_context *device)
{
	if (pthread_mutex_trylock(&lock) != 0) /* A4 */
		return;
	for (int i = 0; i < EVENTS_PER_LOOK && event_take(device); i++)
		;
	pthread_mutex_unlock(&lock);
}

unsigned int verbs_async_port_events(struct verbs_async *async,
				     struct verbs_port_event port_events[VERBS_PORT_EVENTS_MAX])
{
	unsigned int count;

	pthread_mutex_lock(&lock);
	count = async->port_event_count;
	memcpy(port_events, async->port_events, count * sizeof(*port_events));
	async->port_event_count = 0;
	pthread_mutex_unlock(&lock);
	return count;
}
