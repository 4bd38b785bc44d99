/* SPDX-License-Identifier: Apache-2.0 */
/* The shared-memory fabric, "shm:NAME": its operations. shm_location.h says where its socket is,
 * shm_search.h how a subscriber finds it, shm_frame.h what crosses it, shm_lock.h how a publisher
 * takes an address. */
#ifndef TICKBUS_BUS_SHM_H
#define TICKBUS_BUS_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "bus/fabric.h"

struct shm_remote {
	struct remote base;
	const void *memory;
	size_t mapped; /* bytes */
	dev_t device;  /* of the memfd, with its inode: identify it while it is mapped */
	ino_t inode;
};

int shm_listen(struct listener **, const struct fabric_listen *, const struct listener_calls *,
	       void *user);
int shm_listener_fd(const struct listener *);
void shm_listener_text(const struct listener *, char *text, size_t bytes);
int shm_listener_poll(struct listener *);
void shm_listener_close(struct listener *);
int shm_expose(struct listener *, const struct memory *, uint32_t realm, struct exposure **);
void shm_withdraw(struct exposure *);
int shm_key(struct exposure *, struct peer *, struct fabric_key *);
int shm_send(struct peer *, const void *message, size_t bytes, struct exposure *given);
int shm_offer(struct peer *, const void *message, size_t bytes);

int shm_connect(struct link **, const char *address, const void *hello, size_t bytes,
		const struct link_calls *, void *user);
enum link_state shm_link_state(const struct link *);
int shm_link_fd(const struct link *);
int shm_link_user(const struct link *, uid_t *user);
int shm_link_poll(struct link *);
int shm_link_send(struct link *, const void *message, size_t bytes);
void shm_link_left(struct link *);
void shm_link_break(struct link *);
void shm_link_settle(struct link *);
void shm_link_close(struct link *);
int shm_remote_open(struct link *, struct fabric_key, uint64_t bytes, struct remote **);
bool shm_remote_keep(struct link *, struct remote *);
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
