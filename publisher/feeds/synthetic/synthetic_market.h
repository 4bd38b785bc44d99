/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the synthetic market: orders are added, changed, deleted and executed.
 *
 * Symbols are drawn by octaves of their rank, each octave with equal probability: the first symbol,
 * the next two, the next four ... This is Zipf's law in steps. Kinds of events are dealt from a
 * deck, so that every 256 events have each kind in its share. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_MARKET_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_MARKET_H

#include "publisher/feeds/synthetic/synthetic_book.h"
#include "publisher/feeds/synthetic/synthetic_tape.h"

#define SYNTHETIC_CARDS     256
#define SYNTHETIC_FILLS_MAX 4 /* messages of one event, at most */

struct synthetic_market {
	struct synthetic_random random;
	struct synthetic_tape tape;
	struct synthetic_symbol *symbols; /* by falling activity */
	uint32_t count, octaves;
	uint64_t live; /* orders resting in all books */
	uint64_t last_ref, last_match;
	uint64_t adds, executions;
	uint32_t dealt;
	uint8_t held; /* a card that did not fit the last symbol */
	uint8_t deck[SYNTHETIC_CARDS];
};

/* Sets the depth of each book to what its share of the expected messages can fill. */
void synthetic_market_init(struct synthetic_market *, uint64_t expected_messages);

/* Writes 1 to SYNTHETIC_FILLS_MAX messages about a symbol drawn by its activity. */
void synthetic_market_event(struct synthetic_market *);

/* Adds a new order on a side; deletes an order. */
void synthetic_market_add(struct synthetic_market *, struct synthetic_symbol *, unsigned side);
void synthetic_market_delete(struct synthetic_market *, struct synthetic_symbol *, unsigned side,
			     uint32_t index);

/* Before a cross, a message says how much is paired; the cross then trades that. */
void synthetic_market_imbalance(struct synthetic_market *, struct synthetic_symbol *, char cross);
void synthetic_market_cross(struct synthetic_market *, const struct synthetic_symbol *, char cross);

/* Takes a trade back. */
void synthetic_market_broken(struct synthetic_market *, const struct synthetic_symbol *,
			     uint64_t match);

/* The name of a market maker: four letters. */
const char *synthetic_market_maker(struct synthetic_market *);

#endif
