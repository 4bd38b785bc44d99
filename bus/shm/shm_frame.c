/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_frame.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "bus/error.h"
#include "bus/shm/shm_given.h"
#include "bus/shm/shm_rights.h"

/* What shm_frame_receive returns for a message of `got` bytes, or for an error. */
static int received(const struct msghdr *header, ssize_t got, int code)
{
	const size_t kind = sizeof(uint32_t);

	if (got < 0 && (code == EAGAIN || code == EINTR))
		return -EAGAIN;
	if (got < 0)
		return error_set(ECONNRESET, "connection lost: %s", strerror(code));
	if (got == 0) /* or an empty frame, which looks the same */
		return error_set(ECONNRESET, "the other side closed the connection");
	if ((header->msg_flags & MSG_TRUNC) || got <= (ssize_t)kind)
		return error_set(EPROTO, "found a frame of %zd bytes%s, expected %zu to %zu", got,
				 header->msg_flags & MSG_TRUNC ? " and more" : "", kind + 1,
				 sizeof(struct shm_frame));
	return (int)((size_t)got - kind);
}

int shm_frame_receive(int socket, struct shm_frame *frame)
{
	const int look = shm_rights_look(socket);
	struct iovec part = { .iov_base = frame, .iov_len = sizeof(*frame) };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t got;

	if (look > 0)
		return -EPERM;
	if (look < 0)
		return received(&header, -1, -look);
	got = shm_rights_receive(socket, &header, 0);
	return received(&header, got, errno);
}

static void close_all(struct msghdr *header)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		const size_t bytes = c->cmsg_len - CMSG_LEN(0);

		for (size_t at = 0; c->cmsg_type == SCM_RIGHTS && at < bytes; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			close(fd);
		}
	}
}

int shm_frame_receive_given(int socket, struct shm_frame *frame, int *fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * SHM_GIVEN_MAX)];
	struct iovec part = { .iov_base = frame, .iov_len = sizeof(*frame) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	const ssize_t got = shm_rights_receive(socket, &header, 0);
	int result = received(&header, got, errno);
	char why[FABRIC_REASON_BYTES];
	const char *wrong = NULL;
	unsigned int count = 0;

	*fd = -1;
	if (got >= 0)
		count = shm_rights_count(&header, fd);
	if (got >= 0 && (count > 0 || (header.msg_flags & MSG_CTRUNC)))
		wrong = shm_given_wrong(&header, count, *fd, why, sizeof(why));
	if (wrong && count < 2 && (header.msg_flags & MSG_CTRUNC))
		result = error_set(EMFILE, "no descriptor is left for the memory that was handed "
					   "over (see ulimit -n)");
	else if (wrong)
		result = error_set(EBADMSG, "%s", wrong);
	if (result < 0 && count > 0) {
		close_all(&header);
		*fd = -1;
	}
	return result;
}

int shm_frame_send(int socket, uint32_t kind, const void *body, size_t bytes, int fd)
{
	struct iovec parts[2] = { { .iov_base = &kind, .iov_len = sizeof(kind) },
				  { .iov_base = (void *)(uintptr_t)body, .iov_len = bytes } };
	int result;

	if (bytes == 0 || bytes > FABRIC_MESSAGE_BYTES)
		return error_set(EMSGSIZE, "found a message of %zu bytes, expected 1 to %d", bytes,
				 FABRIC_MESSAGE_BYTES);
	result = shm_rights_send(socket, parts, 2, fd, MSG_DONTWAIT);
	if (result == 0)
		return 0;
	if (result == -EAGAIN || result == -ENOBUFS || result == -EINTR)
		return error_set(EAGAIN, "the other side does not take its messages");
	if (result == -ETOOMANYREFS)
		return error_set(ETOOMANYREFS, "too many descriptors are in flight to "
					       "subscribers that do not read (see ulimit -n)");
	return error_set(ECONNRESET, "connection lost: %s", strerror(-result));
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
		if (shm_frame_receive(sockets[1], &frame) < 0)
			break;
	}
	close(sockets[0]);
	close(sockets[1]);
}
