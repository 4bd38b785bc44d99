/* SPDX-License-Identifier: Apache-2.0 */
/* Where a feed's raw messages come from: a file, a synthetic exchange, later a capture or a socket.
 *
 * Errors   as everywhere: -errno, and words that name the source and the place in it.
 * Threads  a source is used by one thread at a time.
 * Memory   bounded, and allocated when the source is opened.
 * An implementation's structure begins with struct source; to read again, open it again. */
#ifndef TICKBUS_FEEDS_SOURCE_H
#define TICKBUS_FEEDS_SOURCE_H

#include <stddef.h>
#include <stdint.h>

struct source;

struct source_message {
	const uint8_t *bytes; /* valid until the next call */
	size_t length;
	uint64_t offset; /* of the message's frame, in bytes of the uncompressed stream */
};

struct source_operations {
	/* Gives the next message: 1; 0 at the end; -errno where the stream cannot be read on, which
	 * comes after all that was whole before it. An end and an error stay. */
	int (*next)(struct source *, struct source_message *);
	/* Frees everything. Takes a half-opened source, not NULL. */
	void (*close)(struct source *);
};

struct source {
	const struct source_operations *operations;
	const char *name; /* for a person: the path, or what is generated */
};

static inline int source_next(struct source *source, struct source_message *message)
{
	return source->operations->next(source, message);
}

/* Takes NULL. */
static inline void source_close(struct source *source)
{
	if (source)
		source->operations->close(source);
}

/* Opens a BinaryFILE: frames of a big-endian u16 length and a message; a last frame without a
 * message (the end of the session) is no message. Plain, gzip or zstd is told by the content, never
 * by the name. -ENOENT and others as open gives them; -EISDIR; -EINVAL: a pipe or a device;
 * -ENODATA: empty. Reading: -EBADMSG
 * with the offset: a length of 0 before the end or one beyond any ITCH message, an end in the
 * middle of a frame, corrupt or truncated compressed data; -ENODATA: no message at all; -EIO and
 * others as read gives them. */
int source_file_open(struct source **source, const char *path);

#endif
