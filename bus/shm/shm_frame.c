/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_frame.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "bus/error.h"

/* SCM_MAX_FD of one frame. With less room the kernel would close the rest, which may wait. */
#define DESCRIPTORS_MAX 253
#define QUEUE_MAX       1024 /* frames that a socket may queue */

/* A stranger's TCP socket may linger for years: its close would wait in this thread. */
static void stray_close(int fd)
{
	const struct linger none = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/* Keeps the first descriptor of a received frame, if it is wanted, and closes the others. */
static int take_descriptor(struct msghdr *header, bool wanted)
{
	int kept = -1, fd;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(fd) <= c->cmsg_len; at += sizeof(fd)) {
			memcpy(&fd, (char *)c + at, sizeof(fd));
			if (wanted && kept < 0)
				kept = fd;
			else
				stray_close(fd);
		}
	}
	return kept;
}

int shm_frame_receive(int socket, struct shm_frame *frame, int *fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
	struct iovec part = { .iov_base = frame, .iov_len = sizeof(*frame) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int kept;

	if (fd)
		*fd = -1;
	if (got < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return -EAGAIN;
		return error_set(ECONNRESET, "connection lost: %s", strerror(errno));
	}
	kept = take_descriptor(&header, fd != NULL);
	if (fd && (header.msg_flags & MSG_CTRUNC)) {
		if (kept >= 0)
			stray_close(kept);
		return error_set(EMFILE, "no descriptor is left for the memory that was handed "
					 "over (see ulimit -n)");
	}
	if ((header.msg_flags & MSG_TRUNC) || got <= (ssize_t)sizeof(frame->kind)) {
		if (kept >= 0)
			stray_close(kept);
		if (got == 0) /* or an empty frame, which looks the same */
			return error_set(ECONNRESET, "the other side closed the connection");
		return error_set(EPROTO, "found a frame of %zd bytes%s, expected %zu to %zu", got,
				 header.msg_flags & MSG_TRUNC ? " and more" : "",
				 sizeof(frame->kind) + 1, sizeof(*frame));
	}
	if (fd)
		*fd = kept;
	return (int)((size_t)got - sizeof(frame->kind));
}

int shm_frame_send(int socket, uint32_t kind, const void *body, size_t bytes, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec parts[2] = { { .iov_base = &kind, .iov_len = sizeof(kind) },
				  { .iov_base = (void *)(uintptr_t)body, .iov_len = bytes } };
	struct msghdr header = { .msg_iov = parts, .msg_iovlen = 2 };

	if (bytes == 0 || bytes > FABRIC_MESSAGE_BYTES)
		return error_set(EMSGSIZE, "found a message of %zu bytes, expected 1 to %d", bytes,
				 FABRIC_MESSAGE_BYTES);
	if (fd >= 0) {
		struct cmsghdr *c;

		header.msg_control = control;
		header.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
		return error_set(EAGAIN, "the other side does not take its messages");
	if (errno == ETOOMANYREFS)
		return error_set(ETOOMANYREFS, "too many descriptors are in flight to "
					       "subscribers that do not read (see ulimit -n)");
	return error_set(ECONNRESET, "connection lost: %s", strerror(errno));
}

void shm_frame_costs_find(struct shm_frame_costs *costs)
{
	const size_t count = sizeof(costs->of) / sizeof(costs->of[0]);
	static const uint8_t body[FABRIC_MESSAGE_BYTES];
	struct shm_frame frame;
	int sockets[2], queued;

	memset(costs, 0, sizeof(*costs));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return;
	for (size_t n = 0; n < count; n++) {
		const size_t bytes = n > 0 ? n * SHM_COST_STEP : 1;

		if (shm_frame_send(sockets[0], SHM_MESSAGE, body, bytes, -1) == 0 &&
		    ioctl(sockets[0], SIOCOUTQ, &queued) == 0 && queued > 0)
			costs->of[n] = (uint32_t)queued;
		if (shm_frame_receive(sockets[1], &frame, NULL) < 0)
			break;
	}
	close(sockets[0]);
	close(sockets[1]);
}

/* With SO_PASSRIGHTS off no descriptor can be queued. Without that option close() would close
 * queued descriptors and may wait, so the queue is read empty first. Reading cannot stop at an
 * empty frame, which looks like the end of the connection. */
void shm_frame_close(int socket)
{
	struct shm_frame frame;
	socklen_t length = sizeof(int);
	int may_come = 1, left = QUEUE_MAX;

	if (getsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &may_come, &length) < 0)
		may_come = 1; /* Linux before 6.16 */
	while (may_come && left-- > 0 && shm_frame_receive(socket, &frame, NULL) != -EAGAIN)
		;
	close(socket);
}
