/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier that C11 lacks: it orders stores for a device that reads this memory over the bus.
 *
 * x86 keeps stores in order for devices too, so only the compiler must be held. On aarch64 a C11
 * fence orders the inner shareable domain only, and a NIC may be outside of it. */
#ifndef TICKBUS_BUS_BARRIER_H
#define TICKBUS_BUS_BARRIER_H

#include <stdatomic.h>

/* Other threads (as with a C11 release fence) and devices see stores before it before stores after
 * it. */
static inline void barrier_store(void)
{
	atomic_thread_fence(memory_order_release);
#if defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Requests a cache line for writing, so that no other core has it by then. */
static inline void barrier_prefetch_write(const void *line)
{
#if defined(__x86_64__)
	/* Without this instruction compilers emit a plain prefetch, which leaves the line shared.
	 * Processors that do not know prefetchw ignore it. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/* For waiting loops: frees the core's other hyperthread, and leaves the line with its owner. */
static inline void barrier_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

#endif
