/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file, uncompressed: plain, gzip (any number of members) or zstd (any number of
 * frames), told by the first bytes. Read in order, with bounded memory; the file is read, not
 * mapped, so that one which is truncated meanwhile is an error and no SIGBUS. A pipe or a device is
 * refused: nothing could end the wait for it. */
#ifndef TICKBUS_FEEDS_SOURCE_BYTES_H
#define TICKBUS_FEEDS_SOURCE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct source_bytes;

/* 0, or -errno with words that name the file; -EISDIR; -EINVAL: no regular file; -ENODATA: empty.
 */
int source_bytes_open(struct source_bytes **bytes, const char *path);

/* Up to size (1 or more) bytes: their number, 0 at the end, -errno with words that name the file
 * and the place in it. An error comes after all that could be read before it, and stays. */
ssize_t source_bytes_read(struct source_bytes *bytes, uint8_t *to, size_t size);

/* Takes NULL. */
void source_bytes_close(struct source_bytes *bytes);

#endif
