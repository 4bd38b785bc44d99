/* SPDX-License-Identifier: Apache-2.0 */
/* The last trades of a symbol, so that a broken trade leaves the trade before it as the value.
 *
 * A trade stands until the exchange breaks its match. The newest trade that stands is the symbol's
 * value. A trade that is older than the last TRADES_KEPT is forgotten. */
#ifndef TICKBUS_FEEDS_TRADES_H
#define TICKBUS_FEEDS_TRADES_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/trade.h"

#define TRADES_KEPT 8

struct trades {
	uint32_t next, count; /* place of the next trade, trades that stand */
	struct tb_trade kept[TRADES_KEPT];
};

void trades_add(struct trades *, const struct tb_trade *);

/* The newest trade that stands and is known, or NULL. */
const struct tb_trade *trades_newest(const struct trades *);

/* Forgets all trades of a match. True if the newest trade was among them. */
bool trades_break(struct trades *, uint64_t match);

#endif
