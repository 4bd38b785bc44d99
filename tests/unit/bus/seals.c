/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that takes the seals of memory and does not enforce them, and a machine without /proc:
 * no reader's memory is made there. The linker puts these calls between the library and the system.
 * Calls on memory that is sealed may succeed, as that kernel lets them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "bus/memory.h"
#include "tickbus/error.h"

#define SMALL 20000
#define LARGE ((size_t)4 << 20) /* may have huge pages */

enum kind { NORMAL, HUGE, KINDS };

static bool lets_map[KINDS], lets_punch[KINDS];
static unsigned int maps, punches; /* of sealed memory */
static int code;                   /* a writable mapping of it fails with this; 0: as ever */
static int huge_fd = -1;           /* stands for memory with huge pages */

void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_fallocate64(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t bytes);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags);

static bool is_sealed(int fd)
{
	return fd >= 0 && fcntl(fd, F_GET_SEALS) > 0 && (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
}

static enum kind kind_of(int fd)
{
	return fd == huge_fd ? HUGE : NORMAL;
}

void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (is_sealed(fd) && (protection & PROT_WRITE)) {
		maps++;
		if (code) {
			errno = code;
			return MAP_FAILED;
		}
		if (lets_map[kind_of(fd)])
			return __real_mmap64(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1,
					     0);
	}
	return __real_mmap64(at, bytes, protection, flags, fd, offset);
}

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t bytes)
{
	if (is_sealed(fd)) {
		punches++;
		if (lets_punch[kind_of(fd)])
			return 0;
	}
	return __real_fallocate64(fd, mode, offset, bytes);
}

static bool no_proc;

int __wrap_open64(const char *path, int flags, ...)
{
	errno = ENOENT;
	return no_proc ? -1 : __real_open64(path, flags);
}

/* There is always memory with huge pages. */
int __wrap_memfd_create(const char *name, unsigned int flags)
{
	const bool huge = flags & MFD_HUGETLB;
	const int fd = __real_memfd_create(name, huge ? MFD_CLOEXEC | MFD_ALLOW_SEALING : flags);

	if (huge)
		huge_fd = fd;
	else if (fd == huge_fd)
		huge_fd = -1; /* its number is used again */
	return fd;
}

static void expect_refused(const char *expected)
{
	struct memory memory;
	const int next = dup(0);

	close(next);
	cr_expect_eq(memory_create(&memory, "t", SMALL), -EPERM);
	cr_expect_str_eq(tb_error(), expected);
	cr_expect_null(memory.base);
	cr_expect_eq(dup(0), next, "a descriptor was left open");
	close(next);
}

Test(seals, kernel_that_maps_sealed_memory_writable_is_refused)
{
	lets_map[NORMAL] = true;
	for (int i = 0; i < 2; i++)
		expect_refused("memory t: readers could write to it: this kernel does not enforce "
			       "its seals; expected Linux 5.12 or later");
}

Test(seals, kernel_that_punches_sealed_memory_is_refused)
{
	lets_punch[NORMAL] = true;
	for (int i = 0; i < 2; i++)
		expect_refused("memory t: readers could take its pages: this kernel does not "
			       "enforce its seals; expected Linux 5.12 or later");
}

/* The seals are not proven, so the next memory is tried again. */
Test(seals, trial_that_fails_for_another_reason_is_an_error)
{
	struct memory memory;

	code = ENOMEM;
	cr_expect_eq(memory_create(&memory, "t", SMALL), -ENOMEM);
	cr_expect_str_eq(tb_error(),
			 "memory t: cannot allocate 20000 bytes: Cannot allocate memory");
	cr_expect_null(memory.base);
	code = 0;
	lets_map[NORMAL] = true;
	cr_expect_eq(memory_create(&memory, "t", SMALL), -EPERM);
}

Test(seals, huge_pages_without_seals_give_way_to_normal_pages)
{
	struct memory memory;

	for (int i = 0; i < 2; i++) {
		lets_map[HUGE] = i == 0;
		lets_punch[HUGE] = i == 1;
		cr_assert_eq(memory_create(&memory, "t", LARGE), 0, "%s", tb_error());
		cr_expect_neq(memory.fd, huge_fd);
		memory_free(&memory);
	}
	lets_punch[HUGE] = false;
	cr_assert_eq(memory_create(&memory, "t", LARGE), 0, "%s", tb_error());
	cr_expect_eq(memory.fd, huge_fd, "huge pages whose seals hold are used");
	memory_free(&memory);
}

Test(seals, seals_are_tried_once_per_process_and_kind_of_page)
{
	struct memory memory;

	for (size_t bytes = SMALL; bytes <= LARGE; bytes += LARGE - SMALL) {
		maps = punches = 0;
		for (int i = 0; i < 3; i++) {
			cr_assert_eq(memory_create(&memory, "t", bytes), 0, "%s", tb_error());
			memory_free(&memory);
		}
		cr_expect_eq(maps, 1);
		cr_expect_eq(punches, 1);
	}
}

Test(seals, without_proc_no_descriptor_is_handed_out)
{
	struct memory memory;
	int fd;

	cr_assert_eq(memory_create(&memory, "t", SMALL), 0, "%s", tb_error());
	fd = memory_reader(memory.fd);
	cr_expect_geq(fd, 0, "%s", tb_error());
	close(fd);
	no_proc = true;
	cr_expect_eq(memory_reader(memory.fd), -ENOENT);
	cr_expect_str_eq(tb_error(), "no descriptor for shared memory: No such file or directory: "
				     "expected the file system proc at /proc");
	no_proc = false;
	memory_free(&memory);
}
