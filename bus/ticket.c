/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a ticket from a file. A file that other users may read is refused: its ticket is no secret.
 */
#include "tickbus/ticket.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/error.h"

#define DIGITS (2 * TB_TICKET_BYTES)

static int file_check(const char *path, int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return error_set(errno, "ticket %s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return error_set(EINVAL,
				 "ticket %s: found no regular file, expected a file with a ticket",
				 path);
	if (status.st_mode & (S_IRWXG | S_IRWXO))
		return error_set(EACCES,
				 "ticket %s: found permissions %03o, expected a file that only its "
				 "owner can read (chmod 600)",
				 path, status.st_mode & 0777u);
	return 0;
}

static uint8_t digit(char c)
{
	return (uint8_t)(isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* Accepts digits and at most a newline. An error for other content gives the position only, so that
 * no ticket gets into a log. */
static int text_check(const char *path, const char *text, size_t length)
{
	size_t digits = 0, end;

	while (digits < length && digits < DIGITS && isxdigit((unsigned char)text[digits]))
		digits++;
	end = digits + (digits < length && text[digits] == '\n');
	if (end < length)
		return error_set(EINVAL,
				 "ticket %s: found an unexpected byte at position %zu, expected %d "
				 "hexadecimal digits and at most a newline",
				 path, end + 1, DIGITS);
	if (digits < DIGITS)
		return error_set(EINVAL, "ticket %s: found %zu hexadecimal digits, expected %d",
				 path, digits, DIGITS);
	return 0;
}

static int text_take(const char *path, const char *text, size_t length, uint8_t *ticket)
{
	uint8_t any = 0;

	if (text_check(path, text, length) < 0)
		return -EINVAL;
	for (size_t i = 0; i < TB_TICKET_BYTES; i++) {
		ticket[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
		any |= ticket[i];
	}
	if (any == 0)
		return error_set(EINVAL, "ticket %s: found zeros, expected random digits", path);
	return 0;
}

TB_API int tb_ticket_load(const char *path, uint8_t ticket[TB_TICKET_BYTES])
{
	char text[DIGITS + 2]; /* one byte more than a valid file has */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t length;
	int result;

	if (fd < 0)
		return error_set(errno, "ticket %s: %s", path, strerror(errno));
	result = file_check(path, fd);
	if (result == 0) {
		length = read(fd, text, sizeof(text));
		result = length < 0 ? error_set(errno, "ticket %s: %s", path, strerror(errno))
				    : text_take(path, text, (size_t)length, ticket);
	}
	close(fd);
	explicit_bzero(text, sizeof(text));
	return result;
}
