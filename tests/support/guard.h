/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer that ends at a guard page: reading past it faults, in every build. */
#ifndef TICKBUS_TESTS_GUARD_H
#define TICKBUS_TESTS_GUARD_H

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define GUARD_PAGE 4096

struct guard {
	uint8_t *base;
	size_t room; /* in whole pages, without the guard page that follows */
};

static inline void guard_open(struct guard *guard, size_t room)
{
	guard->room = (room + GUARD_PAGE - 1) / GUARD_PAGE * GUARD_PAGE;
	guard->base = mmap(NULL, guard->room + GUARD_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(guard->base, MAP_FAILED);
	cr_assert_eq(mprotect(guard->base + guard->room, GUARD_PAGE, PROT_NONE), 0);
}

/* A copy of the bytes at the end of the buffer. */
static inline uint8_t *guard_copy(struct guard *guard, const void *bytes, size_t count)
{
	cr_assert_leq(count, guard->room);
	if (count)
		memcpy(guard->base + guard->room - count, bytes, count);
	return guard->base + guard->room - count;
}

static inline void guard_close(struct guard *guard)
{
	munmap(guard->base, guard->room + GUARD_PAGE);
}

#endif
