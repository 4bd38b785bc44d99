/* SPDX-License-Identifier: Apache-2.0 */
/* A machine of two processors that delay their stores. A store becomes visible at a full fence, at
 * a barrier on both processors (membarrier), or at any time before. The library's code for waking
 * sleepers runs on it: a second build for tests includes this header first. Each load, store and
 * fence is a step, and the other processor may run before any step.
 *
 * A store and a later load are the only reordering that matters for wakes. */
#ifndef TICKBUS_TESTS_KEPT_H
#define TICKBUS_TESTS_KEPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h> /* before the macros below replace what they declare */

/* The step before which each event happens, counted from 1. 0: at the end. */
struct kept_plan {
	unsigned int inside;     /* the other processor's call runs */
	unsigned int visible[2]; /* a processor's delayed stores become visible */
};

/* Runs a call on processor 0 or 1, and the other processor's call inside or after it. Returns the
 * number of steps. */
unsigned int kept_run(const struct kept_plan *, unsigned int processor, void (*call)(void),
		      void (*others)(void));

uint64_t kept_load(const volatile void *object, size_t bytes);
void kept_store(volatile void *object, size_t bytes, uint64_t value);
/* Visible at once, with all earlier stores if the order is a release. */
uint64_t kept_add(volatile void *object, size_t bytes, uint64_t more, memory_order order);
void kept_fence(memory_order order);
long kept_syscall(long number, long command);
/* Makes all earlier stores visible to the reader of the event. */
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
