/* SPDX-License-Identifier: Apache-2.0 */
/* The red-black tree is libc's. */
#include "publisher/feeds/market/book_far.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "bus/error.h"

static int by_rank(const void *left, const void *right)
{
	const uint32_t a = ((const struct book_level *)left)->rank;
	const uint32_t b = ((const struct book_level *)right)->rank;

	return (a > b) - (a < b);
}

struct book_level *book_far_find(const struct book_far *far, uint32_t rank)
{
	const struct book_level key = { .rank = rank };
	struct book_level *const *found = tfind(&key, &far->root, by_rank);

	return found ? *found : NULL;
}

int book_far_add(struct book_far *far, const struct book_level *level)
{
	struct book_level *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *level;
	if (!copy || !tsearch(copy, &far->root, by_rank)) {
		free(copy);
		return error_set(ENOMEM, "order book: no memory for %u price levels",
				 far->count + 1);
	}
	far->count++;
	return 0;
}

void book_far_remove(struct book_far *far, struct book_level *level)
{
	tdelete(level, &far->root, by_rank);
	free(level);
	far->count--;
}

/* Keeps the level that a search has reached, and goes on to greater ranks. */
static int to_best(const void *reached, const void *level)
{
	*(const void **)(uintptr_t)reached = level;
	return 1;
}

struct book_level *book_far_best(const struct book_far *far)
{
	struct book_level *reached = NULL;

	tfind(&reached, &far->root, to_best);
	return reached;
}

static void orders_add(const void *node, VISIT visit, void *sum)
{
	const struct book_level *const *level = node;

	if (visit == postorder || visit == leaf)
		*(size_t *)sum += (*level)->orders;
}

size_t book_far_orders(const struct book_far *far)
{
	size_t sum = 0;

	twalk_r(far->root, orders_add, &sum);
	return sum;
}

void book_far_clear(struct book_far *far)
{
	tdestroy(far->root, free);
	*far = (struct book_far){ 0 };
}
