/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher's place in a folder: the lock and the socket of its name. They are made again after a
 * cleaner of old files removed them.
 *
 * Y4  The lock's holder alone makes the socket. A publisher whose files are gone takes the lock
 *     again before it makes the socket again. If another publisher was faster, this publisher has
 *     lost its address. So two publishers of a name never go on side by side. */
#ifndef TICKBUS_BUS_SHM_SITE_H
#define TICKBUS_BUS_SHM_SITE_H

#include <stdbool.h>
#include <sys/types.h>

#include "bus/shm/shm_location.h"
#include "bus/shm/shm_lock.h"

struct shm_site {
	char *name;
	struct shm_location location;
	struct shm_lock lock;
	int socket; /* -1: there is none */
	dev_t device;
	ino_t inode; /* of the socket's file */
};

/* Finds the folder and takes the lock. 0; -EADDRINUSE: another publisher holds it; or -errno, with
 * a text. Close the site after an error too. */
int shm_site_open(struct shm_site *, const char *name);
/* Makes a socket without a file, in place of the earlier socket, which the caller closes. 0;
 * -EADDRINUSE: another process listens there; or -errno, with a text. */
int shm_site_socket(struct shm_site *);
/* Makes the socket's file, in place of an earlier file. Clients can connect when the socket
 * listens. 0, or -errno with a text. */
int shm_site_bind(struct shm_site *);
/* Whether lock and socket are there and belong to this publisher. */
bool shm_site_is_whole(const struct shm_site *);
/* Takes the lock again if it is not this publisher's. 0; -EADDRINUSE: another publisher has the
 * address; or -errno, with a text: it may work later. */
int shm_site_lock_again(struct shm_site *);
/* Whether the socket's file is there and belongs to this publisher. */
bool shm_site_has_socket(const struct shm_site *);
/* Removes what belongs to this publisher, and closes the socket. */
void shm_site_leave(struct shm_site *);
/* Ends the lock and frees, after shm_site_leave. Takes a site that could not be opened. */
void shm_site_close(struct shm_site *);

#endif
