/* SPDX-License-Identifier: Apache-2.0 */
/* A subscriber cannot write to a topic's memory, by whatever way it tries with the descriptor that
 * it was handed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bus/memory.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define BYTES 8192

static struct memory memory;
static int given; /* as a subscriber has it: another descriptor of the same file */

static void enter(void)
{
	cr_assert_eq(memory_create(&memory, "topic", BYTES), 0);
	strcpy(memory.base, "as published");
	given = dup(memory.fd);
	cr_assert_geq(given, 0);
}

static void leave(void)
{
	close(given);
	cr_expect_str_eq(memory.base, "as published");
	memory_free(&memory);
}

TestSuite(readonly, .init = enter, .fini = leave);

static void expect_refused(int result, const char *what)
{
	cr_expect(result < 0 && (errno == EPERM || errno == EACCES), "%s: %d, %s", what, result,
		  strerror(errno));
}

static void *map(int fd, int protection)
{
	return mmap(NULL, BYTES, protection, MAP_SHARED, fd, 0);
}

Test(readonly, the_descriptor_writes_nothing)
{
	expect_refused((int)write(given, "x", 1), "write");
	expect_refused((int)pwrite(given, "x", 1, 0), "pwrite");
}

Test(readonly, the_size_stays)
{
	expect_refused(ftruncate(given, 0), "shrink");
	expect_refused(ftruncate(given, 2 * BYTES), "grow");
	expect_refused(fallocate(given, 0, 0, 2 * BYTES), "fallocate");
	expect_refused(fallocate(given, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096),
		       "a hole");
}

Test(readonly, no_mapping_is_writable)
{
	void *mapped = map(given, PROT_READ | PROT_WRITE);

	cr_expect_eq(mapped, MAP_FAILED);
	cr_expect_eq(errno, EPERM);
	mapped = map(given, PROT_READ);
	cr_assert_neq(mapped, MAP_FAILED);
	expect_refused(mprotect(mapped, BYTES, PROT_READ | PROT_WRITE), "mprotect");
	munmap(mapped, BYTES);
}

Test(readonly, reopening_it_gives_nothing_more)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", given);
	again = open(path, O_RDWR);
	if (again >= 0) { /* who may open it still may not write */
		expect_refused((int)pwrite(again, "x", 1, 0), "pwrite");
		expect_refused(ftruncate(again, 0), "ftruncate");
		cr_expect_eq(map(again, PROT_READ | PROT_WRITE), MAP_FAILED);
		close(again);
	}
}

Test(readonly, the_seals_are_all_there_and_stay)
{
	cr_expect_eq(fcntl(given, F_GET_SEALS),
		     F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	expect_refused(fcntl(given, F_ADD_SEALS, F_SEAL_WRITE), "another seal");
}
