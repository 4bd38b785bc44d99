/* SPDX-License-Identifier: Apache-2.0 */
/* M-I1  Between messages, `best` and `shown` of every symbol equal its books. So one comparison
 *       after a message finds what it changed. */
#include "publisher/feeds/market/market.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "publisher/feeds/market/book.h"
#include "publisher/feeds/market/book_ahead.h"
#include "publisher/feeds/market/trades.h"
#include "schemas/definition.h"
#include "schemas/depth10.h"
#include "schemas/imbalance.h"
#include "schemas/quote.h"
#include "schemas/status.h"
#include "schemas/trade.h"
#include "tickbus/record.h"

#define DEPTH 10

static_assert(MARKET_WIDE == BOOK_SYMBOLS, "the symbol after the last that has a book");

const char *const market_selects[MARKET_SELECTS] = { "quote",  "trade",     "depth10",
						     "status", "imbalance", "definition" };

/* What no message has said yet. */
static const struct tb_status no_status = {
	.reference_price = TB_STATUS_REFERENCE_PRICE_NULL,
	.upper_price = TB_STATUS_UPPER_PRICE_NULL,
	.lower_price = TB_STATUS_LOWER_PRICE_NULL,
	.level1 = TB_STATUS_LEVEL1_NULL,
	.level2 = TB_STATUS_LEVEL2_NULL,
	.level3 = TB_STATUS_LEVEL3_NULL,
	.extension = TB_STATUS_EXTENSION_NULL,
};

#define BEST_EXISTS (UINT64_C(1) << 32)

/* The best level of one side; zeros for an empty side. */
struct best {
	uint64_t size;
	uint64_t price; /* and BEST_EXISTS: an order may have price 0 and size 0 */
};

/* The ten best levels of both sides, as last given out. */
struct shown {
	uint32_t counts[2];
	struct book_level levels[2][DEPTH];
};

struct symbol {
	char name[MARKET_NAME_BYTES]; /* its first, "" until then */
	uint32_t number;              /* of its outputs; 0: its own */
	struct best best[2];
	struct shown *shown;      /* set if depth10 is wanted and the symbol had a level */
	struct trades *trades;    /* set if trades are wanted and the symbol traded */
	struct tb_status *status; /* set if statuses are wanted and the symbol had a message */
};

struct market {
	struct market_options options;
	struct symbol *symbols;             /* MARKET_WIDE + 1 */
	char (*renamed)[MARKET_NAME_BYTES]; /* names of the numbers from MARKET_RENAMED on */
	uint32_t renamed_count;
	/* Written for each message, so in lines of their own: market_name reads what is above. */
	_Alignas(64) uint64_t now_ns; /* of the current message */
	const char *why;              /* it could not be used as it is; NULL: it could */
	struct book book;
	bool partial; /* the day lacks its beginning */
	struct book_ahead ahead;
};

/* Other threads read counters: each is a word, stored whole. */
static void set(struct market *market, enum market_counter counter, uint64_t value)
{
	__atomic_store_n(&market->options.counters[counter], value, __ATOMIC_RELAXED);
}

static void count(struct market *market, enum market_counter counter)
{
	set(market, counter, market->options.counters[counter] + 1);
}

/* The current message cannot be used as it is. */
static void defect(struct market *market, enum market_counter counter, const char *why)
{
	count(market, counter);
	market->why = why;
}

static uint32_t saturate(struct market *market, uint64_t size, uint32_t most)
{
	if (size <= most)
		return (uint32_t)size;
	defect(market, MARKET_COUNTER_SATURATED, "a size is above what its field holds");
	return most;
}

static bool wanted(const struct market *market, enum market_select select)
{
	return market->options.wanted & 1u << select;
}

static void output_record(struct market *market, enum market_select select, uint32_t symbol,
			  uint8_t kind, const void *data, size_t length)
{
	const uint32_t number = market->symbols[symbol].number;
	struct market_output output = {
		.select = select,
		.symbol = number ? number : symbol,
		.time_ns = market->now_ns,
		.data = data,
		.length = (uint16_t)length,
		.kind = kind,
	};

	output.name = market_name(market, output.symbol);
	market->options.output(market->options.user, &output);
}

static int64_t best_price(const struct best *best)
{
	static_assert(TB_QUOTE_BID_PRICE_NULL == TB_QUOTE_ASK_PRICE_NULL, "one null for both");
	return best->price ? (uint32_t)best->price : TB_QUOTE_BID_PRICE_NULL;
}

static void evaluate_quote(struct market *market, uint32_t locate)
{
	struct symbol *symbol = &market->symbols[locate];
	bool changed = false;
	struct tb_quote quote;

	for (unsigned side = 0; side < 2; side++) {
		const struct book_level *level =
			book_level(&market->book.symbols[locate].sides[side], 0);
		struct best best = { 0 };

		if (level)
			best = (struct best){ level->size, book_price(side, level) | BEST_EXISTS };
		changed |= best.size != symbol->best[side].size ||
			   best.price != symbol->best[side].price;
		symbol->best[side] = best;
	}
	if (!changed || !wanted(market, MARKET_QUOTE))
		return;
	quote = (struct tb_quote){
		.bid_price = best_price(&symbol->best[BOOK_BUY]),
		.ask_price = best_price(&symbol->best[BOOK_SELL]),
		.bid_size = saturate(market, symbol->best[BOOK_BUY].size, UINT32_MAX),
		.ask_size = saturate(market, symbol->best[BOOK_SELL].size, UINT32_MAX),
		.source_time = market->now_ns,
	};
	output_record(market, MARKET_QUOTE, locate, TB_KIND_UPDATE, &quote, sizeof(quote));
}

/* Copies the ten best levels of a side; true if they changed. */
static bool depth_copy(struct shown *shown, unsigned i, const struct book_side *side)
{
	uint32_t levels = side->count < DEPTH ? side->count : DEPTH;
	const struct book_level *first = levels ? side->levels + (side->count - levels) : NULL;

	if (levels == shown->counts[i] &&
	    (!levels || !memcmp(shown->levels[i], first, levels * sizeof(*first))))
		return false;
	shown->counts[i] = levels;
	if (levels)
		memcpy(shown->levels[i], first, levels * sizeof(*first));
	return true;
}

#define FILL_LEVELS(market, to, shown, side, null)                                                 \
	for (uint32_t i = 0; i < (shown)->counts[side]; i++) {                                     \
		const struct book_level *level =                                                   \
			&(shown)->levels[side][(shown)->counts[side] - 1 - i];                     \
                                                                                                   \
		(to)[i].price = book_price(side, level);                                           \
		(to)[i].size = saturate(market, level->size, UINT32_MAX);                          \
		(to)[i].orders = level->orders;                                                    \
	}                                                                                          \
	for (uint32_t i = (shown)->counts[side]; i < DEPTH; i++)                                   \
		(to)[i].price = null;

static int evaluate_depth(struct market *market, uint32_t locate)
{
	const struct book_symbol *books = &market->book.symbols[locate];
	struct symbol *symbol = &market->symbols[locate];
	struct tb_depth10 depth;
	bool changed;

	if (!symbol->shown)
		symbol->shown = calloc(1, sizeof(*symbol->shown));
	if (!symbol->shown)
		return error_set(ENOMEM, "symbol %s: no memory for ten levels", symbol->name);
	changed = depth_copy(symbol->shown, BOOK_BUY, &books->sides[BOOK_BUY]);
	changed |= depth_copy(symbol->shown, BOOK_SELL, &books->sides[BOOK_SELL]);
	if (!changed)
		return 0;
	memset(&depth, 0, sizeof(depth));
	depth.source_time = market->now_ns;
	FILL_LEVELS(market, depth.bids, symbol->shown, BOOK_BUY, TB_DEPTH10_BIDS_PRICE_NULL)
	FILL_LEVELS(market, depth.asks, symbol->shown, BOOK_SELL, TB_DEPTH10_ASKS_PRICE_NULL)
	output_record(market, MARKET_DEPTH10, locate, TB_KIND_UPDATE, &depth, sizeof(depth));
	return 0;
}

static void output_trade(struct market *market, uint32_t symbol, uint8_t kind,
			 const struct tb_trade *trade)
{
	output_record(market, MARKET_TRADE, symbol, kind, trade, sizeof(*trade));
}

/* The highest size is the null of a trade's size. */
int market_trade(struct market *market, uint16_t symbol, struct tb_trade *trade, uint64_t size)
{
	struct symbol *of = &market->symbols[symbol];

	if (!wanted(market, MARKET_TRADE))
		return 0;
	if (!of->trades)
		of->trades = calloc(1, sizeof(*of->trades));
	if (!of->trades)
		return error_set(ENOMEM, "symbol %s: no memory for its last trades", of->name);
	trade->source_time = market->now_ns;
	trade->size = saturate(market, size, TB_TRADE_SIZE_NULL - 1);
	trades_add(of->trades, trade);
	output_trade(market, symbol, TB_KIND_UPDATE, trade);
	return 0;
}

/* The message changes what came before the messages that were read. */
static void unknown(struct market *market, const char *why)
{
	if (market->partial)
		count(market, MARKET_COUNTER_UNKNOWN_REFERENCE);
	else
		defect(market, MARKET_COUNTER_UNKNOWN_REFERENCE, why);
}

/* Counts the flags of a book change; 0 or -errno. */
static int count_flags(struct market *market, int flags)
{
	if (flags <= 0)
		return flags;
	if (flags & BOOK_UNKNOWN)
		unknown(market, "it changes an unknown order");
	if (flags & BOOK_CLAMPED)
		defect(market, MARKET_COUNTER_CLAMPED,
		       "it executes or cancels more than was left of its order");
	if (flags & BOOK_LIVE)
		defect(market, MARKET_COUNTER_LIVE_REFERENCE,
		       "it adds an order under the reference of a live order");
	return 0;
}

/* -- events -------------------------------------------------------------------------------------
 */

void market_begin(struct market *market, uint64_t time_ns)
{
	market->now_ns = time_ns;
	market->why = NULL;
}

void market_defect(struct market *market, const char *why)
{
	market->why = why;
}

int market_add(struct market *market, struct book_order *order)
{
	return count_flags(market, book_add(&market->book, order));
}

int market_cancel(struct market *market, uint16_t symbol, uint64_t reference, uint32_t shares)
{
	struct book_order taken;

	return count_flags(market, book_reduce(&market->book, symbol, reference, shares, &taken));
}

int market_delete(struct market *market, uint16_t symbol, uint64_t reference)
{
	return count_flags(market, book_delete(&market->book, symbol, reference));
}

int market_replace(struct market *market, uint16_t symbol, uint64_t reference,
		   uint64_t new_reference, uint32_t shares, uint32_t price)
{
	return count_flags(market, book_replace(&market->book, symbol, reference, new_reference,
						shares, price));
}

static char aggressor_of(const struct book_order *taken)
{
	return taken->side == BOOK_BUY ? 'S' : 'B';
}

int market_execute(struct market *market, uint16_t symbol, uint64_t reference, uint32_t shares,
		   uint64_t match)
{
	struct book_order taken;
	const int flags = book_reduce(&market->book, symbol, reference, shares, &taken);
	struct tb_trade trade;
	int result = 0;

	if (!(flags & BOOK_UNKNOWN)) {
		trade = (struct tb_trade){
			.price = taken.price,
			.match_id = match,
			.aggressor = { aggressor_of(&taken) },
			.condition = { ' ', ' ', ' ' },
		};
		result = market_trade(market, symbol, &trade, shares);
	}
	return result < 0 ? result : count_flags(market, flags);
}

int market_execute_at(struct market *market, uint16_t symbol, uint64_t reference, uint32_t shares,
		      struct tb_trade *trade)
{
	struct book_order taken;
	const int flags = book_reduce(&market->book, symbol, reference, shares, &taken);
	const bool known = !(flags & BOOK_UNKNOWN);
	int result = 0;

	if (known && trade)
		trade->aggressor[0] = aggressor_of(&taken);
	if (trade && (known || market->symbols[symbol].name[0]))
		result = market_trade(market, symbol, trade, shares);
	return result < 0 ? result : count_flags(market, flags);
}

/* If the trade was the value, the newest trade that stands replaces it, or the value is cleared. An
 * unknown trade leaves the value as it is. */
void market_break(struct market *market, uint16_t symbol, uint64_t match)
{
	struct trades *trades = market->symbols[symbol].trades;
	const struct tb_trade gone = { .price = TB_TRADE_PRICE_NULL,
				       .match_id = match,
				       .source_time = market->now_ns,
				       .size = TB_TRADE_SIZE_NULL };

	if (!market->symbols[symbol].name[0]) {
		unknown(market, "it breaks a trade of a symbol without a name");
		return;
	}
	if (!wanted(market, MARKET_TRADE))
		return;
	output_trade(market, symbol, TB_KIND_CANCEL, &gone);
	if (!trades || !trades_break(trades, match))
		return;
	if (trades_newest(trades))
		output_trade(market, symbol, TB_KIND_CORRECTION, trades_newest(trades));
	else
		output_trade(market, symbol, TB_KIND_CLEAR, &gone);
}

int market_status(struct market *market, uint32_t symbol, struct tb_status **status)
{
	struct symbol *of = &market->symbols[symbol];

	*status = NULL;
	if (!wanted(market, MARKET_STATUS))
		return 0;
	if (!of->status) {
		of->status = malloc(sizeof(*of->status));
		if (!of->status)
			return error_set(ENOMEM, "symbol %s: no memory for its status", of->name);
		*of->status = no_status;
	}
	*status = of->status;
	return 0;
}

void market_status_changed(struct market *market, uint32_t symbol)
{
	struct tb_status *status = market->symbols[symbol].status;

	status->source_time = market->now_ns;
	output_record(market, MARKET_STATUS, symbol, TB_KIND_UPDATE, status, sizeof(*status));
}

void market_definition(struct market *market, uint16_t symbol, struct tb_definition *definition)
{
	definition->source_time = market->now_ns;
	if (wanted(market, MARKET_DEFINITION))
		output_record(market, MARKET_DEFINITION, symbol, TB_KIND_UPDATE, definition,
			      sizeof(*definition));
}

void market_imbalance(struct market *market, uint16_t symbol, struct tb_imbalance *imbalance)
{
	imbalance->source_time = market->now_ns;
	if (wanted(market, MARKET_IMBALANCE))
		output_record(market, MARKET_IMBALANCE, symbol, TB_KIND_UPDATE, imbalance,
			      sizeof(*imbalance));
}

int market_end(struct market *market)
{
	int result = 0;

	for (unsigned i = 0; i < market->book.touched_count && !result; i++) {
		const struct book_touch *touched = &market->book.touched[i];

		if (touched->depth == 0)
			evaluate_quote(market, touched->locate);
		if (touched->depth < DEPTH && wanted(market, MARKET_DEPTH10))
			result = evaluate_depth(market, touched->locate);
	}
	market->book.touched_count = 0;
	set(market, MARKET_COUNTER_ORDERS, book_live(&market->book));
	return result < 0 ? result : market->why ? MARKET_DEFECT : 0;
}

/* -- names --------------------------------------------------------------------------------------
 */

static void symbol_forget(struct symbol *symbol)
{
	free(symbol->shown);
	free(symbol->trades);
	free(symbol->status);
	symbol->shown = NULL;
	symbol->trades = NULL;
	symbol->status = NULL;
}

int market_check_name(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return error_set(
				EBADMSG,
				"symbol: found byte 0x%02x, expected a printable character",
				(unsigned char)name[i]);
	if (!length)
		return error_set(EBADMSG, "symbol: found only spaces, expected a name");
	if (length >= MARKET_NAME_BYTES)
		return error_set(EBADMSG, "symbol: found %zu characters, expected at most %d",
				 length, MARKET_NAME_BYTES - 1);
	if (length == strlen(MARKET_WIDE_NAME) && memcmp(name, MARKET_WIDE_NAME, length) == 0)
		return error_set(EBADMSG,
				 "symbol: found %s, which stands for the whole market, expected "
				 "another name",
				 MARKET_WIDE_NAME);
	return 0;
}

void market_name_set(struct market *market, uint16_t symbol, const char *name, size_t length)
{
	assert(length < MARKET_NAME_BYTES);
	memcpy(market->symbols[symbol].name, name, length);
	count(market, MARKET_COUNTER_SYMBOLS);
}

int market_rename(struct market *market, uint16_t symbol, const char *name, size_t length)
{
	struct symbol *of = &market->symbols[symbol];
	int result;

	assert(length < MARKET_NAME_BYTES);
	if (market->renamed_count == MARKET_RENAMES)
		return error_set(EEXIST,
				 "symbol: found another name for a symbol with a name, expected "
				 "at most %d in a day",
				 MARKET_RENAMES);
	book_forget(&market->book, symbol);
	result = market_end(market);
	symbol_forget(of);
	memcpy(market->renamed[market->renamed_count], name, length);
	of->number = MARKET_RENAMED + market->renamed_count++;
	return result < 0 ? result : 0;
}

const char *market_name_of(const struct market *market, uint16_t symbol)
{
	const uint32_t number = market->symbols[symbol].number;

	return market_name(market, number ? number : symbol);
}

const char *market_name(const struct market *market, uint32_t symbol)
{
	return symbol < MARKET_RENAMED ? market->symbols[symbol].name
				       : market->renamed[symbol - MARKET_RENAMED];
}

static void symbols_clear(struct market *market)
{
	for (uint32_t i = 0; market->symbols && i <= MARKET_WIDE; i++) {
		symbol_forget(&market->symbols[i]);
		memset(&market->symbols[i], 0, sizeof(market->symbols[i]));
	}
	for (uint32_t i = 0; i < market->renamed_count; i++)
		memset(market->renamed[i], 0, sizeof(market->renamed[i]));
	market->renamed_count = 0;
}

void market_expect(struct market *market, uint16_t symbol, uint64_t reference)
{
	__builtin_prefetch(&market->symbols[symbol], 1);
	book_ahead(&market->ahead, &market->book, symbol, reference);
}

const char *market_why(const struct market *market)
{
	return market->why;
}

void market_partial(struct market *market)
{
	market->partial = true;
}

void market_clear(struct market *market)
{
	market->partial = false;
	book_clear(&market->book);
	symbols_clear(market);
	strcpy(market->symbols[MARKET_WIDE].name, MARKET_WIDE_NAME);
	set(market, MARKET_COUNTER_ORDERS, 0);
	set(market, MARKET_COUNTER_SYMBOLS, 0);
}

int market_open(struct market **result_market, const struct market_options *options)
{
	struct market *market = aligned_alloc(64, sizeof(*market));
	int result;

	*result_market = NULL;
	if (!market)
		return error_set(ENOMEM, "market: no memory");
	memset(market, 0, sizeof(*market));
	market->options = *options;
	market->symbols = calloc(MARKET_WIDE + 1, sizeof(*market->symbols));
	market->renamed = calloc(MARKET_RENAMES, sizeof(*market->renamed));
	result = market->symbols && market->renamed ? book_open(&market->book)
						    : error_set(ENOMEM, "market: no memory");
	if (result < 0) {
		market_close(market);
		return result;
	}
	strcpy(market->symbols[MARKET_WIDE].name, MARKET_WIDE_NAME);
	*result_market = market;
	return 0;
}

void market_close(struct market *market)
{
	if (!market)
		return;
	symbols_clear(market);
	free(market->symbols);
	free(market->renamed);
	book_close(&market->book);
	free(market);
}
