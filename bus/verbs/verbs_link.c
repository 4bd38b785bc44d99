/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's side of the verbs fabric: a connection that is made step by step inside
 * link_poll, and READs over it.
 *
 * K1  A connection that is not up after attempt_ms= is given up, and its owner may try again. The
 *     connection manager would repeat a lost request only after four seconds, and for a minute if
 *     there is no host.
 * K2  Any error completion ends the link, since a dead host raises no event. link_poll reports it,
 *     also if another call collected the completion. A lost device is found within DEVICE_CHECK_MS.
 * K3  READs land in landings only: the key of the landing is looked up for each READ.
 * K4  A challenge ends the first request with its id and its queue pair. The second request has an
 *     id of its own, and both share the time of K1. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bus/address.h"
#include "bus/clock.h"
#include "bus/error.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_async.h"
#include "bus/verbs/verbs_channel.h"
#include "bus/verbs/verbs_events.h"
#include "bus/verbs/verbs_landings.h"
#include "bus/verbs/verbs_mtu.h"
#include "bus/verbs/verbs_private_data.h"
#include "bus/verbs/verbs_receiver.h"
#include "tickbus/error.h"

#define RESOLVE_MS      1000
#define DEVICE_CHECK_MS 100
#define EVENTS_PER_POLL 16
/* The publisher makes no READs, but some iWARP devices bound its answers to READs by this. */
#define READS_OFFERED 1
#define REJECTED_IB   8 /* status of a reject: no process listens */

struct verbs_remote {
	struct remote base;
	struct fabric_key key;
};

struct verbs_link {
	struct link base;
	struct link_calls calls;
	void *user;
	char *text;
	struct address address;
	enum link_state state;
	bool polling, closed;
	bool challenged; /* the second request was made, or is being made */
	uint8_t hello[FABRIC_HELLO_BYTES];
	size_t hello_bytes;
	uint64_t begun_ms, checked_ms;

	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_context *device; /* NULL: not known yet */
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct verbs_async async; /* of the device */
	struct verbs_channel channel;
	int epoll;

	struct verbs_receiver receiver;
	struct verbs_landings landings;
};

/* -- connecting ---------------------------------------------------------------------------------
 */

static void link_gone(struct verbs_link *link, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void link_gone(struct verbs_link *link, int code, const char *format, ...)
{
	char why[256];
	va_list args;

	if (link->state == LINK_GONE)
		return;
	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	link->state = LINK_GONE;
	link->calls.gone(link->user, code, why);
}

static int watch(struct verbs_link *link, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(link->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return verbs_error(errno, link->text, "epoll");
	return 0;
}

static int resolve(struct verbs_link *link)
{
	struct sockaddr *source = (struct sockaddr *)&link->address.source;
	uint8_t timeout = (uint8_t)link->address.ack_timeout;
	uint8_t class = (uint8_t)link->address.traffic_class;

	if (rdma_create_id(link->events, &link->id, link, RDMA_PS_TCP) < 0)
		return verbs_error(errno, link->text, "creating an id");
	/* Fails if the link layer has no acknowledgement timeout: TCP has its own. */
	rdma_set_option(link->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			sizeof(timeout));
	if (class)
		rdma_set_option(link->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class,
				sizeof(class));
	if (rdma_resolve_addr(link->id, source->sa_family ? source : NULL,
			      (struct sockaddr *)&link->address.host, RESOLVE_MS) < 0)
		return verbs_error(errno, link->text, "resolving the address");
	return 0;
}

int verbs_connect(struct link **out, const char *address, const void *hello, size_t bytes,
		  const struct link_calls *calls, void *user)
{
	struct verbs_link *link = calloc(1, sizeof(*link));
	int result;

	*out = NULL;
	if (!link)
		return error_set(ENOMEM, "address rdma:%s: no memory", address);
	*link = (struct verbs_link){ .calls = *calls,
				     .user = user,
				     .text = strdup(address),
				     .hello_bytes = bytes,
				     .begun_ms = clock_ms(),
				     .epoll = epoll_create1(EPOLL_CLOEXEC) };
	memcpy(link->hello, hello, bytes < sizeof(link->hello) ? bytes : sizeof(link->hello));
	result = bytes <= sizeof(link->hello)
			 ? address_parse(address, &link->address)
			 : error_set(EMSGSIZE, "found a hello of %zu bytes, expected at most %zu",
				     bytes, sizeof(link->hello));
	if (result == 0 && (!link->text || link->epoll < 0))
		result = verbs_error(errno, address, "creating a descriptor");
	if (result == 0) {
		link->events = verbs_events_open(address);
		result = link->events ? watch(link, link->events->fd) : -errno;
	}
	if (result == 0)
		result = resolve(link);
	if (result < 0) {
		verbs_link_close(&link->base);
		return result;
	}
	*out = &link->base;
	return 0;
}

/* The route is known, and with it the device: makes the queue pair and sends the request. */
static int request(struct verbs_link *link)
{
	struct rdma_conn_param how = { .private_data = link->hello,
				       .private_data_len = (uint8_t)link->hello_bytes,
				       .responder_resources = READS_OFFERED,
				       .flow_control = 1,
				       .retry_count = (uint8_t)link->address.retries,
				       .rnr_retry_count = (uint8_t)link->address.rnr_retries };
	struct ibv_device_attr device = { 0 };
	int result;

	if (ibv_query_device(link->id->verbs, &device) != 0)
		return verbs_error(EIO, link->text, "querying the device");
	how.initiator_depth = verbs_channel_depth(link->address.reads, VERBS_DEPTH_ASKED,
						  device.max_qp_init_rd_atom);
	link->pd = ibv_alloc_pd(link->id->verbs);
	if (!link->pd)
		return verbs_error(errno, link->text, "creating a protection domain");
	link->completions = ibv_create_comp_channel(link->id->verbs);
	if (!link->completions)
		return verbs_error(errno, link->text, "creating a completion channel");
	result = verbs_nonblocking(link->completions->fd);
	if (result == 0)
		result = watch(link, link->completions->fd);
	if (result == 0)
		result = verbs_channel_open(&link->channel, link->id, link->pd, link->completions,
					    link);
	if (result == 0 && rdma_connect(link->id, &how) < 0)
		result = errno == ECONNREFUSED
				 ? error_set(ECONNREFUSED, "no publisher listens there")
				 : verbs_error(errno, link->text, "connecting");
	return result;
}

/* An error completion (K2). READs that find no answer may be too long for our own port by now. */
static void on_broken(struct verbs_link *link)
{
	char why[FABRIC_REASON_BYTES];

	if (verbs_mtu_exceeded(link->id, "the subscriber", why, sizeof(why)))
		link_gone(link, link->channel.broken, "%s; %s", link->channel.why, why);
	else
		link_gone(link, link->channel.broken, "%s", link->channel.why);
}

static void on_established(struct verbs_link *link, const struct verbs_event *event)
{
	struct verbs_private_data data;

	if (verbs_private_data_welcome(event->data, event->bytes, &data) < 0) {
		link_gone(link, EPROTO,
			  "the process that listens there is not a tickbus publisher");
		return;
	}
	link->state = LINK_UP;
	link->calls.welcome(link->user, data.body, data.number);
}

/* Destroys what request() made, and the id. */
static void request_end(struct verbs_link *link)
{
	verbs_async_unwatch(&link->async);
	verbs_channel_close(&link->channel);
	if (link->completions) {
		epoll_ctl(link->epoll, EPOLL_CTL_DEL, link->completions->fd, NULL);
		ibv_destroy_comp_channel(link->completions);
	}
	if (link->pd)
		ibv_dealloc_pd(link->pd);
	if (link->id)
		rdma_destroy_id(link->id);
	link->device = NULL;
	link->completions = NULL;
	link->pd = NULL;
	link->id = NULL;
}

static void on_challenge(struct verbs_link *link, const uint8_t challenge[FABRIC_CHALLENGE_BYTES])
{
	int result;

	if (link->challenged) {
		link_gone(link, EPROTO, "the publisher sent an invalid challenge");
		return;
	}
	link->challenged = true;
	result = link->calls.challenge(link->user, challenge, link->hello);
	link->hello_bytes = sizeof(link->hello);
	if (result == 0) {
		request_end(link); /* K4 */
		result = resolve(link);
	}
	if (result < 0)
		link_gone(link, -result, "%s", tb_error());
}

static void on_rejected(struct verbs_link *link, const struct verbs_event *event)
{
	uint8_t challenge[FABRIC_CHALLENGE_BYTES];
	char why[FABRIC_REASON_BYTES + 1];
	int code;

	if (verbs_private_data_challenge(event->data, event->bytes, challenge)) {
		on_challenge(link, challenge);
		return;
	}
	code = verbs_private_data_refusal(event->data, event->bytes, why);
	if (code)
		link_gone(link, code, "%s", why);
	else if (event->status == REJECTED_IB || event->status == -ECONNREFUSED)
		link_gone(link, ECONNREFUSED, "no publisher listens there");
	else
		link_gone(link, ECONNRESET, "the connection was refused (status %d)",
			  event->status);
}

static void on_event(struct verbs_link *link, const struct verbs_event *event)
{
	int result;

	if (event->id != link->id && event->type != RDMA_CM_EVENT_DEVICE_REMOVAL) {
		if (event->id == link->receiver.id)
			verbs_receiver_event(&link->receiver, event);
		return;
	}
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		verbs_async_watch(&link->async, link->device = link->id->verbs);
		if (rdma_resolve_route(link->id, RESOLVE_MS) < 0)
			link_gone(link, EHOSTUNREACH, "no route: %s", strerror(errno));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		result = request(link);
		if (result < 0)
			link_gone(link, -result, "%s", tb_error());
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		on_established(link, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		on_rejected(link, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (event->status == -ETIMEDOUT) /* address or route resolution */
			link_gone(link, ETIMEDOUT, "no answer");
		else
			link_gone(link, EHOSTUNREACH, "no route: %s",
				  strerror(verbs_event_code(event)));
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (event->status == -ECONNREFUSED)
			link_gone(link, ECONNREFUSED, "no publisher listens there");
		else
			link_gone(link, ETIMEDOUT, "no answer");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		link_gone(link, ECONNRESET, "the publisher closed the connection");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		link_gone(link, ENODEV, "the RDMA device was removed");
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE: /* the next connection uses the new address */
		link_gone(link, ECONNRESET, "the interface has another hardware address");
		break;
	default: /* TIMEWAIT_EXIT: nothing to do */
		break;
	}
}

/* -- turns --------------------------------------------------------------------------------------
 */

enum link_state verbs_link_state(const struct link *base)
{
	return ((const struct verbs_link *)base)->state;
}

int verbs_link_fd(const struct link *base)
{
	return ((const struct verbs_link *)base)->epoll;
}

static int messages_take(struct verbs_link *link)
{
	uint8_t message[FABRIC_MESSAGE_BYTES];
	int count = 0;
	size_t bytes;

	while (count < VERBS_RECEIVES && link->state == LINK_UP && !link->closed) {
		bytes = verbs_channel_take(&link->channel, message);
		if (bytes == 0)
			break;
		link->calls.message(link->user, message, bytes);
		count++;
	}
	return count;
}

static void device_check(struct verbs_link *link)
{
	const uint64_t now = clock_ms();

	if (!link->device || now - link->checked_ms < DEVICE_CHECK_MS)
		return;
	link->checked_ms = now;
	verbs_async_take(link->device);
	if (verbs_async_lost(&link->async))
		link_gone(link, ENODEV, "the RDMA device is lost");
}

int verbs_link_poll(struct link *base)
{
	struct verbs_link *link = (struct verbs_link *)base;
	struct verbs_event event;
	int count = 0;

	link->polling = true;
	device_check(link);
	verbs_channel_progress(&link->channel);
	while (count < EVENTS_PER_POLL && link->state != LINK_GONE && !link->closed &&
	       verbs_event_take(link->events, &event) == 1) {
		if (event.type == RDMA_CM_EVENT_DISCONNECTED)
			count += messages_take(link); /* sent before the end */
		if (!link->closed)
			on_event(link, &event);
		count++;
	}
	count += messages_take(link);
	if (!link->closed && link->channel.broken && link->state == LINK_UP)
		on_broken(link);
	if (!link->closed && link->state == LINK_CONNECTING &&
	    clock_ms() - link->begun_ms >= link->address.attempt_ms)
		link_gone(link, ETIMEDOUT, "no answer"); /* K1 */
	link->polling = false;
	if (link->closed)
		verbs_link_close(base);
	return count;
}

int verbs_link_send(struct link *base, const void *message, size_t bytes)
{
	struct verbs_link *link = (struct verbs_link *)base;

	if (link->state != LINK_UP)
		return error_set(ENOTCONN, "not connected");
	return verbs_channel_send(&link->channel, message, bytes);
}

void verbs_link_left(struct link *base)
{
	((struct verbs_link *)base)->polling = false;
}

void verbs_link_break(struct link *base)
{
	struct verbs_link *link = (struct verbs_link *)base;

	if (link->channel.qp) {
		rdma_disconnect(link->id); /* reaches the publisher, if it can be reached */
		verbs_channel_break(&link->channel);
	}
	link->state = LINK_GONE;
}

void verbs_link_settle(struct link *base)
{
	(void)base; /* no other process holds anything of it */
}

void verbs_link_close(struct link *base)
{
	struct verbs_link *link = (struct verbs_link *)base;

	if (!link)
		return;
	if (link->polling) {
		link->closed = true;
		return;
	}
	verbs_link_break(base);
	verbs_receiver_close(&link->receiver);
	request_end(link);
	if (link->events)
		rdma_destroy_event_channel(link->events);
	if (link->epoll >= 0)
		close(link->epoll);
	verbs_landings_close(&link->landings);
	free(link->text);
	free(link);
}

int verbs_sleep(struct link *base)
{
	struct verbs_link *link = (struct verbs_link *)base;
	struct ibv_cq *cq;
	void *unused;

	if (link->state == LINK_UP) {
		while (ibv_get_cq_event(link->completions, &cq, &unused) == 0)
			ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(link->channel.cq, 0);
		if (link->receiver.cq)
			ibv_req_notify_cq(link->receiver.cq, 0);
		verbs_channel_progress(&link->channel); /* completions from before the arming */
	}
	return link->channel.done_count > 0 || link->channel.arrived_count > 0 ||
	       link->channel.broken || link->state == LINK_GONE ||
	       verbs_receiver_has(&link->receiver);
}

int verbs_receive(struct link *base, const struct fabric_notices *notices)
{
	struct verbs_link *link = (struct verbs_link *)base;
	struct verbs_receive how = { .events = link->events,
				     .pd = link->pd,
				     .completions = link->completions,
				     .count = link->address.receives };
	const struct sockaddr *from = rdma_get_local_addr(link->id);
	const struct verbs_member *member;
	int result = 0;

	if (!link->address.notices)
		return error_set(ENOTSUP, "notices: disabled by the address");
	if (link->state != LINK_UP)
		return error_set(EINVAL, "notices: not connected");
	memcpy(&how.local, from,
	       from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
	member = verbs_receiver_join(&link->receiver, &how, notices);
	if (!member)
		return -errno;
	if (member->kind == FABRIC_NOTICES_UDP)
		result = watch(link, member->socket);
	if (result < 0)
		verbs_receiver_leave(&link->receiver, &notices->group);
	return result;
}

void verbs_receive_end(struct link *base, const struct fabric_notices *notices)
{
	verbs_receiver_leave(&((struct verbs_link *)base)->receiver, &notices->group);
}

size_t verbs_datagram(struct link *base, void *datagram, size_t room)
{
	return verbs_receiver_take(&((struct verbs_link *)base)->receiver, datagram, room);
}

/* -- memory -------------------------------------------------------------------------------------
 */

int verbs_remote_open(struct link *base, struct fabric_key key, uint64_t bytes, struct remote **out)
{
	struct verbs_remote *remote;

	*out = NULL;
	if (key.rkey > UINT32_MAX)
		return error_set(
			EPROTO, "memory handed over: found key 0x%llx, expected an rkey of 32 bits",
			(unsigned long long)key.rkey);
	/* Address 0 is usual, and any number may be an rkey. */
	if (key.address + bytes < key.address)
		return error_set(
			EPROTO,
			"memory handed over: found %llu bytes at %llu, expected less than 2^64",
			(unsigned long long)bytes, (unsigned long long)key.address);
	remote = calloc(1, sizeof(*remote));
	if (!remote)
		return error_set(ENOMEM, "memory handed over: no memory");
	remote->base = (struct remote){ .ops = base->ops, .link = base, .bytes = bytes };
	remote->key = key;
	*out = &remote->base;
	return 0;
}

void verbs_remote_close(struct remote *remote)
{
	free(remote);
}

/* Keys end with their connection. */
bool verbs_remote_keep(struct link *base, struct remote *remote)
{
	(void)base;
	(void)remote;
	return false;
}

const void *verbs_view(const struct remote *remote)
{
	(void)remote;
	return NULL;
}

void *verbs_landing(struct link *base, size_t bytes)
{
	struct verbs_link *link = (struct verbs_link *)base;

	if (link->state == LINK_UP)
		return verbs_landings_add(&link->landings, link->pd, link->text, bytes);
	errno = ENOTCONN;
	return NULL;
}

void verbs_landing_free(struct link *base, void *memory, size_t bytes)
{
	verbs_landings_remove(&((struct verbs_link *)base)->landings, memory, bytes);
}

/* -- READs --------------------------------------------------------------------------------------
 */

unsigned int verbs_depth(const struct link *base)
{
	(void)base;
	return VERBS_READS; /* READs beyond the device's depth wait in its send queue */
}

/* Fills one work request: 0 or -ERANGE. */
static int work_fill(const struct verbs_link *link, const struct fabric_read *read,
		     struct ibv_send_wr *work, struct ibv_sge *part)
{
	const struct verbs_remote *remote = (const struct verbs_remote *)read->remote;
	const struct verbs_landing *landing =
		verbs_landings_find(&link->landings, read->into, read->bytes); /* K3 */

	if (read->bytes == 0 || read->offset > remote->base.bytes ||
	    read->bytes > remote->base.bytes - read->offset)
		return error_set(
			ERANGE,
			"read of %u bytes at %llu: expected 1 or more within the region's %llu",
			read->bytes, (unsigned long long)read->offset,
			(unsigned long long)remote->base.bytes);
	if (!landing)
		return error_set(ERANGE, "read of %u bytes: expected a landing that holds them",
				 read->bytes);
	*part = (struct ibv_sge){ .addr = (uintptr_t)read->into,
				  .length = read->bytes,
				  .lkey = landing->mr->lkey };
	*work = (struct ibv_send_wr){ .sg_list = part, .num_sge = 1 };
	work->wr.rdma.remote_addr = remote->key.address + read->offset;
	work->wr.rdma.rkey = (uint32_t)remote->key.rkey;
	return 0;
}

int verbs_read(struct link *base, const struct fabric_read *reads, unsigned int count)
{
	struct verbs_link *link = (struct verbs_link *)base;
	struct ibv_send_wr list[VERBS_READS];
	struct ibv_sge parts[VERBS_READS];
	uint64_t tags[VERBS_READS];
	unsigned int room = VERBS_READS - verbs_channel_reads(&link->channel), filled = 0;

	if (link->state != LINK_UP)
		return error_set(ENOTCONN, "not connected");
	for (; filled < count && filled < room; filled++) {
		tags[filled] = reads[filled].tag;
		if (work_fill(link, &reads[filled], &list[filled], &parts[filled]) < 0)
			break;
	}
	if (filled == 0)
		return room == 0 || count == 0 ? 0 : -ERANGE;
	return verbs_channel_read(&link->channel, list, tags, filled);
}

int verbs_reap(struct link *base, struct fabric_completion *completions, unsigned int max)
{
	struct verbs_channel *channel = &((struct verbs_link *)base)->channel;
	unsigned int count = 0;

	if (verbs_channel_reads(channel) > channel->done_count)
		verbs_channel_progress(channel);
	for (; count < max && channel->done_count > 0; count++) {
		completions[count] = channel->done[channel->done_first];
		channel->done_first = (channel->done_first + 1) % VERBS_READS;
		channel->done_count--;
	}
	return (int)count;
}
