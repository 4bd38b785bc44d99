/* SPDX-License-Identifier: Apache-2.0 */
/* The shm fabric's parts: where a socket is, and the frames that cross it.
 *
 * A frame is one SOCK_SEQPACKET message: its kind (u32), then hello, welcome, refusal or control
 * message. The right to read memory is a descriptor that goes with the frame. */
#ifndef TICKBUS_BUS_SHM_H
#define TICKBUS_BUS_SHM_H

#include <sys/socket.h>
#include <sys/un.h>

#include "bus/fabric.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

enum shm_frame_kind { SHM_HELLO = 1, SHM_WELCOME, SHM_REFUSE, SHM_MESSAGE };

struct shm_frame {
	uint32_t kind;
	uint8_t body[FABRIC_MESSAGE_BYTES];
};

struct shm_location {
	struct sockaddr_un address;                             /* FOLDER/NAME.sock */
	char lock[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* FOLDER/NAME.lock */
};

struct shm_remote {
	struct remote base;
	const void *memory;
	size_t mapped; /* bytes */
};

/* Where a publisher's socket is to be: the first folder that can be used. */
int shm_location_listen(const char *name, struct shm_location *);
/* Where a publisher's socket is: the first folder that has one. */
int shm_location_connect(const char *name, struct shm_location *);

/* One frame in, with at most one descriptor (*fd, -1 for none; others are closed, all of them where
 * fd is NULL). The body's length; -EMFILE no descriptor was left for it; -EAGAIN nothing there,
 * -ECONNRESET the other side went, -EPROTO a frame too long or too short. */
int shm_receive(int socket, struct shm_frame *, int *fd);
/* One frame out, fd -1 for none. 0; -EAGAIN not taken now; -ETOOMANYREFS; -ECONNRESET. */
int shm_transmit(int socket, uint32_t kind, const void *body, size_t bytes, int fd);
/* Closes a connection, and without waiting whatever descriptors wait in it. */
void shm_hang_up(int socket);

/* The operations, in shm_listener.c and shm_link.c. */
int shm_listen(struct listener **, const struct fabric_listen *, const struct listener_calls *,
	       void *user);
int shm_listener_fd(const struct listener *);
int shm_listener_poll(struct listener *);
void shm_listener_close(struct listener *);
int shm_expose(struct listener *, const struct memory *, uint32_t realm, struct exposure **);
void shm_withdraw(struct exposure *);
struct fabric_key shm_key(const struct exposure *);
int shm_send(struct peer *, const void *message, size_t bytes, struct exposure *given);

int shm_connect(struct link **, const char *address, const void *hello, size_t bytes,
		const struct link_calls *, void *user);
enum link_state shm_link_state(const struct link *);
int shm_link_fd(const struct link *);
int shm_link_poll(struct link *);
int shm_link_send(struct link *, const void *message, size_t bytes);
void shm_link_break(struct link *);
void shm_link_close(struct link *);
int shm_remote_open(struct link *, struct fabric_key, uint64_t bytes, struct remote **);
void shm_remote_close(struct remote *);
const void *shm_view(const struct remote *);
void *shm_landing(struct link *, size_t bytes);
void shm_landing_free(struct link *, void *, size_t bytes);
unsigned int shm_depth(const struct link *);
int shm_read(struct link *, const struct fabric_read *, unsigned int count);
int shm_reap(struct link *, struct fabric_completion *, unsigned int max);
int shm_sleep(struct link *);

extern const struct fabric_ops shm_ops;

#endif
