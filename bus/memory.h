/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that other processes are let read: a memfd, shared, sealed against everything but reading
 * by those who are given the descriptor, on huge pages where there are any. */
#ifndef TICKBUS_BUS_MEMORY_H
#define TICKBUS_BUS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct memory {
	void *base;    /* zeroed, page-aligned, writable by us alone */
	size_t bytes;  /* as asked */
	size_t mapped; /* whole (huge) pages */
	int fd;        /* sealed FUTURE_WRITE, SHRINK, GROW and SEAL */
};

/* 0, or -errno with words that name the size; -ENOMEM also where it would take what others need.
 * Every page is there after it: writing never faults for want of memory. */
int memory_create(struct memory *, const char *name, size_t bytes);
/* The same, of a NUMA node's as far as that has any (numa.h). */
int memory_create_on(struct memory *, const char *name, size_t bytes, int node);

/* Takes a zeroed structure. */
void memory_free(struct memory *);

/* Pins the pages: 0, or -errno with words that name the bytes needed and the limit. */
int memory_pin(const struct memory *);

/* Maps for reading a descriptor that another process gave. It must be a memfd sealed against
 * shrinking with at least `bytes` in it (else -EPROTO: it could vanish under a reader). *mapped is
 * what is to be unmapped: whole pages, which may be huge. */
int memory_map_foreign(int fd, size_t bytes, const void **base, size_t *mapped);
void memory_unmap_foreign(const void *base, size_t mapped);

#endif
