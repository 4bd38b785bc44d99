/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/multicast_fabric.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bus/error.h"
#include "bus/verbs/verbs.h"
#include "bus/verbs/verbs_group.h"
#include "bus/verbs/verbs_receiver.h"

#define PLACES_MAX 64
#define RECEIVES   512

struct place {
	const void *owner; /* a listener or a link; NULL: free */
	struct verbs_group *groups;
	struct fabric_notices notices;
	struct verbs_receiver receiver;
	int epoll;
	bool deaf;
};

static struct fabric_ops multicast_ops;
static const struct fabric_ops *below;
static struct address loopback;
static struct place places[PLACES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sockaddr_storage lost_group, refused_group;
static _Atomic bool lost;

/* The entry of an owner. Of NULL: a free entry. */
static struct place *place_of(const void *owner)
{
	struct place *place = places;

	pthread_mutex_lock(&lock);
	while (place < places + PLACES_MAX && place->owner != owner)
		place++;
	pthread_mutex_unlock(&lock);
	if (place == places + PLACES_MAX)
		abort();
	return place;
}

static void place_take(const void *owner, struct place with)
{
	struct place *place;

	pthread_mutex_lock(&lock);
	for (place = places; place->owner; place++)
		if (place + 1 == places + PLACES_MAX)
			abort();
	*place = with;
	place->owner = owner;
	pthread_mutex_unlock(&lock);
}

static int multicast_listen(struct listener **out, const struct fabric_listen *listen,
			    const struct listener_calls *calls, void *user)
{
	int result = below->listen(out, listen, calls, user);

	if (result < 0)
		return result;
	(*out)->ops = &multicast_ops;
	place_take(*out, (struct place){ .notices = listen->notices });
	return 0;
}

static void multicast_listener_close(struct listener *listener)
{
	struct place *place = listener ? place_of(listener) : NULL;

	while (place && place->groups) {
		struct verbs_group *group = place->groups;

		place->groups = group->next;
		verbs_group_close(group);
		free(group);
	}
	if (place)
		place->owner = NULL;
	below->listener_close(listener);
}

static struct verbs_group *group_of(const struct place *place, const struct sockaddr_storage *where)
{
	struct verbs_group *group = place->groups;

	while (group && !address_same(&group->wish.group, where ? where : &place->notices.group))
		group = group->next;
	return group;
}

static void multicast_notices(const struct listener *listener, const struct sockaddr_storage *where,
			      struct fabric_notices *notices)
{
	const struct verbs_group *group = group_of(place_of(listener), where);

	memset(notices, 0, sizeof(*notices));
	if (group) {
		*notices = group->wish;
		notices->kind = group->kind;
	}
}

static int multicast_announcer_open(struct listener *listener, const struct sockaddr_storage *where,
				    size_t bytes, struct announcer **out)
{
	struct place *place = place_of(listener);
	struct verbs_group *group = group_of(place, where);
	struct verbs_announcer *announcer;
	int result;

	*out = NULL;
	if (!group) {
		group = calloc(1, sizeof(*group));
		if (!group)
			return error_set(ENOMEM, "no memory");
		group->wish = place->notices;
		group->wish.kind = FABRIC_NOTICES_UDP;
		if (where)
			group->wish.group = *where;
		group->next = place->groups;
		place->groups = group;
		verbs_group_open(group, NULL, NULL, NULL, &loopback);
	}
	result = verbs_announcer_open(group, bytes, &announcer);
	if (announcer) {
		announcer->base.ops = &multicast_ops;
		*out = &announcer->base;
	}
	return result;
}

static int multicast_announce(struct announcer *base, const void *datagram, size_t bytes)
{
	const struct verbs_announcer *announcer = (struct verbs_announcer *)base;

	if (atomic_load(&lost) && address_same(&announcer->group->wish.group, &lost_group))
		return 0;
	return verbs_announce(base, datagram, bytes);
}

/* The name, without what follows a comma. */
static int multicast_identity(const char *address, char text[FABRIC_IDENTITY_BYTES])
{
	snprintf(text, FABRIC_IDENTITY_BYTES, "%.*s", (int)strcspn(address, ","), address);
	return 0;
}

static int multicast_connect(struct link **out, const char *address, const void *hello,
			     size_t bytes, const struct link_calls *calls, void *user)
{
	const char *knob = strchr(address, ',');
	char name[FABRIC_IDENTITY_BYTES];
	int result;

	multicast_identity(address, name);
	result = below->connect(out, name, hello, bytes, calls, user);
	if (result < 0)
		return result;
	(*out)->ops = &multicast_ops;
	place_take(*out, (struct place){ .deaf = knob, .epoll = -1 });
	return 0;
}

static int multicast_link_fd(const struct link *link)
{
	struct place *place = place_of(link);
	struct epoll_event event = { .events = EPOLLIN };

	if (place->epoll < 0) {
		place->epoll = epoll_create1(EPOLL_CLOEXEC);
		epoll_ctl(place->epoll, EPOLL_CTL_ADD, below->link_fd(link), &event);
	}
	return place->epoll;
}

static void multicast_link_close(struct link *link)
{
	struct place *place = link ? place_of(link) : NULL;

	if (place) {
		verbs_receiver_close(&place->receiver);
		if (place->epoll >= 0)
			close(place->epoll);
		place->owner = NULL;
	}
	below->link_close(link);
}

static int multicast_receive(struct link *link, const struct fabric_notices *notices)
{
	struct place *place = place_of(link);
	const struct verbs_receive how = { .local = loopback.host, .count = RECEIVES };
	struct epoll_event event = { .events = EPOLLIN };
	const struct verbs_member *member;

	if (place->deaf || address_same(&notices->group, &refused_group))
		return error_set(ENOTSUP, "notices: not wanted");
	member = verbs_receiver_join(&place->receiver, &how, notices);
	if (!member)
		return -errno;
	return epoll_ctl(multicast_link_fd(link), EPOLL_CTL_ADD, member->socket, &event) < 0
		       ? -errno
		       : 0;
}

static void multicast_receive_end(struct link *link, const struct fabric_notices *notices)
{
	verbs_receiver_leave(&place_of(link)->receiver, &notices->group);
}

static size_t multicast_datagram(struct link *link, void *datagram, size_t room)
{
	return verbs_receiver_take(&place_of(link)->receiver, datagram, room);
}

void multicast_lose(const char *group, bool is_lost)
{
	if (address_parse_group(group, &lost_group) < 0)
		abort();
	atomic_store(&lost, is_lost);
}

void multicast_refuse(const char *group, bool refused)
{
	if (address_parse_group(group, &refused_group) < 0)
		abort();
	if (!refused)
		refused_group = (struct sockaddr_storage){ 0 };
}

void multicast_end(const char *group)
{
	struct sockaddr_storage where;

	if (address_parse_group(group, &where) < 0)
		abort();
	for (struct place *place = places; place < places + PLACES_MAX; place++)
		verbs_receiver_leave(&place->receiver, &where);
}

void multicast_add(void)
{
	const char *rest;

	below = fabric_find("bytewise:", &rest);
	if (!below || address_parse("127.0.0.1:1", &loopback) < 0)
		abort();
	multicast_ops = *below;
	multicast_ops.scheme = "multicast";
	multicast_ops.listen = multicast_listen;
	multicast_ops.listener_close = multicast_listener_close;
	multicast_ops.identity = multicast_identity;
	multicast_ops.connect = multicast_connect;
	multicast_ops.link_fd = multicast_link_fd;
	multicast_ops.link_close = multicast_link_close;
	multicast_ops.notices = multicast_notices;
	multicast_ops.announcer_open = multicast_announcer_open;
	multicast_ops.announcer_close = verbs_announcer_close;
	multicast_ops.announce = multicast_announce;
	multicast_ops.receive = multicast_receive;
	multicast_ops.receive_end = multicast_receive_end;
	multicast_ops.datagram = multicast_datagram;
	if (fabric_add(&multicast_ops) < 0)
		abort();
}
