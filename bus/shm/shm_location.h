/* SPDX-License-Identifier: Apache-2.0 */
/* The location of the socket of shm:NAME. */
#ifndef TICKBUS_BUS_SHM_LOCATION_H
#define TICKBUS_BUS_SHM_LOCATION_H

#include <sys/socket.h>
#include <sys/un.h>

struct shm_location {
	struct sockaddr_un address;                             /* FOLDER/NAME.sock */
	char lock[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* FOLDER/NAME.lock */
};

/* The location of a new publisher's socket: the first folder that can be used. */
int shm_location_listen(const char *name, struct shm_location *);
/* The location of a publisher's socket: the first folder that has the file. */
int shm_location_connect(const char *name, struct shm_location *);

#endif
