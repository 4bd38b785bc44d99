/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/scarce.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bus/shm/shm_porter.h"
#include "tickbus/error.h"

#define NEVER      (-1)
#define DEADLINE_S 10

/* A sanitizer has an allocator of its own. Then the linker puts this one between it and the objects
 * linked here (--wrap). libc's own allocations bypass it, so nothing is counted; the sanitizer
 * itself reports leaks. */
#ifdef SANITIZED
#define HERE(name)  __wrap_##name
#define BELOW(name) __real_##name
#else
#define HERE(name)           name
#define BELOW(name)          __libc_##name
#define __libc_aligned_alloc __libc_memalign
#endif

/* Visible, so that the libraries below use these functions too. */
#define OPEN __attribute__((visibility("default")))

void *HERE(malloc)(size_t);
void *HERE(calloc)(size_t, size_t);
void *HERE(realloc)(void *, size_t);
void *HERE(aligned_alloc)(size_t, size_t);
void *HERE(mmap64)(void *, size_t, int, int, int, off_t);
void *BELOW(malloc)(size_t);
void *BELOW(calloc)(size_t, size_t);
void *BELOW(realloc)(void *, size_t);
void *BELOW(aligned_alloc)(size_t, size_t);

static _Atomic long live;
static _Atomic long countdown = NEVER; /* allocations until one fails */
static _Atomic long failures;
static _Atomic bool for_good; /* all that follow fail too */
static _Atomic bool of_others, spared;
static pthread_t mine;

/* -- an allocator that fails on request ---------------------------------------------------------
 */

static bool may_fail(void)
{
	const bool is_mine = pthread_equal(pthread_self(), mine);

	return is_mine ? !of_others && !spared : of_others;
}

static bool allowed(void)
{
	const long left = atomic_load(&countdown);

	if (left == NEVER || !may_fail())
		return true;
	if (left > 0) {
		atomic_store(&countdown, left - 1);
		return true;
	}
	if (!for_good)
		atomic_store(&countdown, NEVER);
	atomic_fetch_add(&failures, 1);
	errno = ENOMEM;
	return false;
}

static void *count_in(void *memory)
{
	if (memory)
		atomic_fetch_add(&live, 1);
	return memory;
}

OPEN void *HERE(malloc)(size_t size)
{
	return allowed() ? count_in(BELOW(malloc)(size)) : NULL;
}

OPEN void *HERE(calloc)(size_t count, size_t size)
{
	return allowed() ? count_in(BELOW(calloc)(count, size)) : NULL;
}

OPEN void *HERE(realloc)(void *old, size_t size)
{
	if (!old)
		return HERE(malloc)(size);
	return allowed() ? BELOW(realloc)(old, size) : NULL;
}

OPEN void *HERE(aligned_alloc)(size_t alignment, size_t size)
{
	return allowed() ? count_in(BELOW(aligned_alloc)(alignment, size)) : NULL;
}

OPEN void *HERE(mmap64)(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *memory;

	if (!allowed())
		return MAP_FAILED;
	memory = (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
	if (memory != MAP_FAILED)
		atomic_fetch_add(&live, 1);
	return memory;
}

#ifdef SANITIZED
char *HERE(strdup)(const char *);
char *HERE(strndup)(const char *, size_t);
char *BELOW(strdup)(const char *);
char *BELOW(strndup)(const char *, size_t);

OPEN char *HERE(strdup)(const char *text)
{
	return allowed() ? BELOW(strdup)(text) : NULL;
}

OPEN char *HERE(strndup)(const char *text, size_t length)
{
	return allowed() ? BELOW(strndup)(text, length) : NULL;
}

static long allocations(void)
{
	return 0;
}
#else
void __libc_free(void *);

OPEN void free(void *memory)
{
	if (memory)
		atomic_fetch_sub(&live, 1);
	__libc_free(memory);
}

OPEN int munmap(void *memory, size_t bytes)
{
	const int result = (int)syscall(SYS_munmap, memory, bytes);

	if (result == 0)
		atomic_fetch_sub(&live, 1);
	return result;
}

static long allocations(void)
{
	return atomic_load(&live);
}
#endif

void scarce_mine(void)
{
	mine = pthread_self();
	atomic_store(&of_others, false);
}

void scarce_others(void)
{
	mine = pthread_self();
	atomic_store(&of_others, true);
}

void scarce_spare(bool spare)
{
	atomic_store(&spared, spare);
}

void scarce_from(long number, bool all_after)
{
	atomic_store(&failures, 0);
	atomic_store(&for_good, all_after);
	atomic_store(&countdown, number);
}

long scarce_failures(void)
{
	return atomic_load(&failures);
}

void scarce_no_more(void)
{
	atomic_store(&countdown, NEVER);
}

/* -- what the process holds ---------------------------------------------------------------------
 */

/* Mappings of shared memory, as the kernel lists them. */
static int mappings(void)
{
	char line[512];
	int count = 0;
	FILE *file = fopen("/proc/self/maps", "r");

	while (file && fgets(line, sizeof(line), file))
		count += strstr(line, "memfd:") != NULL;
	if (file)
		fclose(file);
	return count;
}

static int descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	int count = 0;

	while (list && readdir(list))
		count++;
	if (list)
		closedir(list);
	return count;
}

struct held held_now(void)
{
	const int open_now = descriptors(), mapped = mappings();

	return (struct held){ allocations(), open_now, mapped };
}

void wrong(const char *what, const char *how, long number)
{
	fprintf(stderr, "%s, %s number %ld: %s\n", what, how, number, tb_error());
	exit(1);
}

static bool no_more(const struct held *before, const struct held *now)
{
	return now->allocations <= before->allocations && now->descriptors <= before->descriptors &&
	       now->mappings <= before->mappings;
}

void held_as_before(struct held *before, const char *what, const char *how, long number)
{
	const time_t until = time(NULL) + DEADLINE_S;
	struct held now = held_now();

	while (!no_more(before, &now) && time(NULL) < until) {
		sched_yield();
		shm_porter_reap(); /* porters that ended leave a descriptor until then */
		now = held_now();
	}
	if (no_more(before, &now)) {
		/* A publisher may give up its reserve descriptor for a moment. */
		now.descriptors = before->descriptors;
		*before = now;
		return;
	}
	fprintf(stderr,
		"leaks: %ld allocations, %d descriptors, %d mappings before, %ld, %d, %d after\n",
		before->allocations, before->descriptors, before->mappings, now.allocations,
		now.descriptors, now.mappings);
	wrong(what, how, number);
}
