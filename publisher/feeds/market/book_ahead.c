/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/market/book_ahead.h"

#define LINE_BYTES 64

/* An order is behind its tags, and a side's levels behind a pointer. So tags and symbol are fetched
 * first, and the order and its best levels some messages later. */
void book_ahead(struct book_ahead *ahead, const struct book *book, uint16_t locate,
		uint64_t reference)
{
	const unsigned int at = ahead->next;
	const struct book_side *sides = book->symbols[ahead->kept[at].locate].sides;

	ahead->next = (at + 1) % BOOK_AHEAD_STEP;
	book_orders_fetch(&book->orders, ahead->kept[at].reference);
	for (unsigned int side = 0; side < 2; side++) {
		const uintptr_t end =
			(uintptr_t)sides[side].levels +
			sides[side].count * sizeof(struct book_level); /* NULL without levels */

		__builtin_prefetch((const void *)end, 1);
		__builtin_prefetch((const void *)(end - LINE_BYTES), 1);
	}
	ahead->kept[at].locate = locate;
	ahead->kept[at].reference = reference;
	book_orders_fetch_tags(&book->orders, reference);
	__builtin_prefetch(&book->symbols[locate], 1);
}
