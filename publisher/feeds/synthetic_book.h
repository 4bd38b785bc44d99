/* SPDX-License-Identifier: Apache-2.0 */
/* A symbol of the synthetic exchange, and the orders that rest in its book.
 *
 * I1  Each side lists its orders as they would match: best price first, then the oldest.
 * I2  The best bid is below the best ask.
 * I3  From its first two orders to the close neither side is empty: a market maker is always there.
 *
 * Prices are in cents, sizes are round lots. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_BOOK_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_BOOK_H

#include "publisher/feeds/synthetic_random.h"

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
	uint8_t depth;   /* orders a side has in the mean; never more than twice that */
	uint32_t base;   /* the fair price wanders around it */
	uint32_t fair;   /* what the market thinks it is worth now; seen in no message */
	uint32_t step;   /* by which prices move: cents, more of them for high prices */
	uint32_t paired; /* shares that the next cross will trade */
	uint32_t count[2];
	struct synthetic_order orders[2][SYNTHETIC_ORDERS];
};

/* Lists `count` symbols by falling activity; rank_of[i] is the place in there of the i-th name of
 * the alphabet, whose locate is i + 1. Likeness of a
 * name with a listed one is chance. */
void synthetic_book_list(struct synthetic_symbol *, uint32_t *rank_of, uint32_t count,
			 struct synthetic_random *);

/* Where an order on this side would be placed now, not crossing the other. */
uint32_t synthetic_book_price(const struct synthetic_symbol *, unsigned side,
			      struct synthetic_random *);

/* The middle of best bid and best ask, in a message's price units (cents x 100). */
uint32_t synthetic_book_middle(const struct synthetic_symbol *);

void synthetic_book_insert(struct synthetic_symbol *, unsigned side, struct synthetic_order);
void synthetic_book_remove(struct synthetic_symbol *, unsigned side, uint32_t index);

/* Now and then the fair price moves a step, the sooner towards the base the farther it is away. */
void synthetic_book_wander(struct synthetic_symbol *, struct synthetic_random *);

/* The octave of a rank: 0, 1 1, 2 2 2 2, 3 ... */
static inline uint32_t synthetic_book_octave(uint32_t rank)
{
	return 31 - (uint32_t)__builtin_clz(rank + 1);
}

#endif
