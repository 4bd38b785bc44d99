/* SPDX-License-Identifier: Apache-2.0 */
/* O-I1  Between the place an order's reference hashes to and the place it is in, no place is empty.
 */
#include "publisher/feeds/book_orders.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

#define BITS_FIRST 12

static_assert(sizeof(struct book_order) == 24, "orders are what the memory of a book is");

/* Exchanges number orders upwards: the golden ratio spreads neighbours far apart. */
static size_t home(const struct book_orders *orders, uint64_t reference)
{
	return (size_t)((reference * UINT64_C(0x9e3779b97f4a7c15)) >> orders->shift);
}

int book_orders_open(struct book_orders *orders)
{
	memset(orders, 0, sizeof(*orders));
	orders->places = calloc((size_t)1 << BITS_FIRST, sizeof(*orders->places));
	if (!orders->places)
		return error_set(ENOMEM, "order book: no memory");
	orders->mask = ((size_t)1 << BITS_FIRST) - 1;
	orders->shift = 64 - BITS_FIRST;
	return 0;
}

void book_orders_close(struct book_orders *orders)
{
	free(orders->places);
	memset(orders, 0, sizeof(*orders));
}

void book_orders_clear(struct book_orders *orders)
{
	memset(orders->places, 0, (orders->mask + 1) * sizeof(*orders->places));
	orders->count = 0;
}

struct book_order *book_orders_find(const struct book_orders *orders, uint64_t reference)
{
	for (size_t i = home(orders, reference); orders->places[i].live; i = (i + 1) & orders->mask)
		if (orders->places[i].reference == reference)
			return &orders->places[i];
	return NULL;
}

void book_orders_add(struct book_orders *orders, const struct book_order *order)
{
	size_t i = home(orders, order->reference);

	while (orders->places[i].live)
		i = (i + 1) & orders->mask;
	orders->places[i] = *order;
	orders->places[i].live = 1;
	orders->count++;
}

int book_orders_reserve(struct book_orders *orders)
{
	struct book_orders grown = *orders;

	if (orders->count < (orders->mask + 1) / 8 * 5)
		return 0;
	grown.mask = orders->mask * 2 + 1;
	grown.shift--;
	grown.count = 0;
	grown.places = calloc(grown.mask + 1, sizeof(*grown.places));
	if (!grown.places)
		return error_set(ENOMEM, "order book: no memory for %zu orders", grown.mask + 1);
	for (size_t i = 0; i <= orders->mask; i++)
		if (orders->places[i].live)
			book_orders_add(&grown, &orders->places[i]);
	free(orders->places);
	*orders = grown;
	return 0;
}

/* Each order after the hole that may stand in it (its home is not behind the hole) moves there, and
 * leaves a hole itself: keeps O-I1 without a mark for removed orders. */
void book_orders_remove(struct book_orders *orders, struct book_order *order)
{
	size_t mask = orders->mask, hole = (size_t)(order - orders->places);

	for (size_t i = (hole + 1) & mask; orders->places[i].live; i = (i + 1) & mask) {
		size_t from_home = (i - home(orders, orders->places[i].reference)) & mask;

		if (from_home < ((i - hole) & mask))
			continue;
		orders->places[hole] = orders->places[i];
		hole = i;
	}
	orders->places[hole].live = 0;
	orders->count--;
}
