/* SPDX-License-Identifier: Apache-2.0 */
/* Output to descriptors that are slow, full or without a reader: what is written, and with how many
 * system calls. The linker leads write and poll of output.c to the functions here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/output.h"

#define TEXT_BYTES ((size_t)1 << 20)

ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

static int ends[2]; /* of the reader, of the writer */
static int writes, full_writes, polls, interrupts;
static int leave_after = -1; /* waits until the reader leaves */
static size_t piece = SIZE_MAX;
static char text[TEXT_BYTES + 1], received[2 * TEXT_BYTES];
static size_t received_bytes;

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
	const ssize_t result = __real_write(fd, bytes, count < piece ? count : piece);

	if (fd == ends[1]) {
		writes++;
		full_writes += result < 0 && errno == EAGAIN;
	}
	return result;
}

/* The reader reads only while the writer waits. */
static void read_all(void)
{
	ssize_t count;

	do {
		count = read(ends[0], received + received_bytes, sizeof(received) - received_bytes);
		if (count > 0)
			received_bytes += (size_t)count;
	} while (count > 0);
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (fds[0].fd != ends[1])
		return __real_poll(fds, count, timeout_ms);
	polls++;
	cr_assert_eq(timeout_ms, -1);
	if (interrupts > 0) {
		interrupts--;
		errno = EINTR;
		return -1;
	}
	if (leave_after-- == 0)
		close(ends[0]);
	else
		read_all();
	return __real_poll(fds, count, timeout_ms);
}

static void fill(void)
{
	for (size_t i = 0; i < TEXT_BYTES; i++)
		text[i] = (char)('a' + i % 23);
}

static void pipe_open(void)
{
	fill();
	cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
	cr_assert_eq(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
}

static void socket_open(void)
{
	fill();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	signal(SIGPIPE, SIG_IGN);
}

static int text_write(void)
{
	struct output out;

	output_open(&out, ends[1]);
	output_text(&out, text);
	return output_close(&out, "test");
}

static void expect_text(void)
{
	read_all();
	cr_expect_eq(received_bytes, TEXT_BYTES);
	cr_expect_eq(memcmp(received, text, TEXT_BYTES), 0);
}

/* Each wait follows a write that found no room, and each wait brings room. */
Test(output, full_pipe_that_does_not_block_is_waited_for)
{
	pipe_open();
	cr_expect_eq(text_write(), COMMAND_DONE);
	expect_text();
	cr_expect_gt(polls, 0);
	cr_expect_eq(polls, full_writes);
	cr_expect_leq(writes, 2 * (int)(TEXT_BYTES / 4096) + 2, "%d writes", writes);
}

Test(output, full_socket_that_does_not_block_is_waited_for)
{
	socket_open();
	cr_expect_eq(text_write(), COMMAND_DONE);
	expect_text();
	cr_expect_gt(polls, 0);
	cr_expect_eq(polls, full_writes);
}

Test(output, partial_writes_lose_and_repeat_nothing)
{
	pipe_open();
	piece = 7;
	cr_expect_eq(text_write(), COMMAND_DONE);
	expect_text();
}

Test(output, signal_while_waiting_loses_nothing)
{
	pipe_open();
	interrupts = 3;
	cr_expect_eq(text_write(), COMMAND_DONE);
	expect_text();
	cr_expect_eq(interrupts, 0);
}

/* One wait, and one more write that finds the reader gone. */
static void expect_reader_gone(void)
{
	leave_after = 1;
	cr_expect_eq(text_write(), COMMAND_FAILED);
	cr_expect_eq(polls, 2);
	cr_expect_leq(writes - full_writes, 4 + (int)(received_bytes / 4096));
}

Test(output, pipe_whose_reader_leaves_meanwhile_ends)
{
	signal(SIGPIPE, SIG_IGN);
	pipe_open();
	expect_reader_gone();
}

Test(output, socket_whose_reader_leaves_meanwhile_ends)
{
	socket_open();
	expect_reader_gone();
}

static void expect_noticed(void)
{
	struct output out;
	struct pollfd watched;

	output_open(&out, ends[1]);
	watched = output_watch(&out);
	cr_expect_eq(__real_poll(&watched, 1, 0), 0);
	output_watched(&out, &watched);
	cr_expect_eq(out.error, 0);
	close(ends[0]);
	cr_expect_eq(__real_poll(&watched, 1, 0), 1);
	output_watched(&out, &watched);
	cr_expect_eq(out.error, EPIPE);
	cr_expect_eq(output_close(&out, "test"), COMMAND_FAILED);
}

Test(output, pipe_without_a_reader_is_noticed_without_a_write)
{
	pipe_open();
	expect_noticed();
}

Test(output, socket_without_a_reader_is_noticed_without_a_write)
{
	socket_open();
	expect_noticed();
}

static void expect_value(enum tb_format format, const char *value, const char *expected)
{
	struct output out;

	pipe_open();
	received_bytes = 0;
	output_open(&out, ends[1]);
	output_value(&out, format, value);
	cr_expect_eq(output_close(&out, "test"), COMMAND_DONE);
	read_all();
	received[received_bytes] = '\0';
	cr_expect_str_eq(received, expected);
	close(ends[0]);
	close(ends[1]);
}

Test(output, spreadsheet_value_runs_as_no_formula)
{
	static const struct {
		const char *value, *csv, *spreadsheet;
	} cases[] = {
		{ "=1", "=1", "'=1" },
		{ "+1", "+1", "'+1" },
		{ "-1", "-1", "'-1" },
		{ "@A1", "@A1", "'@A1" },
		{ "\t=1", "\\x09=1", "\\x09=1" },
		{ "\r\n=1", "\\x0d\\x0a=1", "\\x0d\\x0a=1" },
		{ "=a,\"b\"", "\"=a,\"\"b\"\"\"", "\"'=a,\"\"b\"\"\"" },
		{ "a;=1;b", "a;=1;b", "a;'=1;b" },
		{ "a;\"=1", "\"a;\"\"=1\"", "\"a;\"\"'=1\"" },
		{ "a-1=2", "a-1=2", "a-1=2" },
		{ "", "", "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		expect_value(TB_FORMAT_CSV, cases[i].value, cases[i].csv);
		expect_value(TB_FORMAT_SPREADSHEET, cases[i].value, cases[i].spreadsheet);
	}
}

Test(output, full_disk_ends_at_the_first_failure)
{
	fill();
	ends[0] = -1;
	ends[1] = open("/dev/full", O_WRONLY | O_NONBLOCK);
	cr_assert_geq(ends[1], 0);
	cr_expect_eq(text_write(), COMMAND_FAILED);
	cr_expect_eq(writes, 1);
	cr_expect_eq(polls, 0);
}
