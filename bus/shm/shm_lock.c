/* SPDX-License-Identifier: Apache-2.0 */
/* Takes an address, also an address that a killed publisher left.
 *
 * A publisher holds a lock on NAME.lock. The next holder of the lock, and only it, replaces the
 * socket of a killed publisher. If NAME.lock was removed, the files that are there now belong to
 * another publisher, and stay. A socket also stays where a process still listens, or may listen:
 * connect() gives EACCES for live and stale sockets alike. */
#include "bus/shm/shm_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/error.h"

#define ENDING_MS 200 /* for a killed publisher to end */

/* The process that holds an address. A child may hold it long after its parent has ended. */
static void holder_write(pid_t pid, char *text, size_t size)
{
	const bool lives = pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH);

	if (pid <= 0)
		*text = '\0';
	else if (lives)
		snprintf(text, size, " (pid %d)", (int)pid);
	else
		snprintf(text, size, " (a child of pid %d, which has ended)", (int)pid);
}

bool shm_lock_holds(const struct shm_lock *lock, const struct shm_location *location)
{
	struct stat held, there;

	return lock->fd >= 0 && fstat(lock->fd, &held) == 0 && stat(location->lock, &there) == 0 &&
	       held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

int shm_lock_take(struct shm_lock *lock, const char *name, const struct shm_location *location)
{
	char pid[32] = "", holder[64];

	for (;;) {
		lock->fd = open(location->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (lock->fd < 0)
			return error_set(errno, "address shm:%s: %s cannot be opened: %s", name,
					 location->lock, strerror(errno));
		if (flock(lock->fd, LOCK_EX | LOCK_NB) < 0) {
			if (errno != EWOULDBLOCK)
				return error_set(errno, "address shm:%s: %s cannot be locked: %s",
						 name, location->lock, strerror(errno));
			if (pread(lock->fd, pid, sizeof(pid) - 1, 0) < 0)
				pid[0] = '\0';
			holder_write((pid_t)strtol(pid, NULL, 10), holder, sizeof(holder));
			return error_set(EADDRINUSE,
					 "address shm:%s: another publisher%s listens there (%s)",
					 name, holder, location->address.sun_path);
		}
		if (shm_lock_holds(lock, location))
			break;
		close(lock->fd); /* its holder removed it on closing: try again */
	}
	lock->taken = true;
	snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(lock->fd, 0) < 0 || pwrite(lock->fd, pid, strlen(pid), 0) < 0)
		return error_set(errno, "address shm:%s: %s cannot be written: %s", name,
				 location->lock, strerror(errno));
	return 0;
}

/* Connects to the socket. -ECONNREFUSED, -ENOENT: no process listens. -ECONNRESET: it closed the
 * connection, as a process that ends does. -EAGAIN: a server is listening; it ends no connection
 * before a hello. The socket takes nothing, so no descriptor of a stranger is closed here. */
static int socket_probe(const struct sockaddr_un *address, struct ucred *credentials)
{
	const struct timeval patience = { .tv_usec = ENDING_MS * 1000L };
	socklen_t length = sizeof(*credentials);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct pollfd ended = { .fd = fd };
	int result;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	shutdown(fd, SHUT_RD);
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0) {
		result = -errno;
	} else {
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, &length);
		result = poll(&ended, 1, ENDING_MS);
		result = result > 0 ? -ECONNRESET : result == 0 ? -EAGAIN : -errno;
	}
	close(fd);
	return result;
}

/* connect() gives EACCES for live and stale sockets alike. */
static int no_permission(const char *name, const struct shm_location *location)
{
	const char *path = location->address.sun_path;
	struct stat there;
	char owner[32] = "";

	if (lstat(path, &there) == 0)
		snprintf(owner, sizeof(owner), " of user %u", (unsigned int)there.st_uid);
	return error_set(EACCES,
			 "address shm:%s: %s is a socket%s that user %u has no permission to "
			 "connect to; if no process listens there, remove it",
			 name, path, owner, (unsigned int)geteuid());
}

/* The lock may have been removed under a live publisher, or a stranger may own the socket. */
int shm_lock_check_socket(const char *name, const struct shm_location *location)
{
	const struct sockaddr_un *address = &location->address;
	const uint64_t until = clock_ms() + ENDING_MS;
	struct ucred credentials = { 0 };
	char holder[64];
	int result;

	do
		result = socket_probe(address, &credentials);
	while ((result == -ECONNRESET || result == -EINTR) && clock_ms() < until);
	switch (-result) {
	case ECONNREFUSED:
	case ENOENT:
		return 0;
	case EACCES:
		return no_permission(name, location);
	case EAGAIN:
	case ECONNRESET:
	case EINTR:
	case EPROTOTYPE:
		break;
	default:
		return error_set(-result, "address shm:%s: %s cannot be checked: %s", name,
				 address->sun_path, strerror(-result));
	}
	holder_write(credentials.pid, holder, sizeof(holder));
	return error_set(EADDRINUSE, "address shm:%s: another process%s listens there (%s)", name,
			 holder, address->sun_path);
}

void shm_lock_close(struct shm_lock *lock)
{
	if (lock->fd >= 0)
		close(lock->fd);
	lock->fd = -1;
}
