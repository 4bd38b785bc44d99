/* SPDX-License-Identifier: Apache-2.0 */
/* A listener's connections that wait for a hello, by age and by user. */
#ifndef TICKBUS_BUS_SHM_WAITS_H
#define TICKBUS_BUS_SHM_WAITS_H

#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct shm_wait_user;

/* One connection's. */
struct shm_wait {
	struct shm_wait_user *user; /* NULL: it does not wait */
	uint64_t since_ms;
	TAILQ_ENTRY(shm_wait) next, next_of_user;
};
TAILQ_HEAD(shm_wait_list, shm_wait);

/* A listener's. */
struct shm_waits {
	struct shm_wait_list all; /* the oldest first */
	TAILQ_HEAD(, shm_wait_user) users;
	unsigned int user_max;
};

void shm_waits_open(struct shm_waits *, unsigned int user_max);
/* A connection of a user begins to wait: 0 or -ENOMEM. Takes a zeroed structure. */
int shm_wait_begin(struct shm_waits *, struct shm_wait *, uid_t user);
/* Takes a connection that does not wait, too. */
void shm_wait_end(struct shm_waits *, struct shm_wait *);
/* The connection that has waited for the longest time, or NULL. */
struct shm_wait *shm_waits_oldest(const struct shm_waits *);
/* If more than user_max connections of this connection's user wait: the oldest of them; or NULL. */
struct shm_wait *shm_waits_beyond(const struct shm_waits *, const struct shm_wait *);
/* The oldest connection of the user that has the most of them. At least one must wait. */
struct shm_wait *shm_waits_of_most(const struct shm_waits *);

#endif
