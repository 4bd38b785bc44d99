/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends porters: small programs that hold descriptors of other processes, because closing
 * them may wait for ever. */
#ifndef TICKBUS_BUS_SHM_PORTER_H
#define TICKBUS_BUS_SHM_PORTER_H

#include "bus/shm/porter/message.h"

struct shm_porter {
	struct shm_porter *next; /* of those that were let go */
	int pair;                /* ours of the pair */
	int process;             /* its pidfd: readable when it ended */
	uint64_t gone_ms;        /* when it was let go */
};

/* Whether another porter may be started. 0; -EAGAIN with text: too many earlier porters hang. */
int shm_porter_room(void);
/* Starts a porter that shares the socket. Waits until the program runs. 0; -EAGAIN: too many
 * porters of earlier connections hang; -errno: it cannot be started. The text says why. */
int shm_porter_start(struct shm_porter **, const char *task, int socket);
/* Sends a message without a body, and a descriptor unless fd is -1. 0, or -errno. */
int shm_porter_send(struct shm_porter *, enum porter_what, uint32_t number, int fd);
/* Receives a message: the length of its body, and *fd or -1. -EAGAIN: none waits. -EMFILE: this
 * process has no descriptor left. -EPIPE: the porter ended. */
int shm_porter_receive(struct shm_porter *, struct porter_message *, int *fd);
/* Lets it go: the porter ends by itself, when it can. Takes NULL. */
void shm_porter_end(struct shm_porter *);
/* Frees what belongs to those that ended; the number of those that were let go and did not. */
unsigned int shm_porter_reap(void);

#endif
