/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that other processes may read: a shared memfd, on huge pages if available. Its seals let
 * processes that get the descriptor read it, and nothing else. */
#ifndef TICKBUS_BUS_MEMORY_H
#define TICKBUS_BUS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct memory {
	void *base;    /* zeroed, page-aligned, writable by this process only */
	size_t bytes;  /* as requested */
	size_t mapped; /* whole (huge) pages */
	int fd;        /* sealed FUTURE_WRITE, SHRINK, GROW and SEAL */
};

/* 0, or -errno with a message that names the size. -ENOMEM also if the memory is available only at
 * the cost of other processes. Every page is allocated: a later write never faults for lack of
 * memory. */
int memory_create(struct memory *, const char *name, size_t bytes);
/* The same, from a NUMA node as long as it has free memory (numa.h). */
int memory_create_on(struct memory *, const char *name, size_t bytes, int node);

/* Takes a zeroed structure. */
void memory_free(struct memory *);

/* Pins the pages: 0, or -errno with a message that names the bytes needed and the limit. */
int memory_pin(const struct memory *);

/* Maps a descriptor of another process for reading. It must be a memfd of at least `bytes`, sealed
 * against shrinking; otherwise -EPROTO, since it could vanish under a reader. *mapped is the size
 * to unmap: whole pages, which may be huge. */
int memory_map_foreign(int fd, size_t bytes, const void **base, size_t *mapped);
void memory_unmap_foreign(const void *base, size_t mapped);

#endif
