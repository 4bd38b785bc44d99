/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/output.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"

#define OUTPUT_BYTES ((size_t)256 * 1024)

void output_open(struct output *out, int fd)
{
	*out = (struct output){ .fd = fd };
}

/* Waits until the descriptor has room. EPIPE: no room will come, because the reader has left. */
static int room_await(int fd)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };

	while (poll(&room, 1, -1) < 0)
		if (errno != EINTR) /* a signal asks for a stop, which waits for whole rows */
			return errno;
	return room.revents & POLLOUT ? 0 : EPIPE;
}

int output_flush(struct output *out)
{
	size_t done = 0;

	while (!out->error && done < out->used) {
		const ssize_t count = write(out->fd, out->bytes + done, out->used - done);

		if (count > 0)
			done += (size_t)count;
		else if (count < 0 && errno == EAGAIN)
			out->error = room_await(out->fd);
		else if (count < 0 && errno != EINTR)
			out->error = errno == ECONNRESET ? EPIPE : errno;
	}
	out->used = 0;
	return -out->error;
}

struct pollfd output_watch(const struct output *out)
{
	return (struct pollfd){ .fd = out->fd }; /* POLLERR and POLLHUP come without a request */
}

/* A pipe without a reader gives POLLERR, a socket or a terminal POLLHUP. */
void output_watched(struct output *out, const struct pollfd *found)
{
	if (!out->error && found->revents & (POLLERR | POLLHUP | POLLNVAL))
		out->error = EPIPE;
}

char *output_room(struct output *out, size_t bytes)
{
	size_t size = bytes > OUTPUT_BYTES ? bytes : OUTPUT_BYTES;
	char *larger;

	if (out->bytes && out->size - out->used >= bytes && !out->error)
		return out->bytes + out->used;
	if (output_flush(out) < 0)
		return NULL;
	if (!out->bytes || out->size < bytes) {
		larger = realloc(out->bytes, size);
		if (!larger) {
			out->error = ENOMEM;
			return NULL;
		}
		out->bytes = larger;
		out->size = size;
	}
	return out->bytes;
}

void output_byte(struct output *out, char byte)
{
	char *at = output_room(out, 1);

	if (!at)
		return;
	*at = byte;
	out->used++;
}

void output_text(struct output *out, const char *text)
{
	const size_t length = strlen(text);
	char *at = output_room(out, length);

	if (!at)
		return;
	memcpy(at, text, length);
	out->used += length;
}

void output_digits(struct output *out, uint64_t number, unsigned digits)
{
	char text[24]; /* 2^64 has 20 digits */
	unsigned at = sizeof(text), least = sizeof(text) - digits;
	char *room;

	while (number || at > least) {
		text[--at] = (char)('0' + number % 10);
		number /= 10;
	}
	room = output_room(out, sizeof(text));
	if (!room)
		return;
	memcpy(room, text + at, sizeof(text) - at);
	out->used += sizeof(text) - at;
}

void output_number(struct output *out, uint64_t number)
{
	output_digits(out, number, 1);
}

static void escape(struct output *out, enum tb_format format, unsigned char byte)
{
	static const char hex[] = "0123456789abcdef";
	const bool json = format == TB_FORMAT_JSON;

	if (byte == '\\' || (byte == '"' && json))
		output_byte(out, '\\');
	if (byte == '"' && format == TB_FORMAT_CSV)
		output_byte(out, '"');
	if (byte >= ' ' && byte <= '~') {
		output_byte(out, (char)byte);
		return;
	}
	output_text(out, json ? "\\u00" : "\\x");
	output_byte(out, hex[byte >> 4]);
	output_byte(out, hex[byte & 15]);
}

/* As tb_schema_render() does with TB_FORMAT_SPREADSHEET. */
static bool is_formula(char before, char byte)
{
	return byte && strchr("=+-@", byte) && (before == '\0' || strchr(";\"", before));
}

void output_value(struct output *out, enum tb_format format, const char *text)
{
	const bool spreadsheet = format == TB_FORMAT_SPREADSHEET;
	char before = '\0';
	bool quoted;

	if (spreadsheet)
		format = TB_FORMAT_CSV;
	quoted = format == TB_FORMAT_JSON || (format == TB_FORMAT_CSV && strpbrk(text, ",\""));

	if (quoted)
		output_byte(out, '"');
	for (; *text; before = *text++) {
		if (spreadsheet && is_formula(before, *text))
			output_byte(out, '\'');
		escape(out, format, (unsigned char)*text);
	}
	if (quoted)
		output_byte(out, '"');
}

int output_close(struct output *out, const char *command)
{
	const int result = output_flush(out);

	free(out->bytes);
	out->bytes = NULL;
	out->size = 0;
	if (result == 0)
		return COMMAND_DONE;
	fprintf(stderr, "tickbus%s%s: standard output: %s\n", command ? " " : "",
		command ? command : "", strerror(-result));
	return COMMAND_FAILED;
}
