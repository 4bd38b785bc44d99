/* SPDX-License-Identifier: Apache-2.0 */
/* O-I1  Between the entry that a reference hashes to and the entry that holds it, no entry is
 *       empty.
 * O-I2  With the fast hash, at most one operation takes more than BOOK_ORDERS_STEPS steps. */
#include "publisher/feeds/book_orders.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"

#define BITS_FIRST 12

static_assert(sizeof(struct book_order) == 24, "orders are what the memory of a book is");

/* Exchanges number orders upwards: the golden ratio spreads neighbours far apart. Inlined, so that
 * the fast hash does not pay for the other. */
static inline __attribute__((always_inline)) size_t home(const struct book_orders *orders,
							 uint64_t reference, bool keyed)
{
	uint64_t hash = keyed ? keyed_hash(&orders->key, &reference, sizeof(reference))
			      : reference * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(hash >> orders->shift);
}

int book_orders_open(struct book_orders *orders)
{
	memset(orders, 0, sizeof(*orders));
	orders->entries = calloc((size_t)1 << BITS_FIRST, sizeof(*orders->entries));
	if (!orders->entries)
		return error_set(ENOMEM, "order book: no memory");
	orders->mask = ((size_t)1 << BITS_FIRST) - 1;
	orders->shift = 64 - BITS_FIRST;
	orders->most = BOOK_ORDERS_MAX;
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

/* The entry that holds the reference, or the empty entry where it belongs. */
static size_t search(const struct book_orders *orders, size_t from, uint64_t reference)
{
	while (orders->entries[from].live && orders->entries[from].reference != reference)
		from = (from + 1) & orders->mask;
	return from;
}

/* Moves all orders to a table of the given shape and hash: 0 or -ENOMEM. */
static int move(struct book_orders *orders, struct book_orders *to)
{
	to->entries = calloc(to->mask + 1, sizeof(*to->entries));
	if (!to->entries)
		return error_set(ENOMEM, "order book: no memory for %zu orders", to->mask + 1);
	for (size_t i = 0; i <= orders->mask; i++) {
		uint64_t reference = orders->entries[i].reference;

		if (orders->entries[i].live)
			to->entries[search(to, home(to, reference, to->keyed), reference)] =
				orders->entries[i];
	}
	free(orders->entries);
	*orders = *to;
	return 0;
}

static bool too_long(const struct book_orders *orders, size_t from, size_t to)
{
	return ((to - from) & orders->mask) > BOOK_ORDERS_STEPS;
}

/* Ends the use of the fast hash. Without memory or a random number, the next long search tries it
 * again. */
static __attribute__((noinline)) void use_key(struct book_orders *orders)
{
	struct book_orders to = *orders;

	to.keyed = true;
	if (keyed_open(&to.key) == 0)
		move(orders, &to);
}

static struct book_order *found(const struct book_orders *orders, size_t at)
{
	return orders->entries[at].live ? &orders->entries[at] : NULL;
}

static __attribute__((noinline)) struct book_order *find_keyed(const struct book_orders *orders,
							       uint64_t reference)
{
	return found(orders, search(orders, home(orders, reference, orders->keyed), reference));
}

static __attribute__((noinline)) struct book_order *find_long(struct book_orders *orders,
							      uint64_t reference)
{
	use_key(orders);
	return find_keyed(orders, reference);
}

struct book_order *book_orders_find(struct book_orders *orders, uint64_t reference)
{
	size_t from, at;

	if (orders->keyed)
		return find_keyed(orders, reference);
	from = home(orders, reference, false);
	at = search(orders, from, reference);
	return too_long(orders, from, at) ? find_long(orders, reference) : found(orders, at);
}

void book_orders_fetch(const struct book_orders *orders, uint64_t reference)
{
	const char *entry;

	if (orders->keyed)
		return;
	entry = (const char *)&orders->entries[home(orders, reference, false)];
	__builtin_prefetch(entry, 1);
	__builtin_prefetch(entry + 63, 1);
}

static void put(struct book_orders *orders, size_t at, const struct book_order *order)
{
	orders->entries[at] = *order;
	orders->entries[at].live = 1;
	orders->count++;
}

static __attribute__((noinline)) void add_keyed(struct book_orders *orders,
						const struct book_order *order)
{
	put(orders, search(orders, home(orders, order->reference, true), order->reference), order);
}

void book_orders_add(struct book_orders *orders, const struct book_order *order)
{
	size_t from, at;

	if (orders->keyed) {
		add_keyed(orders, order);
		return;
	}
	from = home(orders, order->reference, false);
	at = search(orders, from, order->reference);
	put(orders, at, order);
	if (too_long(orders, from, at))
		use_key(orders);
}

int book_orders_reserve(struct book_orders *orders)
{
	struct book_orders to = *orders;

	if (orders->count >= orders->most)
		return error_set(
			EOVERFLOW,
			"order book: found another order beside %zu live orders, expected at "
			"most that many",
			orders->count);
	if (orders->count < (orders->mask + 1) / 8 * 5)
		return 0;
	to.mask = orders->mask * 2 + 1;
	to.shift--;
	return move(orders, &to);
}

/* Moves each later order that may stand in the hole into it (its home is not behind the hole),
 * which makes the next hole. This keeps O-I1 without a mark for removed orders. Returns the first
 * empty entry behind. */
static inline __attribute__((always_inline)) size_t take_out(struct book_orders *orders,
							     size_t hole, bool keyed)
{
	size_t mask = orders->mask, i;

	for (i = (hole + 1) & mask; orders->entries[i].live; i = (i + 1) & mask) {
		size_t from_home = (i - home(orders, orders->entries[i].reference, keyed)) & mask;

		if (from_home < ((i - hole) & mask))
			continue;
		orders->entries[hole] = orders->entries[i];
		hole = i;
	}
	orders->entries[hole].live = 0;
	orders->count--;
	return i;
}

static __attribute__((noinline)) void remove_keyed(struct book_orders *orders, size_t at)
{
	take_out(orders, at, true);
}

void book_orders_remove(struct book_orders *orders, struct book_order *order)
{
	size_t at = (size_t)(order - orders->entries);

	if (orders->keyed)
		remove_keyed(orders, at);
	else if (too_long(orders, at, take_out(orders, at, false)))
		use_key(orders);
}
