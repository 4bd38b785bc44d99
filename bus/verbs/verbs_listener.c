/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side of the verbs fabric: one address of one device, its peers, and memory
 * registered for remote READ alone.
 *
 * L1  A peer that callbacks may still name is freed only when the poll that made them is over.
 * L2  An event is given back before anything is done about it: destroying an id waits for that.
 * L3  Memory that was withdrawn stays registered for WITHDRAWN_MS, so that who holds its key can
 *     read it to the end; the registration keeps the pages, not our mapping of them.
 * L4  When the device goes, so does everything made of it, but not the exposures: they are
 *     registered anew when it returns, and have new keys then.
 * L5  A group that was lost, or could not be joined, is joined again each GROUP_RETRY_MS: a subnet
 *     manager that gave way to another one says nothing when it knows it again. A join that is
 *     under way may take it some seconds, and is given up after JOIN_LATE_MS.
 * L6  A peer's queue pair is made in the domain of its realm, once its hello told which: it cannot
 *     be moved to another.
 * L7  A device that returns is given its memory and its senders one by one, with a poll between
 *     them: pinning gigabytes takes seconds, and who polls has a pulse to beat. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bus/control.h"
#include "bus/error.h"
#include "bus/verbs/verbs.h"
#include "bus/clock.h"
#include "bus/bounds.h"
#include "tickbus/error.h"

#define EVENTS_PER_POLL 64
#define BACKLOG         1024
#define WITHDRAWN_MS    2000
#define PROBE_MS        1000
#define PROBE_LATE_MS   30000
#define NUDGE_MS        30000
#define GROUP_RETRY_MS  1000
#define JOIN_LATE_MS    10000

static const struct timespec half_second = { 0, 500000000 };

struct verbs_exposure {
	struct exposure base;
	struct verbs_exposure *next;
	struct verbs_listener *listener;
	void *memory;
	size_t bytes;
	uint32_t realm;
	struct verbs_registration *registration; /* NULL while the device is away */
	uint64_t withdrawn_ms;
};

struct verbs_peer {
	struct peer base;
	struct verbs_peer *next, *before;
	struct rdma_cm_id *id;
	struct verbs_channel channel;
	uint64_t probed_ms;
	bool up;   /* its hello was accepted */
	bool dead; /* freed when the poll is over */
	char words[ADDRESS_TEXT_BYTES];
};

struct verbs_listener {
	struct listener base;
	struct listener_calls calls;
	void *user;
	struct address address;
	char *text;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id; /* NULL while the device is away */
	bool listening;        /* all that is made of the device is there */
	struct ibv_context *device;
	struct verbs_async async;                       /* of the device */
	struct ibv_pd *pd;                              /* of notices */
	struct verbs_domain *domains[BOUND_REALMS_MAX]; /* NULL: not used yet */
	struct fabric_common *common, own;              /* own: where the owner has none */
	struct ibv_comp_channel *completions;
	uint32_t responder_resources;
	int epoll, timer;
	bool soon; /* the next poll goes on with what this one began */
	int away;  /* why the device could not be opened again, as it was told last: -errno */
	unsigned int peers, peers_max;
	struct verbs_peer *first, *dead;
	struct verbs_exposure *exposures;
	struct fabric_notices notices; /* as they were asked for */
	struct verbs_group *groups;
};

static void listener_log(struct verbs_listener *listener, enum fabric_log kind, const char *format,
			 ...) __attribute__((format(printf, 3, 4)));

static void listener_log(struct verbs_listener *listener, enum fabric_log kind, const char *format,
			 ...)
{
	char words[512];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	listener->calls.log(listener->user, kind, words);
}

/* -- memory -------------------------------------------------------------------------------------
 */

/* Sees to it that the listener uses the domain of a realm. */
static int domain_use(struct verbs_listener *listener, uint32_t realm)
{
	struct verbs_domain **domain = &listener->domains[realm];

	if (!*domain)
		*domain = verbs_domain_use(listener->common, listener->device, realm);
	return *domain ? 0 : verbs_error(errno, listener->text, "a protection domain");
}

static int exposure_register(struct verbs_exposure *exposure)
{
	struct verbs_listener *listener = exposure->listener;
	const int result = domain_use(listener, exposure->realm);
	char what[64];

	if (result < 0)
		return result;
	exposure->registration = verbs_registration_use(listener->domains[exposure->realm],
							exposure->memory, exposure->bytes);
	if (exposure->registration)
		return 0;
	snprintf(what, sizeof(what), "%zu bytes to be registered", exposure->bytes);
	return verbs_error(errno, listener->text, what);
}

static void exposure_unregister(struct verbs_exposure *exposure)
{
	if (exposure->registration)
		verbs_registration_leave(exposure->registration);
	exposure->registration = NULL;
}

int verbs_expose(struct listener *base, const struct memory *memory, uint32_t realm,
		 struct exposure **out)
{
	struct verbs_listener *listener = (struct verbs_listener *)base;
	struct verbs_exposure *exposure = calloc(1, sizeof(*exposure));
	int result;

	*out = NULL;
	if (!exposure)
		return error_set(ENOMEM, "address rdma:%s: no memory", listener->text);
	exposure->base.ops = base->ops;
	exposure->listener = listener;
	exposure->memory = memory->base;
	exposure->bytes = memory->bytes;
	exposure->realm = realm;
	result = listener->device ? exposure_register(exposure) : 0;
	if (result < 0) {
		free(exposure);
		return result;
	}
	exposure->next = listener->exposures;
	listener->exposures = exposure;
	*out = &exposure->base;
	return 0;
}

static void exposure_free(struct verbs_exposure **link)
{
	struct verbs_exposure *exposure = *link;

	*link = exposure->next;
	exposure_unregister(exposure);
	free(exposure);
}

void verbs_withdraw(struct exposure *base)
{
	struct verbs_exposure *exposure = (struct verbs_exposure *)base;

	if (!exposure)
		return;
	exposure->withdrawn_ms = clock_ms();
	if (exposure->registration)
		verbs_registration_retire(exposure->registration);
}

struct fabric_key verbs_key(const struct exposure *base)
{
	const struct verbs_exposure *exposure = (const struct verbs_exposure *)base;

	/* Without a registration nobody can be connected to use the key. */
	return (struct fabric_key){ .address = (uintptr_t)exposure->memory,
				    .rkey = exposure->registration
						    ? exposure->registration->mr->rkey
						    : 0 };
}

static void withdrawn_free(struct verbs_listener *listener)
{
	const uint64_t now = clock_ms();

	for (struct verbs_exposure **link = &listener->exposures; *link;)
		if ((*link)->withdrawn_ms && now - (*link)->withdrawn_ms >= WITHDRAWN_MS)
			exposure_free(link); /* L3 */
		else
			link = &(*link)->next;
}

/* -- peers --------------------------------------------------------------------------------------
 */

static void peer_bury(struct verbs_listener *listener, struct verbs_peer *peer)
{
	if (peer->before)
		peer->before->next = peer->next;
	else
		listener->first = peer->next;
	if (peer->next)
		peer->next->before = peer->before;
	rdma_disconnect(peer->id); /* tells the other side, where that is still to be done */
	verbs_channel_close(&peer->channel);
	rdma_destroy_id(peer->id);
	peer->dead = true;
	peer->before = NULL;
	peer->next = listener->dead;
	listener->dead = peer;
	listener->peers--;
}

static void peer_lost(struct verbs_listener *listener, struct verbs_peer *peer, const char *why)
{
	const bool up = peer->up;

	if (peer->dead)
		return;
	peer_bury(listener, peer);
	if (up)
		listener->calls.gone(listener->user, &peer->base, why);
}

static void graves_clear(struct verbs_listener *listener)
{
	while (listener->dead) {
		struct verbs_peer *peer = listener->dead;

		listener->dead = peer->next;
		free(peer);
	}
}

/* Answers a request for a connection with a reason. */
static void reject(struct rdma_cm_id *id, int code, const char *why)
{
	struct verbs_private_data told = { .mark = VERBS_MARK, .number = (uint16_t)code };
	const size_t length = strnlen(why, FABRIC_REASON_BYTES);

	memcpy(told.body, why, length);
	rdma_reject(id, &told, (uint8_t)(VERBS_PRIVATE_DATA_HEADER + length));
}

/* And forgets it. */
static void refuse(struct verbs_listener *listener, struct rdma_cm_id *id, int code,
		   const char *why)
{
	char who[ADDRESS_TEXT_BYTES];

	address_text(rdma_get_peer_addr(id), who);
	reject(id, code, why);
	listener_log(listener, FABRIC_LOG_REFUSED, "%s was refused: %s", who, why);
	rdma_destroy_id(id);
}

static struct verbs_peer *peer_new(struct verbs_listener *listener, struct rdma_cm_id *id)
{
	struct verbs_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->base.ops = listener->base.ops;
	peer->base.listener = &listener->base;
	peer->id = id;
	peer->probed_ms = clock_ms();
	id->context = peer;
	address_text(rdma_get_peer_addr(id), peer->words);
	peer->next = listener->first;
	if (listener->first)
		listener->first->before = peer;
	listener->first = peer;
	listener->peers++;
	return peer;
}

/* The queue pair, and the accept that carries the welcome. */
static int peer_accept(struct verbs_listener *listener, struct verbs_peer *peer,
		       const struct verbs_event *event, const struct verbs_private_data *told)
{
	const uint32_t asked = event->conn.responder_resources;
	struct rdma_conn_param how = {
		.private_data = told,
		.private_data_len = (uint8_t)(VERBS_PRIVATE_DATA_HEADER + told->number),
		.responder_resources = (uint8_t)(asked < listener->responder_resources
							 ? asked
							 : listener->responder_resources),
		.flow_control = 1,
		.rnr_retry_count = (uint8_t)listener->address.rnr_retries,
	};
	int result = domain_use(listener, peer->base.realm);

	if (result == 0) /* L6 */
		result = verbs_channel_open(&peer->channel, peer->id,
					    listener->domains[peer->base.realm]->pd,
					    listener->completions, peer);
	if (result == 0 && rdma_accept(peer->id, &how) < 0)
		result = error_set(errno, "it cannot be accepted: %s", strerror(errno));
	return result;
}

static void on_request(struct verbs_listener *listener, const struct verbs_event *event)
{
	struct verbs_private_data told = { .mark = VERBS_MARK };
	char why[FABRIC_REASON_BYTES] = "the publisher has no memory for another subscriber";
	struct exposure *given = NULL;
	struct verbs_peer *peer;
	size_t length = 0;
	int result;

	if (listener->peers >= listener->peers_max) {
		refuse(listener, event->id, EUSERS,
		       "the publisher has as many subscribers as it may have");
		return;
	}
	peer = peer_new(listener, event->id);
	if (!peer) {
		refuse(listener, event->id, EAGAIN, why);
		return;
	}
	result = listener->calls.hello(listener->user, &peer->base, event->data, event->bytes,
				       told.body, &length, &given, why);
	if (peer->dead)
		return;
	if (result < 0) {
		why[sizeof(why) - 1] = '\0';
		reject(peer->id, -result, why);
		listener_log(listener, FABRIC_LOG_REFUSED, "%s was refused: %s", peer->words, why);
		peer_bury(listener, peer);
		return;
	}
	peer->up = true;
	told.number = (uint16_t)length;
	result = peer_accept(listener, peer, event, &told);
	if (result < 0) {
		reject(peer->id, EAGAIN, tb_error()); /* what is missing here may come back */
		listener_log(listener, FABRIC_LOG_DROPPED, "%s: %s", peer->words, tb_error());
		peer_lost(listener, peer, tb_error());
	}
}

/* Takes what a peer sent. Its receives are posted again as they are taken, but what arrives on them
 * makes an event of its own. */
static void peer_read(struct verbs_listener *listener, struct verbs_peer *peer)
{
	uint8_t message[FABRIC_MESSAGE_BYTES];
	char why[128];
	size_t bytes;

	ibv_req_notify_cq(peer->channel.cq, 0);
	verbs_channel_progress(&peer->channel);
	for (int i = 0; i < VERBS_RECEIVES && !peer->dead; i++) {
		bytes = verbs_channel_take(&peer->channel, message);
		if (bytes == 0)
			break;
		listener->calls.message(listener->user, &peer->base, message, bytes);
	}
	if (peer->dead || !peer->channel.broken)
		return;
	snprintf(why, sizeof(why), "%s", peer->channel.why);
	if (peer->channel.broken == EPROTO)
		listener_log(listener, FABRIC_LOG_DROPPED, "%s was dropped: %s", peer->words, why);
	peer_lost(listener, peer, why);
}

int verbs_send(struct peer *base, const void *message, size_t bytes, struct exposure *given)
{
	struct verbs_peer *peer = (struct verbs_peer *)base;

	(void)given; /* its key is in the message, and that is the permission */
	if (peer->dead || !peer->up)
		return error_set(ENOTCONN, "the subscriber is gone");
	return verbs_channel_send(&peer->channel, message, bytes);
}

void verbs_peer_words(const struct peer *base, char *words, size_t bytes)
{
	snprintf(words, bytes, "%s", ((const struct verbs_peer *)base)->words);
}

void verbs_drop(struct peer *base, const char *why)
{
	struct verbs_peer *peer = (struct verbs_peer *)base;
	struct verbs_listener *listener = (struct verbs_listener *)base->listener;

	if (peer->dead)
		return;
	listener_log(listener, FABRIC_LOG_DROPPED, "%s was dropped: %s", peer->words, why);
	peer_bury(listener, peer);
}

/* -- the device ---------------------------------------------------------------------------------
 */

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
	verbs_device_use(listener->device = listener->id->verbs);
	verbs_async_watch(&listener->async, listener->device, NULL, NULL);
	return 0;
}

/* What became of a group. Without notices subscribers look by themselves: that is worth a line, no
 * error, and one line however often it is tried again (L5). */
static void group_result(struct verbs_listener *listener, struct verbs_group *group, int result)
{
	char words[ADDRESS_TEXT_BYTES];

	address_text((const struct sockaddr *)&group->asked.group, words);
	if (result < 0) {
		if (-result != group->lost)
			listener_log(
				listener, FABRIC_LOG_NEWS,
				"address rdma:%s: %s; no notices go to %s until it can be joined",
				listener->text, tb_error(), words);
		group->lost = -result;
		verbs_group_close(group);
	} else if (group->lost && verbs_group_ready(group)) {
		group->lost = 0;
		listener_log(listener, FABRIC_LOG_NEWS, "address rdma:%s: notices go to %s again",
			     listener->text, words);
	}
}

/* The next poll is due at once, and goes on with what this one began. */
static void poll_soon(struct verbs_listener *listener)
{
	const struct itimerspec now = { half_second, { 0, 1 } };

	listener->soon = true;
	timerfd_settime(listener->timer, 0, &now, NULL);
}

/* What became of its senders, in one line likewise, whatever else others of them lack. */
static void senders_result(struct verbs_listener *listener, struct verbs_group *group, int result)
{
	char words[ADDRESS_TEXT_BYTES];

	if (group->round)
		poll_soon(listener); /* L7 */
	address_text((const struct sockaddr *)&group->asked.group, words);
	if (result < 0 && !group->missing)
		listener_log(listener, FABRIC_LOG_NEWS,
			     "address rdma:%s: %s; a sender to %s is missing until it can be had",
			     listener->text, tb_error(), words);
	if (result > 0)
		listener_log(listener, FABRIC_LOG_NEWS,
			     "address rdma:%s: notices: a sender failed and was started anew",
			     listener->text);
	if (result < 0) {
		group->missing = -result;
	} else if (group->missing && verbs_group_whole(group)) {
		group->missing = 0;
		listener_log(listener, FABRIC_LOG_NEWS,
			     "address rdma:%s: notices: all senders to %s are there again",
			     listener->text, words);
	}
}

static void group_open(struct verbs_listener *listener, struct verbs_group *group)
{
	group->tried_ms = clock_ms();
	group_result(listener, group,
		     verbs_group_open(group, listener->id, listener->pd, listener->events,
				      &listener->address));
	senders_result(listener, group, verbs_group_mend(group));
}

/* L5 */
static bool is_to_be_joined(const struct verbs_group *group)
{
	const uint64_t since_ms = clock_ms() - group->tried_ms;

	return group->kind == FABRIC_NOTICES_UD && !group->ah &&
	       since_ms >= (group->id ? JOIN_LATE_MS : GROUP_RETRY_MS);
}

static void group_again(struct verbs_listener *listener, struct verbs_group *group)
{
	verbs_group_close(group);
	group_open(listener, group);
}

/* Of NULL: of the bus's own. NULL: there is none yet. */
static struct verbs_group *group_of(const struct verbs_listener *listener,
				    const struct sockaddr_storage *where)
{
	struct verbs_group *group = listener->groups;

	if (!where)
		where = &listener->notices.group;
	while (group && !address_same(&group->asked.group, where))
		group = group->next;
	return group;
}

static struct verbs_group *group_add(struct verbs_listener *listener,
				     const struct sockaddr_storage *where)
{
	struct verbs_group **link = &listener->groups;
	struct verbs_group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	while (*link)
		link = &(*link)->next;
	*link = group;
	group->asked = listener->notices;
	group->asked.group = *where;
	if (listener->listening)
		group_open(listener, group);
	return group;
}

void verbs_notices(const struct listener *base, const struct sockaddr_storage *where,
		   struct fabric_notices *notices)
{
	const struct verbs_group *group = group_of((const struct verbs_listener *)base, where);

	memset(notices, 0, sizeof(*notices));
	if (group)
		*notices = (struct fabric_notices){ .kind = group->kind,
						    .bytes = group->bytes,
						    .group = group->asked.group };
}

int verbs_announcer(struct listener *base, const struct sockaddr_storage *where, size_t bytes,
		    struct announcer **out)
{
	struct verbs_listener *listener = (struct verbs_listener *)base;
	struct verbs_group *group = group_of(listener, where);
	struct verbs_announcer *announcer;
	int result;

	*out = NULL;
	if (!where)
		where = &listener->notices.group;
	if (where->ss_family != listener->address.host.ss_family) {
		if (where == &listener->notices.group)
			listener_log(listener, FABRIC_LOG_NEWS,
				     "address rdma:%s: notices: none, the bus's group is of IPv%d",
				     listener->text, where->ss_family == AF_INET ? 4 : 6);
		return 0;
	}
	if (!group)
		group = group_add(listener, where);
	if (!group)
		return error_set(ENOMEM, "address rdma:%s: no memory", listener->text);
	result = verbs_announcer_open(group, bytes, &announcer);
	if (!announcer)
		return result;
	*out = &announcer->base;
	senders_result(listener, group, result);
	return 0;
}

/* What is made of a device before the memory; what fails is taken apart by device_close. */
static int device_open(struct verbs_listener *listener)
{
	struct ibv_device_attr device = { 0 };
	int result = device_bind(listener);

	if (result < 0)
		return result;
	if (ibv_query_device(listener->id->verbs, &device) != 0)
		return verbs_error(EIO, listener->text, "its device's properties");
	listener->responder_resources =
		verbs_reads(listener->address.reads, VERBS_DEPTH_MOST, device.max_qp_rd_atom);
	listener->pd = ibv_alloc_pd(listener->id->verbs);
	if (!listener->pd)
		return verbs_error(errno, listener->text, "a protection domain");
	listener->completions = ibv_create_comp_channel(listener->id->verbs);
	if (!listener->completions)
		return verbs_error(errno, listener->text, "a completion channel");
	result = verbs_nonblocking(listener->completions->fd);
	if (result < 0)
		return verbs_error(-result, listener->text, "a completion channel");
	return watch(listener, listener->completions->fd);
}

static int device_listen(struct verbs_listener *listener)
{
	if (rdma_listen(listener->id, BACKLOG) < 0)
		return verbs_error(errno, listener->text, "listening");
	listener->listening = true;
	for (struct verbs_group *group = listener->groups; group; group = group->next)
		group_open(listener, group);
	return 0;
}

static void device_close(struct verbs_listener *listener)
{
	for (struct verbs_group *group = listener->groups; group; group = group->next) {
		verbs_group_close(group);
		group->kind = FABRIC_NOTICES_NONE; /* G1: no sender begins before it is open */
	}
	for (struct verbs_exposure *e = listener->exposures; e; e = e->next)
		exposure_unregister(e);
	for (size_t i = 0; i < BOUND_REALMS_MAX; i++) {
		if (listener->domains[i])
			verbs_domain_leave(listener->domains[i]);
		listener->domains[i] = NULL;
	}
	if (listener->completions) {
		epoll_ctl(listener->epoll, EPOLL_CTL_DEL, listener->completions->fd, NULL);
		ibv_destroy_comp_channel(listener->completions);
	}
	if (listener->pd)
		ibv_dealloc_pd(listener->pd);
	if (listener->id)
		rdma_destroy_id(listener->id);
	verbs_async_unwatch(&listener->async);
	verbs_device_leave(listener->device);
	listener->listening = false;
	listener->device = NULL;
	listener->completions = NULL;
	listener->pd = NULL;
	listener->id = NULL;
}

/* Nothing that is made of it is of any use. It is tried again by the timer. */
static void device_lost(struct verbs_listener *listener, const char *why)
{
	listener_log(listener, FABRIC_LOG_NEWS, "address rdma:%s: %s", listener->text, why);
	while (listener->first)
		peer_lost(listener, listener->first, why);
	device_close(listener);
	listener->away = -ENODEV;
}

/* The device, then its memory piece by piece, then it is listened at: 1 there is more to do, 0, or
 * -errno with words. */
static int return_step(struct verbs_listener *listener)
{
	struct verbs_exposure *exposure = listener->exposures;
	int result;

	if (!listener->id) {
		result = device_open(listener);
		return result < 0 ? result : 1;
	}
	while (exposure && (exposure->registration || exposure->withdrawn_ms))
		exposure = exposure->next;
	if (!exposure)
		return device_listen(listener);
	result = exposure_register(exposure); /* L4 */
	return result < 0 ? result : 1;
}

/* What keeps the address from being listened on is said when it changes, not at each try. */
static void device_return(struct verbs_listener *listener)
{
	const int result = return_step(listener);

	if (result > 0) {
		poll_soon(listener); /* L7 */
		return;
	}
	if (result < 0 && result != listener->away)
		listener_log(listener, FABRIC_LOG_NEWS, "%s; it is tried again", tb_error());
	listener->away = result;
	if (result < 0)
		device_close(listener);
	else
		listener_log(listener, FABRIC_LOG_NEWS,
			     "address rdma:%s: its device is there again", listener->text);
}

int verbs_listen(struct listener **out, const struct fabric_listen *how,
		 const struct listener_calls *calls, void *user)
{
	const struct itimerspec twice_a_second = { half_second, half_second };
	struct verbs_listener *listener;
	struct address address;
	int result = address_parse_listen(how->address, &address);

	*out = NULL;
	if (result < 0)
		return result;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return error_set(ENOMEM, "address rdma:%s: no memory", how->address);
	*listener = (struct verbs_listener){ .base.ops = &verbs_ops,
					     .calls = *calls,
					     .user = user,
					     .address = address,
					     .text = strdup(how->address),
					     .peers_max = how->peers_max,
					     .notices = how->notices };
	listener->common = how->common ? how->common : &listener->own;
	listener->epoll = epoll_create1(EPOLL_CLOEXEC);
	listener->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (!listener->text || listener->epoll < 0 || listener->timer < 0 ||
	    timerfd_settime(listener->timer, 0, &twice_a_second, NULL) < 0) {
		result = verbs_error(errno, how->address, "descriptors");
		goto fail;
	}
	listener->events = verbs_events_open(listener->text);
	result = listener->events ? watch(listener, listener->events->fd) : -errno;
	if (result == 0)
		result = watch(listener, listener->timer);
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

int verbs_listener_fd(const struct listener *base)
{
	return ((const struct verbs_listener *)base)->epoll;
}

void verbs_listener_close(struct listener *base)
{
	struct verbs_listener *listener = (struct verbs_listener *)base;

	if (!listener)
		return;
	while (listener->first)
		peer_bury(listener, listener->first);
	graves_clear(listener);
	while (listener->exposures)
		exposure_free(&listener->exposures);
	device_close(listener);
	while (listener->groups) {
		struct verbs_group *group = listener->groups;

		listener->groups = group->next;
		free(group);
	}
	if (listener->events)
		rdma_destroy_event_channel(listener->events);
	if (listener->epoll >= 0)
		close(listener->epoll);
	if (listener->timer >= 0)
		close(listener->timer);
	free(listener->text);
	free(listener);
}

/* -- the loop -----------------------------------------------------------------------------------
 */

static void on_group_event(struct verbs_listener *listener, const struct verbs_event *event)
{
	for (struct verbs_group *group = listener->groups; group; group = group->next)
		if (event->id == group->id) {
			group_result(listener, group, verbs_group_event(group, event));
			senders_result(listener, group, verbs_group_mend(group));
		}
}

/* Of an id of the listener's own, all of them are; a peer's is its own. */
static void on_lost(struct verbs_listener *listener, const struct verbs_event *event,
		    const char *why)
{
	struct verbs_peer *peer = event->id->context;

	if (event->id == listener->id || event->id->ps == RDMA_PS_UDP)
		device_lost(listener, why);
	else if (peer)
		peer_lost(listener, peer, why);
}

static void on_event(struct verbs_listener *listener, const struct verbs_event *event)
{
	struct verbs_peer *peer = event->id->context;

	switch (event->type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		on_request(listener, event);
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		on_group_event(listener, event);
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
		if (!peer)
			break;
		peer_read(listener, peer); /* what it sent before */
		peer_lost(listener, peer,
			  event->type == RDMA_CM_EVENT_DISCONNECTED
				  ? "it closed the connection"
				  : "its connection was never completed");
		break;
	default: /* ESTABLISHED, TIMEWAIT_EXIT: nothing to do */
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
	       ibv_get_cq_event(listener->completions, &cq, &peer) == 0) {
		ibv_ack_cq_events(cq, 1);
		peer_read(listener, peer);
		count++;
	}
	return count;
}

/* A subscriber whose host died says nothing and asks nothing: only a WRITE that is not acknowledged
 * tells. How often the device tries it again was said by the subscriber's request, and may be for
 * ever. */
static void peer_probe(struct verbs_listener *listener, struct verbs_peer *peer)
{
	const uint64_t since_ms = clock_ms() - peer->probed_ms;

	if (peer->channel.broken || (peer->channel.probing && since_ms >= PROBE_LATE_MS)) {
		peer_lost(listener, peer, "it does not answer any more");
	} else if (!peer->channel.probing && since_ms >= PROBE_MS) {
		peer->probed_ms = clock_ms();
		verbs_channel_probe(&peer->channel);
	}
}

/* iWARP has no such acknowledgement. There TCP gives up what it sent, after minutes, and the
 * connection ends; but something has to be sent: a wake for no topic. */
static void peer_nudge(struct verbs_peer *peer)
{
	const struct control_message nothing = { .type = CONTROL_WAKE };
	uint8_t bytes[FABRIC_MESSAGE_BYTES];

	if (clock_ms() - peer->probed_ms < NUDGE_MS)
		return;
	peer->probed_ms = clock_ms();
	verbs_channel_nudge(&peer->channel, bytes, control_encode(&nothing, bytes));
}

static void peers_look(struct verbs_listener *listener)
{
	const bool probes = listener->device->device->transport_type == IBV_TRANSPORT_IB;
	struct verbs_peer *next;
	char why[128];

	for (struct verbs_peer *peer = listener->first; peer; peer = next) {
		next = peer->next;
		if (probes)
			peer_probe(listener, peer);
		else if (peer->up)
			peer_nudge(peer);
		if (peer->dead)
			continue;
		verbs_channel_look(&peer->channel);
		snprintf(why, sizeof(why), "%s", peer->channel.why);
		if (peer->channel.broken)
			peer_lost(listener, peer, why);
	}
}

/* going_on: with rounds that were begun, and with nothing else. A sender that fails as soon as it
 * is there is started twice a second, not all the time. */
static void groups_mend(struct verbs_listener *listener, bool going_on)
{
	for (struct verbs_group *group = listener->groups; group; group = group->next) {
		if (is_to_be_joined(group))
			group_again(listener, group);
		else if (group->round || !going_on)
			senders_result(listener, group, verbs_group_mend(group));
	}
}

static void ports_look(struct verbs_listener *listener)
{
	struct verbs_port_event port_events[VERBS_PORT_EVENTS_MAX];
	const unsigned int count = verbs_async_port_events(&listener->async, port_events);

	for (unsigned int i = 0; i < count; i++)
		listener_log(listener, FABRIC_LOG_NEWS, "device %s: %s, port %d",
			     ibv_get_device_name(listener->device->device),
			     ibv_event_type_str(port_events[i].type), port_events[i].port);
}

static void on_timer(struct verbs_listener *listener)
{
	const bool going_on = listener->soon;
	uint64_t ticks;

	if (read(listener->timer, &ticks, sizeof(ticks)) < 0)
		return;
	listener->soon = false;
	withdrawn_free(listener);
	if (!listener->listening) {
		device_return(listener);
		return;
	}
	verbs_async_take(listener->device);
	ports_look(listener);
	if (verbs_async_text(&listener->async)) {
		device_lost(listener, "the device is lost");
		return;
	}
	peers_look(listener);
	groups_mend(listener, going_on);
}

int verbs_listener_poll(struct listener *base)
{
	struct verbs_listener *listener = (struct verbs_listener *)base;
	int count;

	count = events_take(listener);
	count += completions_take(listener);
	on_timer(listener);
	graves_clear(listener); /* L1 */
	return count;
}
