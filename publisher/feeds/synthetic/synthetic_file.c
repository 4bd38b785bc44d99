/* SPDX-License-Identifier: Apache-2.0 */
/* The synthetic stream as a BinaryFILE: frames of a big-endian u16 length and a message.
 *
 * A regular file is written under another name beside it, and renamed when it is complete. */
#include "publisher/feeds/synthetic/synthetic.h"

#include "bus/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define GATHER     (256 * 1024)
#define ZSTD_LEVEL 3

struct output {
	const char *path;  /* the path that errors name */
	char *partial;     /* the name while it is being written; NULL: path itself */
	ZSTD_CCtx *zstd;   /* NULL: plain */
	uint8_t *gathered; /* frames, GATHER bytes */
	size_t used;
	uint8_t *packed; /* the compressed frames, packed_bytes */
	size_t packed_bytes;
	int fd;
};

static int put(struct output *output, const uint8_t *bytes, size_t length)
{
	while (length) {
		ssize_t written = write(output->fd, bytes, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return error_set(errno, "%s: cannot write: %s", output->path,
					 strerror(errno));
		bytes += written;
		length -= (size_t)written;
	}
	return 0;
}

static int put_packed(struct output *output, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = { output->gathered, output->used, 0 };
	size_t rest;

	do {
		ZSTD_outBuffer out = { output->packed, output->packed_bytes, 0 };
		int result;

		rest = ZSTD_compressStream2(output->zstd, &out, &in, end);
		if (ZSTD_isError(rest))
			return error_set(EIO, "%s: cannot compress: %s", output->path,
					 ZSTD_getErrorName(rest));
		result = put(output, output->packed, out.pos);
		if (result < 0)
			return result;
	} while (end == ZSTD_e_end ? rest : in.pos < in.size);
	return 0;
}

static int flush(struct output *output, ZSTD_EndDirective end)
{
	int result = output->zstd ? put_packed(output, end)
				  : put(output, output->gathered, output->used);

	output->used = 0;
	return result;
}

static int put_frame(struct output *output, const uint8_t *message, size_t length)
{
	uint8_t *frame;

	if (GATHER - output->used < 2 + length) {
		int result = flush(output, ZSTD_e_continue);

		if (result < 0)
			return result;
	}
	frame = output->gathered + output->used;
	frame[0] = (uint8_t)(length >> 8);
	frame[1] = (uint8_t)length;
	memcpy(frame + 2, message, length);
	output->used += 2 + length;
	return 0;
}

/* The name is this process's own: an existing file of that name was left by a process that is gone.
 */
static int open_file(struct output *output)
{
	const char *name = output->path;
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
	struct stat stat_now;

	if (stat(output->path, &stat_now) < 0 || S_ISREG(stat_now.st_mode)) {
		if (asprintf(&output->partial, "%s.%ld.partial", output->path, (long)getpid()) <
		    0) {
			output->partial = NULL;
			return error_set(ENOMEM, "%s: no memory", output->path);
		}
		unlink(output->partial);
		name = output->partial;
		flags |= O_EXCL;
	}
	output->fd = open(name, flags, 0666);
	if (output->fd < 0)
		return error_set(errno, "%s: cannot create: %s", output->path, strerror(errno));
	return 0;
}

static int open_output(struct output *output, const char *path)
{
	size_t length = strlen(path);

	*output = (struct output){ .path = path, .fd = -1 };
	if (length >= 3 && !strcmp(path + length - 3, ".gz"))
		return error_set(EINVAL,
				 "%s: found a name with .gz, expected another: only .zst is "
				 "compressed",
				 path);
	output->gathered = malloc(GATHER);
	if (!output->gathered)
		return error_set(ENOMEM, "%s: no memory", path);
	if (length >= 4 && !strcmp(path + length - 4, ".zst")) {
		output->packed_bytes = ZSTD_CStreamOutSize();
		output->packed = malloc(output->packed_bytes);
		output->zstd = ZSTD_createCCtx();
		if (!output->packed || !output->zstd)
			return error_set(ENOMEM, "%s: no memory", path);
		ZSTD_CCtx_setParameter(output->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(output->zstd, ZSTD_c_checksumFlag, 1);
	}
	return open_file(output);
}

/* Network file systems may report a full disk only now. */
static int finish(struct output *output)
{
	int result = flush(output, ZSTD_e_end);
	int fd = output->fd;

	if (result < 0)
		return result;
	output->fd = -1;
	if (close(fd) < 0)
		return error_set(errno, "%s: cannot write: %s", output->path, strerror(errno));
	if (output->partial && rename(output->partial, output->path) < 0)
		return error_set(errno, "%s: cannot rename %s to it: %s", output->path,
				 output->partial, strerror(errno));
	free(output->partial);
	output->partial = NULL;
	return 0;
}

/* A remaining partial file is incomplete. */
static void close_output(struct output *output)
{
	if (output->fd >= 0)
		close(output->fd);
	if (output->partial)
		unlink(output->partial);
	free(output->partial);
	ZSTD_freeCCtx(output->zstd);
	free(output->packed);
	free(output->gathered);
}

int synthetic_write(const struct synthetic_settings *settings, const char *path)
{
	struct synthetic *synthetic;
	struct output output;
	const uint8_t *message;
	size_t length;
	int result = synthetic_open(&synthetic, settings);

	if (result < 0)
		return result;
	if (!settings->messages && !settings->seconds) {
		synthetic_close(synthetic);
		return error_set(EINVAL, "synthetic: found neither messages nor seconds, expected "
					 "a limit for a file");
	}
	result = open_output(&output, path);
	while (result == 0 && synthetic_next(synthetic, &message, &length) == 1)
		result = put_frame(&output, message, length);
	if (result == 0)
		result = finish(&output);
	close_output(&output);
	synthetic_close(synthetic);
	return result;
}
