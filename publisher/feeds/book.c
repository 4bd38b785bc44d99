/* SPDX-License-Identifier: Apache-2.0 */
/* The levels of a side are an array with the best level at its end. Most changes happen there,
 * where searching and moving are short.
 *
 * K-I1  A level exists if and only if a live order has its price. Its size and order count are sums
 *       over those orders. */
#include "publisher/feeds/book.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

#define LEVELS_FIRST 8
#define NEAR         8 /* levels searched one by one from the best, before a binary search */

static_assert(sizeof(struct book_level) == 16, "compared bytewise: no padding");

int book_open(struct book *book)
{
	memset(book, 0, sizeof(*book));
	book->symbols = calloc(BOOK_SYMBOLS, sizeof(*book->symbols));
	if (!book->symbols)
		return error_set(ENOMEM, "order book: no memory");
	return book_orders_open(&book->orders);
}

void book_close(struct book *book)
{
	for (unsigned i = 0; book->symbols && i < BOOK_SYMBOLS; i++) {
		free(book->symbols[i].sides[BOOK_BUY].levels);
		free(book->symbols[i].sides[BOOK_SELL].levels);
	}
	free(book->symbols);
	book_orders_close(&book->orders);
	memset(book, 0, sizeof(*book));
}

void book_clear(struct book *book)
{
	for (unsigned i = 0; i < BOOK_SYMBOLS; i++) {
		book->symbols[i].sides[BOOK_BUY].count = 0;
		book->symbols[i].sides[BOOK_SELL].count = 0;
	}
	book_orders_clear(&book->orders);
	book->touched_count = 0;
}

/* At most two symbols change. An added order touches its own symbol, and the symbol of a live order
 * that it replaces. A replaced order touches the symbol of the new order. */
static void touch(struct book *book, uint16_t locate, uint32_t depth)
{
	for (unsigned i = 0; i < book->touched_count; i++) {
		if (book->touched[i].locate != locate)
			continue;
		if (depth < book->touched[i].depth)
			book->touched[i].depth = depth;
		return;
	}
	book->touched[book->touched_count++] = (struct book_touch){ locate, depth };
}

static struct book_side *side_of(const struct book *book, const struct book_order *order)
{
	return &book->symbols[order->locate].sides[order->side];
}

static uint32_t rank_of(const struct book_order *order)
{
	return order->side == BOOK_BUY ? order->price : ~order->price;
}

/* The number of levels that are worse than rank: the index of its level, existing or not. */
static uint32_t index_of(const struct book_side *side, uint32_t rank)
{
	uint32_t high = side->count, low = high > NEAR ? high - NEAR : 0;

	while (high > low && side->levels[high - 1].rank >= rank)
		high--;
	if (high > low)
		return high;
	low = 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (side->levels[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int reserve_level(struct book_side *side)
{
	uint32_t capacity = side->capacity ? side->capacity * 2 : LEVELS_FIRST;
	struct book_level *levels;

	if (side->count < side->capacity)
		return 0;
	levels = reallocarray(side->levels, capacity, sizeof(*levels));
	if (!levels)
		return error_set(ENOMEM, "order book: no memory for %u price levels", capacity);
	side->levels = levels;
	side->capacity = capacity;
	return 0;
}

/* After reserve_level. */
static void level_add(struct book *book, const struct book_order *order)
{
	struct book_side *side = side_of(book, order);
	uint32_t rank = rank_of(order), i = index_of(side, rank);

	if (i == side->count || side->levels[i].rank != rank) {
		memmove(&side->levels[i + 1], &side->levels[i],
			(side->count - i) * sizeof(*side->levels));
		side->levels[i] = (struct book_level){ .rank = rank };
		side->count++;
	}
	side->levels[i].size += order->shares;
	side->levels[i].orders++;
	touch(book, order->locate, side->count - 1 - i);
}

/* Takes an order's shares off its level, and removes the level if it has no order left. */
static void level_take(struct book *book, const struct book_order *order, uint32_t shares,
		       bool gone)
{
	struct book_side *side = side_of(book, order);
	uint32_t i = index_of(side, rank_of(order));
	struct book_level *level = &side->levels[i];

	touch(book, order->locate, side->count - 1 - i);
	level->size -= shares;
	level->orders -= gone;
	if (level->orders)
		return;
	side->count--;
	memmove(level, level + 1, (side->count - i) * sizeof(*level));
}

static void order_remove(struct book *book, struct book_order *order)
{
	level_take(book, order, order->shares, true);
	book_orders_remove(&book->orders, order);
}

static int add(struct book *book, const struct book_order *order)
{
	struct book_order *old = book_orders_find(&book->orders, order->reference);
	int flags = 0, result;

	if (old) {
		order_remove(book, old);
		flags = BOOK_LIVE;
	}
	result = reserve_level(side_of(book, order));
	if (!result)
		result = book_orders_reserve(&book->orders);
	if (result < 0)
		return result;
	level_add(book, order);
	book_orders_add(&book->orders, order);
	return flags;
}

int book_add(struct book *book, const struct book_order *order)
{
	book->touched_count = 0;
	return add(book, order);
}

int book_reduce(struct book *book, uint64_t reference, uint32_t shares, struct book_order *taken)
{
	struct book_order *order = book_orders_find(&book->orders, reference);
	int flags = 0;

	book->touched_count = 0;
	if (!order)
		return BOOK_UNKNOWN;
	*taken = *order;
	if (shares > order->shares)
		flags = BOOK_CLAMPED;
	if (shares >= order->shares) {
		order_remove(book, order);
		return flags;
	}
	taken->shares = shares;
	level_take(book, order, shares, false);
	order->shares -= shares;
	return flags;
}

int book_delete(struct book *book, uint64_t reference)
{
	struct book_order *order = book_orders_find(&book->orders, reference);

	book->touched_count = 0;
	if (!order)
		return BOOK_UNKNOWN;
	order_remove(book, order);
	return 0;
}

int book_replace(struct book *book, uint64_t reference, uint64_t new_reference, uint32_t shares,
		 uint32_t price)
{
	struct book_order *order = book_orders_find(&book->orders, reference), new;

	book->touched_count = 0;
	if (!order)
		return BOOK_UNKNOWN;
	new = *order;
	new.reference = new_reference;
	new.shares = shares;
	new.price = price;
	order_remove(book, order);
	return add(book, &new);
}
