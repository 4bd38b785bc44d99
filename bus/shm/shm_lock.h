/* SPDX-License-Identifier: Apache-2.0 */
/* How a publisher takes an address, also from a publisher that was killed. */
#ifndef TICKBUS_BUS_SHM_LOCK_H
#define TICKBUS_BUS_SHM_LOCK_H

#include <stdbool.h>

#include "bus/shm/shm_location.h"

struct shm_lock {
	int fd; /* of NAME.lock; -1: not open */
	bool taken;
};

/* Locks NAME.lock. 0; -EADDRINUSE: another publisher holds it; or -errno, with a text. */
int shm_lock_take(struct shm_lock *, const char *name, const struct shm_location *);
/* Whether the path still names the locked file. If the file was removed, another publisher may have
 * created and locked the next. */
bool shm_lock_holds(const struct shm_lock *, const struct shm_location *);
/* Whether the socket may be replaced: 0, or -errno with a text where a process listens, or may. */
int shm_lock_check_socket(const char *name, const struct shm_location *);
/* Takes a lock with fd -1. */
void shm_lock_close(struct shm_lock *);

#endif
