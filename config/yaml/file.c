/* SPDX-License-Identifier: Apache-2.0 */
#include "config/yaml/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/bounds.h"
#include "bus/clock.h"

static void unreadable(struct located_errors *errors, const char *path, int code)
{
	errors->no_memory |= code == ENOMEM;
	located_error_line(errors, "%s: cannot be read: %s", path, strerror(code));
}

/* What the path names instead of a text, or NULL. */
static const char *wrong_type(mode_t mode)
{
	if (S_ISREG(mode) || S_ISFIFO(mode))
		return NULL;
	return S_ISDIR(mode) ? "folder" : S_ISSOCK(mode) ? "socket" : "device";
}

/* Opens without waiting: another process may have put a pipe without a writer there. */
static int file_open(struct located_errors *errors, const char *path, struct stat *status)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const int code = errno;
	const char *wrong;

	if (fd < 0 && !(code == ENXIO && stat(path, status) == 0 && S_ISSOCK(status->st_mode))) {
		unreadable(errors, path, code);
		return -1;
	}
	if (fd >= 0 && fstat(fd, status) < 0) {
		unreadable(errors, path, errno);
		close(fd);
		return -1;
	}
	wrong = wrong_type(status->st_mode);
	if (!wrong)
		return fd;
	located_error_line(errors, "%s: found a %s, expected a file", path, wrong);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Waits for a pipe's next bytes. False, with an error, if they do not come in time. */
static bool pipe_wait(struct located_errors *errors, const char *path, int fd, uint64_t until_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	const uint64_t now_ms = clock_ms();

	if (now_ms < until_ms &&
	    (poll(&ready, 1, (int)(until_ms - now_ms)) != 0 || clock_ms() < until_ms))
		return true;
	located_error_line(errors,
			   "%s: found a pipe that is still open after " BOUND_TEXT(
				   FILE_PIPE_MS) " ms, expected its writer to end or a file",
			   path);
	return false;
}

/* The number of bytes, or -1 with an error. */
static ssize_t text_read(struct located_errors *errors, const char *path, int fd, char *text)
{
	const uint64_t until_ms = clock_ms() + FILE_PIPE_MS;
	size_t used = 0;
	ssize_t count;

	while ((count = read(fd, text + used, YAML_BYTES_MAX + 1 - used)) != 0) {
		if (count > 0) {
			used += (size_t)count;
		} else if (errno == EAGAIN) {
			if (!pipe_wait(errors, path, fd, until_ms))
				return -1;
		} else if (errno != EINTR) {
			unreadable(errors, path, errno);
			return -1;
		}
	}
	return (ssize_t)used;
}

char *file_read(struct located_errors *errors, const char *path, size_t *length)
{
	struct stat status;
	const int fd = file_open(errors, path, &status);
	char *text = fd >= 0 ? malloc(YAML_BYTES_MAX + 1) : NULL;
	ssize_t found = -1;

	if (fd < 0)
		return NULL;
	if (!text)
		located_no_memory(errors, path);
	else
		found = text_read(errors, path, fd, text);
	if (found == 0 && S_ISFIFO(status.st_mode)) {
		located_error_line(errors, "%s: found a pipe without bytes, expected a text", path);
		found = -1;
	}
	close(fd);
	if (found < 0) {
		free(text);
		return NULL;
	}
	*length = (size_t)found;
	return text;
}
