/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of settings: blocks that are freed together. */
#include "config/reading.h"

#include <stdarg.h>
#include <stdlib.h>

struct settings_block {
	struct settings_block *next;
	max_align_t bytes[];
};

void *reading_keep(struct reading *reading, size_t bytes)
{
	struct settings_block *block = calloc(1, sizeof(*block) + bytes);

	if (!block) {
		located_no_memory(&reading->errors, "the settings");
		return NULL;
	}
	block->next = reading->settings->blocks;
	reading->settings->blocks = block;
	return block->bytes;
}

const char *reading_text(struct reading *reading, const char *format, ...)
{
	va_list args;
	char *text = NULL;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length >= 0)
		text = reading_keep(reading, (size_t)length + 1);
	if (text) {
		va_start(args, format);
		vsnprintf(text, (size_t)length + 1, format, args);
		va_end(args);
	}
	return text;
}

const char *reading_path(struct reading *reading, const char *path)
{
	while (path[0] == '.' && path[1] == '/')
		path += 2;
	if (path[0] == '/')
		return reading_text(reading, "%s", path);
	return reading_text(reading, "%s/%s", reading->folder, path);
}

void reading_free(struct settings *settings)
{
	for (struct settings_block *block = settings->blocks, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	settings->blocks = NULL;
}
