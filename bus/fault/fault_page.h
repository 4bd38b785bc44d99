/* SPDX-License-Identifier: Apache-2.0 */
/* The region that came with the welcome, which a fault freezes: READs land what they landed before.
 * What no READ landed before the freeze is as the first READ finds it. */
#ifndef TICKBUS_BUS_FAULT_PAGE_H
#define TICKBUS_BUS_FAULT_PAGE_H

#include <stdbool.h>
#include <stdint.h>

struct fault_link;

struct fault_page {
	uint8_t *shadow; /* what READs landed; NULL: the region does not freeze */
	bool *known;     /* of each word of the shadow */
};

/* 0, or -ENOMEM with a text. */
int fault_page_open(struct fault_page *, uint64_t bytes);
void fault_page_close(struct fault_page *);

/* A READ of the region is posted: draws whether it freezes. */
void fault_page_asked(struct fault_link *, const struct fault_page *);

/* A READ of the region has landed. If the region is frozen, replaces what landed, and returns true.
 */
bool fault_page_landed(struct fault_link *, struct fault_page *, uint64_t offset, void *landed,
		       uint32_t bytes);

#endif
