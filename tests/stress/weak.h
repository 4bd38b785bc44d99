/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that keeps no order of stores and loads but what barriers give, run by the library's
 * own code: included in front of its files, built once more for tests. What x86 hides shows itself
 * here.
 *
 * Stores   are kept back, and become visible one by one, in any order that the barriers between
 *          them and the coherence of each word allow.
 * Loads    are satisfied at any time since the last load that an acquire orders before them, so
 *          they may find what was there before something that an earlier load has already seen;
 *          but the writer's own find what it stored last.
 *
 * That is as weak as the machines we run on are (aarch64); C11 would allow some more. */
#ifndef TICKBUS_TESTS_WEAK_H
#define TICKBUS_TESTS_WEAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From now on for this thread and this region, which the writer and the readers have mapped each
 * for itself; loads_too: loads are weak as well, and stores become visible between them. */
void weak_begin(void *writers, const void *readers, size_t bytes, bool loads_too);
/* Makes one more store visible; false when none is left. */
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
