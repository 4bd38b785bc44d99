/* SPDX-License-Identifier: Apache-2.0 */
/* A machine of two processors that keep their stores back: until a full fence of their own, a
 * barrier that the system puts on both (membarrier), or until they happen to become visible. Run by
 * the library's own code for waking sleepers: included in front of it, built once more for tests.
 * Each load, store and fence is a step, and the other processor may run in front of any.
 *
 * Of what a machine may reorder, this is what matters there: a store and a later load. */
#ifndef TICKBUS_TESTS_KEPT_H
#define TICKBUS_TESTS_KEPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h> /* before what they declare is something else */

/* When things happen: in front of which step, counted from 1; 0: at the end. */
struct kept_plan {
	unsigned int inside;     /* the other processor's call runs */
	unsigned int visible[2]; /* what each of them has kept becomes visible */
};

/* Runs a call on processor 0 or 1, and the other's in it or behind it: how many steps it took. */
unsigned int kept_run(const struct kept_plan *, unsigned int processor, void (*call)(void),
		      void (*others)(void));

uint64_t kept_load(const volatile void *object, size_t bytes);
void kept_store(volatile void *object, size_t bytes, uint64_t value);
/* Visible at once; what was stored before it is, if the order says so. */
uint64_t kept_add(volatile void *object, size_t bytes, uint64_t more, memory_order order);
void kept_fence(memory_order order);
long kept_syscall(long number, long command);
/* Whoever reads it sees what was stored before. */
int kept_signal(int fd, uint64_t count);

#ifdef KEPT
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_fetch_add_explicit
#undef atomic_thread_fence
#define atomic_load_explicit(object, order)                                                        \
	((__typeof__((void)0, *(object)))kept_load((object), sizeof(*(object))))
#define atomic_store_explicit(object, value, order)                                                \
	kept_store((object), sizeof(*(object)), (uint64_t)(value))
#define atomic_fetch_add_explicit(object, more, order)                                             \
	kept_add((object), sizeof(*(object)), (more), (order))
#define atomic_thread_fence(order)                 kept_fence(order)
#define eventfd_write(fd, count)                   kept_signal((fd), (count))
#define syscall(number, command, flags, processor) kept_syscall((number), (command))
#endif

#endif
