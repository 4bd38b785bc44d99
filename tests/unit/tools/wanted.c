/* SPDX-License-Identifier: Apache-2.0 */
/* The values of --names: lists, files, and what changed when they are read again. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/wanted.h"

static const struct command test_command = { .name = "test" };
static struct command_call call = { .command = &test_command };

static struct wanted wanted;
static char path[] = "/tmp/tickbus-wanted-XXXXXX";
static char source[sizeof(path) + 1];

/* The messages would make the output of a passing test unclear. */
static void open_file(void)
{
	const int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
	snprintf(source, sizeof(source), "@%s", path);
	cr_assert_not_null(freopen("/dev/null", "w", stderr));
}

static void close_file(void)
{
	wanted_free(&wanted);
	unlink(path);
}

static void write_file(const char *bytes, size_t length)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	cr_assert_eq(fwrite(bytes, 1, length, file), length);
	cr_assert_eq(fclose(file), 0);
}

static int take(const char *value)
{
	call.value = value;
	return wanted_take(&wanted, &call);
}

static void expect_words(const struct wanted_list *list, const char *expected)
{
	char found[512] = "";

	for (size_t i = 0; i < list->count; i++) {
		strcat(found, list->words[i]);
		strcat(found, "|");
	}
	cr_assert_str_eq(found, expected);
}

static void expect_file(int status, const char *bytes, size_t length)
{
	write_file(bytes, length);
	cr_assert_eq(take(source), status, "found another status for \"%s\"", bytes);
	wanted_free(&wanted);
	wanted = (struct wanted){ 0 };
}

TestSuite(wanted, .init = open_file, .fini = close_file);

Test(wanted, list_is_sorted_and_has_each_word_once)
{
	cr_assert_eq(take("MSFT,AAPL, B ,AAPL"), 0);
	cr_assert_eq(take("A*,B"), 0);
	expect_words(&wanted.chosen, "A*|AAPL|B|MSFT|");
	cr_assert(!wanted.files);
}

Test(wanted, wrong_list_is_wrong_usage)
{
	static const char *const lists[] = {
		"", ",", "A,", "A,,B", "ABCDEFGHIJKLMNOPQRSTUVWXY", "A\tB", "\x7f"
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		cr_assert_eq(take(lists[i]), COMMAND_USAGE, "list %zu passed", i);
	cr_assert_eq(take("ABCDEFGHIJKLMNOPQRSTUVWX,ABCDEFGHIJKLMNOPQRSTUVWX*Z"), 0);
}

Test(wanted, file_has_a_word_on_each_line)
{
	static const char text[] = "# comment\n\n  B C \r\nA,1\n[#]1\nlast";

	write_file(text, strlen(text));
	cr_assert_eq(take(source), 0);
	expect_words(&wanted.chosen, "A,1|B C|[#]1|last|");
	cr_assert(wanted.files);
}

Test(wanted, wrong_file_is_refused)
{
	char longest[129];

	memset(longest, '*', sizeof(longest));
	expect_file(0, longest, 127);
	expect_file(COMMAND_FAILED, longest, 128);
	memset(longest, 'N', sizeof(longest));
	expect_file(0, longest, 24);
	expect_file(COMMAND_FAILED, longest, 25);
	expect_file(COMMAND_FAILED, "A\0B", 3);
	expect_file(COMMAND_FAILED, "A\n\xc3\xa4\n", 5);
	expect_file(0, "", 0);
	unlink(path);
	cr_assert_eq(take(source), COMMAND_FAILED);
	cr_assert_eq(take("@/"), COMMAND_FAILED);
}

Test(wanted, more_names_than_the_library_takes_are_refused)
{
	char *text = malloc(65537 * 8), *at = text;

	cr_assert_not_null(text);
	for (int i = 0; i < 65537; i++)
		at += sprintf(at, "N%05d\n", i);
	expect_file(0, text, (size_t)(at - text) - 7);
	expect_file(COMMAND_FAILED, text, (size_t)(at - text));
	free(text);
}

/* Nor is a pipe, which may block. */
Test(wanted, device_is_not_read_again)
{
	struct wanted_list fresh;

	cr_assert_eq(take("@/dev/null"), 0);
	cr_assert_eq(take("X"), 0);
	cr_assert_eq(wanted_read(&wanted, &call, &fresh), -1);
	cr_assert_eq(fresh.count, 0);
	expect_words(&wanted.chosen, "X|");
}

Test(wanted, place_of_a_name_is_its_first_line_in_a_file)
{
	size_t line = 0;

	write_file("# A\nA\nB\n\nB\n", 11);
	cr_assert_eq(take("C"), 0);
	cr_assert_eq(take(source), 0);
	cr_assert_str_eq(wanted_place(&wanted, &call, "B", &line), path);
	cr_assert_eq(line, 3);
	cr_assert_str_eq(wanted_place(&wanted, &call, "A", &line), path);
	cr_assert_eq(line, 2);
	cr_assert_null(wanted_place(&wanted, &call, "C", &line), "it is not in a file");
	cr_assert_null(wanted_place(&wanted, &call, "D", &line));
}

Test(wanted, again_read_gives_what_was_added_and_removed)
{
	struct wanted_list fresh;
	const char *only[8];

	write_file("A\nB\nD\n", 6);
	cr_assert_eq(take(source), 0);
	cr_assert_eq(take("X,B"), 0);
	write_file("B\nC\nE\n", 6);
	cr_assert_eq(wanted_read(&wanted, &call, &fresh), 0);
	expect_words(&fresh, "B|C|E|X|");
	cr_assert_eq(wanted_missing(&fresh, &wanted.chosen, only), 2);
	cr_assert(!strcmp(only[0], "C") && !strcmp(only[1], "E"));
	cr_assert_eq(wanted_missing(&wanted.chosen, &fresh, only), 2);
	cr_assert(!strcmp(only[0], "A") && !strcmp(only[1], "D"));
	wanted_list_free(&fresh);
	write_file("B\n\x01\n", 4);
	cr_assert_eq(wanted_read(&wanted, &call, &fresh), -1);
	cr_assert_eq(fresh.count, 0);
	expect_words(&wanted.chosen, "A|B|D|X|");
}
