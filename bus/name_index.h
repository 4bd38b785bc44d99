/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the number of a name. The names lie elsewhere, at a fixed distance from each other.
 *
 * The hash table has room for `capacity` names. It is allocated once, and the pages that it touches
 * follow the number of names: the table grows by linear hashing (W. Litwin, VLDB 1980), where an
 * addition splits one page at most. Others choose the names, so the hash has a key.
 *
 * Threads  one at a time. */
#ifndef TICKBUS_BUS_NAME_INDEX_H
#define TICKBUS_BUS_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/keyed.h"

struct name_index {
	uint32_t *buckets; /* a name's number + 1; 0: free */
	const char *names;
	size_t stride; /* bytes from a name to the next */
	uint32_t pages_max;
	uint32_t pages; /* in use */
	uint32_t base;  /* the last power of two up to that */
	uint32_t count; /* of names */
	struct keyed key;
};

/* The memory at `names` stays where it is while the index is open. 0, -ENOMEM without a message, or
 * an error of keyed_open. */
int name_index_open(struct name_index *, const char *names, size_t stride, uint32_t capacity);
/* Takes an index that is not open and is zero. */
void name_index_close(struct name_index *);
void name_index_clear(struct name_index *);

/* The number, or -1. */
int64_t name_index_find(const struct name_index *, const char *name);
/* Adds the name at this number, which is not in the index. False: it has no room. */
bool name_index_add(struct name_index *, uint32_t number);

#endif
