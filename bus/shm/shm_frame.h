/* SPDX-License-Identifier: Apache-2.0 */
/* The frames that cross a socket.
 *
 * A frame is one SOCK_SEQPACKET message: its kind (u32), then hello, challenge, welcome, refusal
 * or control message. The right to read memory is a descriptor that goes with the frame. */
#ifndef TICKBUS_BUS_SHM_FRAME_H
#define TICKBUS_BUS_SHM_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "bus/fabric.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

enum shm_frame_kind { SHM_HELLO = 1, SHM_WELCOME, SHM_REFUSAL, SHM_MESSAGE, SHM_CHALLENGE };

struct shm_frame {
	uint32_t kind;
	uint8_t body[FABRIC_MESSAGE_BYTES];
};

/* Receives one frame. Returns the body's length; -EAGAIN: no frame; -EPERM: the frame that waits
 * has descriptors, and stays in the queue (no text); -ECONNRESET: the connection ended; -EPROTO:
 * the frame is too long or too short. */
int shm_frame_receive(int socket, struct shm_frame *);
/* The same with a descriptor that the frame has, to *fd, else -1. For a sender that may stop this
 * process anyway: it decides how long closing its descriptors takes. With text: -EBADMSG: something
 * else than one memfd; -EMFILE: no descriptor is left for it. */
int shm_frame_receive_given(int socket, struct shm_frame *, int *fd);
/* Sends one frame, with a descriptor unless fd is -1. 0; -EAGAIN: the queue is full; -ETOOMANYREFS;
 * -ECONNRESET. */
int shm_frame_send(int socket, uint32_t kind, const void *body, size_t bytes, int fd);
/* The bytes that frames of each length occupy in a socket's queue (SIOCOUTQ), which depend on the
 * kernel. of[n] is for bodies of n * SHM_COST_STEP bytes and more. All 0 if they cannot be found.
 */
#define SHM_COST_STEP 64
struct shm_frame_costs {
	uint32_t of[FABRIC_MESSAGE_BYTES / SHM_COST_STEP + 1];
};
void shm_frame_costs_find(struct shm_frame_costs *);

#endif
