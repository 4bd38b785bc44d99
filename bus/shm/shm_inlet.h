/* SPDX-License-Identifier: Apache-2.0 */
/* What arrives at a subscriber's connection. Frames with descriptors come through a porter, which
 * lets memfds alone pass, unless root or the subscriber's own user listens. */
#ifndef TICKBUS_BUS_SHM_INLET_H
#define TICKBUS_BUS_SHM_INLET_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/shm/shm_frame.h"
#include "bus/shm/shm_porter.h"

struct shm_inlet {
	int socket;                /* -1: closed */
	int epoll;                 /* readable when shm_inlet_receive has work */
	struct shm_porter *porter; /* NULL: the listener is trusted */
	bool asked;                /* the porter takes frames now */
	enum { PORTER_QUIET, PORTER_CALLED, PORTER_SILENT } silence; /* while asked (Z4) */
	uint64_t heard_ms; /* when it was asked, answered, or `silence` was set */
};

/* Takes a socket that was connected right now, also if it fails. 0, or -errno with text. */
int shm_inlet_open(struct shm_inlet *, int socket, const struct shm_origin *);
/* Receives one frame, with at most one memfd (*fd, or -1). Returns the body's length, or the errors
 * of shm_frame_receive but -EPERM, or with text: -EBADMSG: something else than a memfd was handed
 * over; -EMFILE: no descriptor is left for it; -EPIPE: the porter ended or does not answer. */
int shm_inlet_receive(struct shm_inlet *, struct shm_frame *, int *fd);
/* Ends a connection from which nothing was received, or a socket without a connection. */
void shm_inlet_discard(int socket, const struct shm_origin *);
/* Closes the socket; what is queued is the porter's to close. Takes an inlet that failed or is
 * closed. */
void shm_inlet_break(struct shm_inlet *);
/* The same, and waits a short time for the porter to end. */
void shm_inlet_settle(struct shm_inlet *);
/* Lets the porter go, after closing the socket. */
void shm_inlet_close(struct shm_inlet *);

#endif
