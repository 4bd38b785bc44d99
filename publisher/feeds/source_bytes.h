/* SPDX-License-Identifier: Apache-2.0 */
/* The uncompressed bytes of a file: plain, gzip (any number of members) or zstd (any number of
 * frames), as its first bytes show. They are read in order, with bounded memory. The file is read,
 * not mapped: if it is truncated meanwhile, that is an error and no SIGBUS. A pipe or a device is
 * refused, since waiting for it could last for ever. */
#ifndef TICKBUS_FEEDS_SOURCE_BYTES_H
#define TICKBUS_FEEDS_SOURCE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct source_bytes;

/* 0, or -errno with a message that names the file; -EISDIR; -EINVAL: no regular file; -ENODATA:
 * empty. */
int source_bytes_open(struct source_bytes **bytes, const char *path);

/* Reads up to size (1 or more) bytes: their number, 0 at the end, -errno with a message that names
 * the file and the offset. An error comes after all bytes before it, and stays. */
ssize_t source_bytes_read(struct source_bytes *bytes, uint8_t *to, size_t size);

/* Takes NULL. */
void source_bytes_close(struct source_bytes *bytes);

#endif
