/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher's connections, which a porter shares on kernels that cannot refuse descriptors.
 *
 * Threads  those of the listener. */
#ifndef TICKBUS_BUS_SHM_HOLD_H
#define TICKBUS_BUS_SHM_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/shm/shm_porter.h"

struct shm_hold_slot;

struct shm_hold {
	struct shm_origin origin;
	struct shm_porter *porter; /* NULL if the kernel refuses descriptors, or none could start */
	struct shm_hold_slot *slots;
	uint32_t count, first_free, behind; /* behind: slots whose state the porter does not know */
	bool needed;
	int listening;
};

/* For a socket at `path` that does not listen yet, and at most `connections` connections at a time.
 * 0, or -errno with text. */
int shm_hold_open(struct shm_hold *, int listening, const char *path, uint32_t connections);
/* Another socket, which does not listen yet, takes the place of the socket above. 0; -EAGAIN with a
 * text: not now. */
int shm_hold_listen(struct shm_hold *, int listening);
/* Whether a further connection has a place. Accept none otherwise. */
bool shm_hold_room(const struct shm_hold *);
/* Takes a connection that was accepted right now; its slot. */
uint32_t shm_hold_add(struct shm_hold *, int fd);
/* Closes a connection. */
void shm_hold_end(struct shm_hold *, uint32_t slot, int fd);
/* Takes the porter's answers, sends what it does not know yet, and starts it again if it ended.
 * True: it was started again. */
bool shm_hold_poll(struct shm_hold *);
void shm_hold_close(struct shm_hold *);

#endif
