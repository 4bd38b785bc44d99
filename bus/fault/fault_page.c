/* SPDX-License-Identifier: Apache-2.0 */
#include "bus/fault/fault_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/fault/fault_link.h"

#define WORD           8
#define FREEZE_NS      UINT64_C(100000000) /* the shortest freeze */
#define FREEZE_MORE_NS UINT64_C(2900000000)

int fault_page_open(struct fault_page *page, uint64_t bytes)
{
	page->shadow = calloc(1, bytes);
	page->known = calloc(bytes / WORD + 1, sizeof(*page->known));
	if (page->shadow && page->known)
		return 0;
	fault_page_close(page);
	return error_set(ENOMEM, "fault: no memory for a copy of %llu bytes",
			 (unsigned long long)bytes);
}

void fault_page_close(struct fault_page *page)
{
	free(page->shadow);
	free(page->known);
	*page = (struct fault_page){ 0 };
}

static bool is_frozen(const struct fault_link *link)
{
	return link->frozen_ns != 0 && clock_ns() < link->frozen_ns;
}

void fault_page_asked(struct fault_link *link, const struct fault_page *page)
{
	uint64_t more_ns;

	if (!page->shadow || is_frozen(link) || !fault_chance_met(&link->chance, FAULT_FREEZE))
		return;
	fault_counted(FAULT_FREEZE);
	more_ns = fault_chance_below(&link->chance, FAULT_FREEZE, FREEZE_MORE_NS + 1);
	link->frozen_ns = clock_ns() + FREEZE_NS + more_ns;
}

bool fault_page_landed(struct fault_link *link, struct fault_page *page, uint64_t offset,
		       void *landed, uint32_t bytes)
{
	const bool frozen = page->shadow && is_frozen(link);
	uint8_t *into = landed;

	for (uint32_t at = 0; page->shadow && at < bytes; at += WORD) {
		const uint32_t size = bytes - at < WORD ? bytes - at : WORD;
		bool *known = &page->known[(offset + at) / WORD];

		if (frozen && *known)
			memcpy(into + at, page->shadow + offset + at, size);
		else
			memcpy(page->shadow + offset + at, into + at, size);
		*known = true;
	}
	return frozen;
}
