/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that orders stores and loads by barriers only. A second build of library files for
 * tests includes this header first. It shows errors that x86 hides.
 *
 * Stores are delayed. They become visible one at a time, in any order that barriers and the
 * coherence of each word allow.
 *
 * Loads take a value of any time since the last load that an acquire orders before them. So a load
 * may find an older state than an earlier load. The writer always loads its own last store.
 *
 * That is as weak as aarch64. C11 would allow slightly more. */
#ifndef TICKBUS_TESTS_WEAK_H
#define TICKBUS_TESTS_WEAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins for this thread and this region, of which the writer and the readers have a mapping each.
 * loads_too: loads are weak as well, and stores become visible between them. */
void weak_begin(void *writers, const void *readers, size_t bytes, bool loads_too);
/* Makes the next store visible. False: all are visible. */
bool weak_apply(void);
/* Makes all of them visible. */
void weak_end(void);
void weak_seed(uint64_t seed);

uint64_t weak_load(const volatile void *object, size_t bytes, memory_order order);
void weak_store(volatile void *object, size_t bytes, uint64_t value);
void weak_fence(memory_order order);

#ifdef WEAK
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_thread_fence
#define atomic_load_explicit(object, order)                                                        \
	((__typeof__((void)0, *(object)))weak_load((object), sizeof(*(object)), (order)))
#define atomic_store_explicit(object, value, order)                                                \
	weak_store((object), sizeof(*(object)), (uint64_t)(value))
#define atomic_thread_fence(order) weak_fence(order)
#endif

#endif
