/* SPDX-License-Identifier: Apache-2.0 */
/* A file gives all its messages, in every form. A damaged file gives all messages up to the damage,
 * and then an error that names the offset. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/framings/source_file.h"
#include "tickbus/error.h"

#define MESSAGES 60
#define BYTES    65536

#if defined(__has_feature) && !defined(__SANITIZE_ADDRESS__) /* clang's name for it */
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

struct content {
	uint8_t bytes[BYTES];
	size_t size;
	size_t ends[MESSAGES]; /* of frame i in the plain form */
};

enum form { PLAIN, GZIP, ZSTD, FORMS };

static char folder[] = "/tmp/tickbus-source-XXXXXX";
static char path[64];

static void begin(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
}

static void end(void)
{
	unlink(path);
	rmdir(folder);
}

TestSuite(source, .init = begin, .fini = end);

/* Messages of all types in turn. */
static void make_up(struct content *content)
{
	content->size = 0;
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct itch_message message;
		uint8_t *frame = content->bytes + content->size;
		int length;

		memset(&message, 'A', sizeof(message));
		message.type = itch_types[i % ITCH_TYPE_COUNT].code;
		message.locate = (uint16_t)i;
		message.time_ns = i;
		length = itch_encode(&message, frame + 2);
		frame[0] = 0;
		frame[1] = (uint8_t)length;
		content->size += 2 + (size_t)length;
		content->ends[i] = content->size;
	}
}

static size_t compress_gzip(const uint8_t *from, size_t size, uint8_t *to)
{
	z_stream stream = { 0 };

	deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
	stream.next_in = (uint8_t *)(uintptr_t)from;
	stream.avail_in = (uInt)size;
	stream.next_out = to;
	stream.avail_out = BYTES;
	cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return stream.total_out;
}

static size_t compress_zstd(const uint8_t *from, size_t size, uint8_t *to)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();
	size_t length;

	ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
	length = ZSTD_compress2(context, to, BYTES, from, size);
	cr_assert_not(ZSTD_isError(length));
	ZSTD_freeCCtx(context);
	return length;
}

/* Appends bytes in a form; returns the number of bytes written. */
static size_t put(enum form form, const uint8_t *from, size_t size, uint8_t *to)
{
	if (form == GZIP)
		return compress_gzip(from, size, to);
	if (form == ZSTD)
		return compress_zstd(from, size, to);
	memcpy(to, from, size);
	return size;
}

static void write_file(const uint8_t *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	close(fd);
}

/* Reads the file and checks each message. Returns their number, and in *result the end or error,
 * which must stay. */
static unsigned read_file(const struct content *content, int *result)
{
	struct source_message message;
	struct source *source;
	unsigned count = 0;
	char first_error[512];

	*result = source_file_open(&source, path);
	if (*result < 0)
		return 0;
	while ((*result = source_next(source, &message)) > 0) {
		size_t offset = count % MESSAGES ? content->ends[count % MESSAGES - 1] : 0;

		cr_assert_eq(message.offset, offset + count / MESSAGES * content->size);
		cr_assert_eq(message.length, content->ends[count % MESSAGES] - offset - 2);
		cr_assert_arr_eq(message.bytes, content->bytes + offset + 2, message.length);
		count++;
	}
	snprintf(first_error, sizeof(first_error), "%s", tb_error());
	cr_assert_eq(source_next(source, &message), *result);
	if (*result < 0)
		cr_assert_str_eq(first_error, tb_error());
	source_close(source);
	return count;
}

/* The number of whole messages in the first bytes of the plain form. */
static unsigned whole(const struct content *content, size_t size)
{
	unsigned count = 0;

	while (count < MESSAGES && content->ends[count] <= size)
		count++;
	return count;
}

Test(source, plain_gzip_and_zstd_give_every_message)
{
	static struct content content;
	static uint8_t file[3 * BYTES];
	int result;

	make_up(&content);
	for (unsigned form = PLAIN; form < FORMS; form++) {
		write_file(file, put(form, content.bytes, content.size, file));
		cr_assert_eq(read_file(&content, &result), MESSAGES);
		cr_assert_eq(result, 0, "%s", tb_error());
	}
}

Test(source, consecutive_members_and_frames_are_one_stream)
{
	static struct content content;
	static uint8_t file[4 * BYTES];
	static const uint8_t skipped[] = { 0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'x', 'y', 'z' };
	int result;

	make_up(&content);
	for (unsigned form = PLAIN; form < FORMS; form++) {
		size_t size = 0, part = content.size / 3 + 1;

		if (form == ZSTD) {
			memcpy(file, skipped, sizeof(skipped));
			size = sizeof(skipped);
		}
		size += put(form, content.bytes, part, file + size);
		size += put(form, content.bytes + part, 0, file + size);
		size += put(form, content.bytes + part, content.size - part, file + size);
		size += put(form, content.bytes, content.size, file + size);
		write_file(file, size);
		cr_assert_eq(read_file(&content, &result), 2 * MESSAGES);
		cr_assert_eq(result, 0, "%s", tb_error());
	}
}

Test(source, stream_longer_than_buffers_is_read_whole)
{
	static struct content content;
	static uint8_t packed[BYTES];
	int result;

	make_up(&content);
	for (unsigned form = PLAIN; form < FORMS; form++) {
		size_t size = put(form, content.bytes, content.size, packed);
		FILE *file = fopen(path, "w");

		for (unsigned i = 0; i < 1000; i++)
			fwrite(packed, 1, size, file);
		cr_assert_eq(fclose(file), 0);
		cr_assert_eq(read_file(&content, &result), 1000 * MESSAGES);
		cr_assert_eq(result, 0, "%s", tb_error());
	}
}

/* Message i announces message i + AHEAD, but for the first of each buffer and the last of all. */
Test(source, later_messages_are_announced)
{
	enum { AHEAD = 8, ROUNDS = 1000, ALL = ROUNDS * MESSAGES };
	static struct content content;
	static uint8_t next[AHEAD][64];
	static size_t lengths[AHEAD];
	unsigned int count = 0, announced = 0;
	struct source_message message;
	struct source *source;
	FILE *file = fopen(path, "wb");

	make_up(&content);
	for (int i = 0; i < ROUNDS; i++)
		cr_assert_eq(fwrite(content.bytes, 1, content.size, file), content.size);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(source_file_open(&source, path), 0);
	for (; source_next(source, &message) == 1; count++) {
		const unsigned int at = count % AHEAD;

		if (lengths[at] > 0) {
			cr_assert_eq(message.length, lengths[at], "message %u", count);
			cr_assert_arr_eq(message.bytes, next[at], lengths[at], "message %u", count);
		}
		lengths[at] = message.ahead ? message.ahead_length : 0;
		announced += message.ahead != NULL;
		if (message.ahead)
			memcpy(next[at], message.ahead, message.ahead_length);
	}
	source_close(source);
	cr_expect_eq(count, ALL);
	cr_expect_geq(announced, ALL - ALL / 100);
	cr_expect_eq(lengths[0] + lengths[AHEAD - 1], 0, "the last messages announce none");
}

Test(source, truncated_file_gives_whole_messages_then_error)
{
	static struct content content;
	char expected[64];
	int result;

	make_up(&content);
	for (size_t size = 1; size < content.size; size++) {
		unsigned count = whole(&content, size);
		size_t offset = count ? content.ends[count - 1] : 0;

		write_file(content.bytes, size);
		cr_assert_eq(read_file(&content, &result), count);
		cr_assert_eq(result, size == offset ? 0 : -EBADMSG);
		if (!result)
			continue;
		snprintf(expected, sizeof(expected), "offset %zu of the uncompressed", offset);
		cr_assert(strstr(tb_error(), expected), "%s", tb_error());
		cr_assert(strstr(tb_error(), path), "%s", tb_error());
	}
}

Test(source, truncated_compressed_data_is_an_error)
{
	static struct content content;
	static uint8_t file[BYTES];
	int result;

	make_up(&content);
	for (unsigned form = GZIP; form < FORMS; form++) {
		size_t size = put(form, content.bytes, content.size, file);

		for (size_t cut = 1; cut < size; cut++) {
			unsigned count;

			write_file(file, cut);
			count = read_file(&content, &result);
			cr_assert_eq(result, -EBADMSG, "cut at %zu of %zu: %d", cut, size, result);
			cr_assert_leq(count, MESSAGES);
		}
	}
}

/* True if every message is equal and the stream ends without an error. */
static bool unharmed(const struct content *content)
{
	struct source_message message;
	struct source *source;
	unsigned count = 0;
	bool same = true;
	int result = source_file_open(&source, path);

	while (!result && (result = source_next(source, &message)) > 0) {
		size_t at = message.offset + 2;

		same &= count++ < MESSAGES && at + message.length <= content->size &&
			!memcmp(message.bytes, content->bytes + at, message.length);
		result = 0;
	}
	source_close(source);
	cr_assert(result < 0 || (same && count == MESSAGES));
	return result == 0;
}

/* Some bits do not affect the data, like time and system in a gzip header. Wrong messages may come
 * before an error: checksums are at the end. */
Test(source, damaged_compressed_data_is_an_error_or_equal)
{
	static struct content content;
	static uint8_t file[BYTES];
	unsigned harmed = 0, unchanged = 0;

	make_up(&content);
	for (unsigned form = GZIP; form < FORMS; form++) {
		size_t size = put(form, content.bytes, content.size, file);

		for (size_t i = 0; i < size; i++) {
			file[i] ^= 0x10;
			write_file(file, size);
			file[i] ^= 0x10;
			if (unharmed(&content))
				unchanged++;
			else
				harmed++;
		}
	}
	cr_assert_gt(harmed, 50 * unchanged, "%u %u", harmed, unchanged);
}

Test(source, bytes_after_compressed_data_are_an_error)
{
	static struct content content;
	static uint8_t file[BYTES];
	int result;

	make_up(&content);
	for (unsigned form = GZIP; form < FORMS; form++) {
		size_t size = put(form, content.bytes, content.size, file);

		memcpy(file + size, "more", 4);
		write_file(file, size + 4);
		cr_assert_eq(read_file(&content, &result), MESSAGES);
		cr_assert_eq(result, -EBADMSG);
	}
}

Test(source, zeros_after_compressed_data_are_its_end)
{
	enum { RAW_BYTES = 131072 }; /* read at a time: a member may begin there */
	static struct content content;
	static uint8_t file[BYTES + 4 * RAW_BYTES];
	char expected[64];
	int result;

	make_up(&content);
	for (unsigned form = GZIP; form < FORMS; form++) {
		const size_t size = put(form, content.bytes, content.size, file);
		const size_t ends[] = { size + 1, size + 512, RAW_BYTES, 3 * RAW_BYTES + 1 };

		memset(file + size, 0, sizeof(file) - size);
		for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
			const size_t end = ends[i];

			write_file(file, end);
			cr_assert_eq(read_file(&content, &result), MESSAGES);
			cr_assert_eq(result, 0, "%s", tb_error());
			/* A further member is other bytes too: gzip(1) ignores it with a warning.
			 */
			memcpy(file + end, file, size);
			write_file(file, end + size);
			cr_assert_eq(read_file(&content, &result), MESSAGES);
			cr_assert_eq(result, -EBADMSG);
			snprintf(expected, sizeof(expected), "found byte 0x%02x at byte %zu ",
				 file[0], end);
			cr_assert(strstr(tb_error(), expected), "%s", tb_error());
			memset(file + end, 0, size);
		}
	}
}

/* Messages of no known type, of each length from 1 to 65535 that is a bound of something. */
Test(source, unknown_messages_of_any_length_are_given)
{
	static const size_t lengths[] = { 1,     49,    50,    51,    100,   255,
					  256,   4096,  65482, 65534, 65535, 65535,
					  65535, 65535, 1,     65535, 2,     65535 };
	enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
	static uint8_t body[UINT16_MAX];
	struct source_message message;
	uint64_t offset = 0;
	struct source *source;
	FILE *file = fopen(path, "wb");

	memset(body, '~', sizeof(body));
	for (size_t i = 0; i < COUNT; i++) {
		body[lengths[i] - 1] = (uint8_t)i;
		fputc((int)(lengths[i] >> 8), file);
		fputc((int)(lengths[i] & 0xff), file);
		cr_assert_eq(fwrite(body, 1, lengths[i], file), lengths[i]);
		body[lengths[i] - 1] = '~';
	}
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(source_file_open(&source, path), 0, "%s", tb_error());
	for (size_t i = 0; i < COUNT; i++) {
		cr_assert_eq(source_next(source, &message), 1, "%zu: %s", i, tb_error());
		cr_assert_eq(message.length, lengths[i]);
		cr_assert_eq(message.offset, offset);
		cr_assert_eq(message.bytes[lengths[i] - 1], i);
		body[lengths[i] - 1] = (uint8_t)i;
		cr_assert_arr_eq(message.bytes, body, lengths[i]);
		body[lengths[i] - 1] = '~';
		offset += 2 + lengths[i];
	}
	cr_assert_eq(source_next(source, &message), 0, "%s", tb_error());
	source_close(source);
}

Test(source, long_message_that_is_cut_is_an_error_at_its_offset)
{
	static struct content content;
	static uint8_t file[BYTES];
	const unsigned lengths[] = { ITCH_LENGTH_MAX + 1, 255, 256, 65535 };
	char expected[128];
	int result;

	make_up(&content);
	memcpy(file, content.bytes, content.size);
	memset(file + content.size, '~', 50);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		file[content.size] = (uint8_t)(lengths[i] >> 8);
		file[content.size + 1] = (uint8_t)lengths[i];
		write_file(file, content.size + 50);
		cr_assert_eq(read_file(&content, &result), MESSAGES);
		cr_assert_eq(result, -EBADMSG);
		snprintf(expected, sizeof(expected), "offset %zu of the uncompressed",
			 content.size);
		cr_assert(strstr(tb_error(), expected), "%s", tb_error());
		snprintf(expected, sizeof(expected),
			 "ends in the middle of a message, found 50 bytes, expected %u",
			 lengths[i] + 2);
		cr_assert(strstr(tb_error(), expected), "%s", tb_error());
	}
}

Test(source, length_of_0_before_the_end_is_an_error_at_its_offset)
{
	static struct content content;
	char expected[128];
	size_t at;
	int result;

	make_up(&content);
	at = content.ends[20];
	memset(content.bytes + at, 0, 7);
	write_file(content.bytes, content.size);
	cr_assert_eq(read_file(&content, &result), 21);
	cr_assert_eq(result, -EBADMSG);
	snprintf(expected, sizeof(expected), "offset %zu of the uncompressed", at);
	cr_assert(strstr(tb_error(), expected), "%s", tb_error());
	for (at += 2; !content.bytes[at]; at++)
		;
	snprintf(expected, sizeof(expected), "found other bytes at offset %zu", at);
	cr_assert(strstr(tb_error(), "found a message length of 0"), "%s", tb_error());
	cr_assert(strstr(tb_error(), expected), "%s", tb_error());
}

/* Half a frame is no end: its message may be missing. */
Test(source, empty_last_frame_and_zeros_end_the_session)
{
	static const size_t paddings[] = { 2, 3, 4, 513, 400000 };
	static struct content content;
	static uint8_t plain[BYTES + 400000], file[BYTES + 400000];
	int result;

	make_up(&content);
	memcpy(plain, content.bytes, content.size);
	for (size_t i = 0; i < sizeof(paddings) / sizeof(paddings[0]); i++)
		for (unsigned form = PLAIN; form < FORMS; form++) {
			write_file(file, put(form, plain, content.size + paddings[i], file));
			cr_assert_eq(read_file(&content, &result), MESSAGES);
			cr_assert_eq(result, 0, "%s", tb_error());
		}
	write_file(plain, content.size + 1);
	cr_assert_eq(read_file(&content, &result), MESSAGES);
	cr_assert_eq(result, -EBADMSG);
	write_file((const uint8_t[]){ 0, 0 }, 2);
	cr_assert_eq(read_file(&content, &result), 0);
	cr_assert_eq(result, -ENODATA);
}

/* Damage behind the end of the session is found, however late it comes. */
Test(source, damaged_data_behind_the_end_of_a_session_is_an_error)
{
	static struct content content;
	static uint8_t plain[BYTES + 400000], file[BYTES + 400000];
	int result;

	make_up(&content);
	memcpy(plain, content.bytes, content.size);
	for (unsigned form = GZIP; form < FORMS; form++) {
		write_file(file, put(form, plain, content.size + 400000, file) - 1);
		cr_assert_eq(read_file(&content, &result), MESSAGES);
		cr_assert_eq(result, -EBADMSG);
	}
}

Test(source, file_without_messages_is_an_error)
{
	static struct content content;
	uint8_t file[64] = { 0 };
	int result;

	write_file(file, 0);
	cr_assert_eq(read_file(&content, &result), 0);
	cr_assert_eq(result, -ENODATA);
	for (unsigned form = GZIP; form < FORMS; form++) {
		uint8_t *empty = malloc(BYTES);
		size_t size = put(form, file, 0, empty);

		write_file(empty, size);
		free(empty);
		cr_assert_eq(read_file(&content, &result), 0);
		cr_assert_eq(result, -ENODATA, "%s", tb_error());
	}
}

Test(source, directory_pipe_or_device_is_an_error)
{
	struct source *source;

	cr_assert_eq(source_file_open(&source, "/nonexistent/file"), -ENOENT);
	cr_assert(strstr(tb_error(), "/nonexistent/file"));
	cr_assert_null(source);
	cr_assert_eq(source_file_open(&source, folder), -EISDIR);
	cr_assert_null(source);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(source_file_open(&source, path), -EINVAL);
	cr_assert(strstr(tb_error(), "/file: is a pipe or a device, expected a file"));
	cr_assert_null(source);
	source_close(NULL);
}

/* A file that shrinks while it is read ends early. */
Test(source, file_truncated_while_read_is_an_error)
{
	static struct content content;
	struct source_message message;
	struct source *source;
	FILE *file = fopen(path, "w");
	int result;

	make_up(&content);
	for (unsigned i = 0; i < 1000; i++)
		fwrite(content.bytes, 1, content.size, file);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(source_file_open(&source, path), 0);
	cr_assert_eq(source_next(source, &message), 1);
	cr_assert_eq(truncate(path, 300001), 0);
	while ((result = source_next(source, &message)) > 0)
		;
	cr_assert_eq(result, -EBADMSG);
	source_close(source);
}

/* A hole reads as zeros. */
Test(source, sparse_file_gives_messages_before_its_hole)
{
	static struct content content;
	int result;

	make_up(&content);
	write_file(content.bytes, content.size);
	cr_assert_eq(truncate(path, INT64_C(1) << 28), 0);
	cr_assert_eq(read_file(&content, &result), MESSAGES);
	cr_assert_eq(result, 0, "%s", tb_error());
}

Test(source, zeros_behind_the_end_can_be_interrupted)
{
	static struct content content;
	_Atomic bool interrupted = false;
	struct source_message message;
	struct source *source;

	make_up(&content);
	write_file(content.bytes, content.size);
	cr_assert_eq(truncate(path, INT64_C(1) << 40), 0);
	cr_assert_eq(source_file_open(&source, path), 0, "%s", tb_error());
	source->interrupted = &interrupted;
	for (unsigned i = 0; i < MESSAGES; i++)
		cr_assert_eq(source_next(source, &message), 1);
	interrupted = true;
	cr_assert_eq(source_next(source, &message), -EINTR);
	cr_assert_eq(source_next(source, &message), -EINTR);
	source_close(source);
}

/* -- bombs --------------------------------------------------------------------------------------
 */

#define BOMB_BYTES (64u << 20)
#define BOMB_KIB   (8 << 10) /* what reading it may take */

static long memory_kib(void)
{
	struct rusage usage;

	cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_maxrss;
}

/* Writes the content again and again, compressed by a program: its memory is not this one's. */
static unsigned write_bomb(const struct content *content, const char *program)
{
	const unsigned times = BOMB_BYTES / (unsigned)content->size;
	char command[256];
	FILE *pipe;

	snprintf(command, sizeof(command), "%s > %s", program, path);
	pipe = popen(command, "w");
	cr_assert_not_null(pipe);
	for (unsigned i = 0; i < times; i++)
		fwrite(content->bytes, 1, content->size, pipe);
	cr_assert_eq(pclose(pipe), 0, "%s", program);
	return times * MESSAGES;
}

Test(source, bomb_is_read_with_bounded_memory)
{
	static const char *const programs[] = { "gzip -1 -c", "zstd -1 -q -c" };
	static struct content content;
	unsigned messages;
	struct stat status;
	long before;
	int result;

	make_up(&content);
	for (size_t i = 0; i < 2; i++) {
		messages = write_bomb(&content, programs[i]);
		cr_assert_eq(stat(path, &status), 0);
		cr_assert_lt(status.st_size, BOMB_BYTES / 50);
		before = memory_kib();
		cr_assert_eq(read_file(&content, &result), messages);
		cr_assert_eq(result, 0, "%s", tb_error());
#ifdef __SANITIZE_ADDRESS__ /* it keeps freed memory */
		before += 256 << 10;
#endif
		cr_assert_lt(memory_kib() - before, BOMB_KIB);
	}
}

/* A frame with a stored block; its header asks for a window of 1 << log bytes. */
static size_t put_window(const struct content *content, unsigned log, uint8_t *to)
{
	const uint32_t block = (uint32_t)content->size << 3 | 1;
	const uint8_t header[] = { 0x28,
				   0xb5,
				   0x2f,
				   0xfd,
				   0,
				   (uint8_t)((log - 10) << 3),
				   (uint8_t)block,
				   (uint8_t)(block >> 8),
				   (uint8_t)(block >> 16) };

	memcpy(to, header, sizeof(header));
	memcpy(to + sizeof(header), content->bytes, content->size);
	return sizeof(header) + content->size;
}

Test(source, zstd_window_above_128_mib_is_an_error_with_remedy)
{
	static struct content content;
	static uint8_t file[BYTES];
	int result;

	make_up(&content);
	write_file(file, put_window(&content, 27, file));
	cr_assert_eq(read_file(&content, &result), MESSAGES);
	cr_assert_eq(result, 0, "%s", tb_error());
	for (unsigned log = 28; log <= 41; log++) {
		size_t size = put(ZSTD, content.bytes, content.size, file);

		write_file(file, size + put_window(&content, log, file + size));
		cr_assert_eq(read_file(&content, &result), MESSAGES);
		cr_assert_eq(result, -EBADMSG);
		cr_assert(strstr(tb_error(), "found a window above 128 MiB, expected at most "
					     "that; compress it with --long=27 or less"),
			  "%s", tb_error());
	}
}

/* A frame that zstd skips, of 256 MiB; a file may have any number: no message comes for a long
 * time. */
Test(source, stretch_without_messages_can_be_interrupted)
{
	static const uint8_t skipped[] = { 0x53, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0x0f };
	_Atomic bool interrupted = false;
	struct source_message message;
	struct source *source;

	write_file(skipped, sizeof(skipped));
	cr_assert_eq(truncate(path, 0x0fffffff + sizeof(skipped)), 0);
	cr_assert_eq(source_file_open(&source, path), 0, "%s", tb_error());
	source->interrupted = &interrupted;
	interrupted = true;
	cr_assert_eq(source_next(source, &message), -EINTR);
	cr_assert_eq(source_next(source, &message), -EINTR);
	source_close(source);
}

/* -- files that change while they are read ------------------------------------------------------
 */

static struct content more;

static void nothing(void)
{
}

static void append(void)
{
	FILE *file = fopen(path, "a");

	cr_assert_eq(fwrite(more.bytes, 1, more.size, file), more.size);
	cr_assert_eq(fclose(file), 0);
}

static void overwrite(void)
{
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void replace(void)
{
	char other[80];
	FILE *file;

	snprintf(other, sizeof(other), "%s.other", path);
	file = fopen(other, "w");
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(rename(other, path), 0);
}

static void remove_it(void)
{
	cr_assert_eq(unlink(path), 0);
}

static void put_pipe(void)
{
	remove_it();
	cr_assert_eq(mkfifo(path, 0600), 0);
}

static void cut(void)
{
	cr_assert_eq(truncate(path, 0), 0);
}

Test(source, change_of_a_file_is_reported_and_its_messages_are_read)
{
	static const struct {
		void (*change)(void);
		const char *reported;
		unsigned messages;
	} cases[] = {
		{ nothing, NULL, MESSAGES },
		{ append, "was appended to", 2 * MESSAGES },
		{ overwrite, "was written to", MESSAGES },
		{ replace, "was replaced by another file", MESSAGES },
		{ remove_it, "was removed", MESSAGES },
		{ put_pipe, "was replaced by another file", MESSAGES },
		{ cut, "was truncated", MESSAGES },
	};

	make_up(&more);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct source_message message;
		struct source *source;
		const char *reported;
		unsigned count = 0;
		int result;

		unlink(path);
		write_file(more.bytes, more.size);
		cr_assert_eq(source_file_open(&source, path), 0, "%s", tb_error());
		cases[i].change();
		while ((result = source_next(source, &message)) > 0)
			count++;
		reported = source_changed(source);
		cr_assert_eq(result, 0, "case %zu: %s", i, tb_error());
		cr_assert_eq(count, cases[i].messages, "case %zu: %u", i, count);
		if (cases[i].reported)
			cr_assert_str_eq(reported ? reported : "nothing", cases[i].reported);
		else
			cr_assert_null(reported);
		source_close(source);
	}
}

/* A suite of its own: a skipped test does not reach the end that removes the folder. */
Test(real, real_days_have_known_message_counts)
{
	static const struct {
		const char *name, *counts;
	} days[] = {
		{ "itch50_aapl_20191230_0935.bin", "A22121 C4 D24150 E2162 F1 P281 U1130 X98 " },
		{ "itch50_golden_types_20230822.bin",
		  "A53 C15 D18 E16 F17 H16 I6 J5 L6 N5 P15 Q5 S3 U17 X15 Y15 " },
		{ "itch50_start_of_day_1000.bin", "H3 R993 S1 Y3 " },
	};
	const char *data = getenv("TICKBUS_TEST_DATA");

	if (!data)
		cr_skip("TICKBUS_TEST_DATA is not set");
	for (unsigned i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
		unsigned counts[256] = { 0 };
		char name[4096], text[512] = "";
		struct source_message message;
		struct source *source;
		int result;

		snprintf(name, sizeof(name), "%s/itch/%s", data, days[i].name);
		if (access(name, R_OK) != 0)
			cr_skip("%s is not there", name);
		cr_assert_eq(source_file_open(&source, name), 0, "%s", tb_error());
		while ((result = source_next(source, &message)) > 0)
			counts[message.bytes[0]]++;
		cr_assert_eq(result, 0, "%s", tb_error());
		source_close(source);
		for (unsigned type = 0; type < 256; type++)
			if (counts[type])
				snprintf(text + strlen(text), sizeof(text) - strlen(text), "%c%u ",
					 (char)type, counts[type]);
		cr_assert_str_eq(text, days[i].counts);
	}
}
