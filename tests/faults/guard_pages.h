/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is shared lies between walls: who reads a byte beside it dies of that, in every
 * build. The linker puts guard_pages.c between the library and mmap (--wrap=mmap64): each mapping
 * of a descriptor, of the publisher's as of the subscriber's, gets GUARD_BYTES that nobody may
 * touch on either side. */
#ifndef TICKBUS_TESTS_WALLS_H
#define TICKBUS_TESTS_WALLS_H

#include <stdbool.h>
#include <stddef.h>

#define GUARD_BYTES ((size_t)64 << 20) /* an index may be far off */

/* Whether memory can be read up to its last byte, and not one before or behind it. */
bool guard_pages_hold(const void *memory, size_t bytes);

#endif
