/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches a part of a topic's memory other than slots: header, progress line, names. */
#ifndef TICKBUS_SUBSCRIBER_FETCH_H
#define TICKBUS_SUBSCRIBER_FETCH_H

#include "subscriber/state.h"
#include "subscriber/tag.h"

#define RETRY_NS 1000000 /* pause before a fetch that was not possible or not valid is repeated */

/* Copies bytes of the region into the landing's page, at once where there is a view, else by a
 * READ. Returns 1 if the bytes are there: the caller goes on. Returns 0 if a READ brings them:
 * turn_reap() goes on. Returns -errno if neither is possible now. Calls no handler. */
int fetch(struct tb_source *, enum read_kind, uint64_t offset, uint32_t bytes);

#endif
