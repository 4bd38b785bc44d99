/* SPDX-License-Identifier: Apache-2.0 */
/* A symbol of the synthetic exchange, and the orders in its book.
 *
 * Y-I1  Each side lists its orders in matching order: best price first, then the oldest.
 * Y-I2  The best bid is below the best ask.
 * Y-I3  From its first two orders to the close neither side is empty: a market maker is always
 *     present.
 *
 * Prices are in cents, sizes are round lots. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_BOOK_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_BOOK_H

#include "publisher/feeds/synthetic/synthetic_random.h"

#include <stdbool.h>
#include <stdint.h>

#define SYNTHETIC_LOT       100u
#define SYNTHETIC_DEPTH_MAX 16
#define SYNTHETIC_ORDERS    (2 * SYNTHETIC_DEPTH_MAX)

enum { SYNTHETIC_BID, SYNTHETIC_ASK };

struct synthetic_order {
	uint64_t ref;
	uint32_t price;
	uint32_t shares;
};

struct synthetic_symbol {
	char name[8]; /* padded with spaces, as in the messages */
	uint16_t locate;
	bool halted;
	uint8_t depth;   /* mean number of orders per side; at most twice that */
	uint32_t base;   /* the fair price moves around it */
	uint32_t fair;   /* the current fair price; it is in no message */
	uint32_t step;   /* by which prices move, in cents; larger for high prices */
	uint32_t paired; /* shares that the next cross trades */
	uint32_t count[2];
	struct synthetic_order orders[2][SYNTHETIC_ORDERS];
};

/* Lists `count` symbols by falling activity. rank_of[i] is the index in that list of the i-th name
 * in alphabetical order, whose locate is i + 1. Any likeness to a listed name is chance. */
void synthetic_book_list(struct synthetic_symbol *, uint32_t *rank_of, uint32_t count,
			 struct synthetic_random *);

/* The price of a new order on this side now; it never crosses the other side. */
uint32_t synthetic_book_price(const struct synthetic_symbol *, unsigned side,
			      struct synthetic_random *);

/* The middle of best bid and best ask, in a message's price units (cents x 100). */
uint32_t synthetic_book_middle(const struct synthetic_symbol *);

void synthetic_book_insert(struct synthetic_symbol *, unsigned side, struct synthetic_order);
void synthetic_book_remove(struct synthetic_symbol *, unsigned side, uint32_t index);

/* Sometimes moves the fair price a step; more likely towards the base, the farther away it is. */
void synthetic_book_wander(struct synthetic_symbol *, struct synthetic_random *);

/* The octave of a rank: 0, 1 1, 2 2 2 2, 3 ... */
static inline uint32_t synthetic_book_octave(uint32_t rank)
{
	return 31 - (uint32_t)__builtin_clz(rank + 1);
}

#endif
