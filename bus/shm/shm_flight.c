/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_flight.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <linux/sockios.h>

#include "bus/error.h"

#define LOOKS 64 /* connections that one look asks the kernel about */

/* Peers of one user, and its ended connections. */
struct shm_flight_user {
	uid_t id;
	unsigned int count; /* descriptors of all its connections */
	unsigned int ended; /* connections */
	struct shm_flight_list flights;
	TAILQ_ENTRY(shm_flight_user) next;
};

/* -- one connection -----------------------------------------------------------------------------
 */

/* Bytes that the peer has not received; -1: the kernel does not say. */
static int unread(const struct shm_flight *flight)
{
	int bytes = 0;

	return ioctl(flight->socket, SIOCOUTQ, &bytes) < 0 ? -1 : bytes;
}

/* Forgets descriptors that the peer has taken (H3). A socket that was closed has no bytes queued.
 */
static void flight_check(struct shm_flight *flight)
{
	const int bytes = unread(flight);

	if (bytes < 0)
		return;
	while (flight->count > 0 &&
	       (bytes == 0 || flight->queued - flight->sent_at[flight->first] > (uint64_t)bytes)) {
		flight->first = (flight->first + 1) % FLIGHT_MAX;
		flight->count--;
		flight->user->count--;
	}
}

int shm_flight_room(struct shm_flight *flight)
{
	if (flight->count == FLIGHT_MAX)
		flight_check(flight);
	return flight->count < FLIGHT_MAX ? 0
					  : error_set(EAGAIN, "it does not read what it requested");
}

void shm_flight_sent(struct shm_flight *flight, uint32_t bytes, bool with_descriptor)
{
	if (with_descriptor) {
		flight->sent_at[(flight->first + flight->count++) % FLIGHT_MAX] = flight->queued;
		flight->user->count++;
	}
	flight->queued += bytes;
}

uint64_t shm_flight_taken(struct shm_flight *flight)
{
	const int bytes = unread(flight);

	flight_check(flight);
	return flight->queued - (uint64_t)(bytes < 0 ? 0 : bytes);
}

/* -- a user's connections -----------------------------------------------------------------------
 */

static struct shm_flight_user *user_find(struct shm_flights *flights, uid_t id)
{
	struct shm_flight_user *user;

	TAILQ_FOREACH(user, &flights->users, next)
	{
		if (user->id == id)
			return user;
	}
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->id = id;
	TAILQ_INIT(&user->flights);
	TAILQ_INSERT_HEAD(&flights->users, user, next);
	return user;
}

/* Takes the connection out of its user, and a user without connections out of the list. */
static void user_leave(struct shm_flights *flights, struct shm_flight *flight)
{
	struct shm_flight_user *user = flight->user;

	user->count -= flight->count;
	TAILQ_REMOVE(&user->flights, flight, of_user);
	if (!TAILQ_EMPTY(&user->flights))
		return;
	TAILQ_REMOVE(&flights->users, user, next);
	free(user);
}

int shm_flight_begin(struct shm_flights *flights, struct shm_flight *flight, int socket, uid_t id)
{
	flight->socket = socket;
	flight->user = user_find(flights, id);
	if (!flight->user)
		return error_set(ENOMEM, "no memory for another user's connections");
	TAILQ_INSERT_TAIL(&flight->user->flights, flight, of_user);
	return 0;
}

/* Looks at the connections that were not looked at for longest, so that the next call sees others.
 */
static void user_check(struct shm_flight_user *user, unsigned int share)
{
	for (int i = 0; i < LOOKS && user->count >= share; i++) {
		struct shm_flight *flight = TAILQ_FIRST(&user->flights);

		flight_check(flight);
		TAILQ_REMOVE(&user->flights, flight, of_user);
		TAILQ_INSERT_TAIL(&user->flights, flight, of_user);
	}
}

int shm_flight_share(struct shm_flights *flights, struct shm_flight *flight)
{
	struct shm_flight_user *user = flight->user;

	if (user->ended >= flights->ended_max)
		return error_set(EAGAIN,
				 "user %u left descriptors untaken in %u connections that ended; "
				 "expected it to close them",
				 (unsigned int)user->id, user->ended);
	if (user->count >= flights->share)
		user_check(user, flights->share);
	if (user->count < flights->share)
		return 0;
	return error_set(EAGAIN,
			 "user %u leaves %u descriptors untaken, expected fewer than %u (see "
			 "ulimit -n)",
			 (unsigned int)user->id, user->count, flights->share);
}

/* -- ended connections --------------------------------------------------------------------------
 */

/* The peer's copy goes: another takes its place. */
bool shm_flight_end(struct shm_flights *flights, struct shm_flight *flight)
{
	struct shm_flight *ended = NULL;

	flight_check(flight);
	if (flight->count > 0)
		ended = malloc(sizeof(*ended));
	if (!ended) {
		user_leave(flights, flight);
		return false;
	}
	*ended = *flight;
	TAILQ_REMOVE(&flight->user->flights, flight, of_user);
	TAILQ_INSERT_TAIL(&ended->user->flights, ended, of_user);
	TAILQ_INSERT_TAIL(&flights->ended, ended, of_ended);
	ended->user->ended++;
	shutdown(ended->socket, SHUT_RDWR);
	return true;
}

bool shm_flights_next(struct shm_flights *flights, int *left, bool all, struct shm_flight *gone)
{
	struct shm_flight *flight;

	while ((flight = TAILQ_FIRST(&flights->ended)) && (all || (*left)-- > 0)) {
		TAILQ_REMOVE(&flights->ended, flight, of_ended);
		flight_check(flight);
		if (flight->count > 0 && !all) {
			TAILQ_INSERT_TAIL(&flights->ended, flight, of_ended);
			continue;
		}
		flight->user->ended--;
		*gone = *flight;
		user_leave(flights, flight);
		free(flight);
		return true;
	}
	return false;
}

/* -- a listener's -------------------------------------------------------------------------------
 */

void shm_flights_open(struct shm_flights *flights, unsigned int ended_max)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	rlim_t share;

	TAILQ_INIT(&flights->users);
	TAILQ_INIT(&flights->ended);
	flights->ended_max = ended_max;
	getrlimit(RLIMIT_NOFILE, &limit);
	share = limit.rlim_cur / FLIGHT_SHARES;
	flights->share = share < FLIGHT_MAX           ? FLIGHT_MAX
			 : share > (rlim_t)UINT32_MAX ? UINT32_MAX
						      : (unsigned int)share;
}
