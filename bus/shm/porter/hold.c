/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's copy of a connection is never the last, so its close never waits. Once a
 * connection is ended and shut down, nothing more can be queued in it. If descriptors are queued, a
 * child closes it, and may hang. With CHILDREN_MAX hanging children, all other connections stay
 * open here until the publisher has no place for more. */
#include "bus/shm/porter/hold.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/shm/porter/message.h"
#include "bus/shm/shm_rights.h"

#define CHILDREN_MAX  8
#define CHILD_LOOK_MS 200

struct held {
	int fd;
	bool has, suspect; /* suspect: it is ended, and descriptors are queued in it */
};

struct hold {
	int pair, listening;
	struct held *held;
	uint32_t count;
	unsigned int suspects, children;
};

static void done(const struct hold *hold, uint32_t slot)
{
	const uint32_t words[2] = { PORTER_DONE, slot };

	send(hold->pair, words, sizeof(words), MSG_NOSIGNAL);
}

static bool grow(struct hold *hold, uint32_t slot)
{
	struct held *more;

	if (slot < hold->count)
		return true;
	if (slot >= PORTER_SLOTS_MAX)
		return false;
	more = realloc(hold->held, (slot + 1) * sizeof(*more));
	if (!more)
		return false;
	memset(more + hold->count, 0, (slot + 1 - hold->count) * sizeof(*more));
	hold->held = more;
	hold->count = slot + 1;
	return true;
}

static void end(struct hold *hold, uint32_t slot)
{
	struct held *held = &hold->held[slot];

	shutdown(held->fd, SHUT_RDWR);
	if (shm_rights_drain(held->fd)) {
		close(held->fd);
		held->has = false;
		done(hold, slot);
	} else {
		held->suspect = true;
		hold->suspects++;
	}
}

/* The child closes only after the parent did: the last close may hang. */
static void child_run(const struct hold *hold, int after)
{
	char byte;

	close(hold->pair);
	close(hold->listening);
	for (uint32_t i = 0; i < hold->count; i++)
		if (hold->held[i].has && !hold->held[i].suspect)
			close(hold->held[i].fd);
	while (read(after, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

/* Hands the suspects to a child. */
static void suspects_close(struct hold *hold)
{
	int pipes[2];
	pid_t child;

	if (pipe(pipes) < 0)
		return;
	child = fork();
	if (child == 0) {
		close(pipes[1]);
		child_run(hold, pipes[0]);
	}
	close(pipes[0]);
	for (uint32_t i = 0; child > 0 && i < hold->count; i++)
		if (hold->held[i].suspect) {
			close(hold->held[i].fd);
			hold->held[i] = (struct held){ 0 };
			done(hold, i);
		}
	if (child > 0) {
		hold->suspects = 0;
		hold->children++;
	}
	close(pipes[1]);
}

/* False: the publisher ended, or sent nonsense. */
static bool message_take(struct hold *hold)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	uint32_t words[2] = { 0 };
	struct iovec part = { .iov_base = words, .iov_len = sizeof(words) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	const ssize_t got = recvmsg(hold->pair, &header, MSG_CMSG_CLOEXEC);
	int fd;

	if (got != sizeof(words))
		return false;
	shm_rights_count(&header, &fd);
	if (words[0] == PORTER_LISTEN && fd >= 0) {
		hold->listening = fd; /* the earlier stays open: its close may wait */
		return true;
	}
	if (words[0] == PORTER_HOLD && fd >= 0 && grow(hold, words[1]) &&
	    !hold->held[words[1]].has) {
		hold->held[words[1]] = (struct held){ .fd = fd, .has = true };
		return true;
	}
	if (words[0] != PORTER_END || words[1] >= hold->count || !hold->held[words[1]].has ||
	    hold->held[words[1]].suspect)
		return false;
	end(hold, words[1]);
	return true;
}

/* All clients see the end at once, also those that wait to be accepted. */
static void shut_down(const struct hold *hold)
{
	int fd;

	shutdown(hold->listening, SHUT_RDWR);
	for (uint32_t i = 0; i < hold->count; i++)
		if (hold->held[i].has)
			shutdown(hold->held[i].fd, SHUT_RDWR);
	while ((fd = accept4(hold->listening, NULL, NULL, SOCK_NONBLOCK)) >= 0)
		shutdown(fd, SHUT_RDWR);
}

void hold_run(int pair, int listening)
{
	struct hold hold = { .pair = pair, .listening = listening };
	bool goes_on = true;

	while (goes_on) {
		struct pollfd ready = { .fd = pair, .events = POLLIN };
		const bool due = hold.children > 0 || hold.suspects > 0;

		if (poll(&ready, 1, due ? CHILD_LOOK_MS : -1) > 0)
			goes_on = message_take(&hold);
		while (hold.children > 0 && waitpid(-1, NULL, WNOHANG) > 0)
			hold.children--;
		if (hold.suspects > 0 && hold.children < CHILDREN_MAX)
			suspects_close(&hold);
	}
	shut_down(&hold);
}
