/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for tests of settings: a folder of their own, texts in which '@' marks an error's
 * position, and loading them. */
#ifndef TICKBUS_TESTS_CONFIG_H
#define TICKBUS_TESTS_CONFIG_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char folder[] = "/tmp/tickbus-config-XXXXXX";

static inline void file_write(const char *path, const void *text, size_t length)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fwrite(text, 1, length, file), length);
	cr_assert_eq(fclose(file), 0);
}

/* 64 equal digits. */
static inline void ticket_write(const char *path, char digit, mode_t mode)
{
	char text[64];

	memset(text, digit, sizeof(text));
	file_write(path, text, sizeof(text));
	cr_assert_eq(chmod(path, mode), 0);
}

static inline void folder_enter(void)
{
	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
}

static inline void folder_leave(void)
{
	DIR *list = opendir(".");

	for (struct dirent *entry; (entry = readdir(list));)
		unlink(entry->d_name);
	closedir(list);
	if (chdir("/") == 0)
		rmdir(folder);
}

/* Returns the text without its mark, and "t.yaml:LINE:COLUMN: " of the mark; "" without a mark. */
static inline char *unmarked(const char *marked, char place[64])
{
	const char *mark = strchr(marked, '@');
	char *text = strdup(marked);
	size_t line = 1, column = 1;

	cr_assert_not_null(text);
	place[0] = '\0';
	if (!mark)
		return text;
	for (const char *c = marked; c < mark; c++) {
		column = *c == '\n' ? 1 : column + 1;
		line += *c == '\n';
	}
	snprintf(place, 64, "t.yaml:%zu:%zu: ", line, column);
	strcpy(text + (mark - marked), mark + 1);
	return text;
}

#endif
