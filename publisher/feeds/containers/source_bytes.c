/* SPDX-License-Identifier: Apache-2.0 */
/* One buffer of raw bytes lies between the file and a decoder. Decoders write directly to the
 * caller's memory. Offsets in messages are those of the file on disk. */
#include "publisher/feeds/containers/source_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "bus/error.h"
#include "tickbus/error.h"

#define RAW_BYTES 131072

struct source_bytes {
	int fd;
	int error; /* the -errno that stays, and its message */
	char message[ERROR_BYTES];
	bool raw_end;                    /* the file was read to its end */
	bool inside;                     /* a gzip member or zstd frame has begun, and not ended */
	bool more;                       /* the decoder may hold bytes without room so far */
	bool head;                       /* only what was read from the file so far */
	bool padding;                    /* zeros began behind a member or frame */
	uint64_t raw_total;              /* read from the file */
	struct stat opened;              /* the file when it was opened */
	const _Atomic bool *interrupted; /* of the current read */
	size_t raw_next, raw_count;
	ssize_t (*read)(struct source_bytes *, uint8_t *, size_t);
	z_stream gzip;
	bool gzip_open;
	ZSTD_DStream *zstd;
	uint8_t raw[RAW_BYTES];
};

/* Keeps the failure: bytes decoded before it are given first. */
__attribute__((format(printf, 3, 4))) static int fail(struct source_bytes *bytes, int code,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	bytes->error = error_setv(code, format, args);
	va_end(args);
	snprintf(bytes->message, sizeof(bytes->message), "%s", tb_error());
	return bytes->error;
}

/* The offset of the next raw byte in the file. */
static unsigned long long position(const struct source_bytes *bytes)
{
	return bytes->raw_total - (bytes->raw_count - bytes->raw_next);
}

/* Fills the raw buffer, which is empty: 0 or -errno. An earlier end of the file is no end if it was
 * appended to. */
static int fill(struct source_bytes *bytes)
{
	ssize_t count = 1;

	bytes->raw_next = bytes->raw_count = 0;
	if (bytes->interrupted && atomic_load_explicit(bytes->interrupted, memory_order_relaxed))
		return fail(bytes, EINTR, "interrupted at byte %llu of the file", position(bytes));
	while (bytes->raw_count < RAW_BYTES && count) {
		count = read(bytes->fd, bytes->raw + bytes->raw_count,
			     RAW_BYTES - bytes->raw_count);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0 && bytes->raw_count)
			return 0; /* bytes read so far come first; the next call returns the error
				   */
		if (count < 0)
			return fail(bytes, errno, "reading at byte %llu of the file: %s",
				    position(bytes), strerror(errno));
		bytes->raw_count += (size_t)count;
		bytes->raw_total += (size_t)count;
	}
	if (!bytes->raw_count && bytes->raw_total < (uint64_t)bytes->opened.st_size)
		return fail(bytes, EBADMSG,
			    "the file ends at byte %llu, expected %llu bytes as when it was opened",
			    position(bytes), (unsigned long long)bytes->opened.st_size);
	return 0;
}

/* Ensures input or pending output for a decoder: 1; 0 at a proper end; -errno. */
static int feed(struct source_bytes *bytes, const char *format)
{
	int result;

	if (bytes->raw_next < bytes->raw_count || bytes->more)
		return 1;
	if (bytes->head)
		return 0;
	result = fill(bytes);
	if (result < 0)
		return result;
	if (bytes->raw_count)
		return 1;
	if (bytes->inside)
		return fail(bytes, EBADMSG,
			    "the file ends at byte %llu in the middle of %s data, expected more",
			    position(bytes), format);
	return 0;
}

static ssize_t read_plain(struct source_bytes *bytes, uint8_t *to, size_t size)
{
	int result = feed(bytes, "plain");
	size_t count = bytes->raw_count - bytes->raw_next;

	if (result <= 0)
		return result;
	count = count < size ? count : size;
	memcpy(to, bytes->raw + bytes->raw_next, count);
	bytes->raw_next += count;
	return (ssize_t)count;
}

/* One step of inflate: bytes written, or -errno. */
static ssize_t gzip_step(struct source_bytes *bytes, uint8_t *to, size_t size)
{
	z_stream *gzip = &bytes->gzip;
	int result;

	gzip->next_in = bytes->raw + bytes->raw_next;
	gzip->avail_in = (uInt)(bytes->raw_count - bytes->raw_next);
	gzip->next_out = to;
	gzip->avail_out = size < INT_MAX ? (uInt)size : INT_MAX;
	size = gzip->avail_out;
	bytes->inside = true;
	result = inflate(gzip, Z_NO_FLUSH);
	bytes->raw_next = bytes->raw_count - gzip->avail_in;
	bytes->more = gzip->avail_out == 0 && result == Z_OK;
	if (result == Z_STREAM_END) {
		bytes->inside = false;
		inflateReset(gzip);
	} else if (result == Z_MEM_ERROR) {
		fail(bytes, ENOMEM, "no memory to decompress");
	} else if (result != Z_OK && result != Z_BUF_ERROR) {
		fail(bytes, EBADMSG, "gzip data, bad before byte %llu of the file: %s",
		     position(bytes), gzip->msg ? gzip->msg : "needs a dictionary");
	}
	return (ssize_t)(size - gzip->avail_out);
}

static void zstd_fail(struct source_bytes *bytes, size_t result)
{
	if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
		fail(bytes, EBADMSG,
		     "zstd data, before byte %llu of the file: found a window above %u MiB, "
		     "expected at most that; compress it with --long=%d or less",
		     position(bytes), 1u << (SOURCE_WINDOW_LOG - 20), SOURCE_WINDOW_LOG);
	else
		fail(bytes, EBADMSG, "zstd data, bad before byte %llu of the file: %s",
		     position(bytes), ZSTD_getErrorName(result));
}

static ssize_t zstd_step(struct source_bytes *bytes, uint8_t *to, size_t size)
{
	ZSTD_inBuffer in = { bytes->raw, bytes->raw_count, bytes->raw_next };
	ZSTD_outBuffer out = { to, size, 0 };
	size_t result = ZSTD_decompressStream(bytes->zstd, &out, &in);

	bytes->raw_next = in.pos;
	if (ZSTD_isError(result))
		zstd_fail(bytes, result);
	bytes->inside = result != 0;
	bytes->more = out.pos == size && result != 0;
	return (ssize_t)out.pos;
}

/* Between members or frames. Passes over zeros that fill the file up: true if there were any. Other
 * bytes behind them are an error, which the next call returns. */
static bool pass_padding(struct source_bytes *bytes)
{
	if (bytes->inside || bytes->more || (!bytes->padding && bytes->raw[bytes->raw_next]))
		return false;
	bytes->padding = true;
	while (bytes->raw_next < bytes->raw_count && !bytes->raw[bytes->raw_next])
		bytes->raw_next++;
	if (bytes->raw_next < bytes->raw_count)
		fail(bytes, EBADMSG,
		     "found byte 0x%02x at byte %llu of the file, expected only zeros behind the "
		     "end of the compressed data",
		     bytes->raw[bytes->raw_next], position(bytes));
	return true;
}

/* Bytes decoded before corrupt data come first: the step keeps the error for the next call. */
static ssize_t read_steps(struct source_bytes *bytes, uint8_t *to, size_t size, const char *format,
			  ssize_t (*step)(struct source_bytes *, uint8_t *, size_t))
{
	for (;;) {
		ssize_t result = feed(bytes, format);

		if (result <= 0)
			return result;
		result = pass_padding(bytes) ? 0 : step(bytes, to, size);
		if (result)
			return result;
		if (bytes->error)
			return source_bytes_read(bytes, to, size, bytes->interrupted);
	}
}

static ssize_t read_gzip(struct source_bytes *bytes, uint8_t *to, size_t size)
{
	return read_steps(bytes, to, size, "gzip", gzip_step);
}

static ssize_t read_zstd(struct source_bytes *bytes, uint8_t *to, size_t size)
{
	return read_steps(bytes, to, size, "zstd", zstd_step);
}

/* A valid plain file begins with a zero byte (no message is longer than 255), unlike both magics. A
 * zstd file may begin with a skippable frame. */
static int choose(struct source_bytes *bytes)
{
	static const uint8_t gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd },
			     skipped[] = { 0x2a, 0x4d, 0x18 };
	const uint8_t *raw = bytes->raw;

	bytes->read = read_plain;
	if (bytes->raw_count >= sizeof(gzip) && !memcmp(raw, gzip, sizeof(gzip))) {
		bytes->read = read_gzip;
		bytes->gzip_open = inflateInit2(&bytes->gzip, 16 + MAX_WBITS) == Z_OK;
		return bytes->gzip_open ? 0 : -ENOMEM;
	}
	if (bytes->raw_count >= sizeof(zstd) &&
	    (!memcmp(raw, zstd, sizeof(zstd)) ||
	     (raw[0] >> 4 == 5 && !memcmp(raw + 1, skipped, sizeof(skipped))))) {
		bytes->read = read_zstd;
		bytes->zstd = ZSTD_createDStream();
		if (!bytes->zstd)
			return -ENOMEM;
		ZSTD_DCtx_setParameter(bytes->zstd, ZSTD_d_windowLogMax, SOURCE_WINDOW_LOG);
		return 0;
	}
	return 0;
}

static int open_file(struct source_bytes *bytes, const char *path)
{
	struct stat *status = &bytes->opened;

	bytes->fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for a writer */
	if (bytes->fd < 0 || fstat(bytes->fd, status) < 0)
		return error_set(errno, "%s: %s", path, strerror(errno));
	if (S_ISDIR(status->st_mode))
		return error_set(EISDIR, "%s: is a directory, expected a file", path);
	if (!S_ISREG(status->st_mode))
		return error_set(EINVAL, "%s: is a pipe or a device, expected a file", path);
	posix_fadvise(bytes->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

int source_bytes_open(struct source_bytes **result_bytes, const char *path)
{
	struct source_bytes *bytes = malloc(sizeof(*bytes));
	int result;

	*result_bytes = NULL;
	if (!bytes)
		return error_set(ENOMEM, "%s: no memory to read it", path);
	memset(bytes, 0, offsetof(struct source_bytes, raw));
	bytes->fd = -1;
	result = open_file(bytes, path);
	if (result < 0)
		goto fail;
	result = fill(bytes);
	if (result < 0) {
		error_prefix(result, "%s: ", path);
		goto fail;
	}
	if (!bytes->raw_count) {
		result = error_set(ENODATA, "%s: found no bytes, expected messages", path);
		goto fail;
	}
	if (choose(bytes) < 0) {
		result = error_set(ENOMEM, "%s: no memory to decompress", path);
		goto fail;
	}
	*result_bytes = bytes;
	return 0;
fail:
	source_bytes_close(bytes);
	return result;
}

ssize_t source_bytes_read(struct source_bytes *bytes, uint8_t *to, size_t size,
			  const _Atomic bool *interrupted)
{
	bytes->interrupted = interrupted;
	return bytes->error ? error_set(-bytes->error, "%s", bytes->message)
			    : bytes->read(bytes, to, size);
}

size_t source_bytes_head(struct source_bytes *bytes, uint8_t *to, size_t size)
{
	size_t total = 0;
	ssize_t count = 1;

	bytes->head = true;
	for (; count > 0 && total<size; total += count> 0 ? (size_t)count : 0)
		count = bytes->read(bytes, to + total, size - total);
	bytes->head = false;
	return total;
}

const char *source_bytes_changed(const struct source_bytes *bytes, const char *path)
{
	const struct stat *opened = &bytes->opened;
	struct stat now, named;

	if (stat(path, &named) < 0)
		return "was removed";
	if (named.st_dev != opened->st_dev || named.st_ino != opened->st_ino)
		return "was replaced by another file";
	if (fstat(bytes->fd, &now) < 0)
		return NULL;
	if (now.st_size != opened->st_size)
		return now.st_size > opened->st_size ? "was appended to" : "was truncated";
	if (now.st_mtim.tv_sec != opened->st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != opened->st_mtim.tv_nsec)
		return "was written to";
	return NULL;
}

void source_bytes_close(struct source_bytes *bytes)
{
	if (!bytes)
		return;
	if (bytes->gzip_open)
		inflateEnd(&bytes->gzip);
	ZSTD_freeDStream(bytes->zstd);
	if (bytes->fd >= 0)
		close(bytes->fd);
	free(bytes);
}
