/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that go with the messages of a Unix socket. */
#ifndef TICKBUS_BUS_SHM_RIGHTS_H
#define TICKBUS_BUS_SHM_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Sends a message, with a descriptor unless fd is -1. 0 or -errno. */
int shm_rights_send(int socket, const struct iovec *parts, size_t count, int fd, int flags);
/* recvmsg() that does not wait. What came before the end is received, although the other side did
 * not read all that it was sent (ECONNRESET). */
ssize_t shm_rights_receive(int socket, struct msghdr *, int flags);
/* Looks at the message that waits, and takes nothing: 1 if it has descriptors, 0 if not (also at
 * the end of the connection), -errno. */
int shm_rights_look(int socket);
/* Takes what is queued in a socket that was shut down, up to a frame with descriptors. Whether
 * nothing is left, so that closing the socket closes nothing else. */
bool shm_rights_drain(int socket);
/* The number of descriptors of a received message; the last to *fd, which is -1 without any. */
unsigned int shm_rights_count(struct msghdr *, int *fd);

#endif
