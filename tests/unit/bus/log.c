/* SPDX-License-Identifier: Apache-2.0 */
/* Lines arrive whole, in the current file, and lost lines are counted. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bus/log.h"
#include "tickbus/error.h"

#define PATIENCE_MS 20000

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

TestSuite(log, .init = set_up, .fini = tear_down, .timeout = 60);

Test(log, lines_of_its_level_and_above_are_written)
{
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "hello %d", 7);
	log_write(&journal, LOG_LEVEL_DEBUG, "not this");
	cr_assert(strstr(content(path), "Z info hello 7\n"));
	cr_assert_null(strstr(content(path), "not this"));
}

Test(log, peer_text_cannot_begin_a_line)
{
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "peer said %s", "x\n2026-01-01 error forged");
	cr_assert(strstr(content(path), "x?2026-01-01 error forged\n"));
}

Test(log, reopened_log_follows_a_moved_file)
{
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "one");
	cr_assert_eq(rename(path, moved), 0);
	log_write(&journal, LOG_LEVEL_INFO, "two");
	cr_assert_eq(log_reopen(&journal), 1);
	log_write(&journal, LOG_LEVEL_INFO, "three");
	cr_assert(strstr(content(moved), "two\n"));
	cr_assert(strstr(content(path), "three\n"));
	cr_assert_null(strstr(content(path), "two\n"));
}

Test(log, lines_that_a_full_disk_refused_are_counted)
{
	cr_assert_eq(log_open(&journal, "/dev/full", LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "one");
	log_write(&journal, LOG_LEVEL_INFO, "two");
	cr_assert_eq(atomic_load(&journal.lost), 2);
}

/* A file whose size limit is in the middle of the second line. */
Test(log, cut_line_does_not_join_the_next)
{
	struct rlimit limit;
	rlim_t before;
	const char *end;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "one");
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = strlen(content(path)) + 10;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	log_write(&journal, LOG_LEVEL_INFO, "two");
	log_write(&journal, LOG_LEVEL_INFO, "three");
	limit.rlim_cur = before;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	log_write(&journal, LOG_LEVEL_INFO, "four");
	end = strstr(content(path), "Z info four\n");
	cr_assert(end, "%s", content(path));
	while (end > content(path) && end[-1] != '\n')
		end--;
	cr_expect_eq(end[-1], '\n');
	cr_expect(strncmp(end, "20", 2) == 0, "%s", content(path));
	cr_expect(strstr(content(path), "Z error lines missing above the previous line: 2\n"));
}

/* The disk has room again: the next line is written, and the number of lost lines. */
Test(log, lost_lines_are_reported_after_recovery)
{
	int file;

	cr_assert_eq(log_open(&journal, "/dev/full", LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "one");
	log_write(&journal, LOG_LEVEL_INFO, "two");
	file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	cr_assert_geq(dup2(file, journal.fd), 0);
	close(file);
	log_write(&journal, LOG_LEVEL_INFO, "three");
	log_write(&journal, LOG_LEVEL_INFO, "four");
	cr_assert_eq(atomic_load(&journal.lost), 0);
	cr_assert_null(strstr(content(path), "one"));
	cr_assert(strstr(content(path), "Z info three\n"));
	cr_assert(strstr(content(path), "Z error lines missing above the previous line: 2\n"));
	cr_assert(strstr(content(path), "Z info four\n"));
}

/* Replaces standard error; returns the old descriptor. */
static int stderr_replace(int by)
{
	const int before = dup(STDERR_FILENO);

	cr_assert_geq(dup2(by, STDERR_FILENO), 0);
	close(by);
	return before;
}

/* Standard error is `by`, and `reader` is its other end. Writes lines until a line is lost; then
 * expects the next line and the count. A terminal delivers with a delay. */
static void expect_lost_lines_reported(int by, int reader)
{
	static char line[1000], text[1 << 20];
	struct pollfd ready = { .fd = reader, .events = POLLIN };
	const int flags = fcntl(by, F_GETFL), before = stderr_replace(by);
	size_t used = 0;
	ssize_t got;

	memset(line, 'x', sizeof(line) - 1);
	cr_assert_eq(log_open(&journal, NULL, LOG_LEVEL_INFO), 0);
	for (unsigned int i = 0; i < 2000; i++)
		log_write(&journal, LOG_LEVEL_INFO, "%s", line);
	cr_assert_gt(atomic_load(&journal.lost), 0);
	do {
		cr_assert_eq(poll(&ready, 1, PATIENCE_MS), 1);
		while (read(reader, text, sizeof(text)) > 0)
			;
		log_write(&journal, LOG_LEVEL_INFO, "there again");
	} while (atomic_load(&journal.lost) > 0);
	cr_expect_eq(fcntl(STDERR_FILENO, F_GETFL), flags, "others have it too");
	do {
		cr_assert_eq(poll(&ready, 1, PATIENCE_MS), 1, "%s", text);
		got = read(reader, text + used, sizeof(text) - 1 - used);
		used += got > 0 ? (size_t)got : 0;
		text[used] = '\0';
	} while (!strstr(text, " lines missing above the previous line: "));
	stderr_replace(before);
	cr_expect(strstr(text, "Z info there again"), "%s", text);
	close(reader);
}

Test(log, unread_pipe_never_blocks)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	expect_lost_lines_reported(ends[1], ends[0]);
}

Test(log, unread_journal_socket_never_blocks)
{
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	expect_lost_lines_reported(ends[1], ends[0]);
}

Test(log, unread_terminal_never_blocks)
{
	const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
	int terminal;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		cr_skip("no terminal can be had here");
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
	cr_assert_geq(terminal, 0);
	expect_lost_lines_reported(terminal, master);
}

/* It cannot be opened again. */
Test(log, unread_pipe_of_another_user_never_blocks)
{
	int ends[2];

	if (geteuid() != 0)
		cr_skip("only root can become another user");
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	cr_assert_eq(rmdir(folder), 0);
	cr_assert_eq(setresuid(65534, 65534, 65534), 0);
	expect_lost_lines_reported(ends[1], ends[0]);
}

Test(log, full_file_report_never_blocks_on_unread_stderr)
{
	char text[100], expected[160];
	int ends[2], before;
	ssize_t got;

	cr_assert_eq(pipe2(ends, 0), 0);
	before = stderr_replace(dup(ends[1]));
	cr_assert_eq(log_open(&journal, "/dev/full", LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "one");
	got = read(ends[0], text, sizeof(text) - 1);
	cr_assert_gt(got, 0);
	text[got] = '\0';
	cr_assert_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while (write(ends[1], text, sizeof(text)) > 0)
		;
	cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
	log_close(&journal);
	cr_assert_eq(log_open(&journal, "/dev/full", LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "two"); /* it must return */
	stderr_replace(before);
	snprintf(expected, sizeof(expected),
		 "%s: log file /dev/full: cannot be written: No space left on device\n",
		 program_invocation_short_name);
	cr_expect_str_eq(text, expected);
	close(ends[0]);
	close(ends[1]);
}

/* time() may be behind the clock of the lines. */
static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec;
}

Test(log, line_begins_with_utc_time_and_level)
{
	const char *const names[] = { "error", "warning", "info", "debug" };
	char expected[64];
	const char *line;
	time_t before, after;
	struct tm utc = { 0 };

	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_DEBUG), 0);
	setenv("TZ", "Asia/Tokyo", 1);
	before = now_s();
	for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++)
		log_write(&journal, (enum log_level)level, "%s", "");
	after = now_s();
	line = content(path);
	for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
		const char *rest = strptime(line, "%Y-%m-%dT%H:%M:%S", &utc);

		cr_assert_not_null(rest, "%s", line);
		cr_assert(timegm(&utc) >= before && timegm(&utc) <= after, "%s", line);
		cr_assert_eq(rest[0], '.');
		cr_assert_eq(strspn(rest + 1, "0123456789"), 6);
		snprintf(expected, sizeof(expected), "Z %s \n", names[level - 1]);
		cr_assert_eq(strncmp(rest + 7, expected, strlen(expected)), 0, "%s", rest);
		line = strchr(line, '\n') + 1;
	}
	cr_assert_str_eq(log_level_name((enum log_level)0), "?");
	cr_assert_str_eq(log_level_name((enum log_level)5), "?");
}

Test(log, failed_reopen_keeps_the_old_file_and_leaks_no_fd)
{
	const int next = dup(0);
	int fd;

	close(next); /* the lowest free descriptor */
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	fd = journal.fd;
	cr_assert_eq(fd, next);
	cr_assert_eq(log_reopen(&journal), 1);
	cr_assert_eq(rename(path, moved), 0);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(log_reopen(&journal), -EISDIR);
	cr_assert_eq(rmdir(path), 0);
	log_write(&journal, LOG_LEVEL_INFO, "still");
	cr_assert(strstr(content(moved), "Z info still\n"));
	log_close(&journal);
	cr_assert_eq(journal.fd, -1);
	cr_assert_eq(dup(0), next, "a descriptor was left open");
	log_write(&journal, LOG_LEVEL_INFO, "never");
	log_close(&journal);
	cr_assert_eq(log_open(&journal, NULL, LOG_LEVEL_INFO), 0);
	log_close(&journal);
	cr_assert_geq(fcntl(STDERR_FILENO, F_GETFD), 0, "standard error is not ours to close");
}

Test(log, long_line_is_cut_not_split)
{
	static char line[2 * LOG_LINE_BYTES];

	memset(line, 'x', sizeof(line) - 1);
	cr_assert_eq(log_open(&journal, path, LOG_LEVEL_INFO), 0);
	log_write(&journal, LOG_LEVEL_INFO, "%s", line);
	cr_assert_eq(strlen(content(path)), LOG_LINE_BYTES);
}

Test(log, unwritable_path_is_named)
{
	char text[200];

	snprintf(moved, sizeof(moved), "%s/no/log", folder);
	cr_assert_eq(log_open(&journal, moved, LOG_LEVEL_INFO), -ENOENT);
	snprintf(text, sizeof(text),
		 "log file %s: cannot be opened for writing: No such file or directory", moved);
	cr_assert_str_eq(tb_error(), text);
}
