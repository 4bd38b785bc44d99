/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the lists of work requests that a program posts to a software device, loaded before
 * libibverbs. Soft-RoCE and Soft-iWARP take each list by a call of write(): the command POST_SEND.
 * Other calls of write() do not count, since some of them follow the clock. The count is in the
 * file that LAB_POSTS names, as 8 bytes. */
#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static _Atomic uint64_t *posts;

static __attribute__((constructor)) void begin(void)
{
	const char *path = getenv("LAB_POSTS");
	const int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || ftruncate(fd, sizeof(*posts)) != 0)
		abort();
	posts = mmap(NULL, sizeof(*posts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (posts == MAP_FAILED)
		abort();
}

EXPORTED ssize_t write(int fd, const void *bytes, size_t count)
{
	static ssize_t (*real)(int, const void *, size_t);
	struct ib_uverbs_cmd_hdr head = { 0 };

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "write");
	if (count >= sizeof(head))
		memcpy(&head, bytes, sizeof(head));
	if (head.command == IB_USER_VERBS_CMD_POST_SEND && head.in_words * 4u == count)
		atomic_fetch_add_explicit(posts, 1, memory_order_relaxed);
	return real(fd, bytes, count);
}
