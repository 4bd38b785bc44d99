/* SPDX-License-Identifier: Apache-2.0 */
/* The order books of all symbols of one feed; a symbol is its stock locate. This file is
 * independent of messages, names and records.
 *
 * Rules: an unknown reference has no effect, and neither has that of another symbol's order. A
 * quantity above the remaining shares is clamped to them. An order without remaining shares is
 * removed. If an added reference is live already, in any book, the old order is removed first.
 *
 * After a change, `touched` lists the symbols whose books changed, and how near to the best price,
 * so that a caller evaluates only those. It lists two symbols if an added reference was live in
 * another symbol's book, otherwise one symbol.
 *
 * Cost     a change costs at most the logarithm of the number of levels, whatever references and
 *          prices the feed's author chooses.
 *
 * Memory   grows with orders and near levels, doubling, and is freed by book_close. Each far level
 *          is allocated on its own. Nothing else allocates. */
#ifndef TICKBUS_FEEDS_BOOK_H
#define TICKBUS_FEEDS_BOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "publisher/feeds/market/book_far.h"
#include "publisher/feeds/market/book_orders.h"

#define BOOK_SYMBOLS  65536 /* a locate has 16 bits */
#define BOOK_BUY      0
#define BOOK_SELL     1
#define BOOK_NEAR_MIN 16 /* near levels of a side that has far levels */
#define BOOK_NEAR_MAX 256

struct book_side {
	struct book_level *levels; /* the near levels: ranks ascend; the best level is the last */
	uint16_t count, capacity;
	bool far;           /* there are worse levels, which are in the book's `far` */
	uint16_t forgotten; /* how often the side was forgotten: earlier orders are void */
};

struct book_symbol {
	struct book_side sides[2];
};

struct book_touch {
	uint16_t locate;
	uint32_t depth; /* number of levels better than the best changed level; 0: the best
			   changed. For a far level, the number of near levels */
};

struct book {
	struct book_orders orders;
	struct book_symbol *symbols; /* by locate */
	struct book_far (*far)[2];   /* by locate and side: the far levels */
	struct book_touch touched[2];
	unsigned touched_count; /* of the last change */
	size_t void_orders;     /* in the table, of symbols that were forgotten since */
};

/* Flags that a change returns. Or -ENOMEM: no memory for the new order, and the order that it
 * replaces is removed. -EOVERFLOW: there are BOOK_ORDERS_MAX orders. */
#define BOOK_UNKNOWN 0x1
#define BOOK_CLAMPED 0x2
#define BOOK_LIVE    0x4

/* 0 or -ENOMEM. */
int book_open(struct book *);

/* Takes a zeroed structure. */
void book_close(struct book *);

/* Empties all books. */
void book_clear(struct book *);

/* Sets `forgotten` of the order, and adds a copy. */
int book_add(struct book *, struct book_order *order);

/* Takes shares from an order. *taken is that order, with the shares that were taken. */
int book_reduce(struct book *, uint16_t locate, uint64_t reference, uint32_t shares,
		struct book_order *taken);

int book_delete(struct book *, uint16_t locate, uint64_t reference);

/* Removes all orders of a symbol, at most BOOK_FORGETS times. They are void at once, and leave the
 * table when their references come again. Touches the symbol. */
void book_forget(struct book *, uint16_t locate);
#define BOOK_FORGETS UINT16_MAX

/* The number of live orders. */
static inline size_t book_live(const struct book *book)
{
	return book->orders.count - book->void_orders;
}

/* The new order keeps side and symbol of the old order. */
int book_replace(struct book *, uint16_t locate, uint64_t reference, uint64_t new_reference,
		 uint32_t shares, uint32_t price);

/* The level with `depth` better levels before it, or NULL. Depth is below BOOK_NEAR_MIN. */
static inline const struct book_level *book_level(const struct book_side *side, uint32_t depth)
{
	return depth < side->count ? &side->levels[side->count - 1 - depth] : NULL;
}

static inline uint32_t book_price(unsigned side, const struct book_level *level)
{
	return side == BOOK_BUY ? level->rank : ~level->rank;
}

#endif
