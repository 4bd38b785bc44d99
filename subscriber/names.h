/* SPDX-License-Identifier: Apache-2.0 */
/* Names of instruments: from the cache, else from the directory in the topic's memory. */
#ifndef TICKBUS_SUBSCRIBER_NAMES_H
#define TICKBUS_SUBSCRIBER_NAMES_H

#include "subscriber/state.h"

/* The instrument's name, from the cache or the directory: 1 there, 0 not now, -EAGAIN none. */
int names_fetch(struct tb_source *, uint32_t instrument);
/* Takes the entries that were fetched into the landing's page; whether the name that was wanted is
 * one of them. */
bool names_take(struct tb_source *);

#endif
