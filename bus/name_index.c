/* SPDX-License-Identifier: Apache-2.0 */
/* A name's page follows from the low bits of its hash, and the first bucket to look at from the
 * high bits. In a page, names lie in the next free bucket. Until the pages double, those that were
 * not split yet have twice the names of the others: at most 352 of 512 buckets on average. For a
 * page to be full takes a deviation of 8 times the standard deviation. Then an addition fails. */
#include "bus/name_index.h"

#include <errno.h>
#include <string.h>

#include "bus/sparse.h"

#define PAGE_BUCKETS 512
#define PAGE_NAMES   176 /* on average; more of them split a page */

int name_index_open(struct name_index *index, const char *names, size_t stride, uint32_t capacity)
{
	*index = (struct name_index){ .names = names,
				      .stride = stride,
				      .pages_max = capacity / PAGE_NAMES + 1,
				      .pages = 1,
				      .base = 1 };
	index->buckets = sparse_new(index->pages_max, PAGE_BUCKETS * sizeof(*index->buckets));
	return index->buckets ? keyed_open(&index->key) : -ENOMEM;
}

void name_index_close(struct name_index *index)
{
	sparse_free(index->buckets, index->pages_max, PAGE_BUCKETS * sizeof(*index->buckets));
	*index = (struct name_index){ 0 };
}

static uint32_t *page_at(const struct name_index *index, uint32_t page)
{
	return index->buckets + (size_t)page * PAGE_BUCKETS;
}

void name_index_clear(struct name_index *index)
{
	memset(index->buckets, 0, index->pages * PAGE_BUCKETS * sizeof(*index->buckets));
	index->pages = index->base = 1;
	index->count = 0;
}

static uint64_t hash_of(const struct name_index *index, const char *name)
{
	return keyed_hash(&index->key, name, strlen(name));
}

static const char *name_at(const struct name_index *index, uint32_t number)
{
	return index->names + number * index->stride;
}

static uint32_t *page_of(const struct name_index *index, uint64_t hash)
{
	uint32_t page = (uint32_t)hash & (index->base - 1);

	if (page < index->pages - index->base) /* it was split */
		page = (uint32_t)hash & (index->base * 2 - 1);
	return page_at(index, page);
}

static bool put(const struct name_index *index, uint64_t hash, uint32_t number)
{
	uint32_t *page = page_of(index, hash);

	for (uint32_t i = 0; i < PAGE_BUCKETS; i++) {
		uint32_t *bucket = &page[((hash >> 32) + i) % PAGE_BUCKETS];

		if (*bucket == 0) {
			*bucket = number + 1;
			return true;
		}
	}
	return false;
}

/* Moves about half the names of a page to a new page. */
static void split(struct name_index *index)
{
	uint32_t moved[PAGE_BUCKETS];
	uint32_t *page = page_at(index, index->pages - index->base);

	memcpy(moved, page, sizeof(moved));
	memset(page, 0, sizeof(moved));
	if (++index->pages == index->base * 2)
		index->base *= 2;
	for (uint32_t i = 0; i < PAGE_BUCKETS; i++)
		if (moved[i] != 0)
			put(index, hash_of(index, name_at(index, moved[i] - 1)), moved[i] - 1);
}

int64_t name_index_find(const struct name_index *index, const char *name)
{
	const uint64_t hash = hash_of(index, name);
	const uint32_t *page = page_of(index, hash);

	for (uint32_t i = 0; i < PAGE_BUCKETS; i++) {
		const uint32_t found = page[((hash >> 32) + i) % PAGE_BUCKETS];

		if (found == 0)
			return -1;
		if (strcmp(name_at(index, found - 1), name) == 0)
			return found - 1;
	}
	return -1;
}

bool name_index_add(struct name_index *index, uint32_t number)
{
	if (index->count >= index->pages * PAGE_NAMES && index->pages < index->pages_max)
		split(index);
	if (!put(index, hash_of(index, name_at(index, number)), number))
		return false;
	index->count++;
	return true;
}
