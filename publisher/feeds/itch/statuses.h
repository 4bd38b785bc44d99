/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a symbol, merged from the messages about it. A message changes its own part, and
 * the other parts stay. What no message said yet is null. */
#ifndef TICKBUS_FEEDS_STATUSES_H
#define TICKBUS_FEEDS_STATUSES_H

#include <stdbool.h>

#include "publisher/feeds/itch/itch.h"
#include "schemas/status.h"

/* True for messages about the whole market: S, V and W. */
bool statuses_wide(const struct itch_message *);

/* Takes the part of a message: H, h, Y and J, and those about the whole market. False: an
 * operational halt of a market that the status has no field for; nothing changed. */
bool statuses_merge(struct tb_status *, const struct itch_message *);

#endif
