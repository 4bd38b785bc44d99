/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets in files: valid files, and files that are refused without printing their content. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tickbus/ticket.h"

#define DIGITS "00112233445566778899aabbccddeeffFEDCBA98765432100123456789abcdef"

static char folder[] = "/tmp/tickbus-ticket-XXXXXX";
static char path[64];

static void enter(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/t", folder);
}

static void leave(void)
{
	unlink(path);
	rmdir(folder);
}

TestSuite(ticket, .init = enter, .fini = leave, .timeout = 60);

static void file_make(const char *text, mode_t mode)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(chmod(path, mode), 0);
}

static void expect_refused(int code, const char *message)
{
	char expected[256];
	uint8_t ticket[TB_TICKET_BYTES];

	snprintf(expected, sizeof(expected), "ticket %s: %s", path, message);
	cr_expect_eq(tb_ticket_load(path, ticket), -code);
	cr_expect_str_eq(tb_error(), expected);
}

Test(ticket, file_with_64_digits_is_loaded)
{
	static const uint8_t expected[TB_TICKET_BYTES] = {
		0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa,
		0xbb, 0xcc, 0xdd, 0xee, 0xff, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54,
		0x32, 0x10, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
	};
	uint8_t ticket[TB_TICKET_BYTES] = { 0 };

	file_make(DIGITS, 0600);
	cr_assert_eq(tb_ticket_load(path, ticket), 0, "%s", tb_error());
	cr_expect_arr_eq(ticket, expected, sizeof(ticket));
	memset(ticket, 0, sizeof(ticket));
	file_make(DIGITS "\n", 0600);
	cr_assert_eq(tb_ticket_load(path, ticket), 0, "%s", tb_error());
	cr_expect_arr_eq(ticket, expected, sizeof(ticket));
	cr_assert_eq(chmod(path, 0400), 0);
	cr_expect_eq(tb_ticket_load(path, ticket), 0, "%s", tb_error());
}

Test(ticket, file_with_other_content_is_refused)
{
	static const struct {
		const char *text;
		int digits, place; /* the whole message */
	} others[] = {
		{ "", 0, 0 },
		{ "\n", 0, 0 },
		{ "00", 2, 0 },
		{ "00112233445566778899aabbccddeeffFEDCBA98765432100123456789abcde\n", 63, 0 },
		{ DIGITS "0", 0, 65 },
		{ DIGITS "\n\n", 0, 66 },
		{ DIGITS "\r\n", 0, 65 },
		{ " " DIGITS, 0, 1 },
		{ "0x112233445566778899aabbccddeeffFEDCBA98765432100123456789abcdef", 0, 2 },
		{ "g0112233445566778899aabbccddeeffFEDCBA98765432100123456789abcdef", 0, 1 },
		{ "00112233\n5566778899aabbccddeeffFEDCBA98765432100123456789abcdef", 0, 10 },
	};
	char message[128];

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (others[i].place)
			snprintf(message, sizeof(message),
				 "found an unexpected byte at position %d, expected 64 hexadecimal "
				 "digits and at most a newline",
				 others[i].place);
		else
			snprintf(message, sizeof(message),
				 "found %d hexadecimal digits, expected 64", others[i].digits);
		file_make(others[i].text, 0600);
		expect_refused(EINVAL, message);
	}
	file_make("0000000000000000000000000000000000000000000000000000000000000000", 0600);
	expect_refused(EINVAL, "found zeros, expected random digits");
}

Test(ticket, file_open_to_others_is_refused)
{
	static const mode_t modes[] = { 0604, 0640, 0602, 0620, 0644, 0660, 0777 };
	char message[128];

	file_make(DIGITS, 0600);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		cr_assert_eq(chmod(path, modes[i]), 0);
		snprintf(message, sizeof(message),
			 "found permissions %03o, expected a file that only its owner can read "
			 "(chmod 600)",
			 modes[i]);
		expect_refused(EACCES, message);
	}
}

Test(ticket, path_that_is_no_file_is_refused_at_once)
{
	expect_refused(ENOENT, "No such file or directory");
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_refused(EINVAL, "found no regular file, expected a file with a ticket");
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkdir(path, 0700), 0);
	expect_refused(EINVAL, "found no regular file, expected a file with a ticket");
	cr_assert_eq(rmdir(path), 0);
}
