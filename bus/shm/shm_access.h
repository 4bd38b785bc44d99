/* SPDX-License-Identifier: Apache-2.0 */
/* The users that may connect to a publisher's socket: the kernel's check by the socket's own
 * permissions, and the publisher's check of each connection.
 *
 * Y3  The socket's access control list names the same users and groups as the options. So the
 *     kernel refuses all other users, and they can take no place in the queue of connections. */
#ifndef TICKBUS_BUS_SHM_ACCESS_H
#define TICKBUS_BUS_SHM_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "bus/fabric.h"

struct shm_access {
	uid_t *users;
	gid_t *groups;
	size_t user_count, group_count;
};

/* Copies the users and groups: 0 or -ENOMEM with a text. Takes a zeroed structure. */
int shm_access_copy(struct shm_access *, const struct fabric_access *);
/* Whether users other than the owner and root may connect. */
bool shm_access_is_shared(const struct shm_access *);
/* Sets the permissions of the socket at `path`, which does not listen yet. 0, or -errno. 1 with a
 * text: the file system cannot express them. So every user may connect, and only the check of each
 * connection is left. */
int shm_access_set(const struct shm_access *, const char *path);
/* Whether a connection's peer may stay. */
bool shm_access_allows(const struct shm_access *, int socket, const struct ucred *);
/* Takes a zeroed structure. */
void shm_access_free(struct shm_access *);

#endif
