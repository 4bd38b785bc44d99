/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/hung_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S    60
#define REQUEST_BYTES (FUSE_MIN_READ_BUFFER * 4)

struct shared {
	_Atomic unsigned int asked;
	_Atomic bool hangs;
};

static void answer(int fuse, uint64_t unique, int error, void *body, size_t bytes)
{
	struct fuse_out_header header = { .len = (uint32_t)(sizeof(header) + bytes),
					  .error = -error,
					  .unique = unique };
	struct iovec parts[2] = { { &header, sizeof(header) }, { body, bytes } };

	if (writev(fuse, parts, 2) < 0 && errno != ENOENT)
		_exit(1);
}

static void serve_request(int fuse, struct shared *shared, enum hung_by by,
			  const struct fuse_in_header *request)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
				      .minor = 31,
				      .max_readahead = 4096,
				      .flags = FUSE_WRITEBACK_CACHE,
				      .max_background = 16,
				      .max_write = 4096 };
	struct fuse_attr_out attributes = {
		.attr = { .ino = FUSE_ROOT_ID, .mode = S_IFREG | 0666, .nlink = 1 }
	};
	struct fuse_open_out opened = { .fh = 1 };
	switch (request->opcode) {
	case FUSE_INIT:
		answer(fuse, request->unique, 0, &init, sizeof(init));
		break;
	case FUSE_GETATTR:
		answer(fuse, request->unique, 0, &attributes, sizeof(attributes));
		break;
	case FUSE_OPEN:
		answer(fuse, request->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_FLUSH:
		if (by == HUNG_FLUSH && shared->hangs)
			shared->asked++;
		else
			answer(fuse, request->unique, 0, NULL, 0);
		break;
	case FUSE_WRITE: /* what the writer wrote */
		shared->asked++;
		break;
	case FUSE_RELEASE:
		answer(fuse, request->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(fuse, request->unique, ENOSYS, NULL, 0);
	}
}

/* Serves one file, which is the root of the file system. */
static void serve(const char *path, struct shared *shared, enum hung_by by, int ready)
{
	static _Alignas(struct fuse_in_header) char request[REQUEST_BYTES];
	char options[128];
	int code = 0, fuse;

	alarm(PATIENCE_S);
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=%u,group_id=%u", fuse,
		 (unsigned int)geteuid(), (unsigned int)getegid());
	if (fuse < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tickbus-test", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		code = errno;
	if (write(ready, &code, sizeof(code)) != sizeof(code) || code)
		_exit(1);
	for (;;) {
		if (read(fuse, request, sizeof(request)) >= (ssize_t)sizeof(struct fuse_in_header))
			serve_request(fuse, shared, by, (struct fuse_in_header *)(void *)request);
		else if (errno != EINTR && errno != ENOENT && errno != EAGAIN)
			_exit(0);
	}
}

/* The file lies in the server's mount namespace. */
int hung_file_again(const struct hung_file *file)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root%s/file", (int)file->server, file->folder);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* A child must keep no connection of the test open, and end with it. */
static void become_helper(int fd)
{
	if ((fd > 3 && close_range(3, (unsigned int)fd - 1, 0) < 0) ||
	    close_range((unsigned int)fd + 1, ~0U, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(1);
}

/* Writes into the cache of the file, and stays: its close would wait. */
static void write_and_stay(const struct hung_file *file, int ready)
{
	int fd;

	become_helper(ready);
	alarm(PATIENCE_S);
	fd = hung_file_again(file);
	if (fd >= 0 && write(fd, "some", 4) == 4 && write(ready, "r", 1) == 1)
		pause();
	_exit(1);
}

int hung_file_open(struct hung_file *file, enum hung_by by)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char path[80];
	int ready[2], code = EIO, made;

	*file = (struct hung_file){ .fd = -1, .server = -1, .writer = -1, .by = by };
	if (shared == MAP_FAILED)
		return -errno;
	file->asked = &shared->asked;
	file->hangs = &shared->hangs;
	snprintf(file->folder, sizeof(file->folder), "/tmp/tickbus-hung-XXXXXX");
	if (!mkdtemp(file->folder) || pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s/file", file->folder);
	made = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
	if (made >= 0)
		close(made);
	file->server = fork();
	if (file->server == 0) {
		become_helper(ready[1]);
		serve(path, shared, by, ready[1]);
	}
	close(ready[1]);
	if (file->server > 0 && read(ready[0], &code, sizeof(code)) != sizeof(code))
		code = EIO;
	close(ready[0]);
	if (code == 0) {
		file->fd = hung_file_again(file);
		code = file->fd < 0 ? -file->fd : 0;
	}
	if (code)
		hung_file_close(file);
	return -code;
}

void hung_file_hang(struct hung_file *file)
{
	char ready;
	int pipes[2];

	*file->hangs = true;
	if (file->by != HUNG_WRITE || pipe2(pipes, O_CLOEXEC) < 0)
		return;
	file->writer = fork();
	if (file->writer == 0)
		write_and_stay(file, pipes[1]);
	close(pipes[1]);
	if (read(pipes[0], &ready, 1) != 1)
		abort();
	close(pipes[0]);
}

void hung_file_close(struct hung_file *file)
{
	char path[80];

	if (file->server > 0) {
		kill(file->server, SIGKILL);
		waitpid(file->server, NULL, 0);
	}
	if (file->writer > 0) {
		kill(file->writer, SIGKILL);
		waitpid(file->writer, NULL, 0);
	}
	snprintf(path, sizeof(path), "%s/file", file->folder);
	unlink(path);
	rmdir(file->folder);
	file->server = file->writer = -1;
}
