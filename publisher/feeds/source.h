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

#define SOURCE_FRAME_BYTES 2 /* before each message, of each source */

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

#endif
