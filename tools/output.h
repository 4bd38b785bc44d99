/* SPDX-License-Identifier: Apache-2.0 */
/* Buffered output to a descriptor.
 *
 * A descriptor that does not block is waited for: writing takes as long as its reader does, as with
 * a descriptor that blocks. A reader that has left ends the output with EPIPE.
 *
 * T-I1  Bytes are written in order, each once.
 * T-I2  The first failure is kept in `error`, and nothing is written after it. Printing loops check
 *     `error` once per turn. output_close() reports it. */
#ifndef TICKBUS_TOOLS_OUTPUT_H
#define TICKBUS_TOOLS_OUTPUT_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "tickbus/schema.h"

struct output {
	char *bytes;
	size_t used, size;
	int fd;
	int error; /* errno value; 0: no error */
};

/* Never fails: the first write finds a bad descriptor. */
void output_open(struct output *out, int fd);

/* Returns room for `bytes` bytes at bytes + used, or NULL if the output failed. */
char *output_room(struct output *out, size_t bytes);

void output_byte(struct output *out, char byte);
void output_text(struct output *out, const char *text);
void output_number(struct output *out, uint64_t number);
void output_digits(struct output *out, uint64_t number, unsigned digits);

/* Prints a publisher's text as one text value of a row, as tb_schema_render() does. Quotes it if
 * the format needs that, and escapes bytes that are not printable ASCII. For a spreadsheet it puts
 * an apostrophe before formulas. */
void output_value(struct output *out, enum tb_format format, const char *text);

/* Writes the buffer, and waits while the descriptor has no room: 0 or -errno. */
int output_flush(struct output *out);

/* For a poll(2) with output_watch() among its descriptors, and what it found. Notices that the
 * reader has left, before anything is written. */
struct pollfd output_watch(const struct output *out);
void output_watched(struct output *out, const struct pollfd *found);

/* Writes the buffer, frees it, and reports a failure on standard error. `command` may be NULL.
 * Returns the exit status. */
int output_close(struct output *out, const char *command);

#endif
