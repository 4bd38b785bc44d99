/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of structures that another process reads while this one writes, word by word, each word
 * whole. A check over the copy proves that its words belong together; these functions do not. */
#ifndef TICKBUS_BUS_WORDS_H
#define TICKBUS_BUS_WORDS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void words_store(void *shared, const void *copy, size_t bytes)
{
	_Atomic uint64_t *word = shared;
	uint64_t value;

	for (size_t i = 0; i < bytes / 8; i++) {
		memcpy(&value, (const char *)copy + i * 8, sizeof(value));
		atomic_store_explicit(&word[i], value, memory_order_relaxed);
	}
}

static inline void words_load(void *copy, const void *shared, size_t bytes)
{
	const _Atomic uint64_t *word = shared;
	uint64_t value;

	for (size_t i = 0; i < bytes / 8; i++) {
		value = atomic_load_explicit(&word[i], memory_order_relaxed);
		memcpy((char *)copy + i * 8, &value, sizeof(value));
	}
}

#endif
