/* SPDX-License-Identifier: Apache-2.0 */
/* Receivers of a memory's descriptor can read it; only its creator can change it. Each way to write
 * is tried, as the same user, on the descriptor that a subscriber gets. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/memory.h"
#include "tickbus/error.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define BYTES  20000
#define NOBODY 65534

static struct memory memory;

static void set_up(void)
{
	cr_assert_eq(memory_create(&memory, "test", BYTES), 0, "%s", tb_error());
	for (size_t i = 0; i < BYTES; i++)
		((uint8_t *)memory.base)[i] = (uint8_t)(i * 7);
}

static void tear_down(void)
{
	memory_free(&memory);
}

TestSuite(memory, .init = set_up, .fini = tear_down);

static void expect_unchanged(void)
{
	for (size_t i = 0; i < BYTES; i++)
		cr_assert_eq(((uint8_t *)memory.base)[i], (uint8_t)(i * 7), "byte %zu", i);
}

Test(memory, created_memory_is_zeroed_allocated_and_sealed)
{
	unsigned char there[8];
	struct memory fresh;
	struct stat status;
	int fd;

	cr_assert_eq(memory_create(&fresh, "test", 5 * 4096 + 1), 0);
	cr_expect_eq(fresh.bytes, 5 * 4096 + 1);
	cr_expect_eq(fresh.mapped, 6 * 4096);
	cr_expect_eq((uintptr_t)fresh.base % 4096, 0);
	for (size_t i = 0; i < fresh.mapped; i++)
		cr_assert_eq(((char *)fresh.base)[i], 0);
	cr_assert_eq(mincore(fresh.base, fresh.mapped, there), 0);
	for (unsigned int page = 0; page < 6; page++)
		cr_expect(there[page] & 1, "page %u", page);
	cr_expect_eq(fcntl(fresh.fd, F_GET_SEALS),
		     F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	cr_expect(fcntl(fresh.fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(fstat(fresh.fd, &status), 0);
	cr_expect_eq(status.st_mode & 07777, 0444, "found mode %o", status.st_mode);
	fd = fresh.fd;
	memory_free(&fresh);
	cr_expect_null(fresh.base);
	cr_expect_eq(fresh.fd, -1);
	cr_expect_eq(fcntl(fd, F_GETFD), -1, "its descriptor was left open");
	memory_free(&fresh);
}

/* If it is tried after all, the file size limit stops it before the machine runs out of memory. */
Test(memory, unavailable_memory_is_refused_with_its_size)
{
	const struct rlimit little = { 1 << 24, 1 << 24 };
	struct memory none;
	size_t available;
	const char *rest;
	char expected[128];
	int next;

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &little);

	cr_expect_eq(memory_create(&none, "t", 0), -EINVAL);
	cr_expect_str_eq(tb_error(), "memory t: found 0 bytes, expected at least 1");
	memory_free(&none);
	for (size_t bytes = (size_t)1 << 60; bytes; bytes = bytes == SIZE_MAX ? 0 : SIZE_MAX) {
		cr_expect_eq(memory_create(&none, "t", bytes), -ENOMEM);
		snprintf(expected, sizeof(expected),
			 "memory t: cannot allocate %zu bytes: ", bytes);
		rest = tb_error() + strlen(expected);
		cr_expect_eq(strncmp(tb_error(), expected, strlen(expected)), 0, "%s", tb_error());
		cr_expect_eq(sscanf(rest, "%zu bytes are available", &available), 1, "%s", rest);
		cr_expect_null(none.base);
	}
	next = dup(0);
	close(next);
	cr_expect_eq(memory_create(&none, "t", 1 << 25), -EFBIG);
	cr_expect_eq(none.fd, -1);
	cr_expect_eq(dup(0), next, "a descriptor was left open");
	snprintf(expected, sizeof(expected),
		 "memory t: cannot allocate 33554432 bytes: %s (see ulimit -f)", strerror(EFBIG));
	cr_expect_str_eq(tb_error(), expected);
	memory_free(&none);
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals = signals + 1;
}

/* A program that uses the library to publish knows of no file. A pending signal of its own must
 * stay. */
Test(memory, file_size_limit_is_an_error_and_no_signal)
{
	const struct rlimit little = { 4096, 4096 };
	struct memory none;
	sigset_t mask;

	signal(SIGXFSZ, on_signal);
	setrlimit(RLIMIT_FSIZE, &little);
	cr_expect_eq(memory_create(&none, "t", 4097), -EFBIG);
	cr_expect_eq(signals, 0);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	cr_expect_eq(sigismember(&mask, SIGXFSZ), 0);

	sigaddset(&mask, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	raise(SIGXFSZ);
	cr_expect_eq(memory_create(&none, "t", 4097), -EFBIG);
	cr_expect_eq(signals, 0);
	sigprocmask(SIG_UNBLOCK, &mask, NULL);
	cr_expect_eq(signals, 1);
}

/* A call that must fail, and its error. */
#define FAILS(call, code)                                                                          \
	do {                                                                                       \
		errno = 0;                                                                         \
		cr_expect((long)(call) == -1L && errno == (code), "%s: expected %s, found %s",     \
			  #call, strerror(code), strerror(errno));                                 \
		expect_unchanged();                                                                \
	} while (0)

/* All ways to write through a descriptor. */
static void attack(int fd)
{
	char bytes[64] = "overwritten";
	struct iovec part = { bytes, sizeof(bytes) };
	int zero = open("/dev/zero", O_RDONLY), pipes[2];

	cr_assert_eq(pipe(pipes), 0);
	cr_assert_eq(write(pipes[1], bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
	FAILS(write(fd, bytes, sizeof(bytes)), EPERM);
	FAILS(pwrite(fd, bytes, sizeof(bytes), 4096), EPERM);
	FAILS(pwritev(fd, &part, 1, 4096), EPERM);
	FAILS(splice(pipes[0], NULL, fd, &(loff_t){ 4096 }, sizeof(bytes), 0), EPERM);
	FAILS(copy_file_range(memory.fd, &(loff_t){ 0 }, fd, &(loff_t){ 8192 }, 64, 0), EPERM);
	FAILS(ftruncate(fd, 0), EPERM);
	FAILS(ftruncate(fd, BYTES / 2), EPERM);
	FAILS(ftruncate(fd, 1 << 20), EPERM);
	FAILS(fallocate(fd, 0, 0, 1 << 20), EPERM);
	FAILS(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), EPERM);
	FAILS((intptr_t)mmap(NULL, BYTES, PROT_WRITE, MAP_SHARED, fd, 0), EPERM);
	FAILS((intptr_t)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), EPERM);
	FAILS(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
	FAILS(fcntl(fd, F_ADD_SEALS, 0), EPERM);
	close(zero);
	close(pipes[0]);
	close(pipes[1]);
}

Test(memory, descriptor_holder_cannot_write)
{
	attack(memory.fd);
}

/* Root may open it in spite of its mode: the seals hold. */
Test(memory, reopening_through_proc_cannot_write)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory.fd);
	if (geteuid() != 0) {
		FAILS(open(path, O_RDWR), EACCES);
		FAILS(open(path, O_WRONLY), EACCES);
		FAILS(open(path, O_RDWR | O_TRUNC), EACCES);
		FAILS(truncate(path, 0), EACCES);
		return;
	}
	fd = open(path, O_RDWR);
	cr_assert_geq(fd, 0, "%s", strerror(errno));
	attack(fd);
	close(fd);
	FAILS(open(path, O_RDWR | O_TRUNC), EPERM);
	FAILS(truncate(path, 0), EPERM);
}

Test(memory, foreign_mapping_cannot_become_writable)
{
	char bytes[64] = "overwritten";
	struct iovec from = { bytes, sizeof(bytes) }, to;
	int zero = open("/dev/zero", O_RDONLY), self = open("/proc/self/mem", O_RDWR);
	const void *mapped = NULL;
	size_t bytes_mapped;
	void *base;

	cr_assert_eq(memory_map_foreign(memory.fd, BYTES, &mapped, &bytes_mapped), 0, "%s",
		     tb_error());
	cr_assert_eq(memcmp(mapped, memory.base, BYTES), 0);
	base = (void *)(uintptr_t)mapped;
	to = (struct iovec){ base, sizeof(bytes) };
	FAILS(mprotect(base, BYTES, PROT_READ | PROT_WRITE), EACCES);
	FAILS(mprotect(base, BYTES, PROT_WRITE), EACCES);
	FAILS(read(zero, base, 64), EFAULT);
	FAILS(pwrite(self, bytes, sizeof(bytes), (off_t)(uintptr_t)base), EIO);
	FAILS(process_vm_writev(getpid(), &from, 1, &to, 1, 0), EFAULT);
	FAILS(madvise(base, 4096, MADV_REMOVE), EACCES);
	((volatile uint8_t *)memory.base)[0] = 99;
	cr_expect_eq(((const volatile uint8_t *)mapped)[0], 99, "it is no copy");
	memory_unmap_foreign(mapped, bytes_mapped);
	cr_assert_eq(memory_map_foreign(memory.fd, memory.mapped, &mapped, &bytes_mapped), 0,
		     "all of it: %s", tb_error());
	memory_unmap_foreign(mapped, bytes_mapped);
	memory_unmap_foreign(NULL, BYTES);
	close(zero);
	close(self);
}

/* -- what another process handed over -----------------------------------------------------------
 */

static void expect_refused(int fd, size_t bytes, const char *expected)
{
	const void *mapped = NULL;
	size_t bytes_mapped;

	cr_assert_geq(fd, 0);
	cr_expect_eq(memory_map_foreign(fd, bytes, &mapped, &bytes_mapped), -EPROTO, "%s",
		     expected);
	cr_expect_str_eq(tb_error(), expected);
	cr_expect_null(mapped);
	if (fd != memory.fd)
		close(fd);
}

static int with_seals(unsigned int flags, int seals)
{
	int fd = memfd_create("test", flags);

	cr_assert_eq(fallocate(fd, 0, 0, BYTES), 0);
	cr_assert(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

#define FOUND_SEALS(found)                                                                         \
	"memory handed over: found seals " found                                                   \
	", expected F_SEAL_SHRINK and one of F_SEAL_WRITE "                                        \
	"and F_SEAL_FUTURE_WRITE among them"

Test(memory, only_sealed_memory_of_full_size_is_mapped)
{
	char path[] = "/tmp/tickbus-memory-XXXXXX";
	int file = mkstemp(path);

	cr_assert_eq(ftruncate(file, BYTES), 0);
	unlink(path);
	expect_refused(file, BYTES,
		       "memory handed over: found a descriptor that is no memfd, expected sealed "
		       "memory");
	expect_refused(open("/dev/null", O_RDONLY), BYTES,
		       "memory handed over: found a descriptor that is no memfd, expected sealed "
		       "memory");
	expect_refused(with_seals(MFD_ALLOW_SEALING, 0), BYTES, FOUND_SEALS("0x0"));
	expect_refused(with_seals(0, 0), BYTES, FOUND_SEALS("0x1"));
	expect_refused(with_seals(MFD_ALLOW_SEALING, F_SEAL_SHRINK), BYTES, FOUND_SEALS("0x2"));
	expect_refused(with_seals(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_GROW), BYTES,
		       FOUND_SEALS("0x6"));
	expect_refused(with_seals(MFD_ALLOW_SEALING, F_SEAL_GROW | F_SEAL_WRITE), BYTES,
		       FOUND_SEALS("0xc"));
	expect_refused(with_seals(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_WRITE), BYTES + 1,
		       "memory handed over: found 20000 bytes, expected at least 20001");
	expect_refused(memory.fd, memory.mapped + 1,
		       "memory handed over: found 20480 bytes, expected at least 20481");
	expect_refused(memory.fd, 0,
		       "memory handed over: found a claim of 0 bytes, expected at least 1");
	expect_refused(
		memory.fd, SIZE_MAX,
		"memory handed over: found 20480 bytes, expected at least 18446744073709551615");
}

Test(memory, memory_sealed_against_all_writes_is_mapped)
{
	int fd = with_seals(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_WRITE);
	const void *mapped = NULL;
	size_t bytes_mapped;

	cr_assert_eq(memory_map_foreign(fd, BYTES, &mapped, &bytes_mapped), 0, "%s", tb_error());
	memory_unmap_foreign(mapped, bytes_mapped);
	close(fd);
}

/* A hole in front of the last page. */
static int with_hole(void)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, BYTES), 0);
	cr_assert_eq(fallocate(fd, 0, BYTES / 4096 * 4096, BYTES % 4096), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE), 0);
	return fd;
}

/* The kernel allocates the pages of a hole for the process that reads them. */
Test(memory, memory_with_a_hole_is_refused_since_readers_pay)
{
	const int fd = with_hole();
	struct stat before, after;
	volatile uint8_t *view = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	cr_assert_neq(view, MAP_FAILED);
	cr_assert_eq(fstat(fd, &before), 0);
	for (size_t i = 0; i < BYTES; i += 4096)
		(void)view[i];
	cr_assert_eq(fstat(fd, &after), 0);
	cr_expect_eq(before.st_blocks, 8);
	cr_expect_eq(after.st_blocks, 40, "reading allocates");
	expect_refused(with_hole(), BYTES,
		       "memory handed over: found 4096 bytes of pages, expected all pages of its "
		       "20000 bytes");
	munmap((void *)(uintptr_t)view, BYTES);
	close(fd);
}

/* The number of this process's mappings that name this memory. */
static unsigned int mappings(const char *name)
{
	FILE *list = fopen("/proc/self/maps", "r");
	unsigned int count = 0;
	char line[512];

	while (list && fgets(line, sizeof(line), list))
		count += strstr(line, name) != NULL;
	if (list)
		fclose(list);
	return count;
}

Test(memory, unmapped_memory_is_gone_for_any_page_size)
{
	const size_t bytes = ((size_t)4 << 20) + 12345;
	const void *mapped = NULL;
	size_t bytes_mapped;
	struct memory big;

	cr_assert_eq(memory_create(&big, "unmapping", bytes), 0, "%s", tb_error());
	cr_assert_eq(mappings("unmapping"), 1);
	cr_assert_eq(memory_map_foreign(big.fd, bytes, &mapped, &bytes_mapped), 0, "%s",
		     tb_error());
	cr_assert_geq(mappings("unmapping"), 1);
	memory_unmap_foreign(mapped, bytes_mapped);
	memory_free(&big);
	cr_assert_eq(mappings("unmapping"), 0);
}

/* -- pinning ------------------------------------------------------------------------------------
 */

/* As a user with a limit of 64 KiB: 0 if pinning failed as expected. */
static int pin_with_little(void)
{
	const struct rlimit little = { 65536, 65536 };
	struct memory big;
	char expected[256];

	if (setrlimit(RLIMIT_MEMLOCK, &little) < 0 || memory_create(&big, "t", 1 << 20) < 0 ||
	    (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return 2;
	snprintf(expected, sizeof(expected),
		 "1048576 bytes cannot be pinned in memory (%s): the limit of lockable memory is "
		 "65536 bytes in all",
		 strerror(ENOMEM));
	if (memory_pin(&big) != -ENOMEM || strcmp(tb_error(), expected) != 0) {
		fprintf(stderr, "found: %s\n", tb_error());
		return 1;
	}
	memory_free(&big);
	return 0;
}

#if defined(__has_feature) && !defined(__SANITIZE_ADDRESS__) /* clang's name for it */
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

Test(memory, pinning_beyond_the_limit_reports_size_and_limit)
{
	int status;
	pid_t child;

#ifdef __SANITIZE_ADDRESS__
	cr_skip("the address sanitizer's mlock does nothing");
#endif
	child = fork();
	if (child == 0)
		_exit(pin_with_little());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		cr_skip("no limit can be set for a process of another user here");
	cr_assert_eq(WEXITSTATUS(status), 0);
}

Test(memory, memory_within_the_limit_is_pinned)
{
	struct rlimit limit;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (geteuid() != 0 && limit.rlim_cur < 65536)
		cr_skip("only %llu bytes may be locked here", (unsigned long long)limit.rlim_cur);
	cr_assert_eq(memory_pin(&memory), 0, "%s", tb_error());
}
