/* SPDX-License-Identifier: Apache-2.0 */
/* Guard pages around shared memory: reading or writing past it faults, in every build. The linker
 * puts guard_pages.c between the library and mmap (--wrap=mmap64). Each mapping of a descriptor, in
 * publisher and subscriber, gets GUARD_BYTES without access on either side. */
#ifndef TICKBUS_TESTS_GUARD_PAGES_H
#define TICKBUS_TESTS_GUARD_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#define GUARD_BYTES ((size_t)64 << 20) /* so large because a wrong index may be far off */

/* Whether the memory is readable from its first to its last byte, and unreadable around it. */
bool guard_pages_hold(const void *memory, size_t bytes);

#endif
