/* SPDX-License-Identifier: Apache-2.0 */
/* The writable mapping is made before the seal FUTURE_WRITE. After the seal no process can make
 * another writable mapping, not even by reopening the file through /proc. SHRINK keeps the pages in
 * the file, and FUTURE_WRITE keeps holes out of it: both protect readers from SIGBUS. GROW and SEAL
 * keep size and seals as promised. The mode keeps attributes and times from other users. */
#include "bus/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bus/cgroup.h"
#include "bus/error.h"
#include "bus/numa.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define PAGE_BYTES      ((size_t)4096)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define SEALS           (F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define READERS_MODE    0444 /* the file's: no process writes through it, its owner neither */
#define STAT_BLOCK      512  /* unit of st_blocks */

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* Bytes that the kernel says can be allocated without harm to other processes, within the limits of
 * this process's control groups. If more is requested, the kernel does not refuse: it kills a
 * process to make room. */
static size_t memory_available(void)
{
	FILE *meminfo = fopen("/proc/meminfo", "re");
	const size_t left = cgroup_memory_left("");
	size_t kib = SIZE_MAX / 1024;
	char line[128];

	while (meminfo && fgets(line, sizeof(line), meminfo))
		if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
			break;
	if (meminfo)
		fclose(meminfo);
	return left < kib * 1024 ? left : kib * 1024;
}

/* The file size limit (ulimit -f) applies to a memfd too. Its signal would end a program that knows
 * of no file here. The signal is consumed, and the call returns the error. */
static int size_set(int fd, size_t bytes)
{
	const struct timespec now = { 0 };
	sigset_t too_large, before, earlier;
	int result, code;

	sigemptyset(&too_large);
	sigaddset(&too_large, SIGXFSZ);
	sigpending(&earlier);
	pthread_sigmask(SIG_BLOCK, &too_large, &before);
	result = ftruncate(fd, (off_t)bytes);
	code = errno;
	if (result < 0 && !sigismember(&earlier, SIGXFSZ))
		sigtimedwait(&too_large, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = code;
	return result;
}

/* Allocates all pages with signals blocked: a profiler's timer would interrupt the call each time
 * (EINTR), and some kernels then undo it. */
static int pages_allocate(int fd, size_t bytes)
{
	sigset_t all, before;
	int result;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	result = fallocate(fd, 0, 0, (off_t)bytes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return result;
}

/* Sets the node before pages exist: through a mapping, and the file keeps it. */
static int pages_bind(int fd, size_t bytes, int node)
{
	void *base;
	int result;

	if (node == NUMA_ANY)
		return 0;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	result = numa_prefer(base, bytes, node);
	munmap(base, bytes);
	return result;
}

/* Makes a sealed memfd of whole pages, all of them allocated: 0 or -errno. */
static int memory_try(struct memory *memory, const char *name, size_t bytes, int node,
		      unsigned int huge)
{
	const size_t mapped = round_up(bytes, huge ? HUGE_PAGE_BYTES : PAGE_BYTES);
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
	void *base = MAP_FAILED;
	int code = 0;

	if (fd < 0)
		return -errno;
	if (size_set(fd, mapped) < 0)
		goto fail;
	code = -pages_bind(fd, mapped, node);
	if (code || pages_allocate(fd, mapped) < 0)
		goto fail;
	base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (base == MAP_FAILED || fchmod(fd, READERS_MODE) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		goto fail;
	*memory = (struct memory){ .base = base, .bytes = bytes, .mapped = mapped, .fd = fd };
	return 0;
fail:
	code = code ? code : errno;
	if (base != MAP_FAILED)
		munmap(base, mapped);
	close(fd);
	return -code;
}

/* Tries what the seals forbid, on the first page: 0 if both calls fail for the seals. -EPERM if a
 * call succeeds; *leave says what readers could do. A hole loses no data: the memory is not in use
 * yet. */
static int seals_try(const struct memory *memory, size_t page, const char **leave)
{
	void *view = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);

	if (view != MAP_FAILED) {
		munmap(view, page);
		*leave = "write to it";
		return -EPERM;
	}
	if (errno != EPERM)
		return -errno;
	if (fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)page) ==
	    0) {
		*leave = "take its pages";
		return -EPERM;
	}
	return errno == EPERM ? 0 : -errno;
}

/* Makes memory, and looks once per process and kind of pages whether the kernel enforces its
 * seals. Kernels before 5.13 do not with huge pages. *leave: what they let readers do, or NULL. */
static int memory_seal_try(struct memory *memory, const char *name, size_t bytes, int node,
			   unsigned int huge, const char **leave)
{
	static _Atomic bool enforced[2]; /* with normal pages; with huge pages */
	int result = memory_try(memory, name, bytes, node, huge);

	*leave = NULL;
	if (result < 0 || atomic_load_explicit(&enforced[huge != 0], memory_order_relaxed))
		return result;
	result = seals_try(memory, huge ? HUGE_PAGE_BYTES : PAGE_BYTES, leave);
	if (result < 0)
		memory_free(memory);
	else
		atomic_store_explicit(&enforced[huge != 0], true, memory_order_relaxed);
	return result;
}

int memory_create(struct memory *memory, const char *name, size_t bytes)
{
	return memory_create_on(memory, name, bytes, NUMA_ANY);
}

int memory_create_on(struct memory *memory, const char *name, size_t bytes, int node)
{
	const size_t available = memory_available();
	const char *leave = NULL;
	int result = -EINVAL;

	memset(memory, 0, sizeof(*memory));
	memory->fd = -1;
	if (bytes == 0)
		return error_set(EINVAL, "memory %s: found 0 bytes, expected at least 1", name);
	if (bytes >= HUGE_PAGE_BYTES)
		result = memory_seal_try(memory, name, bytes, node, MFD_HUGETLB | MFD_HUGE_2MB,
					 &leave);
	if (result < 0 && bytes > available)
		return error_set(ENOMEM,
				 "memory %s: cannot allocate %zu bytes: %zu bytes are available",
				 name, bytes, available);
	if (result < 0)
		result = memory_seal_try(memory, name, bytes, node, 0, &leave);
	if (leave)
		return error_set(EPERM,
				 "memory %s: readers could %s: this kernel does not enforce its "
				 "seals; expected Linux 5.12 or later",
				 name, leave);
	if (result == -EMFILE || result == -ENFILE)
		return error_set(-result, "memory %s: no descriptor is left: %s (see ulimit -n)",
				 name, strerror(-result));
	if (result < 0)
		return error_set(-result, "memory %s: cannot allocate %zu bytes: %s%s", name, bytes,
				 strerror(-result), result == -EFBIG ? " (see ulimit -f)" : "");
	/* Advice only: if the kernel ignores it, pages stay small. */
	madvise(memory->base, memory->mapped, MADV_HUGEPAGE);
	return 0;
}

void memory_free(struct memory *memory)
{
	if (!memory->base)
		return;
	munmap(memory->base, memory->mapped);
	close(memory->fd);
	memset(memory, 0, sizeof(*memory));
	memory->fd = -1;
}

int memory_pin(const struct memory *memory)
{
	struct rlimit limit = { 0 };
	int code;

	if (mlock(memory->base, memory->mapped) == 0)
		return 0;
	code = errno;
	getrlimit(RLIMIT_MEMLOCK, &limit);
	return error_set(code,
			 "%zu bytes cannot be pinned in memory (%s): the limit of lockable memory "
			 "is %llu bytes in all",
			 memory->mapped, strerror(code), (unsigned long long)limit.rlim_cur);
}

int memory_reader(int memory)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return error_set(errno, "no descriptor for shared memory: %s%s", strerror(errno),
			 errno == ENOENT ? ": expected the file system proc at /proc" : "");
}

/* -- memory of other processes ------------------------------------------------------------------
 */

int memory_check_foreign(int fd, struct stat *status)
{
	const int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0)
		return error_set(
			EPROTO, "memory handed over: found a descriptor that is no memfd, expected "
				"sealed memory");
	if (!(seals & F_SEAL_SHRINK) || !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		return error_set(
			EPROTO,
			"memory handed over: found seals 0x%x, expected F_SEAL_SHRINK and one of "
			"F_SEAL_WRITE and F_SEAL_FUTURE_WRITE among them",
			(unsigned int)seals);
	if (fstat(fd, status) < 0)
		return error_set(errno, "memory handed over: %s", strerror(errno));
	if (status->st_size < 0 || status->st_blocks < status->st_size / STAT_BLOCK)
		return error_set(EPROTO,
				 "memory handed over: found %lld bytes of pages, expected all "
				 "pages of its %lld bytes",
				 (long long)status->st_blocks * STAT_BLOCK,
				 (long long)status->st_size);
	return 0;
}

int memory_map_foreign(int fd, size_t bytes, const void **base, size_t *mapped)
{
	struct stat status;
	void *memory;
	int result = memory_check_foreign(fd, &status);

	if (result < 0)
		return result;
	if (bytes == 0)
		return error_set(
			EPROTO,
			"memory handed over: found a claim of 0 bytes, expected at least 1");
	if ((size_t)status.st_size < bytes)
		return error_set(EPROTO,
				 "memory handed over: found %lld bytes, expected at least %zu",
				 (long long)status.st_size, bytes);
	*mapped = round_up(bytes, (size_t)status.st_blksize); /* whole pages, which may be huge */
	memory = mmap(NULL, *mapped, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return error_set(errno, "memory handed over: %zu bytes cannot be mapped: %s", bytes,
				 strerror(errno));
	*base = memory;
	return 0;
}

void memory_unmap_foreign(const void *base, size_t mapped)
{
	if (base)
		munmap((void *)(uintptr_t)base, mapped);
}
