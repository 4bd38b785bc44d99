/* SPDX-License-Identifier: Apache-2.0 */
/* O-I1  Between the entry that a reference hashes to and the entry that holds it, no entry is
 *       empty. */
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
	orders->entries = calloc((size_t)1 << BITS_FIRST, sizeof(*orders->entries));
	if (!orders->entries)
		return error_set(ENOMEM, "order book: no memory");
	orders->mask = ((size_t)1 << BITS_FIRST) - 1;
	orders->shift = 64 - BITS_FIRST;
	return 0;
}

void book_orders_close(struct book_orders *orders)
{
	free(orders->entries);
	memset(orders, 0, sizeof(*orders));
}

void book_orders_clear(struct book_orders *orders)
{
	memset(orders->entries, 0, (orders->mask + 1) * sizeof(*orders->entries));
	orders->count = 0;
}

struct book_order *book_orders_find(const struct book_orders *orders, uint64_t reference)
{
	for (size_t i = home(orders, reference); orders->entries[i].live;
	     i = (i + 1) & orders->mask)
		if (orders->entries[i].reference == reference)
			return &orders->entries[i];
	return NULL;
}

void book_orders_add(struct book_orders *orders, const struct book_order *order)
{
	size_t i = home(orders, order->reference);

	while (orders->entries[i].live)
		i = (i + 1) & orders->mask;
	orders->entries[i] = *order;
	orders->entries[i].live = 1;
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
	grown.entries = calloc(grown.mask + 1, sizeof(*grown.entries));
	if (!grown.entries)
		return error_set(ENOMEM, "order book: no memory for %zu orders", grown.mask + 1);
	for (size_t i = 0; i <= orders->mask; i++)
		if (orders->entries[i].live)
			book_orders_add(&grown, &orders->entries[i]);
	free(orders->entries);
	*orders = grown;
	return 0;
}

/* Moves each later order that may stand in the hole into it (its home is not behind the hole),
 * which makes the next hole. This keeps O-I1 without a mark for removed orders. */
void book_orders_remove(struct book_orders *orders, struct book_order *order)
{
	size_t mask = orders->mask, hole = (size_t)(order - orders->entries);

	for (size_t i = (hole + 1) & mask; orders->entries[i].live; i = (i + 1) & mask) {
		size_t from_home = (i - home(orders, orders->entries[i].reference)) & mask;

		if (from_home < ((i - hole) & mask))
			continue;
		orders->entries[hole] = orders->entries[i];
		hole = i;
	}
	orders->entries[hole].live = 0;
	orders->count--;
}
