/* SPDX-License-Identifier: Apache-2.0 */
/* The frames that cross a socket.
 *
 * A frame is one SOCK_SEQPACKET message: its kind (u32), then hello, welcome, refusal or control
 * message. The right to read memory is a descriptor that goes with the frame. */
#ifndef TICKBUS_BUS_SHM_FRAME_H
#define TICKBUS_BUS_SHM_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

enum shm_frame_kind { SHM_HELLO = 1, SHM_WELCOME, SHM_REFUSE, SHM_MESSAGE };

struct shm_frame {
	uint32_t kind;
	uint8_t body[FABRIC_MESSAGE_BYTES];
};

/* One frame in, with at most one descriptor (*fd, -1 for none; others are closed, all of them where
 * fd is NULL). The body's length; -EMFILE no descriptor was left for it; -EAGAIN nothing there,
 * -ECONNRESET the other side went, -EPROTO a frame too long or too short. */
int shm_receive(int socket, struct shm_frame *, int *fd);
/* One frame out, fd -1 for none. 0; -EAGAIN not taken now; -ETOOMANYREFS; -ECONNRESET. */
int shm_transmit(int socket, uint32_t kind, const void *body, size_t bytes, int fd);
/* Closes a connection, and without waiting whatever descriptors wait in it. */
void shm_hang_up(int socket);

#endif
