/* SPDX-License-Identifier: Apache-2.0 */
/* Each line is one write that never waits. log_reopen() replaces the file by dup3 onto the same
 * descriptor, so no writer ever holds a closed descriptor. */
#include "bus/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "bus/clock.h"
#include "bus/error.h"

/* Standard error may be a pipe or a terminal without a reader. It is opened again, since O_NONBLOCK
 * on the existing description would affect every process that shares it. */
static int stderr_open(void)
{
	struct stat status;
	int fd = -1;

	if (fstat(STDERR_FILENO, &status) == 0 &&
	    (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)))
		fd = open("/proc/self/fd/2", O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd >= 0 ? fd : STDERR_FILENO;
}

static void stderr_close(int fd)
{
	if (fd >= 0 && fd != STDERR_FILENO)
		close(fd);
}

/* Writes as much as fits now. A socket (the journal's) takes a line at once or not at all. Another
 * user's pipe cannot be opened again, so poll(2) checks first that it has room. */
static ssize_t write_now(int fd, const struct iovec *parts, size_t count)
{
	const struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)parts,
					.msg_iovlen = count };
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	const ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent >= 0 || errno != ENOTSOCK)
		return sent;
	if (poll(&room, 1, 0) == 1)
		return writev(fd, parts, (int)count);
	errno = EAGAIN;
	return -1;
}

static int log_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);

	if (fd < 0)
		return error_set(errno, "log file %s: cannot be opened for writing: %s", path,
				 strerror(errno));
	return fd;
}

int log_open(struct log *log, const char *path, enum log_level level)
{
	int fd = path ? log_file(path) : stderr_open();

	memset(log, 0, sizeof(*log));
	log->fd = -1;
	log->level = level;
	if (fd < 0)
		return fd;
	if (path) {
		log->path = strdup(path);
		if (!log->path) {
			close(fd);
			return error_set(ENOMEM, "log file %s: no memory", path);
		}
	}
	log->fd = fd;
	return 0;
}

int log_reopen(struct log *log)
{
	int fd;

	if (!log->path)
		return 0;
	fd = log_file(log->path);
	if (fd < 0)
		return fd;
	if (dup3(fd, log->fd, O_CLOEXEC) < 0) {
		int code = errno;

		close(fd);
		return error_set(code, "log file %s: cannot replace the old file: %s", log->path,
				 strerror(code));
	}
	close(fd);
	return 1;
}

static int log_stamp(char *line, size_t bytes, enum log_level level)
{
	const uint64_t now_ns = clock_real_ns();
	const time_t seconds = (time_t)(now_ns / 1000000000);
	struct tm utc;
	size_t used;

	gmtime_r(&seconds, &utc);
	used = strftime(line, bytes, "%Y-%m-%dT%H:%M:%S", &utc);
	return (int)used + snprintf(line + used, bytes - used, ".%06uZ %s ",
				    (unsigned int)(now_ns / 1000 % 1000000), log_level_name(level));
}

static void stderr_report(const char *path, const char *why)
{
	const int fd = stderr_open();
	char text[LOG_LINE_BYTES];
	struct iovec part = { .iov_base = text };

	snprintf(text, sizeof(text), "%s: log file %s: cannot be written: %s\n",
		 program_invocation_short_name, path, why);
	part.iov_len = strlen(text);
	write_now(fd, &part, 1);
	stderr_close(fd);
}

/* A line that was written in part is ended before the next line. The first line that a file did not
 * take is reported on standard error, once until a line is written again. */
static bool log_put(struct log *log, char *line, int used)
{
	const struct iovec parts[] = { { (char *)(uintptr_t) "\n", 1 }, { line, (size_t)used } };
	const bool broken = atomic_exchange(&log->broken, false);
	const ssize_t whole = used + broken;
	const ssize_t written = write_now(log->fd, &parts[!broken], broken ? 2 : 1);
	const int code = errno;

	if (written == whole)
		return true;
	if (written < 1 ? broken : written > broken)
		atomic_store(&log->broken, true);
	if (atomic_fetch_add(&log->lost, 1) == 0 && log->path)
		stderr_report(log->path, written < 0 ? strerror(code) : "no room for a whole line");
	return false;
}

static void log_emit(struct log *log, char *line, int used)
{
	uint64_t lost;

	line[used++] = '\n';
	if (!log_put(log, line, used))
		return;
	lost = atomic_exchange(&log->lost, 0);
	if (lost == 0)
		return;
	used = log_stamp(line, LOG_LINE_BYTES, LOG_LEVEL_ERROR);
	used += snprintf(line + used, (size_t)(LOG_LINE_BYTES - used),
			 "lines missing above the previous line: %" PRIu64 "\n", lost);
	if (!log_put(log, line, used))
		atomic_fetch_add(&log->lost, lost);
}

void log_write(struct log *log, enum log_level level, const char *format, ...)
{
	char line[LOG_LINE_BYTES + 1];
	va_list args;
	int used, length;

	if (level > log->level || log->fd < 0)
		return;
	used = log_stamp(line, LOG_LINE_BYTES, level);
	va_start(args, format);
	length = vsnprintf(line + used, (size_t)(LOG_LINE_BYTES - used), format, args);
	va_end(args);
	if (length < 0)
		return;
	used = used + length < LOG_LINE_BYTES ? used + length : LOG_LINE_BYTES - 1;
	for (int i = 0; i < used; i++) /* one line stays one line, whatever a peer sent */
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	log_emit(log, line, used);
}

void log_close(struct log *log)
{
	stderr_close(log->fd);
	free(log->path);
	log->path = NULL;
	log->fd = -1;
}

const char *log_level_name(enum log_level level)
{
	static const char *const names[] = { "?", "error", "warning", "info", "debug" };

	return level >= LOG_LEVEL_ERROR && level <= LOG_LEVEL_DEBUG ? names[level] : names[0];
}
