/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/shm/shm_rights.h"

#include <errno.h>
#include <string.h>

int shm_rights_send(int socket, const struct iovec *parts, size_t count, int fd, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr header = { .msg_iov = (struct iovec *)(size_t)parts, .msg_iovlen = count };

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
	return sendmsg(socket, &header, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* A Unix socket reports that error once, and then what is queued. */
ssize_t shm_rights_receive(int socket, struct msghdr *header, int flags)
{
	ssize_t got = recvmsg(socket, header, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0 && errno == ECONNRESET)
		got = recvmsg(socket, header, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	return got;
}

/* Without room for descriptors the kernel makes none, and MSG_CTRUNC says that there are some. */
int shm_rights_look(int socket)
{
	struct msghdr header = { 0 };

	if (shm_rights_receive(socket, &header, MSG_PEEK) < 0)
		return -errno;
	return (header.msg_flags & MSG_CTRUNC) != 0;
}

/* An empty message looks like the end, but has its sender's identity. The room is for that. */
bool shm_rights_drain(int socket)
{
	const int yes = 1;
	char byte;

	if (setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0)
		return false;
	for (;;) {
		_Alignas(struct cmsghdr) char identity[CMSG_SPACE(sizeof(struct ucred))];
		struct msghdr header = { .msg_control = identity,
					 .msg_controllen = sizeof(identity) };

		if (shm_rights_receive(socket, &header, MSG_PEEK) < 0 || header.msg_controllen == 0)
			return true;
		if (header.msg_flags & MSG_CTRUNC)
			return false;
		recv(socket, &byte, sizeof(byte), MSG_DONTWAIT);
	}
}

unsigned int shm_rights_count(struct msghdr *header, int *fd)
{
	unsigned int count = 0;

	*fd = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count += (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(*fd));
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	}
	return count;
}
