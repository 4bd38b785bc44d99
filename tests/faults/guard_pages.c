/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/guard_pages.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

void *__real_mmap64(void *where, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *where, size_t bytes, int protection, int flags, int fd, off_t offset);

/* Guard pages are never unmapped: they cost addresses but no memory, and each test is a process. */
void *__wrap_mmap64(void *where, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	char *room;

	if (where || fd < 0)
		return __real_mmap64(where, bytes, protection, flags, fd, offset);
	room = __real_mmap64(NULL, bytes + 2 * GUARD_BYTES, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return room;
	return __real_mmap64(room + GUARD_BYTES, bytes, protection, flags | MAP_FIXED, fd, offset);
}

/* Lets the kernel read the byte: write() fails instead of faulting. */
static bool readable(int out, const char *byte)
{
	const ssize_t written = write(out, byte, 1);

	cr_assert(written == 1 || errno == EFAULT);
	return written == 1;
}

bool guard_pages_hold(const void *memory, size_t bytes)
{
	const char *first = memory;
	int pipes[2];
	bool hold;

	cr_assert_eq(pipe(pipes), 0);
	hold = readable(pipes[1], first) && readable(pipes[1], first + bytes - 1) &&
	       !readable(pipes[1], first - 1) && !readable(pipes[1], first - GUARD_BYTES) &&
	       !readable(pipes[1], first + bytes) &&
	       !readable(pipes[1], first + bytes + GUARD_BYTES - 1);
	close(pipes[0]);
	close(pipes[1]);
	return hold;
}
