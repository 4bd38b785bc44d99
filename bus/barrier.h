/* SPDX-License-Identifier: Apache-2.0 */
/* The one barrier that C11 does not have: stores of ours, as a device that reads our memory over
 * the bus sees them.
 *
 * x86 keeps stores in order for devices too; the compiler alone has to be held. On aarch64 a C11
 * fence orders the inner shareable domain only, and a NIC may be outside of it. */
#ifndef TICKBUS_BUS_BARRIER_H
#define TICKBUS_BUS_BARRIER_H

#include <stdatomic.h>

/* Stores before it are seen before stores after it, by other threads (as a C11 release fence) and
 * by devices. */
static inline void barrier_store(void)
{
	atomic_thread_fence(memory_order_release);
#if defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Asks for a line that is going to be written, so that no other core has it by then. */
static inline void barrier_prefetch_write(const void *line)
{
#if defined(__x86_64__)
	/* Compilers take a plain prefetch, which shares the line, where they know of no better one;
	 * processors that know of none do nothing. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/* Waiting in a loop: lets the core's other half work, and the line's owner keep it. */
static inline void barrier_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

#endif
