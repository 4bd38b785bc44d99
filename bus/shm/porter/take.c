/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor of another process is looked at by fcntl(F_GET_SEALS) alone, which never waits. Only
 * memory files answer it, and they close without waiting. After any other descriptor the porter
 * sends its verdict before it closes anything. */
#include "bus/shm/porter/take.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/shm/porter/message.h"
#include "bus/shm/shm_rights.h"

/* SCM_MAX_FD of one frame: the kernel would close those without room. */
#define DESCRIPTORS_MAX 253
#define CROWDED_MS      10
#define CROWDED_TRIES   200

static int message_send(int pair, const struct porter_message *message, size_t body, int fd)
{
	const struct iovec part = { .iov_base = (void *)(uintptr_t)message,
				    .iov_len = PORTER_HEADER_BYTES + body };

	return shm_rights_send(pair, &part, 1, fd, 0);
}

__attribute__((format(printf, 3, 4))) static bool verdict(int pair, int code, const char *format,
							  ...)
{
	struct porter_message message = { .what = PORTER_VERDICT, .number = (uint32_t)code };
	va_list args;

	va_start(args, format);
	vsnprintf((char *)message.body, FABRIC_REASON_BYTES, format, args);
	va_end(args);
	message_send(pair, &message, strlen((const char *)message.body), -1);
	return false;
}

/* Too many descriptors of this user may be in flight. That ends when others take theirs. */
static bool frame_forward(int pair, const struct porter_message *message, size_t bytes, int fd)
{
	int result = message_send(pair, message, bytes, fd);

	for (int tries = 0; result == -ETOOMANYREFS && tries < CROWDED_TRIES; tries++) {
		struct pollfd ended = { .fd = pair };

		if (poll(&ended, 1, CROWDED_MS) > 0)
			return false;
		result = message_send(pair, message, bytes, fd);
	}
	if (result == -ETOOMANYREFS)
		return verdict(pair, EMFILE,
			       "too many descriptors of this user are in flight (see "
			       "ulimit -n)");
	return result == 0;
}

/* Whether a page within the file's size is missing: its reader would pay for it. Allocated blocks
 * do not show that, because they may lie beyond the end. The seals must be there before the look:
 * they keep holes out from then on. Without them the subscriber refuses the memory. The look waits
 * for a lock of the file, which a hostile publisher can hold: so the porter looks. */
static bool hole_find(int fd, off_t *hole, off_t *size)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;

	if (!(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) || !(seals & F_SEAL_SHRINK) ||
	    fstat(fd, &status) < 0)
		return false;
	*size = status.st_size;
	*hole = lseek(fd, 0, SEEK_HOLE);
	lseek(fd, 0, SEEK_SET); /* the position is the subscriber's */
	return *hole >= 0 && *hole < *size;
}

/* Takes a frame; *left: how many may follow. False: the porter must end. */
static bool frame_take(int pair, int socket, uint32_t *left)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
	struct porter_message message = { .what = PORTER_FRAME };
	struct iovec part = { .iov_base = message.body, .iov_len = sizeof(message.body) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	unsigned int count;
	off_t hole, size;
	int fd;

	if (got < 0)
		return true;
	count = shm_rights_count(&header, &fd);
	if (count != 1 || (header.msg_flags & MSG_CTRUNC))
		return verdict(pair, EPROTO,
			       "memory handed over: found %u descriptors%s, expected 1", count,
			       header.msg_flags & MSG_CTRUNC ? " or more" : "");
	if (fcntl(fd, F_GET_SEALS) < 0)
		return verdict(pair, EPROTO,
			       "memory handed over: found a descriptor that is no "
			       "memfd, expected sealed memory");
	if (hole_find(fd, &hole, &size))
		return verdict(pair, EPROTO,
			       "memory handed over: found no page at byte %lld, expected all pages "
			       "of its %lld bytes",
			       (long long)hole, (long long)size);
	if ((header.msg_flags & MSG_TRUNC) || got <= (ssize_t)sizeof(uint32_t))
		return verdict(pair, EPROTO, "the publisher sent a frame of a wrong size");
	*left = shm_rights_look(socket) > 0 ? *left - 1 : 0;
	message.number = *left;
	if (!frame_forward(pair, &message, (size_t)got, fd))
		return false;
	close(fd);
	return true;
}

void take_run(int pair, int socket)
{
	const uint32_t none[2] = { PORTER_DONE, 0 };
	uint32_t want[2], left;

	while (recv(pair, want, sizeof(want), 0) == sizeof(want) && want[0] == PORTER_WANT) {
		left = want[1];
		if (left == 0 || shm_rights_look(socket) <= 0) {
			if (send(pair, none, sizeof(none), MSG_NOSIGNAL) < 0)
				return;
			continue;
		}
		while (left > 0)
			if (!frame_take(pair, socket, &left))
				return;
	}
}
