/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches what a later message will need of the books into the cache. It changes nothing, and needs
 * no check of the message: a wrong message fetches memory in vain. */
#ifndef TICKBUS_FEEDS_BOOK_AHEAD_H
#define TICKBUS_FEEDS_BOOK_AHEAD_H

#include <stdint.h>

#include "publisher/feeds/market/book.h"

#define BOOK_AHEAD_STEP 4 /* messages between the two steps of book_ahead */

/* Zeros at first. */
struct book_ahead {
	struct {
		uint64_t reference;
		uint16_t locate;
	} kept[BOOK_AHEAD_STEP]; /* messages of the first step */
	unsigned int next;
};

/* The symbol and the order of a message that is about twice as many messages ahead. */
void book_ahead(struct book_ahead *, const struct book *, uint16_t locate, uint64_t reference);

#endif
