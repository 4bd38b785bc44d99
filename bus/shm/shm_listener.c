/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's side of the shm fabric: one socket, its peers, and descriptors handed to them.
 *
 * H1  A silent connection costs one descriptor for at most HELLO_MS, and counts as a peer. If all
 *     places are taken, a new connection takes the place of a connection that was not accepted. It
 *     is the oldest of the user that has the most of them. Each user has a bounded number of them.
 *     So a user that only connects takes places from itself.
 * H2  No descriptor is received from a client: closing it could wait as long as its sender likes.
 *     The kernel refuses to send it, or it stays in the queue and ends the connection (Z5).
 * H6  A peer of another user gets a read-only open file that no other process has. Its flags, its
 *     locks and its position would otherwise be shared, and its locks would stay when the peer is
 *     gone. Peers of root and of the publisher's own user share a file: they could stop it anyway.
 * H8  A good peer that is stopped leaves at most a welcome, answers and offers unread. Offers take
 *     half of its queue. A peer that leaves more bytes or descriptors is full. It is dropped if it
 *     takes nothing for STALLED_S.
 */
#include "bus/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/peers.h"
#include "bus/shm/shm_access.h"
#include "bus/shm/shm_flight.h"
#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_hold.h"
#include "bus/shm/shm_search.h"
#include "bus/shm/shm_site.h"
#include "bus/shm/shm_trust.h"
#include "bus/shm/shm_waits.h"
#include "tickbus/error.h"

#define EVENTS_PER_POLL   64
#define FRAMES_PER_PEER   8 /* per poll, so that no peer holds up the others */
#define HELLO_MS          2000
#define BACKLOG           1024
#define ACCEPTS_OF_A_POLL (4 * BOUND_PEERS_OF_A_TURN) /* most may be closed already */
#define CLOSED            "it closed the connection"
#define UNTAKEN_MAX       (1 + FABRIC_UNANSWERED) /* a welcome and answers, by a good peer */
#define STALLED_S         10
#define ENDED_LOOKS       64 /* twice a second */
#define STALLED           "it has not read its messages for " BOUND_TEXT(STALLED_S) " s"

/* H6. The descriptor that the next peer gets. */
struct shm_exposure {
	struct exposure base;
	int memory;  /* its descriptor, the publisher's own */
	int fd;      /* -1: none could be opened */
	bool shared; /* trusted peers have its open file, so no other peer may get it */
};

struct shm_peer {
	struct peers_entry base;
	int fd;
	int queue_bytes; /* that the kernel queues for it */
	struct shm_flight flight;
	struct shm_wait wait;       /* until its hello is accepted */
	bool challenged;            /* its second hello is awaited */
	TAILQ_ENTRY(shm_peer) full; /* while is_listed (H8) */
	bool is_listed;
	uint64_t full_ms, full_taken; /* when it was listed, and what it had taken then */
	struct ucred credentials;
	bool trusted; /* it may share open files (H6) */
};
TAILQ_HEAD(shm_peers, shm_peer);

struct shm_listener {
	struct listener base;
	struct peers peers;
	struct shm_waits waits; /* of peers that are not accepted yet */
	struct shm_peers full;  /* peers that may have stalled, by full_ms */
	struct shm_flights flights;
	struct shm_site site;
	struct shm_frame_costs costs;
	int epoll, timer;
	int reserve; /* closed to accept one connection when descriptors run out */
	struct shm_access access;
	bool troubled; /* the site could not be made again at the last try */
	bool lost;     /* another publisher has the address */
	bool paused;   /* no descriptor or no slot is left: the socket is not polled */
	struct shm_hold hold;
};

/* -- opening ------------------------------------------------------------------------------------
 */

/* Permission to connect does not help a user that cannot reach the socket. A folder that others may
 * write to is refused by subscribers (Y2). */
static void folder_look(struct shm_listener *listener)
{
	char folder[sizeof(listener->site.location.address.sun_path)];
	struct stat status;

	snprintf(folder, sizeof(folder), "%s", listener->site.location.address.sun_path);
	*strrchr(folder, '/') = '\0';
	if (stat(folder, &status) < 0)
		return;
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		peers_log(&listener->peers, FABRIC_LOG_INFO,
			  "address shm:%s: other users may write to %s, so subscribers refuse it "
			  "unless their address has user=%u",
			  listener->site.name, folder, (unsigned int)geteuid());
	if (shm_access_is_shared(&listener->access) && !(status.st_mode & (S_IXGRP | S_IXOTH)))
		peers_log(&listener->peers, FABRIC_LOG_INFO,
			  "address shm:%s: other users are allowed, but cannot enter %s; set "
			  "TICKBUS_RUNTIME_DIR for the publisher and its subscribers to a folder "
			  "that "
			  "they can enter",
			  listener->site.name, folder);
}

static int hold_open(struct shm_listener *listener)
{
	return shm_hold_open(&listener->hold, listener->site.socket,
			     listener->site.location.address.sun_path, 2 * listener->peers.max);
}

static int hold_listen(struct shm_listener *listener)
{
	return shm_hold_listen(&listener->hold, listener->site.socket);
}

/* Lets clients connect to the site's socket, after it is shared with a porter (Z5). That takes
 * milliseconds, so the socket's file is made only then: a client that finds it can connect soon. */
static int socket_listen(struct shm_listener *listener,
			 int (*shares)(struct shm_listener *listener))
{
	const char *path = listener->site.location.address.sun_path;
	int result = shares(listener);

	if (result < 0)
		return error_prefix(result, "address shm:%s: ", listener->site.name);
	result = shm_site_bind(&listener->site);
	if (result < 0)
		return result;
	result = shm_access_set(&listener->access, path);
	if (result > 0)
		peers_log(&listener->peers, FABRIC_LOG_INFO, "address shm:%s: %s",
			  listener->site.name, tb_error());
	if (result < 0 || listen(listener->site.socket, BACKLOG) < 0)
		return error_set(errno, "address shm:%s: cannot create a socket at %s: %s",
				 listener->site.name, path, strerror(errno));
	return 0;
}

static int watch(struct shm_listener *listener, int fd, void *what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };

	if (epoll_ctl(listener->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return error_set(errno, "address shm:%s: epoll: %s", listener->site.name,
				 strerror(errno));
	return 0;
}

/* A socket of this name that subscribers meet before ours. */
static int before_look(struct shm_listener *listener)
{
	const int result = shm_search_before(listener->site.name, &listener->site.location);

	if (result > 0)
		peers_log(&listener->peers, FABRIC_LOG_INFO, "%s", tb_error());
	return result < 0 ? result : 0;
}

static int listener_open(struct shm_listener *listener, const struct fabric_listen *how)
{
	const struct itimerspec twice_a_second = { { 0, 500000000 }, { 0, 500000000 } };
	int result = shm_site_open(&listener->site, how->address);

	if (result == 0)
		result = shm_access_copy(&listener->access, &how->access);
	if (result == 0)
		result = before_look(listener);
	if (result == 0)
		result = shm_site_socket(&listener->site);
	if (result == 0)
		result = socket_listen(listener, hold_open);
	if (result < 0)
		return result;
	folder_look(listener);
	listener->epoll = epoll_create1(EPOLL_CLOEXEC);
	listener->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (listener->epoll < 0 || listener->timer < 0 || listener->reserve < 0 ||
	    timerfd_settime(listener->timer, 0, &twice_a_second, NULL) < 0)
		return error_set(errno, "address shm:%s: cannot create descriptors: %s",
				 listener->site.name, strerror(errno));
	result = watch(listener, listener->site.socket, &listener->site.socket);
	if (result == 0 && listener->hold.porter)
		result = watch(listener, listener->hold.porter->pair, &listener->hold);
	return result < 0 ? result : watch(listener, listener->timer, &listener->timer);
}

static void peer_end(struct peers_entry *entry)
{
	struct shm_listener *listener = (struct shm_listener *)entry->base.listener;
	struct shm_peer *peer = (struct shm_peer *)entry;

	shm_wait_end(&listener->waits, &peer->wait);
	if (peer->is_listed)
		TAILQ_REMOVE(&listener->full, peer, full);
	/* A child of this process may hold the descriptor too: closing alone would not end the
	 * events. */
	epoll_ctl(listener->epoll, EPOLL_CTL_DEL, peer->fd, NULL);
	if (!shm_flight_end(&listener->flights, &peer->flight))
		shm_hold_end(&listener->hold, peer->flight.slot, peer->fd);
}

/* Closes connections that ended while descriptors were on their way: all, or those without any now.
 */
static void ended_close(struct shm_listener *listener, bool all)
{
	struct shm_flight gone;
	int left = ENDED_LOOKS;

	while (shm_flights_next(&listener->flights, &left, all, &gone))
		shm_hold_end(&listener->hold, gone.slot, gone.socket);
}

int shm_listen(struct listener **out, const struct fabric_listen *how,
	       const struct listener_calls *calls, void *user)
{
	struct shm_listener *listener = calloc(1, sizeof(*listener));
	int result;

	*out = NULL;
	if (!listener)
		return error_set(ENOMEM, "address shm:%s: no memory", how->address);
	listener->peers = (struct peers){ .listener = &listener->base,
					  .calls = *calls,
					  .user = user,
					  .end = peer_end,
					  .max = how->peers_max };
	shm_waits_open(&listener->waits,
		       how->peers_per_user ? how->peers_per_user : how->peers_max);
	TAILQ_INIT(&listener->full);
	shm_flights_open(&listener->flights, how->peers_max);
	listener->site.socket = listener->site.lock.fd = listener->epoll = -1;
	listener->timer = listener->reserve = -1;
	result = listener_open(listener, how);
	if (result < 0) {
		shm_listener_close(&listener->base);
		return result;
	}
	shm_frame_costs_find(&listener->costs);
	*out = &listener->base;
	return 0;
}

void shm_listener_text(const struct listener *base, char *text, size_t bytes)
{
	const struct shm_listener *listener = (const struct shm_listener *)base;

	snprintf(text, bytes, "%s", listener->site.location.address.sun_path);
}

int shm_listener_fd(const struct listener *base)
{
	return ((const struct shm_listener *)base)->epoll;
}

/* -- peers --------------------------------------------------------------------------------------
 */

static void refuse(int fd, uint32_t code, const char *why)
{
	uint8_t body[sizeof(code) + FABRIC_REASON_BYTES];
	const size_t length = strnlen(why, FABRIC_REASON_BYTES);

	memcpy(body, &code, sizeof(code));
	memcpy(body + sizeof(code), why, length);
	shm_frame_send(fd, SHM_REFUSAL, body, sizeof(code) + length, -1);
}

/* Drops a peer before it is accepted, and sends it the reason. */
static void peer_refuse(struct shm_listener *listener, struct shm_peer *peer, uint32_t code,
			const char *why)
{
	refuse(peer->fd, code, why);
	peers_log_refused(&listener->peers, peer->base.text, why);
	peers_remove(&peer->base);
}

static struct shm_peer *peer_of(struct shm_wait *wait)
{
	return (struct shm_peer *)((char *)wait - offsetof(struct shm_peer, wait));
}

/* H1: the connection that gives way may be this peer. */
static void peer_give_way(struct shm_listener *listener, struct shm_peer *peer)
{
	struct shm_wait *beyond = shm_waits_beyond(&listener->waits, &peer->wait), *most;
	char why[FABRIC_REASON_BYTES];

	if (beyond) {
		snprintf(why, sizeof(why),
			 "user %u has more than %u connections that wait for their hello",
			 (unsigned int)peer->credentials.uid, listener->waits.user_max);
		peer_refuse(listener, peer_of(beyond), EAGAIN, why);
	} else if (listener->peers.count > listener->peers.max) {
		most = shm_waits_of_most(&listener->waits);
		peer_refuse(listener, peer_of(most), most == &peer->wait ? EUSERS : EAGAIN,
			    "the publisher has its maximum number of subscribers");
	}
}

/* A user without permission is refused at once: silent, it would take the place of others. */
static void peer_admit(struct shm_listener *listener, struct shm_peer *peer)
{
	char why[FABRIC_REASON_BYTES];

	if (shm_access_allows(&listener->access, peer->fd, &peer->credentials)) {
		peer_give_way(listener, peer);
		return;
	}
	snprintf(why, sizeof(why), "user %u has no permission to read the bus at %.90s",
		 (unsigned int)peer->credentials.uid, listener->site.location.address.sun_path);
	peer_refuse(listener, peer, EACCES, why);
}

static void peer_accept(struct shm_listener *listener, int fd)
{
	const uint32_t slot = shm_hold_add(&listener->hold, fd);
	struct shm_peer *peer = calloc(1, sizeof(*peer));
	socklen_t length = sizeof(peer->credentials), number = sizeof(peer->queue_bytes);

	if (!peer || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer->credentials, &length) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &peer->queue_bytes, &number) < 0 ||
	    watch(listener, fd, peer) < 0 ||
	    shm_wait_begin(&listener->waits, &peer->wait, peer->credentials.uid) < 0 ||
	    shm_flight_begin(&listener->flights, &peer->flight, fd, peer->credentials.uid) < 0) {
		peers_log(&listener->peers, FABRIC_LOG_REFUSED, "a connection was refused: %s",
			  strerror(errno));
		epoll_ctl(listener->epoll, EPOLL_CTL_DEL, fd, NULL);
		if (peer)
			shm_wait_end(&listener->waits, &peer->wait);
		free(peer);
		shm_hold_end(&listener->hold, slot, fd);
		return;
	}
	peer->fd = fd;
	peer->flight.slot = slot;
	memcpy(peer->base.base.origin, &peer->credentials.uid, 4);
	memcpy(peer->base.base.origin + 4, &peer->credentials.pid, 4);
	peer->base.base.origin_bytes = 8;
	snprintf(peer->base.text, sizeof(peer->base.text), "pid %d of user %u",
		 (int)peer->credentials.pid, (unsigned int)peer->credentials.uid);
	peers_add(&listener->peers, &peer->base);
	peer_admit(listener, peer);
}

static void accept_pause(struct shm_listener *listener, const char *why)
{
	epoll_ctl(listener->epoll, EPOLL_CTL_DEL, listener->site.socket, NULL);
	listener->paused = true;
	peers_log(&listener->peers, FABRIC_LOG_INFO, "connections wait: %s", why);
}

/* No descriptor is left. The reserve is closed to accept the connection and refuse it; otherwise
 * the pending connection would keep the listener busy. If another thread took the descriptor
 * meanwhile, connections wait for the timer. False: stop accepting for now. */
static bool accept_exhausted(struct shm_listener *listener)
{
	int fd;

	if (listener->reserve >= 0)
		close(listener->reserve);
	fd = accept4(listener->site.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		refuse(fd, EAGAIN, "the publisher has no descriptor left");
		shm_hold_end(&listener->hold, shm_hold_add(&listener->hold, fd), fd);
		peers_log(&listener->peers, FABRIC_LOG_REFUSED,
			  "a connection was refused: no descriptor is left (see ulimit -n)");
	}
	listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (listener->reserve >= 0)
		return fd >= 0;
	accept_pause(listener, "no descriptor is left (see ulimit -n)");
	return false;
}

static void accept_resume(struct shm_listener *listener)
{
	if (listener->reserve < 0)
		listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (listener->reserve >= 0 && shm_hold_room(&listener->hold))
		listener->paused =
			watch(listener, listener->site.socket, &listener->site.socket) < 0;
}

/* A client that closed its connection gave up. Nothing is kept of it, so that accepting keeps
 * up with clients that only connect and close. */
static bool accept_given_up(struct shm_listener *listener, int fd)
{
	struct pollfd peer = { .fd = fd };
	char byte;
	const ssize_t got = recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);

	if (got > 0 || (got < 0 && errno == EAGAIN) || poll(&peer, 1, 0) <= 0 ||
	    !(peer.revents & POLLHUP))
		return false;
	shm_hold_end(&listener->hold, shm_hold_add(&listener->hold, fd), fd);
	return true;
}

static void listener_accept(struct shm_listener *listener)
{
	int peers = 0;

	for (int count = 0; count < ACCEPTS_OF_A_POLL && peers < BOUND_PEERS_OF_A_TURN;
	     count++) { /* P2 */
		int fd;

		if (!shm_hold_room(&listener->hold)) {
			accept_pause(listener, "clients sent descriptors that cannot be closed");
			break;
		}
		fd = accept4(listener->site.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0 && accept_given_up(listener, fd))
			continue;
		peers++;
		if (fd >= 0)
			peer_accept(listener, fd);
		else if ((errno != EMFILE && errno != ENFILE) || !accept_exhausted(listener))
			break;
	}
}

/* -- frames -------------------------------------------------------------------------------------
 */

static void peer_dropped(struct shm_listener *listener, struct shm_peer *peer, const char *why)
{
	peers_log_dropped(&listener->peers, peer->base.text, why);
	peers_lost(&peer->base, why);
}

static void exposure_open(struct shm_exposure *exposure)
{
	if (exposure->fd >= 0)
		close(exposure->fd);
	exposure->fd = memory_reader(exposure->memory);
	exposure->shared = false;
}

static int exposure_ready(struct shm_exposure *exposure, bool trusted)
{
	if (exposure->fd < 0 || (exposure->shared && !trusted))
		exposure_open(exposure);
	return exposure->fd < 0 ? exposure->fd : 0;
}

/* Opens the next peer's file now, so that a flood of connections cannot take its descriptor. */
static void exposure_handed(struct shm_exposure *exposure, bool trusted)
{
	if (trusted)
		exposure->shared = true;
	else
		exposure_open(exposure);
}

/* SIOCOUTQ counts what the kernel compares with SO_SNDBUF: the bytes of its buffers. */
static int unread(const struct shm_peer *peer)
{
	int bytes = 0;

	return ioctl(peer->fd, SIOCOUTQ, &bytes) < 0 ? 0 : bytes;
}

static bool is_half_full(const struct shm_peer *peer)
{
	return unread(peer) >= peer->queue_bytes / 2;
}

/* Beyond the half that offers may fill, by the last of them, it has more than its answers. */
static bool is_full(const struct shm_listener *listener, const struct shm_peer *peer)
{
	const uint32_t longest = listener->costs.of[FABRIC_MESSAGE_BYTES / SHM_COST_STEP];

	return peer->flight.count > UNTAKEN_MAX ||
	       unread(peer) >= peer->queue_bytes / 2 + (int)longest * (UNTAKEN_MAX + 1);
}

/* It may have stalled: it is looked at in STALLED_S (H8). */
static void full_list(struct shm_listener *listener, struct shm_peer *peer)
{
	if (peer->is_listed)
		return;
	peer->is_listed = true;
	peer->full_ms = clock_ms();
	peer->full_taken = shm_flight_taken(&peer->flight);
	TAILQ_INSERT_TAIL(&listener->full, peer, full);
}

/* Sends a frame to an accepted peer. */
static int peer_send(struct shm_peer *peer, uint32_t kind, const void *body, size_t bytes,
		     struct exposure *given)
{
	struct shm_listener *listener = (struct shm_listener *)peer->base.base.listener;
	struct shm_exposure *exposure = (struct shm_exposure *)given;
	int result = exposure ? exposure_ready(exposure, peer->trusted) : 0;

	if (result < 0)
		return result;
	if (exposure)
		result = shm_flight_room(&peer->flight);
	if (result == 0)
		result = shm_frame_send(peer->fd, kind, body, bytes, exposure ? exposure->fd : -1);
	if (result < 0)
		return result;
	shm_flight_sent(&peer->flight, listener->costs.of[bytes / SHM_COST_STEP], exposure);
	if (exposure)
		exposure_handed(exposure, peer->trusted);
	if (is_full(listener, peer))
		full_list(listener, peer);
	return 0;
}

static void peer_hello(struct shm_listener *listener, struct shm_peer *peer, const uint8_t *hello,
		       size_t bytes)
{
	struct fabric_answer answer = { 0 };
	char why[FABRIC_REASON_BYTES];
	int result;

	result = listener->peers.calls.hello(listener->peers.user, &peer->base.base, hello, bytes,
					     &answer);
	if (peer->base.dead)
		return;
	if (result < 0) {
		answer.reason[sizeof(answer.reason) - 1] = '\0';
		peer_refuse(listener, peer, (uint32_t)-result, answer.reason);
		return;
	}
	if (result > 0 && peer->challenged) {
		peer_refuse(listener, peer, EPROTO,
			    "it sent a first hello again, expected an answer to the challenge");
		return;
	}
	if (result > 0) {
		peer->challenged = true;
		result = peer_send(peer, SHM_CHALLENGE, answer.challenge, sizeof(answer.challenge),
				   NULL);
	} else {
		shm_wait_end(&listener->waits, &peer->wait);
		peer->base.up = true;
		peer->trusted = shm_trusts(peer->credentials.uid);
		result = peer_send(peer, SHM_WELCOME, answer.welcome, answer.welcome_bytes,
				   answer.given);
	}
	if (result == -ECONNRESET) {
		peers_lost(&peer->base, CLOSED);
	} else if (result < 0) {
		snprintf(why, sizeof(why), "%s", tb_error());
		refuse(peer->fd, EAGAIN, why); /* the client may try again */
		peer_dropped(listener, peer, why);
	}
}

/* closed: the client closed the connection. If it has no answer to its hello yet, it gave up. */
static void peer_read(struct shm_listener *listener, struct shm_peer *peer, bool closed)
{
	struct shm_frame frame;
	char why[128];
	int bytes;

	for (int i = 0; i < FRAMES_PER_PEER && !peer->base.dead; i++) {
		bytes = shm_frame_receive(peer->fd, &frame);
		if (bytes == -EAGAIN)
			return;
		if (bytes == -ECONNRESET) {
			peers_lost(&peer->base, CLOSED);
		} else if (bytes < 0 || frame.kind != (peer->base.up ? SHM_MESSAGE : SHM_HELLO)) {
			snprintf(why, sizeof(why), "it sent %s, expected a %s",
				 bytes == -EPERM ? "a frame with a descriptor"
				 : bytes < 0     ? "a frame of a wrong size"
						 : "a frame of another kind",
				 peer->base.up ? "control message" : "hello");
			peer_dropped(listener, peer, why);
		} else if (peer->base.up) {
			listener->peers.calls.message(listener->peers.user, &peer->base.base,
						      frame.body, (size_t)bytes);
		} else if (closed) {
			peers_lost(&peer->base, CLOSED);
		} else {
			peer_hello(listener, peer, frame.body, (size_t)bytes);
		}
	}
}

/* Whether all are refused. */
static bool silent_refuse(struct shm_listener *listener)
{
	const uint64_t now = clock_ms();
	struct shm_wait *wait;
	int refused = 0;

	while ((wait = shm_waits_oldest(&listener->waits)) && now - wait->since_ms > HELLO_MS) {
		if (refused++ == BOUND_PEERS_OF_A_TURN) /* P2 */
			return false;
		peer_refuse(listener, peer_of(wait), ETIMEDOUT, "it connected and sent no hello");
	}
	return true;
}

/* Drops peers that are full and took nothing since they were listed. Whether all were looked at. */
static bool stalled_drop(struct shm_listener *listener)
{
	const uint64_t now = clock_ms();
	struct shm_peer *peer;
	int looks = 0;

	while ((peer = TAILQ_FIRST(&listener->full)) && now - peer->full_ms >= STALLED_S * 1000) {
		const uint64_t taken = shm_flight_taken(&peer->flight);

		if (looks++ == BOUND_PEERS_OF_A_TURN) /* P2 */
			return false;
		if (is_full(listener, peer) && taken == peer->full_taken) {
			peer_dropped(listener, peer, STALLED);
			continue;
		}
		TAILQ_REMOVE(&listener->full, peer, full);
		peer->is_listed = false;
		if (is_full(listener, peer))
			full_list(listener, peer);
	}
	return true;
}

static void hold_poll(struct shm_listener *listener)
{
	if (!shm_hold_poll(&listener->hold))
		return;
	peers_log(&listener->peers, FABRIC_LOG_INFO,
		  "the process that shares the connections ended, and was started again");
	watch(listener, listener->hold.porter->pair, &listener->hold);
}

/* Makes the site's socket again. Clients that wait at the earlier socket are accepted first, as far
 * as a poll may. */
static int socket_renew(struct shm_listener *listener)
{
	const int former = listener->site.socket;
	int result;

	if (!listener->paused)
		listener_accept(listener);
	result = shm_site_socket(&listener->site);
	if (result < 0)
		return result;
	result = socket_listen(listener, hold_listen);
	if (result == 0 && !listener->paused)
		result = watch(listener, listener->site.socket, &listener->site.socket);
	if (result < 0) {
		close(listener->site.socket);
		listener->site.socket = former; /* whose file is gone: this is tried again */
		listener->site.inode = 0;
		listener->hold.listening = former;
		return result;
	}
	epoll_ctl(listener->epoll, EPOLL_CTL_DEL, former, NULL);
	close(former);
	return 0;
}

/* Y4: a cleaner of old files may have removed the lock and the socket. */
static void site_keep(struct shm_listener *listener)
{
	const char *path = listener->site.location.address.sun_path;
	int result;

	if (listener->lost || shm_site_is_whole(&listener->site))
		return;
	result = shm_site_lock_again(&listener->site);
	if (result == 0 && !shm_site_has_socket(&listener->site))
		result = socket_renew(listener);
	if (result == 0)
		peers_log(&listener->peers, FABRIC_LOG_INFO,
			  "address shm:%s: files of %s were removed, and are there again",
			  listener->site.name, path);
	else if (result == -EADDRINUSE)
		peers_log(&listener->peers, FABRIC_LOG_LOST,
			  "%s: files of this publisher were removed, and subscribers cannot "
			  "connect to it any more",
			  tb_error());
	else if (!listener->troubled)
		peers_log(&listener->peers, FABRIC_LOG_INFO,
			  "%s: files of %s were removed; will retry", tb_error(), path);
	listener->lost = result == -EADDRINUSE;
	listener->troubled = result < 0;
}

/* A tick that is not read keeps the timer readable, so the next poll goes on. */
static void on_timer(struct shm_listener *listener)
{
	uint64_t ticks;

	if (!silent_refuse(listener) || !stalled_drop(listener) ||
	    read(listener->timer, &ticks, sizeof(ticks)) < 0)
		return;
	ended_close(listener, false);
	hold_poll(listener);
	site_keep(listener);
	if (listener->paused)
		accept_resume(listener);
}

/* Whether it is gone now. */
static bool peer_event(struct shm_listener *listener, struct shm_peer *peer, uint32_t events)
{
	if (peer->base.dead)
		return false;
	peer_read(listener, peer, events & EPOLLHUP);
	return peer->base.dead;
}

int shm_listener_poll(struct listener *base)
{
	struct shm_listener *listener = (struct shm_listener *)base;
	struct epoll_event events[EVENTS_PER_POLL];
	int count = epoll_wait(listener->epoll, events, EVENTS_PER_POLL, 0), gone = 0;

	if (count < 0)
		return errno == EINTR ? 0 : error_set(errno, "epoll: %s", strerror(errno));
	for (int i = 0; i < count; i++) {
		void *what = events[i].data.ptr;

		if (what == &listener->timer)
			on_timer(listener);
		else if (what == &listener->site.socket)
			listener_accept(listener);
		else if (what == &listener->hold)
			hold_poll(listener);
		else if (gone < BOUND_PEERS_OF_A_TURN) /* P2 */
			gone += peer_event(listener, what, events[i].events);
	}
	peers_free_dead(&listener->peers); /* P1 */
	return count;
}

void shm_listener_close(struct listener *base)
{
	struct shm_listener *listener = (struct shm_listener *)base;

	if (!listener)
		return;
	peers_close(&listener->peers);
	ended_close(listener, true);
	shm_site_leave(&listener->site);
	shm_hold_close(&listener->hold); /* Z5: after all that it shares */
	if (listener->epoll >= 0)
		close(listener->epoll);
	if (listener->timer >= 0)
		close(listener->timer);
	if (listener->reserve >= 0)
		close(listener->reserve);
	shm_site_close(&listener->site);
	shm_access_free(&listener->access);
	free(listener);
}

/* -- what peers are given -----------------------------------------------------------------------
 */

/* A peer without the descriptor can read nothing: realms need no more. */
int shm_expose(struct listener *base, const struct memory *memory, uint32_t realm,
	       struct exposure **out)
{
	struct shm_exposure *exposure = calloc(1, sizeof(*exposure));
	int result;

	(void)realm;
	*out = NULL;
	if (!exposure)
		return error_set(ENOMEM, "no memory for an exposure");
	exposure->base.ops = base->ops;
	exposure->memory = memory->fd;
	exposure->fd = -1;
	result = exposure_ready(exposure, false);
	if (result == 0)
		*out = &exposure->base;
	else
		free(exposure);
	return result;
}

void shm_withdraw(struct exposure *base)
{
	struct shm_exposure *exposure = (struct shm_exposure *)base;

	if (!exposure)
		return;
	if (exposure->fd >= 0)
		close(exposure->fd);
	free(exposure);
}

/* A failure refuses a join and keeps its client: no descriptor is left, or the client's user has
 * its share of them. */
int shm_key(struct exposure *exposure, struct peer *base, struct fabric_key *key)
{
	struct shm_listener *listener = (struct shm_listener *)base->listener;
	struct shm_peer *peer = (struct shm_peer *)base;
	const int result = shm_flight_share(&listener->flights, &peer->flight);

	*key = (struct fabric_key){ 0 };
	return result < 0 ? result : exposure_ready((struct shm_exposure *)exposure, peer->trusted);
}

int shm_send(struct peer *base, const void *message, size_t bytes, struct exposure *given)
{
	struct shm_peer *peer = (struct shm_peer *)base;
	int result;

	if (peer->base.dead || !peer->base.up)
		return error_set(ENOTCONN, "the subscriber is gone");
	result = peer_send(peer, SHM_MESSAGE, message, bytes, given);
	if (result != -ECONNRESET)
		return result;
	/* The peer closed, or shut down receiving. Its end is read after the frames that it sent
	 * before, and reported as gone. */
	shutdown(peer->fd, SHUT_RDWR);
	return 0;
}

int shm_offer(struct peer *base, const void *message, size_t bytes)
{
	const struct shm_peer *peer = (const struct shm_peer *)base;

	if (peer->base.dead || !peer->base.up)
		return error_set(ENOTCONN, "the subscriber is gone");
	if (is_half_full(peer))
		return error_set(EAGAIN, "it does not read its messages");
	return shm_send(base, message, bytes, NULL);
}
