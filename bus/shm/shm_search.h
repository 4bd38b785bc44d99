/* SPDX-License-Identifier: Apache-2.0 */
/* How a subscriber finds the socket of shm:NAME: it tries folder after folder, and says what each
 * has. A publisher looks at the folders that subscribers search before its own.
 *
 * Y2  The kernel says which user listens at a socket. The subscriber goes on to the next folder if
 *     its address requires another user. Otherwise a folder counts only if no other user may write
 *     to it. It belongs to root, to this user or to the user that listens. Any other user could put
 *     a socket there. An owner that the user namespace does not map may be any user. Only the
 *     folder itself is checked. */
#ifndef TICKBUS_BUS_SHM_SEARCH_H
#define TICKBUS_BUS_SHM_SEARCH_H

#include <stddef.h>
#include <sys/types.h>

#include "bus/shm/shm_location.h"
#include "bus/shm/shm_porter.h"

#define SHM_SEARCH_LIST_BYTES 1200

struct shm_search {
	struct shm_address address;
	struct shm_folder folders[SHM_FOLDERS_MAX];
	size_t count, next; /* folders, and the folder to try next */
	int code;           /* the error if no folder has a bus */
	char list[SHM_SEARCH_LIST_BYTES];
};

void shm_search_begin(struct shm_search *, const struct shm_address *);
/* Connects the socket, which does not block, to the first publisher in the folders that are left.
 * Fills in where it listens, and as which user. 1: the socket is connected to a process that the
 * address refuses: close it, and call again with another socket. Or -errno with a text: what each
 * folder has. -ECONNREFUSED: no publisher listens. -EACCES: a folder has a socket that this user
 * may not use. -EAGAIN: too many porters of this publisher hang. After an error the socket is not
 * connected. */
int shm_search_connect(struct shm_search *, int socket, struct shm_origin *);

/* What the folders before `mine` have of the name. 0: nothing; 1, with a text: something that
 * subscribers of this user pass over; -EADDRINUSE, with a text: a bus that they would take. */
int shm_search_before(const char *name, const struct shm_location *mine);

#endif
