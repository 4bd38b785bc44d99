/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/sparse.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A smaller table costs less than the system calls that would save a part of it. */
#define LARGE_BYTES 65536

static bool is_small(size_t count, size_t bytes)
{
	return bytes == 0 || count < LARGE_BYTES / bytes;
}

void *sparse_new(size_t count, size_t bytes)
{
	void *table;

	if (is_small(count, bytes))
		return calloc(count, bytes);
	if (count > SIZE_MAX / bytes)
		return NULL;
	table = mmap(NULL, count * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	return table == MAP_FAILED ? NULL : table;
}

void sparse_free(void *table, size_t count, size_t bytes)
{
	if (is_small(count, bytes))
		free(table);
	else if (table)
		munmap(table, count * bytes);
}
