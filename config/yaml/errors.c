/* SPDX-License-Identifier: Apache-2.0 */
/* Errors with positions, collected so that one run reports all of them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/yaml/located.h"

#define LINE_BYTES 1024

/* Characters that cannot be seen in a message. Word processors and web pages put them into texts.
 */
static const struct {
	const char *bytes, *name;
} invisible[] = {
	{ "\xc2\xa0", "<U+00A0, a non-breaking space>" },
	{ "\xe2\x80\xaf", "<U+202F, a non-breaking space>" },
	{ "\xe2\x80\x8b", "<U+200B, a space without width>" },
	{ "\xe3\x80\x80", "<U+3000, a wide space>" },
	{ "\xef\xbb\xbf", "<U+FEFF, a byte order mark>" },
};

/* Copies a line with the names of its invisible characters, as far as there is room. */
static void names_write(const char *line, char *named, size_t size)
{
	while (*line && size > 1) {
		const char *name = NULL;
		size_t skipped = 1, written = 1;

		for (size_t i = 0; i < sizeof(invisible) / sizeof(invisible[0]) && !name; i++)
			if (strncmp(line, invisible[i].bytes, strlen(invisible[i].bytes)) == 0) {
				name = invisible[i].name;
				skipped = strlen(invisible[i].bytes);
				written = strlen(name);
			}
		if (written >= size)
			break;
		memcpy(named, name ? name : line, written);
		line += skipped;
		named += written;
		size -= written;
	}
	*named = '\0';
}

static void line_add(struct located_errors *errors, const char *plain)
{
	char line[2 * LINE_BYTES];
	size_t length;
	char *text;

	if (++errors->count > YAML_ERRORS_MAX)
		return;
	names_write(plain, line, sizeof(line));
	length = strlen(line);
	text = realloc(errors->text, errors->used + length + 2);
	errors->no_memory |= !text;
	if (!text)
		return; /* the error is counted */
	memcpy(text + errors->used, line, length);
	/* An error is one line, but a key or a file name may hold a newline. */
	for (char *c = text + errors->used; c < text + errors->used + length; c++)
		if (*c == '\n' || *c == '\t')
			*c = ' ';
	memcpy(text + errors->used + length, "\n", 2);
	errors->text = text;
	errors->used += length + 1;
}

void located_no_memory(struct located_errors *errors, const char *what)
{
	located_error_line(errors, "%s: no memory", what);
	errors->no_memory = true;
}

void located_errors_free(struct located_errors *errors)
{
	free(errors->text);
	memset(errors, 0, sizeof(*errors));
}

/* Writes "topics[0].slots" for a node, from the root down. */
static size_t path_write(const struct located_node *node, char *buffer, size_t size)
{
	size_t used = node->parent ? path_write(node->parent, buffer, size) : 0;
	int more;

	if (used >= size)
		return used;
	if (node->key)
		more = snprintf(buffer + used, size - used, "%s%.100s", used ? "." : "", node->key);
	else if (node->parent)
		more = snprintf(buffer + used, size - used, "[%u]", node->index);
	else
		more = 0;
	return used + (size_t)more;
}

void located_error(struct located_errors *errors, const struct located_node *node,
		   const char *format, ...)
{
	char line[LINE_BYTES], path[256] = "";
	va_list args;
	int used;

	if (node->reported)
		return;
	path_write(node, path, sizeof(path));
	used = snprintf(line, sizeof(line), "%s:%u:%u: %s%s", located_origin(node->document),
			node->line, node->column, path, *path ? ": " : "");
	va_start(args, format);
	if (used > 0 && (size_t)used < sizeof(line))
		vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	line_add(errors, line);
}

void located_error_line(struct located_errors *errors, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	line_add(errors, line);
}

/* The bytes of text that fit, without half a character at the end. */
static int shown(const char *text, size_t room)
{
	size_t length = strnlen(text, room + 1);

	if (length > room)
		for (length = room; length && ((unsigned char)text[length] & 0xc0) == 0x80;)
			length--;
	return (int)length;
}

const char *located_found(const struct located_node *node, char *buffer, size_t size)
{
	if (!node || (node->kind == YAML_SCALAR && !node->quoted && !*node->text))
		snprintf(buffer, size, "nothing");
	else if (node->kind == YAML_MAPPING)
		snprintf(buffer, size, "a mapping");
	else if (node->kind == YAML_SEQUENCE)
		snprintf(buffer, size, "a list");
	else
		snprintf(buffer, size, "\"%.*s\"", shown(node->text, size > 3 ? size - 3 : 0),
			 node->text);
	return buffer;
}
