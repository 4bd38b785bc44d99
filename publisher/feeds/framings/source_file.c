/* SPDX-License-Identifier: Apache-2.0 */
/* BinaryFILE: u16 length, message, repeated. A length of 0 ends it, with only zeros behind it.
 * Offsets are those of the uncompressed stream.
 *
 * The length alone says where a message ends. So a message of any type and length is given, and
 * the market counts those that it does not know.
 *
 * X-I1  buffer[next, count) holds the bytes after the last message given; the first of them is at
 *       `offset` of the stream.
 * X-I2  `ahead` is the beginning of a frame in the buffer, or its end or beyond; at most AHEAD
 *       frames lie between `next` and it. */
#include "publisher/feeds/framings/source_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "publisher/feeds/framings/foreign.h"
#include "publisher/feeds/containers/source_bytes.h"

#define FRAME_BYTES  SOURCE_FRAME_BYTES
#define FRAME_MAX    (FRAME_BYTES + UINT16_MAX)
#define BUFFER_BYTES 262144
#define AHEAD        8 /* messages; their orders are in memory by the time that they are used */

struct source_file {
	struct source source;
	struct source_bytes *bytes;
	char *path;
	uint64_t offset;
	size_t next, count;
	size_t ahead;         /* where the frame begins that is announced next */
	unsigned int between; /* frames between `next` and `ahead` */
	bool end;             /* the stream ends after the buffer */
	bool broken;          /* the end is a failure to read */
	uint64_t other_at;    /* behind a length of 0: the offset of a byte that is not 0; or 0 */
	uint8_t buffer[BUFFER_BYTES];
};

/* Fills the buffer with a whole frame, if there is one left. It moves less than a frame, and only
 * when a buffer is used up. */
static void fill(struct source_file *file)
{
	size_t left = file->count - file->next;

	memmove(file->buffer, file->buffer + file->next, left);
	file->ahead -= file->next;
	file->next = 0;
	file->count = left;
	while (!file->end && file->count < FRAME_MAX) {
		ssize_t count =
			source_bytes_read(file->bytes, file->buffer + file->count,
					  BUFFER_BYTES - file->count, file->source.interrupted);

		file->broken = count < 0;
		file->end = count <= 0;
		file->count += count > 0 ? (size_t)count : 0;
	}
}

/* Puts the file's name and the offset before the message. */
static int locate(const struct source_file *file, int result)
{
	return error_prefix(result, "%s: offset %llu of the uncompressed stream: ", file->path,
			    (unsigned long long)file->offset);
}

/* Fewer bytes than a frame are left: 0 at a proper end, otherwise -errno. */
static int end(struct source_file *file, size_t left, size_t frame)
{
	if (file->broken)
		return locate(file, (int)source_bytes_read(file->bytes, file->buffer, 1,
							   file->source.interrupted));
	if (file->other_at)
		return locate(file, error_set(EBADMSG,
					      "found a message length of 0, expected 1 or more; "
					      "only zeros may follow the end, found other bytes "
					      "at offset %llu",
					      (unsigned long long)file->other_at));
	if (left)
		return locate(file, error_set(EBADMSG,
					      "ends in the middle of a message, found %zu bytes, "
					      "expected %zu",
					      left, frame));
	return file->offset ? 0
			    : error_set(ENODATA, "%s: found no message, expected at least 1",
					file->path);
}

static inline size_t length_of(const uint8_t *frame)
{
	return (size_t)frame[0] << 8 | frame[1];
}

/* Moves `ahead` over a frame that is whole in the buffer; NULL: it is not. */
static inline const uint8_t *skip(struct source_file *file)
{
	const uint8_t *frame = file->buffer + file->ahead;
	const size_t left = file->count - file->ahead;

	if (left < FRAME_BYTES || left < FRAME_BYTES + length_of(frame))
		return NULL;
	file->ahead += FRAME_BYTES + length_of(frame);
	file->between++;
	return frame;
}

/* Announces the message that comes AHEAD messages later. The first messages of a buffer are not
 * announced. */
static inline void announce(struct source_file *file, struct source_message *message)
{
	const uint8_t *frame = NULL;

	while (file->between < AHEAD && (frame = skip(file)))
		;
	message->ahead = frame ? frame + FRAME_BYTES : NULL;
	message->ahead_length = frame ? length_of(frame) : 0;
}

/* Gives the message of a frame that is whole in the buffer. */
static inline int give(struct source_file *file, struct source_message *message, size_t length)
{
	message->bytes = file->buffer + file->next + FRAME_BYTES;
	message->length = length;
	message->offset = file->offset;
	file->next += FRAME_BYTES + length;
	file->offset += FRAME_BYTES + length;
	if (file->between > 0)
		file->between--;
	else
		file->ahead = file->next;
	announce(file, message);
	return 1;
}

static size_t zeros(const uint8_t *bytes, size_t count)
{
	size_t i = 0;

	while (i < count && !bytes[i])
		i++;
	return i;
}

/* At a length of 0. Zeros behind it are its padding; other bytes mean that it was no end. All of
 * them are read, and what they were is kept for the next call. */
static int end_of_session(struct source_file *file)
{
	uint64_t at = file->offset;

	for (;;) {
		const size_t left = file->count - file->next;
		const size_t padding = zeros(file->buffer + file->next, left);

		at += padding;
		file->next = file->ahead = file->count;
		file->between = 0;
		if (padding < left)
			file->other_at = at;
		if (padding < left || file->end)
			break;
		fill(file);
	}
	file->end = true;
	return end(file, 0, 0);
}

/* At a frame that is not whole in the buffer, or is an end. A failure changes nothing, so the next
 * call fails in the same way. */
static __attribute__((noinline)) int next_careful(struct source_file *file,
						  struct source_message *message)
{
	size_t left = file->count - file->next, length;

	if (left < FRAME_MAX && !file->end) {
		fill(file);
		left = file->count;
	}
	if (left < FRAME_BYTES)
		return end(file, left, FRAME_BYTES);
	length = length_of(file->buffer + file->next);
	if (!length)
		return end_of_session(file);
	if (left < FRAME_BYTES + length)
		return end(file, left, FRAME_BYTES + length);
	return give(file, message, length);
}

static int next(struct source *source, struct source_message *message)
{
	struct source_file *file = (struct source_file *)source;
	const size_t left = file->count - file->next;
	size_t length;

	if (left < FRAME_BYTES)
		return next_careful(file, message);
	length = length_of(file->buffer + file->next);
	return length && left >= FRAME_BYTES + length ? give(file, message, length)
						      : next_careful(file, message);
}

static const char *changed(struct source *source)
{
	const struct source_file *file = (const struct source_file *)source;

	return source_bytes_changed(file->bytes, file->path);
}

static void close_file(struct source *source)
{
	struct source_file *file = (struct source_file *)source;

	source_bytes_close(file->bytes);
	free(file->path);
	free(file);
}

/* Refuses a file that is no BinaryFILE. Its first bytes are the first in the buffer. */
static int check_head(struct source_file *file)
{
	int result;

	file->count = source_bytes_head(file->bytes, file->buffer, FOREIGN_HEAD_BYTES);
	result = foreign_check(file->buffer, file->count);
	return result < 0 ? error_prefix(result, "%s: ", file->path) : 0;
}

int source_file_open(struct source **source, const char *path)
{
	static const struct source_operations operations = { .next = next,
							     .changed = changed,
							     .close = close_file };
	struct source_file *file = malloc(sizeof(*file));
	int result;

	*source = NULL;
	if (!file)
		return error_set(ENOMEM, "%s: no memory to read it", path);
	memset(file, 0, offsetof(struct source_file, buffer));
	file->source.operations = &operations;
	file->path = strdup(path);
	file->source.name = file->path;
	result = file->path ? source_bytes_open(&file->bytes, path)
			    : error_set(ENOMEM, "%s: no memory to read it", path);
	if (result == 0)
		result = check_head(file);
	if (result < 0) {
		close_file(&file->source);
		return result;
	}
	*source = &file->source;
	return 0;
}
