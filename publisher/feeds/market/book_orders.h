/* SPDX-License-Identifier: Apache-2.0 */
/* Live orders by reference: an open-addressing table of groups of 7. A word has the tags of a
 * group, a few bits of each order's hash. A single comparison finds the orders whose tag is right,
 * and a free place. So a search takes few branches, and nearly always stays in its first group. The
 * tags are apart from the orders: a search misses the cache once, for the order.
 *
 * An order whose group is full passes it, and is put into the next group with room. Each group
 * counts the orders that passed it. Removing an order clears its tag and these counts, so the table
 * stays as fast after a hundred million orders.
 *
 * The feed's author chooses the references. The hash is fast, and good for the references of an
 * exchange. References that collide show by the length of a search. From then on the table
 * uses a hash with a random key, for which no choice of references is bad.
 *
 * Memory   176 bytes per group. Once there are enough orders, 3/8 to 3/4 of the places are in use.
 *          That is 34 to 67 bytes per order. For a moment there are two tables: 101 bytes while the
 *          table doubles, up to 134 when the hash changes. Huge pages are asked for: a search is in
 *          a page of its own. */
#ifndef TICKBUS_FEEDS_BOOK_ORDERS_H
#define TICKBUS_FEEDS_BOOK_ORDERS_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "bus/keyed.h"

/* Live orders of a feed. A large exchange has a few millions; a small file can decompress to any
 * number.
 */
#define BOOK_ORDERS_MAX   20000000
#define BOOK_ORDERS_GROUP 7
#define BOOK_ORDERS_STEPS 32 /* groups; a longer search with the fast hash ends its use */

struct book_order {
	uint64_t reference;
	uint32_t price;
	uint32_t shares;
	uint16_t locate;
	uint8_t side;
	uint16_t forgotten; /* of its side, when it was added */
};

/* A word about a group. Its first bytes are the tags of the places, 0: a free place. Its last byte
 * is the number of orders that passed the group. UINT8_MAX: so many or more, no longer counted. */
union book_orders_tags {
	uint64_t word;
	struct {
		uint8_t tags[BOOK_ORDERS_GROUP];
		uint8_t passed;
	};
};

struct book_orders {
	struct book_order (*groups)[BOOK_ORDERS_GROUP];
	union book_orders_tags *tags; /* of each group, behind the groups in memory */
	size_t mask;                  /* number of groups, a power of two, less 1 */
	unsigned shift;               /* 64 less the bits of mask */
	size_t count;
	size_t most; /* BOOK_ORDERS_MAX, or less in a test */
	struct keyed key;
	bool keyed; /* the hash uses the key; it does so until book_orders_close */
};

/* 0 or -ENOMEM. */
int book_orders_open(struct book_orders *);
void book_orders_close(struct book_orders *);
void book_orders_clear(struct book_orders *);

/* The order, or NULL. Valid until the next find, add or remove. */
struct book_order *book_orders_find(struct book_orders *, uint64_t reference);

/* Fetch memory before an order is needed. First the tags of its group. When these are in the cache:
 * the order itself, or the place where it will be added. */
void book_orders_fetch_tags(const struct book_orders *, uint64_t reference);
void book_orders_fetch(const struct book_orders *, uint64_t reference);

/* Makes room for one more order: 0, -ENOMEM, or -EOVERFLOW: there are BOOK_ORDERS_MAX. */
int book_orders_reserve(struct book_orders *);

/* Adds an order whose reference is not in the table, after book_orders_reserve. */
void book_orders_add(struct book_orders *, const struct book_order *order);

/* Removes what book_orders_find returned. */
void book_orders_remove(struct book_orders *, struct book_order *order);

#endif
