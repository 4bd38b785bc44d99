/* SPDX-License-Identifier: Apache-2.0 */
/* A file as a source of messages. */
#ifndef TICKBUS_FEEDS_SOURCE_FILE_H
#define TICKBUS_FEEDS_SOURCE_FILE_H

#include "publisher/feeds/source.h"

/* Opens a BinaryFILE: frames of a big-endian u16 length and a message of any type. A frame of
 * length 0 ends the session; only zeros may follow it, and zeros may follow compressed data. The
 * content decides between plain, gzip and zstd, never the name.
 * Opening: -ENOENT and others from open(2); -EISDIR; -EINVAL: a pipe or a device; -ENODATA: empty;
 * -EBADMSG: its first bytes show another format (foreign.h).
 * Reading: -EBADMSG with the offset for a length of 0 before the end, and for an end in the middle
 * of a frame. -EBADMSG also for corrupt or truncated compressed data. -ENODATA: no message at all.
 * -EINTR: interrupted. -EIO and others from read(2). */
int source_file_open(struct source **source, const char *path);

#endif
