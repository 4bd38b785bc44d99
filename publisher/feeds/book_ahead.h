/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches what a later message will need of the books into the cache. It changes nothing, and needs
 * no check of the message: a wrong one fetches memory in vain. */
#ifndef TICKBUS_FEEDS_BOOK_AHEAD_H
#define TICKBUS_FEEDS_BOOK_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "publisher/feeds/book.h"

#define BOOK_AHEAD_STEP 4 /* messages between the two steps of book_ahead */

/* Zeros at first. */
struct book_ahead {
	struct {
		uint64_t reference;
		uint16_t locate;
	} kept[BOOK_AHEAD_STEP]; /* messages of the first step */
	unsigned int next;
};

/* The message is about twice as many messages ahead. Returns its locate. */
uint16_t book_ahead(struct book_ahead *, const struct book *, const uint8_t *bytes, size_t length);

#endif
