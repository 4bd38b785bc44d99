/* SPDX-License-Identifier: Apache-2.0 */
/* The near levels of a side are an array with the best level at its end. Most changes happen there,
 * where searching and moving are short. When the array has reached its bound, its worse half moves
 * to the far levels. When it is nearly used up, the best far levels move back. Many changes lie
 * between two moves, so that a move costs each of them a few steps.
 *
 * K-I1  A level exists if and only if a live order has its price. Its size and order count are sums
 *       over those orders.
 * K-I2  Each near level is better than each far level.
 * K-I3  If there is a far level, there are at least BOOK_NEAR_MIN near levels. */
#include "publisher/feeds/market/book.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

#define LEVELS_FIRST 8
#define HALF         (BOOK_NEAR_MAX / 2)
#define NEAR         8 /* levels searched one by one from the best, before a binary search */

static_assert(sizeof(struct book_level) == 16, "compared bytewise: no padding");
static_assert(2 * BOOK_NEAR_MIN < HALF, "many changes between two moves");

int book_open(struct book *book)
{
	memset(book, 0, sizeof(*book));
	book->symbols = calloc(BOOK_SYMBOLS, sizeof(*book->symbols));
	book->far = calloc(BOOK_SYMBOLS, sizeof(*book->far));
	if (!book->symbols || !book->far)
		return error_set(ENOMEM, "order book: no memory");
	return book_orders_open(&book->orders);
}

static void levels_clear(struct book *book, unsigned locate, unsigned side)
{
	struct book_side *levels = &book->symbols[locate].sides[side];

	levels->count = 0;
	if (levels->far)
		book_far_clear(&book->far[locate][side]);
	levels->far = false;
}

void book_close(struct book *book)
{
	for (unsigned i = 0; book->far && book->symbols && i < BOOK_SYMBOLS * 2; i++) {
		levels_clear(book, i / 2, i % 2);
		free(book->symbols[i / 2].sides[i % 2].levels);
	}
	free(book->symbols);
	free(book->far);
	book_orders_close(&book->orders);
	memset(book, 0, sizeof(*book));
}

void book_clear(struct book *book)
{
	book->void_orders = 0;
	for (unsigned i = 0; i < BOOK_SYMBOLS * 2; i++)
		levels_clear(book, i / 2, i % 2);
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

/* The levels go, as each was made for an order. Finding the orders would cost a search of the whole
 * table, however often a hostile feed asks for it. */
void book_forget(struct book *book, uint16_t locate)
{
	book->touched_count = 0;
	for (unsigned side = 0; side < 2; side++) {
		struct book_side *levels = &book->symbols[locate].sides[side];

		for (uint32_t i = 0; i < levels->count; i++)
			book->void_orders += levels->levels[i].orders;
		book->void_orders += book_far_orders(&book->far[locate][side]);
		levels_clear(book, locate, side);
		levels->forgotten++;
	}
	touch(book, locate, 0);
}

static struct book_side *side_of(const struct book *book, const struct book_order *order)
{
	return &book->symbols[order->locate].sides[order->side];
}

static struct book_far *far_of(const struct book *book, const struct book_order *order)
{
	return &book->far[order->locate][order->side];
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

static bool is_far(const struct book_side *side, uint32_t rank)
{
	return side->far && rank < side->levels[0].rank;
}

/* On an error, the levels that have moved stay far. */
static __attribute__((noinline)) int move_out(struct book_side *side, struct book_far *far)
{
	uint32_t moved = 0;
	int result = 0;

	while (moved < HALF && result == 0) {
		result = book_far_add(far, &side->levels[moved]);
		moved += result == 0;
	}
	side->count = (uint16_t)(side->count - moved);
	side->far = far->count;
	memmove(side->levels, side->levels + moved, side->count * sizeof(*side->levels));
	return result;
}

static __attribute__((noinline)) void move_back(struct book_side *side, struct book_far *far)
{
	const uint32_t room = HALF - side->count;
	const uint32_t moved = far->count < room ? far->count : room;

	memmove(side->levels + moved, side->levels, side->count * sizeof(*side->levels));
	side->count = (uint16_t)(side->count + moved);
	for (uint32_t i = moved; i--;) {
		struct book_level *best = book_far_best(far);

		side->levels[i] = *best;
		book_far_remove(far, best);
	}
	side->far = far->count;
}

static __attribute__((noinline)) int reserve_near(struct book_side *side)
{
	const unsigned capacity = side->capacity ? side->capacity * 2u : LEVELS_FIRST;
	struct book_level *levels = reallocarray(side->levels, capacity, sizeof(*levels));

	if (!levels)
		return error_set(ENOMEM, "order book: no memory for %u price levels", capacity);
	side->levels = levels;
	side->capacity = (uint16_t)capacity;
	return 0;
}

static __attribute__((noinline)) int reserve_far(struct book_far *far, uint32_t rank)
{
	const struct book_level empty = { .rank = rank };

	return book_far_find(far, rank) ? 0 : book_far_add(far, &empty);
}

/* Makes room for an order. After 0, level_add has to follow (K-I1). */
static int reserve_level(struct book *book, const struct book_order *order)
{
	struct book_side *side = side_of(book, order);
	int result;

	if (side->count == BOOK_NEAR_MAX) {
		result = move_out(side, far_of(book, order));
		if (result < 0)
			return result;
	}
	if (is_far(side, rank_of(order)))
		return reserve_far(far_of(book, order), rank_of(order));
	return side->count < side->capacity ? 0 : reserve_near(side);
}

static __attribute__((noinline)) void far_add(struct book *book, const struct book_order *order)
{
	struct book_level *level = book_far_find(far_of(book, order), rank_of(order));

	level->size += order->shares;
	level->orders++;
	touch(book, order->locate, side_of(book, order)->count);
}

static __attribute__((noinline)) void far_take(struct book *book, const struct book_order *order,
					       uint32_t shares, bool gone)
{
	struct book_side *side = side_of(book, order);
	struct book_far *far = far_of(book, order);
	struct book_level *level = book_far_find(far, rank_of(order));

	touch(book, order->locate, side->count);
	level->size -= shares;
	level->orders -= gone;
	if (level->orders)
		return;
	book_far_remove(far, level);
	side->far = far->count;
}

/* After reserve_level. */
static void level_add(struct book *book, const struct book_order *order)
{
	struct book_side *side = side_of(book, order);
	uint32_t rank = rank_of(order), i;

	if (is_far(side, rank)) {
		far_add(book, order);
		return;
	}
	i = index_of(side, rank);
	if (i == side->count || side->levels[i].rank != rank) {
		memmove(&side->levels[i + 1], &side->levels[i],
			(side->count - i) * sizeof(*side->levels));
		side->levels[i] = (struct book_level){ .rank = rank };
		side->count++;
	}
	side->levels[i].size += order->shares;
	side->levels[i].orders++;
	touch(book, order->locate, side->count - 1u - i);
}

/* Takes an order's shares off its level, and removes the level if it has no order left. */
static void level_take(struct book *book, const struct book_order *order, uint32_t shares,
		       bool gone)
{
	struct book_side *side = side_of(book, order);
	struct book_level *level;
	uint32_t i;

	if (is_far(side, rank_of(order))) {
		far_take(book, order, shares, gone);
		return;
	}
	i = index_of(side, rank_of(order));
	level = &side->levels[i];
	touch(book, order->locate, side->count - 1u - i);
	level->size -= shares;
	level->orders -= gone;
	if (level->orders)
		return;
	side->count--;
	memmove(level, level + 1, (side->count - i) * sizeof(*level));
	if (side->far && side->count < BOOK_NEAR_MIN)
		move_back(side, far_of(book, order));
}

static void order_remove(struct book *book, struct book_order *order)
{
	level_take(book, order, order->shares, true);
	book_orders_remove(&book->orders, order);
}

static __attribute__((noinline)) struct book_order *void_remove(struct book *book,
								struct book_order *order)
{
	book_orders_remove(&book->orders, order);
	book->void_orders--;
	return NULL;
}

/* The live order, or NULL. */
static inline struct book_order *find(struct book *book, uint64_t reference)
{
	struct book_order *order = book_orders_find(&book->orders, reference);

	if (order && __builtin_expect(order->forgotten != side_of(book, order)->forgotten, 0))
		return void_remove(book, order);
	return order;
}

/* The live order of a symbol, or NULL. */
static inline struct book_order *find_of(struct book *book, uint16_t locate, uint64_t reference)
{
	struct book_order *order = find(book, reference);

	return order && order->locate == locate ? order : NULL;
}

static int add(struct book *book, const struct book_order *order)
{
	struct book_order *old = find(book, order->reference);
	int flags = 0, result;

	if (old) {
		order_remove(book, old);
		flags = BOOK_LIVE;
	}
	result = book_orders_reserve(&book->orders);
	if (!result)
		result = reserve_level(book, order);
	if (result < 0)
		return result;
	level_add(book, order);
	book_orders_add(&book->orders, order);
	return flags;
}

int book_add(struct book *book, struct book_order *order)
{
	order->forgotten = side_of(book, order)->forgotten;
	book->touched_count = 0;
	return add(book, order);
}

int book_reduce(struct book *book, uint16_t locate, uint64_t reference, uint32_t shares,
		struct book_order *taken)
{
	struct book_order *order = find_of(book, locate, reference);
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

int book_delete(struct book *book, uint16_t locate, uint64_t reference)
{
	struct book_order *order = find_of(book, locate, reference);

	book->touched_count = 0;
	if (!order)
		return BOOK_UNKNOWN;
	order_remove(book, order);
	return 0;
}

int book_replace(struct book *book, uint16_t locate, uint64_t reference, uint64_t new_reference,
		 uint32_t shares, uint32_t price)
{
	struct book_order *order = find_of(book, locate, reference), new;

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
