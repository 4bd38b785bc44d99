/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/synthetic/synthetic_book.h"

#include <string.h>

#define LETTERS 26u
#define CODES   (LETTERS * LETTERS * LETTERS * LETTERS)

/* The four-letter name with this number in alphabetical order. */
static void spell(char letters[4], uint32_t code)
{
	for (int i = 3; i >= 0; i--, code /= LETTERS)
		letters[i] = (char)('A' + code % LETTERS);
}

/* Most names have four letters, since few shorter names are free. */
static uint32_t name_length(struct synthetic_random *random)
{
	uint32_t draw = synthetic_random_below(random, 64);

	return draw < 1 ? 1 : draw < 3 ? 2 : draw < 11 ? 3 : draw < 54 ? 4 : 5;
}

/* A name is cut short only if no earlier name begins with the same letters. Names ascend, so they
 * stay unique and in alphabetical order. */
static void name_symbol(struct synthetic_symbol *symbol, const char word[4], const char before[4],
			struct synthetic_random *random)
{
	uint32_t length = name_length(random);

	memset(symbol->name, ' ', sizeof(symbol->name));
	while (length < 4 && !memcmp(word, before, length))
		length++;
	memcpy(symbol->name, word, length < 4 ? length : 4);
	if (length == 5)
		symbol->name[4] = "RUW"[synthetic_random_below(random, 3)];
}

/* $2 to $512, as many symbols between $2 and $4 as between $256 and $512. */
static void price_symbol(struct synthetic_symbol *symbol, struct synthetic_random *random)
{
	uint32_t octave = 200u << synthetic_random_below(random, 8);

	symbol->base = octave + synthetic_random_below(random, octave);
	symbol->fair = symbol->base;
	symbol->step = 1 + symbol->base / 8192;
}

void synthetic_book_list(struct synthetic_symbol *symbols, uint32_t *rank_of, uint32_t count,
			 struct synthetic_random *random)
{
	char before[4] = "";

	for (uint32_t i = 0; i < count; i++) {
		uint32_t j = synthetic_random_below(random, i + 1);

		rank_of[i] = rank_of[j];
		rank_of[j] = i;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct synthetic_symbol *symbol = &symbols[rank_of[i]];
		uint32_t width = CODES / count;
		char word[4];

		spell(word, i * width + synthetic_random_below(random, width));
		name_symbol(symbol, word, before, random);
		price_symbol(symbol, random);
		symbol->locate = (uint16_t)(i + 1);
		memcpy(before, word, sizeof(before));
	}
}

uint32_t synthetic_book_price(const struct synthetic_symbol *symbol, unsigned side,
			      struct synthetic_random *random)
{
	uint32_t steps = synthetic_random_small(random, 2u * symbol->depth);
	uint32_t away = steps * symbol->step + synthetic_random_below(random, symbol->step);
	const struct synthetic_order *best = symbol->orders[!side];
	uint32_t price;

	if (side == SYNTHETIC_BID) {
		price = symbol->fair - away;
		if (symbol->count[SYNTHETIC_ASK] && price >= best->price)
			price = best->price - 1;
	} else {
		price = symbol->fair + away + 1;
		if (symbol->count[SYNTHETIC_BID] && price <= best->price)
			price = best->price + 1;
	}
	return price;
}

uint32_t synthetic_book_middle(const struct synthetic_symbol *symbol)
{
	return 50 *
	       (symbol->orders[SYNTHETIC_BID][0].price + symbol->orders[SYNTHETIC_ASK][0].price);
}

void synthetic_book_insert(struct synthetic_symbol *symbol, unsigned side,
			   struct synthetic_order order)
{
	struct synthetic_order *orders = symbol->orders[side];
	uint32_t at = symbol->count[side]++;

	for (; at > 0; at--) {
		if (side == SYNTHETIC_BID ? orders[at - 1].price >= order.price
					  : orders[at - 1].price <= order.price)
			break;
		orders[at] = orders[at - 1];
	}
	orders[at] = order;
}

void synthetic_book_remove(struct synthetic_symbol *symbol, unsigned side, uint32_t index)
{
	struct synthetic_order *order = &symbol->orders[side][index];
	uint32_t behind = --symbol->count[side] - index;

	memmove(order, order + 1, behind * sizeof(*order));
}

void synthetic_book_wander(struct synthetic_symbol *symbol, struct synthetic_random *random)
{
	uint32_t range = symbol->base / 4;

	if (synthetic_random_below(random, 8))
		return;
	/* The fair price stays within the range and a step of its base. */
	if (synthetic_random_below(random, 2 * range) + symbol->fair < range + symbol->base)
		symbol->fair += symbol->step;
	else
		symbol->fair -= symbol->step;
}
