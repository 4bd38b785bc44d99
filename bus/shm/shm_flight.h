/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors on their way to peers. They count against the open files of the publisher's user
 * until a peer receives them or closes its socket. The end of a connection does not change that.
 *
 * H3  A peer has at most FLIGHT_MAX of them, more than it can have requests. Frames are received
 *     in order, and the kernel says how many bytes are queued: so frames sent before those bytes
 *     were received.
 * H7  The peers of one user have at most a share of them, so that other users get theirs. Ended
 *     connections count too: the socket stays open here until they are received or gone. */
#ifndef TICKBUS_BUS_SHM_SHM_FLIGHT_H
#define TICKBUS_BUS_SHM_SHM_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "bus/fabric.h"

#define FLIGHT_MAX    (2 * FABRIC_UNANSWERED)
#define FLIGHT_SHARES 4 /* of the limit of open files: one user has one of them */

struct shm_flight_user;

/* One connection's. */
struct shm_flight {
	int socket;
	uint32_t slot; /* in the listener's hold */
	struct shm_flight_user *user;
	TAILQ_ENTRY(shm_flight) of_user, of_ended;
	uint64_t queued;              /* bytes of its queue that all frames to it took */
	uint64_t sent_at[FLIGHT_MAX]; /* `queued` before each frame with a descriptor */
	unsigned int first, count;    /* of them: the oldest, and how many may be untaken */
};
TAILQ_HEAD(shm_flight_list, shm_flight);

/* A listener's. */
struct shm_flights {
	TAILQ_HEAD(, shm_flight_user) users;
	struct shm_flight_list ended;
	unsigned int ended_max; /* connections of one user */
	unsigned int share;     /* descriptors */
};

/* Takes the share from the limit of open files as it is now. A user that has ended_max ended
 * connections gets no more descriptors. */
void shm_flights_open(struct shm_flights *, unsigned int ended_max);
/* Looks at a bounded number of ended connections, from *left down. True: the descriptors of one
 * were received or are gone, and the caller closes its socket. With `all`, any is. */
bool shm_flights_next(struct shm_flights *, int *left, bool all, struct shm_flight *gone);

/* Fills a zeroed structure for a connection of a user: 0 or -ENOMEM. */
int shm_flight_begin(struct shm_flights *, struct shm_flight *, int socket, uid_t user);
/* Ends the connection. True: it has descriptors on their way, so a copy of the structure and the
 * socket stay until shm_flights_next returns them. False: the caller closes the socket. */
bool shm_flight_end(struct shm_flights *, struct shm_flight *);

/* Whether another descriptor may be sent: 0, or -EAGAIN if the user has its share, or too many
 * ended connections. What other users leave does not matter. */
int shm_flight_share(struct shm_flights *, struct shm_flight *);
/* The same for the peer itself: -EAGAIN if it leaves FLIGHT_MAX untaken. */
int shm_flight_room(struct shm_flight *);
/* A frame was sent that takes so many bytes of the queue. */
void shm_flight_sent(struct shm_flight *, uint32_t bytes, bool with_descriptor);
/* Bytes that the peer has taken so far. Stands still as long as it receives nothing. */
uint64_t shm_flight_taken(struct shm_flight *);

#endif
