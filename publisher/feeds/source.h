/* SPDX-License-Identifier: Apache-2.0 */
/* A source of a feed's raw messages: a file or a synthetic exchange.
 *
 * Errors   -errno, and a message with the source's name and the offset.
 * Threads  a source is used by one thread at a time.
 * Memory   bounded, and allocated when the source is opened.
 * End      a long stretch of a file may hold no message: `interrupted` ends reading there.
 * An implementation's structure begins with struct source. To read a source again, open it again.
 */
#ifndef TICKBUS_FEEDS_SOURCE_H
#define TICKBUS_FEEDS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;

struct source_message {
	const uint8_t *bytes; /* valid until the next call */
	size_t length;
	uint64_t offset; /* of the message's frame, in bytes of the uncompressed stream */
	/* A later message, whose memory is worth fetching now, or NULL. Each comes at
	 * most once, in the order of the messages, unchecked. Valid until the next call. */
	const uint8_t *ahead;
	size_t ahead_length;
};

struct source_operations {
	/* Gives the next message: 1; 0 at the end; -errno if the stream cannot be read on. All
	 * whole messages come before an error. The end and an error stay. */
	int (*next)(struct source *, struct source_message *);
	/* Says, for people, what happened to the file since it was opened, like "was removed".
	 * NULL: nothing, or there is no file. */
	const char *(*changed)(struct source *);
	/* Frees everything. Takes a half-opened source, not NULL. */
	void (*close)(struct source *);
};

struct source {
	const struct source_operations *operations;
	const char *name;                /* for people: the path, or what is generated */
	const _Atomic bool *interrupted; /* once true, next may return -EINTR; NULL: never. The user
					    of the source sets it after opening */
};

static inline int source_next(struct source *source, struct source_message *message)
{
	return source->operations->next(source, message);
}

static inline const char *source_changed(struct source *source)
{
	return source->operations->changed(source);
}

/* Takes NULL. */
static inline void source_close(struct source *source)
{
	if (source)
		source->operations->close(source);
}

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
