/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side of the verbs fabric: one address of one device, and its loop.
 *
 * L1  An event is acknowledged before anything is done about it: destroying an id waits for that.
 * L2  When the device goes, everything made of it goes, except the exposures. They are registered
 *     again when it returns, and have new keys then.
 * L3  A device that returns gets its memory and its senders one by one, with a poll between them.
 *     Pinning gigabytes takes seconds, and the control thread has a pulse to write.
 * L4  Lost peers are ended before requests are answered: their places are free then.
 * L7  A key for one connection may pin gigabytes. So a turn takes no messages of further peers once
 *     it gave REGIONS_A_TURN keys. Their completions keep the listener's descriptor readable. */
#include "bus/verbs/verbs_listener.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bus/error.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_channel.h"
#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_exposure.h"
#include "bus/verbs/verbs_listener_groups.h"
#include "bus/verbs/verbs_own.h"
#include "bus/verbs/verbs_peer.h"
#include "bus/verbs/verbs_requests.h"
#include "tickbus/error.h"

#define EVENTS_PER_POLL 64
#define BACKLOG         1024
#define REGIONS_A_TURN  16 /* registrations for connections that are made, and that are ended */

static int watch(struct verbs_listener *listener, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(listener->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return verbs_error(errno, listener->text, "epoll");
	return 0;
}

static int device_bind(struct verbs_listener *listener)
{
	listener->id = verbs_id_bound(listener->events, RDMA_PS_TCP, &listener->address.host,
				      listener->address.traffic_class);
	if (!listener->id)
		return verbs_error(errno, listener->text, "binding");
	listener->device = listener->id->verbs;
	verbs_async_watch(&listener->async, listener->device);
	return 0;
}

/* Makes what comes before the memory. After a failure device_close destroys it. */
static int device_open(struct verbs_listener *listener)
{
	struct ibv_device_attr device = { 0 };
	int result = device_bind(listener);

	if (result < 0)
		return result;
	if (ibv_query_device(listener->id->verbs, &device) != 0)
		return verbs_error(EIO, listener->text, "querying the device");
	listener->responder_resources = verbs_channel_depth(
		listener->address.reads, VERBS_DEPTH_MOST, device.max_qp_rd_atom);
	listener->pd = ibv_alloc_pd(listener->id->verbs);
	if (!listener->pd)
		return verbs_error(errno, listener->text, "creating a protection domain");
	listener->completions = ibv_create_comp_channel(listener->id->verbs);
	if (!listener->completions)
		return verbs_error(errno, listener->text, "creating a completion channel");
	result = verbs_nonblocking(listener->completions->fd);
	if (result < 0)
		return verbs_error(-result, listener->text, "creating a completion channel");
	return watch(listener, listener->completions->fd);
}

static int device_listen(struct verbs_listener *listener)
{
	if (rdma_listen(listener->id, BACKLOG) < 0)
		return verbs_error(errno, listener->text, "listening");
	listener->listening = true;
	verbs_listener_groups_open(listener);
	return 0;
}

static void device_close(struct verbs_listener *listener)
{
	verbs_requests_close(listener);
	verbs_listener_groups_stop(listener);
	verbs_own_free_ended(&listener->ended, UINT_MAX);
	verbs_exposures_unregister(listener); /* L2 */
	if (listener->completions) {
		epoll_ctl(listener->epoll, EPOLL_CTL_DEL, listener->completions->fd, NULL);
		ibv_destroy_comp_channel(listener->completions);
	}
	if (listener->pd)
		ibv_dealloc_pd(listener->pd);
	if (listener->id)
		rdma_destroy_id(listener->id);
	verbs_async_unwatch(&listener->async);
	listener->listening = listener->leaving = false;
	listener->device = NULL;
	listener->completions = NULL;
	listener->pd = NULL;
	listener->id = NULL;
}

/* Loses all peers. When they and their registrations are ended, all that is made of the device is
 * destroyed, and the timer tries the device again (L2). */
static void device_lost(struct verbs_listener *listener, const char *why)
{
	if (listener->leaving)
		return;
	peers_log(&listener->peers, FABRIC_LOG_INFO, "address rdma:%s: %s", listener->text, why);
	for (struct peers_entry *entry = listener->peers.first; entry; entry = entry->next)
		verbs_peer_lose(listener, (struct verbs_peer *)entry, why);
	listener->leaving = true;
	listener->listening = false;
	listener->away = -ENODEV;
}

/* One step: opens the device, registers one piece of memory, or listens. 1: there is more to do; 0;
 * or -errno with a text. */
static int return_step(struct verbs_listener *listener)
{
	int result;

	if (!listener->id) {
		result = device_open(listener);
		return result < 0 ? result : 1;
	}
	result = verbs_exposures_register_next(listener);
	return result != 0 ? result : device_listen(listener);
}

/* The reason for a failure is logged when it changes, not at each try. */
static void device_return(struct verbs_listener *listener)
{
	const int result = return_step(listener);

	if (result > 0) {
		verbs_timer_soon(&listener->timer); /* L3 */
		return;
	}
	if (result < 0 && result != listener->away)
		peers_log(&listener->peers, FABRIC_LOG_INFO, "%s; will retry", tb_error());
	listener->away = result;
	if (result < 0)
		device_close(listener);
	else
		peers_log(&listener->peers, FABRIC_LOG_INFO, "address rdma:%s: the device is back",
			  listener->text);
}

int verbs_listen(struct listener **out, const struct fabric_listen *how,
		 const struct listener_calls *calls, void *user)
{
	struct verbs_listener *listener;
	struct address address;
	int result = address_parse_listen(how->address, &address);

	*out = NULL;
	if (result == 0 && how->keep_alive_bytes > FABRIC_MESSAGE_BYTES)
		result = error_set(EMSGSIZE, "keep-alive: found %zu bytes, expected at most %d",
				   how->keep_alive_bytes, FABRIC_MESSAGE_BYTES);
	if (result < 0)
		return result;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return error_set(ENOMEM, "address rdma:%s: no memory", how->address);
	*listener = (struct verbs_listener){ .address = address,
					     .text = strdup(how->address),
					     .notices = how->notices,
					     .withdrawn_ms = how->withdrawn_ms,
					     .keep_alive_bytes = how->keep_alive_bytes };
	if (how->keep_alive_bytes)
		memcpy(listener->keep_alive, how->keep_alive, how->keep_alive_bytes);
	listener->peers = (struct peers){ .listener = &listener->base,
					  .calls = *calls,
					  .user = user,
					  .end = verbs_peer_end,
					  .max = how->peers_max };
	listener->common = how->common ? how->common : &listener->own;
	listener->epoll = epoll_create1(EPOLL_CLOEXEC);
	result = verbs_timer_open(&listener->timer);
	if (!listener->text || listener->epoll < 0 || result < 0) {
		result = verbs_error(errno, how->address, "creating descriptors");
		goto fail;
	}
	listener->events = verbs_events_open(listener->text);
	result = listener->events ? watch(listener, listener->events->fd) : -errno;
	if (result == 0)
		result = watch(listener, listener->timer.fd);
	if (result == 0)
		result = device_open(listener);
	if (result == 0)
		result = device_listen(listener);
	if (result < 0)
		goto fail;
	*out = &listener->base;
	return 0;
fail:
	verbs_listener_close(&listener->base);
	return result;
}

void verbs_listener_text(const struct listener *base, char *text, size_t bytes)
{
	const struct verbs_listener *listener = (const struct verbs_listener *)base;
	char host[ADDRESS_TEXT_BYTES];

	address_text((const struct sockaddr *)&listener->address.host, host);
	snprintf(text, bytes, "%s%s", host, listener->listening ? "" : " when its device is there");
}

int verbs_listener_fd(const struct listener *base)
{
	return ((const struct verbs_listener *)base)->epoll;
}

void verbs_listener_close(struct listener *base)
{
	struct verbs_listener *listener = (struct verbs_listener *)base;

	if (!listener)
		return;
	peers_close(&listener->peers);
	verbs_exposures_close(listener);
	device_close(listener);
	verbs_listener_groups_close(listener);
	if (listener->events)
		rdma_destroy_event_channel(listener->events);
	if (listener->epoll >= 0)
		close(listener->epoll);
	verbs_timer_close(&listener->timer);
	free(listener->text);
	free(listener);
}

/* The listener's own ids concern all peers; a peer's id only that peer. */
static void on_lost(struct verbs_listener *listener, const struct verbs_event *event,
		    const char *why)
{
	struct verbs_peer *peer = event->id->context;

	if (event->id == listener->id || event->id->ps == RDMA_PS_UDP)
		device_lost(listener, why);
	else if (peer)
		verbs_peer_lose(listener, peer, why);
}

static void on_event(struct verbs_listener *listener, const struct verbs_event *event)
{
	struct verbs_peer *peer = event->id->context;

	switch (event->type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		verbs_requests_add(listener, event);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (peer)
			verbs_peer_established(peer);
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		verbs_listener_groups_event(listener, event);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		on_lost(listener, event, "the device was removed");
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		on_lost(listener, event, "the interface has another hardware address");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		if (!peer) {
			verbs_requests_forget(listener, event->id);
			break;
		}
		verbs_peer_read(listener, peer); /* what it sent before */
		verbs_peer_lose(listener, peer,
				event->type == RDMA_CM_EVENT_DISCONNECTED
					? "it closed the connection"
					: "its connection was not completed");
		break;
	default: /* TIMEWAIT_EXIT: nothing to do */
		break;
	}
}

static int events_take(struct verbs_listener *listener)
{
	struct verbs_event event;
	int count = 0;

	while (count < EVENTS_PER_POLL && verbs_event_take(listener->events, &event) == 1) {
		on_event(listener, &event);
		count++;
	}
	return count;
}

static int completions_take(struct verbs_listener *listener)
{
	struct ibv_cq *cq;
	void *peer;
	int count = 0;

	while (count < EVENTS_PER_POLL && listener->completions &&
	       listener->keys_given < REGIONS_A_TURN && /* L7 */
	       ibv_get_cq_event(listener->completions, &cq, &peer) == 0) {
		ibv_ack_cq_events(cq, 1);
		verbs_peer_read(listener, peer);
		count++;
	}
	return count;
}

static void on_timer(struct verbs_listener *listener)
{
	const enum verbs_timer_due due = verbs_timer_take(&listener->timer);

	if (due == VERBS_TIMER_NOT_DUE || listener->leaving)
		return;
	verbs_exposures_free_withdrawn(listener);
	if (!listener->listening) {
		device_return(listener);
		return;
	}
	verbs_async_take(listener->device);
	if (verbs_async_lost(&listener->async)) {
		device_lost(listener, "the device is lost");
		return;
	}
	verbs_peers_check(listener, due == VERBS_TIMER_GO_ON);
	verbs_listener_groups_repair(listener, due == VERBS_TIMER_GO_ON);
}

/* All lost peers are ended. */
static void on_settled(struct verbs_listener *listener)
{
	if (listener->leaving && !listener->ended)
		device_close(listener);
	else if (listener->listening)
		verbs_requests_answer(listener);
}

int verbs_listener_poll(struct listener *base)
{
	struct verbs_listener *listener = (struct verbs_listener *)base;
	bool settled;
	int count;

	listener->keys_given = 0;
	count = events_take(listener);
	count += completions_take(listener);
	on_timer(listener);
	settled = verbs_peers_end_lost(listener);
	if (verbs_own_free_ended(&listener->ended, REGIONS_A_TURN) == 0)
		verbs_timer_soon(&listener->timer);
	if (settled) /* L4 */
		on_settled(listener);
	peers_free_dead(&listener->peers); /* P1 */
	return count;
}
