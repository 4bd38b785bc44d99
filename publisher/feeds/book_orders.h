/* SPDX-License-Identifier: Apache-2.0 */
/* Live orders by their reference: an open-addressing table, since a feed asks it once or twice for
 * each message and nearly always misses the cache. One miss finds an order with all that is known
 * of it; removing leaves no trace behind (the entries after it move up), so that a day of a hundred
 * million orders is as fast at its end as at its beginning.
 *
 * Memory   24 bytes a place, at least 5 of 16 and at most 5 of 8 of them used once there were
 *          enough orders: 38 to 77 bytes an order, 116 for a moment while the table doubles. */
#ifndef TICKBUS_FEEDS_BOOK_ORDERS_H
#define TICKBUS_FEEDS_BOOK_ORDERS_H

#include <stddef.h>
#include <stdint.h>

struct book_order {
	uint64_t reference;
	uint32_t price;
	uint32_t shares;
	uint16_t locate;
	uint8_t live; /* 0: an empty place; so that a zeroed table is an empty one */
	uint8_t side;
};

struct book_orders {
	struct book_order *entries;
	size_t mask;    /* number of entries, a power of two, less 1 */
	unsigned shift; /* 64 less the bits of mask */
	size_t count;
};

/* 0 or -ENOMEM. */
int book_orders_open(struct book_orders *);
void book_orders_close(struct book_orders *);
void book_orders_clear(struct book_orders *);

/* The order, or NULL. Valid until the next add or remove. */
struct book_order *book_orders_find(const struct book_orders *, uint64_t reference);

/* Makes room for one more order: 0 or -ENOMEM. */
int book_orders_reserve(struct book_orders *);

/* Adds an order that is not there, after book_orders_reserve. */
void book_orders_add(struct book_orders *, const struct book_order *order);

/* Removes what book_orders_find returned. */
void book_orders_remove(struct book_orders *, struct book_order *order);

#endif
