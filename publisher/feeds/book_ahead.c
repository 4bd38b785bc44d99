/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/book_ahead.h"

#include "publisher/feeds/itch_decode.h"

/* Adds, executions, cancels, deletes and replaces have a reference at the same place. */
#define REFERENCE_AT  11
#define REFERENCE_END 19
#define LINE_BYTES    64

/* An order is behind its tags, and a side's levels behind a pointer. So tags and symbol are fetched
 * first, and the order and its best levels some messages later. */
uint16_t book_ahead(struct book_ahead *ahead, const struct book *book, const uint8_t *bytes,
		    size_t length)
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
	if (length < REFERENCE_END)
		return 0;
	ahead->kept[at].locate = itch_get_uint16_t(bytes + 1);
	ahead->kept[at].reference = itch_get_uint64_t(bytes + REFERENCE_AT);
	book_orders_fetch_tags(&book->orders, ahead->kept[at].reference);
	__builtin_prefetch(&book->symbols[ahead->kept[at].locate], 1);
	return ahead->kept[at].locate;
}
