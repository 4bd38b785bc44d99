/* SPDX-License-Identifier: Apache-2.0 */
/* Lines arrive whole, in the file that is there now, and lost ones are counted. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus/log.h"
#include "tickbus/error.h"

static char folder[] = "/tmp/tickbus-log-XXXXXX";
static char path[64], moved[64];
static struct log journal;

static void set_up(void)
{
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/log", folder);
	snprintf(moved, sizeof(moved), "%s/log.1", folder);
}

static void tear_down(void)
{
	log_close(&journal);
	unlink(path);
	unlink(moved);
	rmdir(folder);
}

static const char *content(const char *of)
{
	static char text[8192];
	FILE *file = fopen(of, "r");
	size_t used = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	text[used] = '\0';
	if (file)
		fclose(file);
	return text;
}

TestSuite(log, .init = set_up, .fini = tear_down);

Test(log, writes_lines_of_its_level_and_above)
{
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "hello %d", 7);
	log_write(&journal, LOG_LEVEL_DEBUG, "not this");
	cr_assert(strstr(content(path), "Z info hello 7\n"));
	cr_assert_null(strstr(content(path), "not this"));
}

Test(log, a_stranger_cannot_begin_a_line)
{
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "peer said %s", "x\n2026-01-01 error forged");
	cr_assert(strstr(content(path), "x?2026-01-01 error forged\n"));
}

Test(log, follows_a_moved_file_when_reopened)
{
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "one");
	cr_assert_eq(rename(path, moved), 0);
	log_write(&journal, LOG_LEVEL_INFO, "two");
	cr_assert_eq(log_reopen(&journal), 0);
	log_write(&journal, LOG_LEVEL_INFO, "three");
	cr_assert(strstr(content(moved), "two\n"));
	cr_assert(strstr(content(path), "three\n"));
	cr_assert_null(strstr(content(path), "two\n"));
}

Test(log, counts_what_a_full_disk_refused)
{
	cr_assert_eq(log_open(&journal, "/dev/full", LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "one");
	log_write(&journal, LOG_LEVEL_INFO, "two");
	cr_assert_eq(atomic_load(&journal.lost), 2);
}

Test(log, a_long_line_is_cut_not_split)
{
	static char words[2 * LOG_LINE_BYTES];

	memset(words, 'x', sizeof(words) - 1);
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "%s", words);
	cr_assert_eq(strlen(content(path)), LOG_LINE_BYTES);
}

Test(log, a_place_that_cannot_be_written_is_named)
{
	char words[200];

	snprintf(moved, sizeof(moved), "%s/no/log", folder);
	cr_assert_eq(log_open(&journal, moved, LOG_LEVEL_INFO), -ENOENT);
	snprintf(words, sizeof(words),
		 "log file %s: cannot be opened for writing: No such file or directory", moved);
	cr_assert_str_eq(tb_error(), words);
}
