/* SPDX-License-Identifier: Apache-2.0 */
/* Tables with room for more than they may ever hold. Their bytes are zero, and of a large table
 * only the pages that are touched cost memory.
 *
 * calloc() does the same until the first large table is freed. glibc then keeps this memory, and
 * clears all of it for the next table (mallopt(3), M_MMAP_THRESHOLD). */
#ifndef TICKBUS_BUS_SPARSE_H
#define TICKBUS_BUS_SPARSE_H

#include <stddef.h>

/* `count` elements of `bytes` each, or NULL: no memory. */
void *sparse_new(size_t count, size_t bytes);
/* Takes what the call above returned for these numbers. */
void sparse_free(void *, size_t count, size_t bytes);

#endif
