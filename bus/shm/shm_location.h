/* SPDX-License-Identifier: Apache-2.0 */
/* Where the socket of shm:NAME is. */
#ifndef TICKBUS_BUS_SHM_LOCATION_H
#define TICKBUS_BUS_SHM_LOCATION_H

#include <sys/socket.h>
#include <sys/un.h>

struct shm_location {
	struct sockaddr_un address;                             /* FOLDER/NAME.sock */
	char lock[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* FOLDER/NAME.lock */
};

/* Where a publisher's socket is to be: the first folder that can be used. */
int shm_location_listen(const char *name, struct shm_location *);
/* Where a publisher's socket is: the first folder that has one. */
int shm_location_connect(const char *name, struct shm_location *);

#endif
