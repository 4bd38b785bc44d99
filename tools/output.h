/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor for many short pieces of text: one buffer, written out in big pieces.
 *
 * I1  Bytes leave in the order in which they came, each once.
 * I2  The first failure is kept and nothing is written after it; whoever prints in a loop looks at
 *     `error` once a turn, and output_close() says it. */
#ifndef TICKBUS_TOOLS_OUTPUT_H
#define TICKBUS_TOOLS_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "tickbus/schema.h"

struct output {
	char *bytes;
	size_t used, size;
	int fd;
	int error; /* errno value; 0: all is well */
};

/* Never fails: what is wrong is found with the first byte. */
void output_open(struct output *out, int fd);

/* A place for `bytes` bytes at bytes + used, or NULL when the output failed. */
char *output_room(struct output *out, size_t bytes);

void output_byte(struct output *out, char byte);
void output_text(struct output *out, const char *text);
void output_number(struct output *out, uint64_t number);
void output_digits(struct output *out, uint64_t number, unsigned digits);

/* A text that a publisher chose, as one value of a row: printable ASCII, quoted where the format
 * needs it, with the escapes that payloads are rendered with. */
void output_value(struct output *out, enum tb_format format, const char *text);

/* Writes out what there is. 0 or -errno. */
int output_flush(struct output *out);

/* Writes out, frees, and says on standard error what failed, in the command's name where there is
 * one. The exit status. */
int output_close(struct output *out, const char *command);

#endif
