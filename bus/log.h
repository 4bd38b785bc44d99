/* SPDX-License-Identifier: Apache-2.0 */
/* A log: lines "2026-11-21T09:30:00.123456Z warning text" to a file or to standard error.
 *
 * Threads  log_write by any thread. A line is one write(2), so lines of several threads never mix.
 *          log_reopen by any thread, while others write.
 * A line that cannot be written (full disk, pipe without a reader) is counted; log_write never
 * waits.
 * Standard error reports the first line that a file did not take, with the program's name. The next
 * line that can be written is followed by the number of lost lines. */
#ifndef TICKBUS_BUS_LOG_H
#define TICKBUS_BUS_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR = 1, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

#define LOG_LINE_BYTES 2400

struct log {
	char *path; /* NULL: standard error */
	_Atomic int fd;
	enum log_level level;
	_Atomic uint64_t lost;
	_Atomic bool broken; /* the last line in the file has no end */
};

/* path NULL: standard error. 0, or -errno with a message that names the file. */
int log_open(struct log *, const char *path, enum log_level level);

/* Opens the path again, after the file was moved away. 1, or 0 for a log without a file. On
 * failure, lines go on to the old file. */
int log_reopen(struct log *);

void log_write(struct log *, enum log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Takes a zeroed structure. */
void log_close(struct log *);

const char *log_level_name(enum log_level level);

#endif
