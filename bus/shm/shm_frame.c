/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_frame.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "bus/error.h"
#include "bus/shm/shm_rights.h"

int shm_frame_receive(int socket, struct shm_frame *frame)
{
	const int look = shm_rights_look(socket);
	struct iovec part = { .iov_base = frame, .iov_len = sizeof(*frame) };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t got;

	if (look > 0)
		return -EPERM;
	got = look < 0 ? look : recvmsg(socket, &header, MSG_DONTWAIT);
	if (got < 0) {
		const int code = look < 0 ? -look : errno;

		if (code == EAGAIN || code == EINTR)
			return -EAGAIN;
		return error_set(ECONNRESET, "connection lost: %s", strerror(code));
	}
	if (got == 0) /* or an empty frame, which looks the same */
		return error_set(ECONNRESET, "the other side closed the connection");
	if ((header.msg_flags & MSG_TRUNC) || got <= (ssize_t)sizeof(frame->kind))
		return error_set(EPROTO, "found a frame of %zd bytes%s, expected %zu to %zu", got,
				 header.msg_flags & MSG_TRUNC ? " and more" : "",
				 sizeof(frame->kind) + 1, sizeof(*frame));
	return (int)((size_t)got - sizeof(frame->kind));
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
