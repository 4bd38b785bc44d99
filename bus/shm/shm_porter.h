/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends porters: small programs that hold descriptors of other processes, because closing
 * them may wait for ever. */
#ifndef TICKBUS_BUS_SHM_PORTER_H
#define TICKBUS_BUS_SHM_PORTER_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "bus/shm/porter/message.h"

/* Where descriptors come from: the path of a socket, and the user that listens there. Those of a
 * publisher's clients come from its own socket. */
struct shm_origin {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	uid_t user;
};

struct shm_porter {
	struct shm_porter *next; /* of those that were let go */
	struct shm_origin origin;
	int pair;         /* ours of the pair */
	int process;      /* its pidfd: readable when it ended */
	uint64_t gone_ms; /* when it was let go */
};

/* Whether too many porters of this path and any single user hang. */
bool shm_porter_crowded(const char *path);
/* Whether another porter may be started. 0; -EAGAIN with text: too many of this origin hang. */
int shm_porter_room(const struct shm_origin *);
/* Starts a porter that shares the socket. Waits until the program runs. 0; -EAGAIN: too many
 * porters of this origin hang; -errno: it cannot be started. The text says why. */
int shm_porter_start(struct shm_porter **, const char *task, int socket, const struct shm_origin *);
/* Sends a message without a body, and a descriptor unless fd is -1. 0, or -errno. */
int shm_porter_send(struct shm_porter *, enum porter_what, uint32_t number, int fd);
/* Receives a message: the length of its body, and *fd or -1. -EAGAIN: none waits. -EMFILE: this
 * process has no descriptor left. -EPIPE: the porter ended. */
int shm_porter_receive(struct shm_porter *, struct porter_message *, int *fd);
/* Makes it end, and waits for that a short time, so that a program that closes leaves nothing
 * behind. shm_porter_end follows. Takes NULL. */
void shm_porter_settle(struct shm_porter *);
/* Lets it go and never waits: the porter ends by itself, when it can. Takes NULL. */
void shm_porter_end(struct shm_porter *);
/* Frees what belongs to those that ended; the number of those that were let go and did not. */
unsigned int shm_porter_reap(void);

#endif
