/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_waits.h"

#include <errno.h>
#include <stdlib.h>

#include "bus/clock.h"
#include "bus/error.h"

struct shm_wait_user {
	uid_t id;
	unsigned int count;
	struct shm_wait_list waits; /* the oldest first */
	TAILQ_ENTRY(shm_wait_user) next;
};

void shm_waits_open(struct shm_waits *waits, unsigned int user_max)
{
	TAILQ_INIT(&waits->all);
	TAILQ_INIT(&waits->users);
	waits->user_max = user_max;
}

static struct shm_wait_user *user_find(struct shm_waits *waits, uid_t id)
{
	struct shm_wait_user *user;

	TAILQ_FOREACH(user, &waits->users, next)
	{
		if (user->id == id)
			return user;
	}
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->id = id;
	TAILQ_INIT(&user->waits);
	TAILQ_INSERT_TAIL(&waits->users, user, next);
	return user;
}

int shm_wait_begin(struct shm_waits *waits, struct shm_wait *wait, uid_t id)
{
	wait->user = user_find(waits, id);
	if (!wait->user)
		return error_set(ENOMEM, "no memory for another user's connections");
	wait->since_ms = clock_ms();
	wait->user->count++;
	TAILQ_INSERT_TAIL(&waits->all, wait, next);
	TAILQ_INSERT_TAIL(&wait->user->waits, wait, next_of_user);
	return 0;
}

void shm_wait_end(struct shm_waits *waits, struct shm_wait *wait)
{
	struct shm_wait_user *user = wait->user;

	if (!user)
		return;
	wait->user = NULL;
	TAILQ_REMOVE(&waits->all, wait, next);
	TAILQ_REMOVE(&user->waits, wait, next_of_user);
	if (--user->count > 0)
		return;
	TAILQ_REMOVE(&waits->users, user, next);
	free(user);
}

struct shm_wait *shm_waits_oldest(const struct shm_waits *waits)
{
	return TAILQ_FIRST(&waits->all);
}

struct shm_wait *shm_waits_beyond(const struct shm_waits *waits, const struct shm_wait *wait)
{
	return wait->user->count > waits->user_max ? TAILQ_FIRST(&wait->user->waits) : NULL;
}

/* Of users with the same number: the user that began to wait first. */
struct shm_wait *shm_waits_of_most(const struct shm_waits *waits)
{
	const struct shm_wait_user *most = TAILQ_FIRST(&waits->users), *user;

	TAILQ_FOREACH(user, &waits->users, next)
	{
		if (user->count > most->count)
			most = user;
	}
	return TAILQ_FIRST(&most->waits);
}
