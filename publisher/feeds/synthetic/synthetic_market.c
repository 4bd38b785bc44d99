/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/synthetic/synthetic_market.h"

#include <string.h>

/* A turn adds or deletes an order, whichever keeps the book at its depth. */
enum { TURN, TRADE, REPLACE, CANCEL, HIDDEN, KINDS };

/* The number of cards of each kind; the others are turns. A trade is one or more executions. */
static const uint8_t cards[KINDS] = { [TRADE] = 6, [REPLACE] = 5, [CANCEL] = 1, [HIDDEN] = 1 };

void synthetic_market_init(struct synthetic_market *market, uint64_t expected_messages)
{
	uint32_t at = 0;

	for (uint8_t card = TRADE; card < KINDS; card++)
		for (unsigned i = 0; i < cards[card]; i++)
			market->deck[at++] = card;
	market->octaves = 1 + synthetic_book_octave(market->count - 1);
	for (uint32_t rank = 0; rank < market->count; rank++) {
		uint64_t share = (uint64_t)market->octaves << synthetic_book_octave(rank);
		uint64_t depth = expected_messages / share / 32;

		depth = depth < 2 ? 2 : depth > SYNTHETIC_DEPTH_MAX ? SYNTHETIC_DEPTH_MAX : depth;
		market->symbols[rank].depth = (uint8_t)depth;
	}
}

static uint32_t below(struct synthetic_market *market, uint32_t bound)
{
	return synthetic_random_below(&market->random, bound);
}

static uint32_t small(struct synthetic_market *market, uint32_t bound)
{
	return synthetic_random_small(&market->random, bound);
}

/* Most orders are of a few lots, some of many. */
static uint32_t draw_shares(struct synthetic_market *market)
{
	uint32_t lots = 1 + small(market, 10);

	return SYNTHETIC_LOT * (below(market, 16) ? lots : 5 * lots);
}

static struct synthetic_order draw_order(struct synthetic_market *market,
					 const struct synthetic_symbol *symbol, unsigned side)
{
	return (struct synthetic_order){
		.ref = ++market->last_ref,
		.price = synthetic_book_price(symbol, side, &market->random),
		.shares = draw_shares(market),
	};
}

const char *synthetic_market_maker(struct synthetic_market *market)
{
	static const char makers[][5] = { "AQUA", "BRIM", "CORD", "DELF", "EMBR" };

	return makers[below(market, sizeof(makers) / sizeof(makers[0]))];
}

/* Some orders name their market maker. */
void synthetic_market_add(struct synthetic_market *market, struct synthetic_symbol *symbol,
			  unsigned side)
{
	struct synthetic_order order = draw_order(market, symbol, side);
	struct itch_message message = { .type = market->adds++ % 64 == 8 ? 'F' : 'A' };
	struct itch_add_mpid *add = &message.add_mpid;

	add->reference = order.ref;
	add->side = side == SYNTHETIC_BID ? 'B' : 'S';
	add->shares = order.shares;
	add->price = order.price * 100;
	memcpy(add->stock, symbol->name, sizeof(add->stock));
	if (message.type == 'F')
		memcpy(add->mpid, synthetic_market_maker(market), sizeof(add->mpid));
	synthetic_tape_put(&market->tape, symbol->locate, &message);
	synthetic_book_insert(symbol, side, order);
	market->live++;
}

void synthetic_market_delete(struct synthetic_market *market, struct synthetic_symbol *symbol,
			     unsigned side, uint32_t index)
{
	struct itch_message message = {
		.type = 'D',
		.deleted = { symbol->orders[side][index].ref },
	};

	synthetic_tape_put(&market->tape, symbol->locate, &message);
	synthetic_book_remove(symbol, side, index);
	market->live--;
}

void synthetic_market_imbalance(struct synthetic_market *market, struct synthetic_symbol *symbol,
				char cross)
{
	struct itch_message message = { .type = 'I' };
	struct itch_imbalance *imbalance = &message.imbalance;
	uint32_t price = synthetic_book_middle(symbol);

	symbol->paired = SYNTHETIC_LOT * (1 + small(market, 1000));
	imbalance->paired = symbol->paired;
	imbalance->imbalance = SYNTHETIC_LOT * below(market, 20);
	imbalance->direction = imbalance->imbalance ? "BS"[below(market, 2)] : 'N';
	memcpy(imbalance->stock, symbol->name, sizeof(imbalance->stock));
	imbalance->reference_price = price;
	imbalance->cross = cross;
	imbalance->variation = ' ';
	/* Before the open the exchange does not calculate the others for every symbol. */
	if (cross != 'O' || symbol->locate % 2) {
		imbalance->far_price = imbalance->near_price = price;
		imbalance->variation = 'L';
	}
	synthetic_tape_put(&market->tape, symbol->locate, &message);
}

void synthetic_market_cross(struct synthetic_market *market, const struct synthetic_symbol *symbol,
			    char cross)
{
	struct itch_message message = { .type = 'Q' };

	message.cross.shares = symbol->paired;
	memcpy(message.cross.stock, symbol->name, sizeof(message.cross.stock));
	message.cross.price = synthetic_book_middle(symbol);
	message.cross.match = ++market->last_match;
	message.cross.cross = cross;
	synthetic_tape_put(&market->tape, symbol->locate, &message);
}

void synthetic_market_broken(struct synthetic_market *market, const struct synthetic_symbol *symbol,
			     uint64_t match)
{
	struct itch_message message = { .type = 'B', .broken = { match } };

	synthetic_tape_put(&market->tape, symbol->locate, &message);
}

static bool play_turn(struct synthetic_market *market, struct synthetic_symbol *symbol)
{
	unsigned side = below(market, 2);
	uint32_t count = symbol->count[side];

	if (count < 2 || below(market, 2u * symbol->depth) >= count)
		synthetic_market_add(market, symbol, side);
	else
		synthetic_market_delete(market, symbol, side, small(market, count));
	return true;
}

static bool play_replace(struct synthetic_market *market, struct synthetic_symbol *symbol)
{
	unsigned side = below(market, 2);
	uint32_t index = small(market, symbol->count[side]);
	struct synthetic_order order = draw_order(market, symbol, side);
	struct itch_message message = { .type = 'U' };

	message.replace.reference = symbol->orders[side][index].ref;
	message.replace.new_reference = order.ref;
	message.replace.shares = order.shares;
	message.replace.price = order.price * 100;
	synthetic_tape_put(&market->tape, symbol->locate, &message);
	synthetic_book_remove(symbol, side, index);
	synthetic_book_insert(symbol, side, order);
	return true;
}

/* Cancels part of an order; the rest keeps its priority. */
static bool play_cancel(struct synthetic_market *market, struct synthetic_symbol *symbol)
{
	unsigned side = below(market, 2);

	for (uint32_t i = 0; i < symbol->count[side]; i++) {
		struct synthetic_order *order = &symbol->orders[side][i];
		uint32_t lots = order->shares / SYNTHETIC_LOT;
		struct itch_message message = { .type = 'X' };

		if (lots < 2)
			continue;
		message.cancel.reference = order->ref;
		message.cancel.shares = SYNTHETIC_LOT * (1 + below(market, lots - 1));
		order->shares -= message.cancel.shares;
		synthetic_tape_put(&market->tape, symbol->locate, &message);
		return true;
	}
	return false;
}

/* Two hidden orders meet in the middle. The book stays unchanged, and the message has neither a
 * reference nor the true side. */
static bool play_hidden(struct synthetic_market *market, struct synthetic_symbol *symbol)
{
	struct itch_message message = { .type = 'P', .trade = { .side = 'B' } };

	if (symbol->halted)
		return false;
	message.trade.shares = draw_shares(market);
	memcpy(message.trade.stock, symbol->name, sizeof(message.trade.stock));
	message.trade.price = synthetic_book_middle(symbol);
	message.trade.match = ++market->last_match;
	synthetic_tape_put(&market->tape, symbol->locate, &message);
	return true;
}

/* Trades hit the side that the fair price has moved past; otherwise either side. */
static unsigned side_hit(struct synthetic_market *market, const struct synthetic_symbol *symbol)
{
	if (symbol->fair >= symbol->orders[SYNTHETIC_ASK][0].price)
		return SYNTHETIC_ASK;
	if (symbol->fair <= symbol->orders[SYNTHETIC_BID][0].price)
		return SYNTHETIC_BID;
	return below(market, 2);
}

/* Executes the first order of a side. Sometimes the price is better than the order's own; of these
 * trades every second is printed elsewhere. */
static void execute(struct synthetic_market *market, struct synthetic_symbol *symbol, unsigned side,
		    uint32_t shares)
{
	struct synthetic_order *order = &symbol->orders[side][0];
	uint64_t turn = market->executions++;
	struct itch_message message = { .type = turn % 32 == 3 ? 'C' : 'E' };
	struct itch_priced *priced = &message.priced;

	if (message.type == 'C') {
		priced->reference = order->ref;
		priced->shares = shares;
		priced->match = ++market->last_match;
		priced->printable = turn & 32 ? 'N' : 'Y';
		priced->price = synthetic_book_middle(symbol);
	} else {
		message.executed.reference = order->ref;
		message.executed.shares = shares;
		message.executed.match = ++market->last_match;
	}
	synthetic_tape_put(&market->tape, symbol->locate, &message);
	order->shares -= shares;
	if (!order->shares) {
		synthetic_book_remove(symbol, side, 0);
		market->live--;
	}
}

/* An aggressive order takes resting orders, best first. The last lot of a side stays (Y-I3). */
static bool play_trade(struct synthetic_market *market, struct synthetic_symbol *symbol)
{
	unsigned side, fills = 0;
	uint32_t wanted;

	if (symbol->halted)
		return false;
	side = side_hit(market, symbol);
	wanted = SYNTHETIC_LOT * (1 + small(market, 8));
	while (wanted && fills < SYNTHETIC_FILLS_MAX) {
		uint32_t shares = symbol->orders[side][0].shares;

		if (symbol->count[side] == 1)
			shares -= SYNTHETIC_LOT;
		if (shares > wanted)
			shares = wanted;
		if (!shares)
			break;
		execute(market, symbol, side, shares);
		wanted -= shares;
		fills++;
	}
	return fills > 0;
}

static struct synthetic_symbol *draw_symbol(struct synthetic_market *market)
{
	uint32_t rank;

	do {
		uint32_t first = 1u << below(market, market->octaves);

		rank = first - 1 + below(market, first);
	} while (rank >= market->count);
	return &market->symbols[rank];
}

/* The deck is shuffled while it is dealt. */
static uint8_t deal(struct synthetic_market *market)
{
	uint32_t at = market->dealt++ % SYNTHETIC_CARDS;
	uint32_t other = at + below(market, SYNTHETIC_CARDS - at);
	uint8_t card = market->deck[other];

	market->deck[other] = market->deck[at];
	market->deck[at] = card;
	return card;
}

void synthetic_market_event(struct synthetic_market *market)
{
	static bool (*const plays[KINDS])(struct synthetic_market *, struct synthetic_symbol *) = {
		[TURN] = play_turn,     [TRADE] = play_trade,   [REPLACE] = play_replace,
		[CANCEL] = play_cancel, [HIDDEN] = play_hidden,
	};
	struct synthetic_symbol *symbol = draw_symbol(market);
	uint8_t card = market->held != TURN ? market->held : deal(market);

	market->held = TURN;
	synthetic_book_wander(symbol, &market->random);
	if (plays[card](market, symbol))
		return;
	market->held = card;
	play_turn(market, symbol);
}
