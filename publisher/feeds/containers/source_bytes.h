/* SPDX-License-Identifier: Apache-2.0 */
/* The uncompressed bytes of a file: plain, gzip (any number of members) or zstd (any number of
 * frames), as its first bytes show. They are read in order, with bounded memory: a zstd window is
 * at most SOURCE_WINDOW_LOG. The file is read, not mapped: if it is truncated meanwhile, that is an
 * error and no SIGBUS. If it is appended to, it is read to its new end. A pipe or a device is
 * refused, since waiting for it could last for ever. */
#ifndef TICKBUS_FEEDS_SOURCE_BYTES_H
#define TICKBUS_FEEDS_SOURCE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SOURCE_WINDOW_LOG 27 /* 128 MiB, the most that zstd takes by default */

struct source_bytes;

/* 0, or -errno with a message that names the file; -EISDIR; -EINVAL: no regular file; -ENODATA:
 * empty. */
int source_bytes_open(struct source_bytes **bytes, const char *path);

/* Reads up to size (1 or more) bytes: their number, 0 at the end, -errno with a message that names
 * the file and the offset. An error comes after all bytes before it, and stays. -EINTR:
 * *interrupted (NULL: never) was true before a read from the file. */
ssize_t source_bytes_read(struct source_bytes *bytes, uint8_t *to, size_t size,
			  const _Atomic bool *interrupted);

/* The first bytes, at most `size`, of what the first piece of the file holds: their number. They
 * count as read. An error behind them comes with the next read. */
size_t source_bytes_head(struct source_bytes *bytes, uint8_t *to, size_t size);

/* What happened to the file of that path since it was opened, as source_changed gives it. */
const char *source_bytes_changed(const struct source_bytes *bytes, const char *path);

/* Takes NULL. */
void source_bytes_close(struct source_bytes *bytes);

#endif
