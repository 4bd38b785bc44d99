/* SPDX-License-Identifier: Apache-2.0 */
/* Fetching a part of a topic's memory that is not a slot: header, progress line, names. */
#ifndef TICKBUS_SUBSCRIBER_FETCH_H
#define TICKBUS_SUBSCRIBER_FETCH_H

#include "subscriber/state.h"
#include "subscriber/tag.h"

#define POLL_PAGE_MS 1 /* READs of an idle topic's progress line are at least this far apart */

/* Fetches bytes of the region into the landing's page, now where there is a view, else by a READ.
 * Returns 1 if they are there, and the caller goes on; 0 if the READ's completion brings them;
 * -errno. Calls nothing of the caller's. */
int fetch(struct tb_source *, enum read_kind, uint64_t offset, uint32_t bytes);

#endif
