/* SPDX-License-Identifier: Apache-2.0 */
/* Connection requests that wait for the listener's answer, the oldest first.
 *
 * L5  A turn under the owner's lock answers at most BOUND_PEERS_OF_A_TURN requests. An answer may
 *     build a queue pair, and many subscribers at once must not delay the pulse.
 * L6  Nothing is built for a request that its subscriber gave up. No event says so: the kernel
 *     keeps the events of an id from the program until the program has accepted it. But the
 *     connection manager of InfiniBand and RoCE then has no attributes for a queue pair. iWARP does
 *     not know, so a request that waited for attempt_ms= counts as given up too. */
#include "bus/verbs/verbs_requests.h"

#include <errno.h>
#include <stdlib.h>

#include "bus/clock.h"
#include "bus/verbs/verbs_peer.h"

#define REQUESTS_MAX 1024

struct verbs_request {
	struct verbs_request *next;
	struct verbs_event event;
	uint64_t since_ms;
};

void verbs_requests_add(struct verbs_listener *listener, const struct verbs_event *event)
{
	struct verbs_requests *requests = &listener->requests;
	struct verbs_request *request =
		requests->count < REQUESTS_MAX ? calloc(1, sizeof(*request)) : NULL;

	if (!request) {
		verbs_peer_refuse(listener, event->id, EAGAIN,
				  "too many connection requests wait for an answer");
		return;
	}
	request->event = *event;
	request->since_ms = clock_ms();
	if (requests->last)
		requests->last->next = request;
	else
		requests->first = request;
	requests->last = request;
	requests->count++;
}

/* Removes the request behind `before`, or the first. */
static struct verbs_request *request_remove(struct verbs_requests *requests,
					    struct verbs_request *before)
{
	struct verbs_request *request = before ? before->next : requests->first;

	if (before)
		before->next = request->next;
	else
		requests->first = request->next;
	if (requests->last == request)
		requests->last = before;
	requests->count--;
	return request;
}

static void request_forget(struct verbs_request *request)
{
	rdma_destroy_id(request->event.id);
	free(request);
}

void verbs_requests_forget(struct verbs_listener *listener, const struct rdma_cm_id *id)
{
	struct verbs_request *before = NULL, *request = listener->requests.first;

	while (request && request->event.id != id) {
		before = request;
		request = request->next;
	}
	if (request)
		request_forget(request_remove(&listener->requests, before));
}

static bool is_given_up(const struct verbs_request *request)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT };
	int mask;

	return rdma_init_qp_attr(request->event.id, &attributes, &mask) < 0;
}

static void request_answer(struct verbs_listener *listener, struct verbs_request *request)
{
	if (is_given_up(request)) {
		request_forget(request);
		return;
	}
	if (clock_ms() - request->since_ms >= listener->address.attempt_ms)
		verbs_peer_refuse(listener, request->event.id, EAGAIN,
				  "the connection request waited too long for an answer");
	else
		verbs_peer_request(listener, &request->event);
	free(request);
}

void verbs_requests_answer(struct verbs_listener *listener)
{
	struct verbs_requests *requests = &listener->requests;

	for (int i = 0; i < BOUND_PEERS_OF_A_TURN && requests->first; i++) /* L5 */
		request_answer(listener, request_remove(requests, NULL));
	if (requests->first)
		verbs_timer_soon(&listener->timer);
}

void verbs_requests_close(struct verbs_listener *listener)
{
	while (listener->requests.first)
		request_forget(request_remove(&listener->requests, NULL));
}
