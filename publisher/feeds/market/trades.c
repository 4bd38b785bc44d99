/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/market/trades.h"

/* The i-th trade, 0 the newest. */
static uint32_t place(const struct trades *trades, uint32_t i)
{
	return (trades->next - 1 - i) % TRADES_KEPT;
}

void trades_add(struct trades *trades, const struct tb_trade *trade)
{
	trades->kept[trades->next++ % TRADES_KEPT] = *trade;
	trades->count += trades->count < TRADES_KEPT;
}

const struct tb_trade *trades_newest(const struct trades *trades)
{
	return trades->count ? &trades->kept[place(trades, 0)] : NULL;
}

bool trades_break(struct trades *trades, uint64_t match)
{
	const struct tb_trade *newest = trades_newest(trades);
	const bool was_newest = newest && newest->match_id == match;
	struct trades standing = { 0 };

	for (uint32_t i = trades->count; i--;)
		if (trades->kept[place(trades, i)].match_id != match)
			trades_add(&standing, &trades->kept[place(trades, i)]);
	*trades = standing;
	return was_newest;
}
