/* SPDX-License-Identifier: Apache-2.0 */
/* Names of instruments: from the cache, else from the directory in the topic's memory. */
#ifndef TICKBUS_SUBSCRIBER_NAMES_H
#define TICKBUS_SUBSCRIBER_NAMES_H

#include "subscriber/state.h"

/* Returns 1 if the name is in the cache now, 0 if it comes later. Returns -EAGAIN if the directory
 * has no valid name for the instrument. */
int names_fetch(struct tb_source *, uint32_t instrument);
/* The same for a reader of the whole directory: no record waits for the name. */
int names_fetch_all(struct tb_source *, uint32_t instrument);
/* Adds entries that were READ into `landed` to the cache. */
void names_take_run(struct tb_source *, uint32_t first, uint32_t count, const char *landed);
/* Adds the fetched entries in the landing's page to the cache. Returns whether the name that
 * names_fetch() wanted is in it. */
bool names_take(struct tb_source *);

#endif
