/* SPDX-License-Identifier: Apache-2.0 */
/* How a subscriber finds the socket of shm:NAME: it tries folder after folder, and says what each
 * has. A publisher looks at the folders that subscribers search before its own.
 *
 * Y2  The kernel says which user listens at a socket. The subscriber goes on to the next folder if
 *     its address requires another user. Otherwise a folder counts only if no other user may write
 *     to it. It belongs to root, to this user or to the user that listens. Any other user could put
 *     a socket there. Only the folder itself is checked. */
#ifndef TICKBUS_BUS_SHM_SEARCH_H
#define TICKBUS_BUS_SHM_SEARCH_H

#include <sys/types.h>

#include "bus/shm/shm_location.h"

/* A connection to a publisher. */
struct shm_found {
	int fd;     /* does not block */
	uid_t user; /* that listens */
	struct shm_location location;
};

/* Connects. 0, or -errno with a text: what each folder has. -ECONNREFUSED: no publisher listens.
 * -EACCES: a folder has a socket that this user may not use. */
int shm_search(const struct shm_address *, struct shm_found *);

/* What the folders before `mine` have of the name. 0: nothing; 1, with a text: something that
 * subscribers of this user pass over; -EADDRINUSE, with a text: a bus that they would take. */
int shm_search_before(const char *name, const struct shm_location *mine);

#endif
