/* SPDX-License-Identifier: Apache-2.0 */
/* Price levels of one side of a book, which are far from the best: a balanced tree. An array alone
 * would move all its levels for each new worst price. The array keeps the best levels, where most
 * changes happen, and this tree the others.
 *
 * Memory   a level is allocated on its own, and freed when it leaves the tree. */
#ifndef TICKBUS_FEEDS_BOOK_FAR_H
#define TICKBUS_FEEDS_BOOK_FAR_H

#include <stddef.h>
#include <stdint.h>

struct book_level {
	uint64_t size;
	uint32_t rank; /* the greater rank of a side is the better level: the price to buy at, the
			  complement of the price to sell at. book_price gives the price */
	uint32_t orders;
};

struct book_far {
	void *root; /* of tsearch(3); NULL: no levels */
	uint32_t count;
};

/* The level of this rank, or NULL. */
struct book_level *book_far_find(const struct book_far *, uint32_t rank);

/* Adds a copy of a level whose rank is not in the tree: 0 or -ENOMEM. */
int book_far_add(struct book_far *, const struct book_level *);

/* Removes what book_far_find or book_far_best returned. */
void book_far_remove(struct book_far *, struct book_level *);

/* The level with the greatest rank, or NULL. */
struct book_level *book_far_best(const struct book_far *);

void book_far_clear(struct book_far *);

/* The number of orders at all its levels. */
size_t book_far_orders(const struct book_far *);

#endif
