/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that other processes may read: a shared memfd, on huge pages if available. Its seals let
 * processes that get the descriptor read it, and nothing else. */
#ifndef TICKBUS_BUS_MEMORY_H
#define TICKBUS_BUS_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct memory {
	void *base;    /* zeroed, page-aligned, writable by this process only */
	size_t bytes;  /* as requested */
	size_t mapped; /* whole (huge) pages */
	int fd;        /* sealed FUTURE_WRITE, SHRINK, GROW and SEAL; for this process only */
};

/* 0, or -errno with a message that names the size. -ENOMEM also if the memory is available only at
 * the cost of other processes. Every page is allocated: a later write never faults for lack of
 * memory. -EPERM if the kernel does not enforce the seals; if it only fails to do so with huge
 * pages, the memory has normal pages. */
int memory_create(struct memory *, const char *name, size_t bytes);
/* The same, from a NUMA node as long as it has free memory (numa.h). */
int memory_create_on(struct memory *, const char *name, size_t bytes, int node);

/* Takes a zeroed structure. */
void memory_free(struct memory *);

/* Pins the pages: 0, or -errno with a message that names the bytes needed and the limit. */
int memory_pin(const struct memory *);

/* Takes a memory's descriptor, and returns a descriptor to hand to another process, or -errno. The
 * caller closes it. It allows to read and to map for reading. It is an open file of its own, so
 * nothing that its receiver sets or locks stays with this process or reaches another receiver.
 * Needs /proc. */
int memory_reader(int memory);

/* Checks a descriptor of another process. It must be a memfd, sealed against shrinking and against
 * holes, with all its pages allocated. 0, with *status filled in; or -EPROTO: its memory could
 * vanish under a reader, or the reader would pay for its pages. Any file may be given: the call
 * never blocks, because only a memfd has seals, and only a sealed file is looked at further. */
int memory_check_foreign(int fd, struct stat *status);

/* Maps a descriptor of another process for reading: it must pass the check above and have at least
 * `bytes`, else -EPROTO. *mapped is the size to unmap: whole pages, which may be huge. */
int memory_map_foreign(int fd, size_t bytes, const void **base, size_t *mapped);
void memory_unmap_foreign(const void *base, size_t mapped);

#endif
