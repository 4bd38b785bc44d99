/* SPDX-License-Identifier: Apache-2.0 */
/* After a descriptor that is no memory file the porter sends its verdict before it closes anything.
 * It may wait for locks of memory that is handed over, which a hostile publisher can hold. */
#include "bus/shm/porter/take.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/shm/porter/message.h"
#include "bus/shm/shm_given.h"
#include "bus/shm/shm_rights.h"

#define CROWDED_MS    10
#define CROWDED_TRIES 200

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

/* Takes a frame that has descriptors. `left`: how many may follow. False: the porter must end. */
static bool frame_take(int pair, int socket, uint32_t left)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * SHM_GIVEN_MAX)];
	struct porter_message message = { .what = PORTER_FRAME, .number = left };
	struct iovec part = { .iov_base = message.body, .iov_len = sizeof(message.body) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	const ssize_t got = shm_rights_receive(socket, &header, 0);
	char why[FABRIC_REASON_BYTES];
	const char *wrong;
	unsigned int count;
	int fd;

	if (got < 0)
		return verdict(pair, errno, "cannot receive a descriptor: %s", strerror(errno));
	count = shm_rights_count(&header, &fd);
	wrong = shm_given_wrong(&header, count, fd, why, sizeof(why));
	if (wrong)
		return verdict(pair, EPROTO, "%s", wrong);
	if ((header.msg_flags & MSG_TRUNC) || got <= (ssize_t)sizeof(uint32_t))
		return verdict(pair, EPROTO, "the publisher sent a frame of a wrong size");
	if (!frame_forward(pair, &message, (size_t)got, fd))
		return false;
	close(fd);
	return true;
}

/* Waits for a frame. 1: it waits; 0: the program of the bus calls; -1: that program ended. */
static int frame_await(int pair, int socket)
{
	struct pollfd either[] = { { .fd = pair, .events = POLLIN },
				   { .fd = socket, .events = POLLIN } };
	uint32_t call[2];

	if (poll(either, 2, -1) < 0)
		return -1;
	if (either[0].revents == 0)
		return 1;
	return recv(pair, call, sizeof(call), MSG_DONTWAIT) == sizeof(call) &&
			       call[0] == PORTER_CALL
		       ? 0
		       : -1;
}

/* Takes up to `count` frames with descriptors, as they come, and leaves the first frame without.
 * False: the porter must end. */
static bool frames_take(int pair, int socket, uint32_t count)
{
	const uint32_t done[2] = { PORTER_DONE, 0 };

	while (count > 0) {
		int look = shm_rights_look(socket);

		if (look == -EAGAIN) {
			look = frame_await(pair, socket);
			if (look < 0)
				return false;
		} else if (look > 0 && !frame_take(pair, socket, --count)) {
			return false;
		}
		if (look <= 0)
			return send(pair, done, sizeof(done), MSG_NOSIGNAL) > 0;
	}
	return true;
}

/* A call may come after the last frame: it is over then. */
void take_run(int pair, int socket)
{
	uint32_t order[2];

	while (recv(pair, order, sizeof(order), 0) == sizeof(order))
		if (order[0] != PORTER_CALL &&
		    (order[0] != PORTER_WANT || !frames_take(pair, socket, order[1])))
			return;
}
