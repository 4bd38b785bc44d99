/* SPDX-License-Identifier: Apache-2.0 */
/* The porter's program is started by a process between, which ends at once. So the porter is no
 * child of the application: the application gets no SIGCHLD, and its waitpid(-1) finds its own
 * children alone. (A process that executes a program sends SIGCHLD, whatever it was made with.)
 * Both processes share the application's memory until then, as after vfork. That costs the same for
 * an application of any size.
 *
 * Z2  A porter that was let go and does not end hangs in a descriptor of another process. After
 *     HANGING_MAX of these porters of one origin, no further porter is started for it. So a hostile
 *     process costs at most that many, and the porters of the last GRACE_MS. It does not keep this
 *     process from other origins.
 * Z6  Only shm_porter_settle() waits for a porter. A program that polls never does. */
#include "bus/shm/shm_porter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/shm/shm_porter_path.h"
#include "bus/shm/shm_rights.h"

#define HANGING_MAX 8    /* of one origin */
#define GRACE_MS    1000 /* for a porter to end, on a machine with much to do */
#define END_MS      100  /* to wait for the end; a porter that does not hang ends at once */
#define STACK_BYTES 16384

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shm_porter *let_go; /* porters that did not end yet, under the lock */

/* clone() by another name of libc. The thread sanitizer takes clone() for fork(). */
int __clone(int (*run)(void *), void *stack, int flags, void *arg, ...);

/* -- starting -----------------------------------------------------------------------------------
 */

struct start {
	const char *path;
	char *words[3];
	int pair, socket;
	char *stack; /* of the second process */
};

static void report(int pair, enum porter_what what, int number)
{
	const uint32_t words[2] = { what, (uint32_t)number };

	send(pair, words, sizeof(words), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The descriptor, or a copy where the porter's own two will be. */
static int out_of_the_way(int fd)
{
	return fd > PORTER_SOCKET ? fd : fcntl(fd, F_DUPFD, PORTER_SOCKET + 1);
}

/* dup2(), of which the thread sanitizer would think that it happens in the application. */
static long move(int from, int to)
{
	return syscall(SYS_dup3, from, to, 0);
}

/* Becomes the porter, with two descriptors: a hanging porter must hold nothing else. Signals stay
 * blocked, so that it outlives its program's own end. To return ends the process at once. _exit()
 * would run code of the sanitizers, which takes this stack for the application's. */
static int become_porter(void *arg)
{
	const struct start *start = arg;
	char *no_settings[] = { NULL };
	const int pair = out_of_the_way(start->pair);
	const int socket = out_of_the_way(start->socket);

	if (pair < 0 || socket < 0 || move(pair, PORTER_PAIR) < 0 ||
	    move(socket, PORTER_SOCKET) < 0) {
		report(pair < 0 ? start->pair : pair, PORTER_FAILED, errno);
		return 1;
	}
	/* Now, and not by exec: when the application goes on, its copies are closed. */
	syscall(SYS_close_range, PORTER_SOCKET + 1, ~0U, 0);
	execve(start->path, start->words, no_settings);
	report(PORTER_PAIR, PORTER_FAILED, errno);
	return 1;
}

/* The process between. */
static int start_porter(void *arg)
{
	struct start *start = arg;
	const pid_t pid = __clone(become_porter, start->stack + STACK_BYTES,
				  CLONE_VM | CLONE_VFORK | SIGCHLD, start);

	if (pid < 0)
		report(start->pair, PORTER_FAILED, errno);
	else
		report(start->pair, PORTER_STARTED, pid);
	return 0;
}

/* 0, or -errno if no process could be made. The processes use this thread's memory, and must not
 * act on its cancellation. */
static int processes_make(struct start *start)
{
	_Alignas(16) char first[STACK_BYTES], second[STACK_BYTES];
	sigset_t all, before;
	int code, cancel;
	pid_t pid;

	start->stack = second;
	sigfillset(&all);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = __clone(start_porter, first + STACK_BYTES, CLONE_VM | CLONE_VFORK, start);
	code = errno;
	if (pid > 0)
		waitpid(pid, NULL, __WALL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(cancel, NULL);
	return pid < 0 ? -code : 0;
}

/* No other process has the number now if the porter still has its end of the pair. */
static int process_open(struct shm_porter *porter, pid_t pid)
{
	struct pollfd pair = { .fd = porter->pair };

	porter->process = (int)syscall(SYS_pidfd_open, pid, 0);
	if (porter->process < 0 && errno != ENOSYS) /* valgrind does not know the call */
		return -errno;
	return poll(&pair, 1, 0) > 0 ? -ECHILD : 0;
}

/* Starts the program: 0 or -errno. */
static int porter_run(struct shm_porter *porter, const char *path, const char *task, int socket)
{
	struct start start = { .path = path,
			       .words = { (char *)(uintptr_t)PORTER_PROGRAM,
					  (char *)(uintptr_t)task },
			       .socket = socket };
	struct porter_message message;
	int pairs[2], result, fd;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pairs) < 0)
		return -errno;
	porter->pair = pairs[0];
	start.pair = pairs[1];
	result = processes_make(&start);
	close(pairs[1]);
	if (result < 0)
		return result;
	result = shm_porter_receive(porter, &message, &fd);
	if (result < 0)
		return result;
	if (message.what != PORTER_STARTED)
		return message.what == PORTER_FAILED ? -(int)message.number : -EPROTO;
	return process_open(porter, (pid_t)message.number);
}

/* -- ending -------------------------------------------------------------------------------------
 */

static void porter_free(struct shm_porter *porter)
{
	if (porter->pair >= 0)
		close(porter->pair);
	if (porter->process >= 0)
		close(porter->process);
	free(porter);
}

static bool ended(const struct shm_porter *porter)
{
	struct pollfd process = { .fd = porter->process, .events = POLLIN };

	return porter->process < 0 || poll(&process, 1, 0) != 0;
}

/* An application that takes orphans, as process 1 of a container does, is the porter's parent. */
static void take_status(const struct shm_porter *porter)
{
	siginfo_t status;

	waitid(P_PIDFD, (id_t)porter->process, &status, WEXITED | WNOHANG);
}

unsigned int shm_porter_reap(void)
{
	struct shm_porter **place = &let_go;
	unsigned int count = 0;

	pthread_mutex_lock(&lock);
	while (*place) {
		struct shm_porter *porter = *place;

		if (ended(porter)) {
			*place = porter->next;
			take_status(porter);
			porter_free(porter);
			continue;
		}
		count++;
		place = &porter->next;
	}
	pthread_mutex_unlock(&lock);
	return count;
}

/* The most hanging porters of an origin: of any user's, if user is NULL. */
static unsigned int hanging(const char *path, const uid_t *user)
{
	unsigned int most = 0;

	shm_porter_reap();
	pthread_mutex_lock(&lock);
	for (const struct shm_porter *one = let_go; one; one = one->next) {
		unsigned int count = 0;

		if (strcmp(one->origin.path, path) != 0 || (user && one->origin.user != *user))
			continue;
		for (const struct shm_porter *other = one; other; other = other->next)
			count += other->origin.user == one->origin.user &&
				 strcmp(other->origin.path, path) == 0 &&
				 clock_ms() - other->gone_ms >= GRACE_MS;
		if (most < count)
			most = count;
	}
	pthread_mutex_unlock(&lock);
	return most;
}

/* Lets it know that it must end. */
static void stop(struct shm_porter *porter)
{
	if (porter->pair < 0)
		return;
	shutdown(porter->pair, SHUT_RDWR); /* a forked child may have it too */
	close(porter->pair);
	porter->pair = -1;
}

void shm_porter_settle(struct shm_porter *porter)
{
	struct pollfd process = { .fd = porter ? porter->process : -1, .events = POLLIN };

	if (process.fd < 0)
		return;
	stop(porter);
	poll(&process, 1, END_MS);
}

void shm_porter_end(struct shm_porter *porter)
{
	if (!porter)
		return;
	stop(porter);
	porter->gone_ms = clock_ms();
	pthread_mutex_lock(&lock);
	porter->next = let_go;
	let_go = porter;
	pthread_mutex_unlock(&lock);
	shm_porter_reap();
}

/* -- using --------------------------------------------------------------------------------------
 */

bool shm_porter_crowded(const char *path)
{
	return hanging(path, NULL) >= HANGING_MAX;
}

int shm_porter_room(const struct shm_origin *origin)
{
	const unsigned int count = hanging(origin->path, &origin->user);

	if (count < HANGING_MAX)
		return 0;
	return error_set(EAGAIN,
			 "%u processes that close descriptors of user %u hang, at most %d may: the "
			 "user sent descriptors that cannot be closed",
			 count, (unsigned int)origin->user, HANGING_MAX); /* Z2 */
}

int shm_porter_start(struct shm_porter **out, const char *task, int socket,
		     const struct shm_origin *origin)
{
	struct shm_porter *porter;
	char path[PATH_MAX];
	int result = shm_porter_room(origin);

	*out = NULL;
	if (result < 0)
		return result;
	porter = calloc(1, sizeof(*porter));
	if (!porter)
		return error_set(ENOMEM, "no memory for a " PORTER_PROGRAM);
	porter->pair = porter->process = -1;
	porter->origin = *origin;
	shm_porter_path(path);
	result = porter_run(porter, path, task, socket);
	if (result < 0) {
		porter_free(porter);
		if (result == -EAGAIN || result == -ENOMEM || result == -EMFILE ||
		    result == -ENFILE)
			return error_set(-result, "cannot start %s: %s", path, strerror(-result));
		/* The program is at fault. Another code would blame the publisher. */
		return error_set(ENOEXEC,
				 "cannot start %s: %s (TICKBUS_LIBEXEC_DIR can name its folder)",
				 path, strerror(-result));
	}
	*out = porter;
	return 0;
}

int shm_porter_send(struct shm_porter *porter, enum porter_what what, uint32_t number, int fd)
{
	const uint32_t words[2] = { what, number };
	const struct iovec part = { .iov_base = (void *)(uintptr_t)words,
				    .iov_len = sizeof(words) };

	return shm_rights_send(porter->pair, &part, 1, fd, MSG_DONTWAIT);
}

int shm_porter_receive(struct shm_porter *porter, struct porter_message *message, int *fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { .iov_base = message, .iov_len = sizeof(*message) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	const ssize_t got = recvmsg(porter->pair, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	*fd = -1;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (got < (ssize_t)PORTER_HEADER_BYTES)
		return -EPIPE;
	if (header.msg_flags & MSG_CTRUNC)
		return -EMFILE; /* the kernel closed a memfd or a pidfd, which never waits */
	shm_rights_count(&header, fd);
	return (int)((size_t)got - PORTER_HEADER_BYTES);
}
