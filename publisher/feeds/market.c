/* SPDX-License-Identifier: Apache-2.0 */
/* M-I1  Between messages, `best` and `shown` of every symbol equal its books. So one comparison
 *       after a message finds what it changed. */
#include "publisher/feeds/market.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bus/error.h"
#include "publisher/feeds/book.h"
#include "publisher/feeds/book_ahead.h"
#include "publisher/feeds/definitions.h"
#include "publisher/feeds/itch_decode.h"
#include "publisher/feeds/statuses.h"
#include "publisher/feeds/trades.h"
#include "schemas/depth10.h"
#include "schemas/imbalance.h"
#include "schemas/quote.h"
#include "tickbus/record.h"

#define DEPTH 10

static_assert(MARKET_WIDE == BOOK_SYMBOLS, "the symbol after the last locate");
static_assert(MARKET_COUNTER_COUNT <= 64, "as many as a publisher shows of one feed");

const char *const market_selects[MARKET_SELECTS] = { "quote",  "trade",     "depth10",
						     "status", "imbalance", "definition" };

static const struct tb_counter counter_table[MARKET_COUNTER_COUNT] = {
#define TYPE(code, length, member, fields, name) { name, "messages", "messages of this type" },
#define OTHER(what, name, unit, meaning)         { name, unit, meaning },
	ITCH_TYPES(TYPE) MARKET_COUNTERS(OTHER)
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
	char stock[ITCH_STOCK_BYTES];    /* as in messages */
	char name[ITCH_STOCK_BYTES + 1]; /* its first, "" until a message gives it */
	bool listed;                     /* the directory has it */
	uint32_t number;                 /* of its outputs; 0: its locate */
	struct best best[2];
	struct shown *shown;      /* set if depth10 is wanted and the symbol had a level */
	struct trades *trades;    /* set if trades are wanted and the symbol traded */
	struct tb_status *status; /* set if statuses are wanted and the symbol had a message */
};

struct market {
	struct market_options options;
	struct symbol *symbols;                /* MARKET_WIDE + 1 */
	char (*renamed)[ITCH_STOCK_BYTES + 1]; /* names of the numbers from MARKET_RENAMED on */
	uint32_t renamed_count;
	/* Written for each message, so in lines of their own: market_name reads what is above. */
	_Alignas(64) uint64_t now_ns; /* of the current message */
	const char *why;              /* it could not be used as it is; NULL: it could */
	struct book book;
	uint64_t malformed;
	bool partial; /* the day lacks its beginning */
	uint64_t counters[MARKET_COUNTER_COUNT];
	struct book_ahead ahead;
};

/* Other threads read counters: each is a word, stored whole. */
static void set(struct market *market, unsigned counter, uint64_t value)
{
	__atomic_store_n(&market->counters[counter], value, __ATOMIC_RELAXED);
}

static void count(struct market *market, unsigned counter)
{
	set(market, counter, market->counters[counter] + 1);
}

/* The current message cannot be used as it is. */
static void defect(struct market *market, unsigned counter, const char *why)
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

/* Gives out all changes of the books since the previous message. */
static int evaluate(struct market *market)
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
	return result;
}

static void output_trade(struct market *market, uint32_t symbol, uint8_t kind,
			 const struct tb_trade *trade)
{
	output_record(market, MARKET_TRADE, symbol, kind, trade, sizeof(*trade));
}

/* The highest size is the null of a trade's size. */
static int make_trade(struct market *market, uint32_t locate, struct tb_trade *trade, uint64_t size)
{
	struct symbol *symbol = &market->symbols[locate];

	if (!wanted(market, MARKET_TRADE))
		return 0;
	if (!symbol->trades)
		symbol->trades = calloc(1, sizeof(*symbol->trades));
	if (!symbol->trades)
		return error_set(ENOMEM, "symbol %s: no memory for its last trades", symbol->name);
	trade->source_time = market->now_ns;
	trade->size = saturate(market, size, TB_TRADE_SIZE_NULL - 1);
	trades_add(symbol->trades, trade);
	output_trade(market, locate, TB_KIND_UPDATE, trade);
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

static int on_add(struct market *market, uint16_t locate, const struct itch_add *add)
{
	struct book_order order = {
		.reference = add->reference,
		.price = add->price,
		.shares = add->shares,
		.locate = locate,
		.side = add->side == 'B' ? BOOK_BUY : BOOK_SELL,
	};

	return count_flags(market, book_add(&market->book, &order));
}

/* The message says what was executed, even if the book has less. */
static int on_executed(struct market *market, uint16_t locate, const struct itch_executed *message)
{
	struct book_order taken;
	const int flags =
		book_reduce(&market->book, locate, message->reference, message->shares, &taken);
	struct tb_trade trade;
	int result = 0;

	if (!(flags & BOOK_UNKNOWN)) {
		trade = (struct tb_trade){
			.price = taken.price,
			.match_id = message->match,
			.aggressor = { taken.side == BOOK_BUY ? 'S' : 'B' },
			.condition = { ' ', ' ', ' ' },
		};
		result = make_trade(market, locate, &trade, message->shares);
	}
	return result < 0 ? result : count_flags(market, flags);
}

/* The message has all of the trade but the aggressor, which is null if the order is unknown. */
static int on_priced(struct market *market, uint16_t locate, const struct itch_priced *message)
{
	struct book_order taken;
	const int flags =
		book_reduce(&market->book, locate, message->reference, message->shares, &taken);
	const bool known = !(flags & BOOK_UNKNOWN);
	struct tb_trade trade = {
		.price = message->price,
		.match_id = message->match,
		.aggressor = { !known                   ? '\0'
			       : taken.side == BOOK_BUY ? 'S'
							: 'B' },
		.condition = { ' ', ' ', ' ' },
	};
	int result = 0;

	if (message->printable == ITCH_PRINTABLE && (known || market->symbols[locate].name[0]))
		result = make_trade(market, locate, &trade, message->shares);
	return result < 0 ? result : count_flags(market, flags);
}

static int on_trade(struct market *market, uint16_t locate, const struct itch_trade *message)
{
	struct tb_trade trade = {
		.price = message->price,
		.match_id = message->match,
		.condition = { ' ', ' ', ' ' },
	};

	return make_trade(market, locate, &trade, message->shares);
}

static int on_cross(struct market *market, uint16_t locate, const struct itch_cross *message)
{
	struct tb_trade trade = {
		.price = message->price,
		.match_id = message->match,
		.condition = { message->cross, ' ', ' ' },
	};

	return message->shares ? make_trade(market, locate, &trade, message->shares) : 0;
}

/* Takes the trade back. If it was the value, the newest trade that stands replaces it, or the value
 * is cleared. An unknown trade leaves the value as it is. */
static void on_broken(struct market *market, uint16_t locate, const struct itch_broken *message)
{
	struct trades *trades = market->symbols[locate].trades;
	const struct tb_trade gone = { .price = TB_TRADE_PRICE_NULL,
				       .match_id = message->match,
				       .source_time = market->now_ns,
				       .size = TB_TRADE_SIZE_NULL };

	if (!market->symbols[locate].name[0]) {
		unknown(market, "it breaks a trade of a stock locate without a name");
		return;
	}
	if (!wanted(market, MARKET_TRADE))
		return;
	output_trade(market, locate, TB_KIND_CANCEL, &gone);
	if (!trades || !trades_break(trades, message->match))
		return;
	if (trades_newest(trades))
		output_trade(market, locate, TB_KIND_CORRECTION, trades_newest(trades));
	else
		output_trade(market, locate, TB_KIND_CLEAR, &gone);
}

static int on_status(struct market *market, const struct itch_message *message)
{
	const uint32_t locate = statuses_wide(message) ? MARKET_WIDE : message->locate;
	struct symbol *symbol = &market->symbols[locate];

	if (!wanted(market, MARKET_STATUS))
		return 0;
	if (!symbol->status) {
		symbol->status = malloc(sizeof(*symbol->status));
		if (!symbol->status)
			return error_set(ENOMEM, "symbol %s: no memory for its status",
					 symbol->name);
		statuses_init(symbol->status);
	}
	if (!statuses_merge(symbol->status, message)) {
		defect(market, MARKET_COUNTER_UNKNOWN_MARKET,
		       "it halts trading at a market without a field");
		return 0;
	}
	symbol->status->source_time = market->now_ns;
	output_record(market, MARKET_STATUS, locate, TB_KIND_UPDATE, symbol->status,
		      sizeof(*symbol->status));
	return 0;
}

static void on_directory(struct market *market, const struct itch_message *message)
{
	const struct tb_definition definition =
		definitions_make(&message->directory, market->now_ns);

	market->symbols[message->locate].listed = true;
	if (wanted(market, MARKET_DEFINITION))
		output_record(market, MARKET_DEFINITION, message->locate, TB_KIND_UPDATE,
			      &definition, sizeof(definition));
}

/* An auction has no price of 0: the exchange sends 0 where it calculates none. */
static int64_t auction_price(uint32_t price, int64_t null)
{
	return price ? price : null;
}

static void on_imbalance(struct market *market, uint16_t locate,
			 const struct itch_imbalance *message)
{
	struct tb_imbalance imbalance = {
		.source_time = market->now_ns,
		.paired_size = message->paired,
		.imbalance_size = message->imbalance,
		.far_price = auction_price(message->far_price, TB_IMBALANCE_FAR_PRICE_NULL),
		.near_price = auction_price(message->near_price, TB_IMBALANCE_NEAR_PRICE_NULL),
		.reference_price =
			auction_price(message->reference_price, TB_IMBALANCE_REFERENCE_PRICE_NULL),
		.direction = { message->direction },
		.cross_type = { message->cross },
		.price_variation = { message->variation == ' ' ? '\0' : message->variation },
	};

	if (wanted(market, MARKET_IMBALANCE))
		output_record(market, MARKET_IMBALANCE, locate, TB_KIND_UPDATE, &imbalance,
			      sizeof(imbalance));
}

ITCH_INLINE int apply(struct market *market, const struct itch_message *message)
{
	struct book *book = &market->book;
	struct book_order taken;

	switch (message->type) {
	case 'A':
	case 'F':
		return on_add(market, message->locate, &message->add);
	case 'E':
		return on_executed(market, message->locate, &message->executed);
	case 'C':
		return on_priced(market, message->locate, &message->priced);
	case 'X':
		return count_flags(market,
				   book_reduce(book, message->locate, message->cancel.reference,
					       message->cancel.shares, &taken));
	case 'D':
		return count_flags(market,
				   book_delete(book, message->locate, message->deleted.reference));
	case 'U':
		return count_flags(market,
				   book_replace(book, message->locate, message->replace.reference,
						message->replace.new_reference,
						message->replace.shares, message->replace.price));
	case 'P':
		return on_trade(market, message->locate, &message->trade);
	case 'Q':
		return on_cross(market, message->locate, &message->cross);
	case 'B':
		on_broken(market, message->locate, &message->broken);
		break;
	case 'I':
		on_imbalance(market, message->locate, &message->imbalance);
		break;
	case 'R':
		on_directory(market, message);
		break;
	case 'H':
	case 'h':
	case 'Y':
	case 'J':
	case 'S':
	case 'V':
	case 'W':
		return on_status(market, message);
	}
	return 0;
}

static void symbol_forget(struct symbol *symbol)
{
	free(symbol->shown);
	free(symbol->trades);
	free(symbol->status);
	symbol->shown = NULL;
	symbol->trades = NULL;
	symbol->status = NULL;
}

/* A directory message gives a locate another name: from here on it is another instrument. The
 * instrument before has an empty book. */
static int symbol_rename(struct market *market, const struct itch_message *message, size_t length)
{
	struct symbol *symbol = &market->symbols[message->locate];
	int result;

	if (market->renamed_count == MARKET_RENAMES)
		return error_set(EEXIST,
				 "symbol: found another name for a stock locate, expected "
				 "at most %d in a day",
				 MARKET_RENAMES);
	market->now_ns = market->options.midnight_ns + message->time_ns;
	book_forget(&market->book, message->locate);
	result = evaluate(market);
	symbol_forget(symbol);
	if (!symbol->listed)
		defect(market, MARKET_COUNTER_NAME_CONFLICT,
		       "messages before it had another name for its stock locate");
	memcpy(market->renamed[market->renamed_count], message->directory.stock, length);
	symbol->number = MARKET_RENAMED + market->renamed_count++;
	memcpy(symbol->stock, message->directory.stock, ITCH_STOCK_BYTES);
	return result;
}

/* Gives a locate its name: from the first message that has a name for it, and from each directory
 * message. -EEXIST: another message has another name; it has no effect. */
static __attribute__((noinline)) int name_set(struct market *market,
					      const struct itch_message *message, const char *stock)
{
	struct symbol *symbol = &market->symbols[message->locate];
	size_t length = ITCH_STOCK_BYTES;

	while (length && stock[length - 1] == ' ')
		length--;
	for (size_t i = 0; i < length; i++)
		if (stock[i] <= ' ' || stock[i] > '~')
			return error_set(
				EBADMSG,
				"symbol: found byte 0x%02x, expected a printable character",
				(unsigned char)stock[i]);
	if (!length)
		return error_set(EBADMSG, "symbol: found only spaces, expected a name");
	if (length == strlen(MARKET_WIDE_NAME) && memcmp(stock, MARKET_WIDE_NAME, length) == 0)
		return error_set(EBADMSG,
				 "symbol: found %s, which stands for the whole market, expected "
				 "another name",
				 MARKET_WIDE_NAME);
	if (symbol->name[0] && message->type == 'R')
		return symbol_rename(market, message, length);
	if (symbol->name[0])
		return error_set(
			EEXIST, "symbol: found %.*s, expected %s, the name of locate %u",
			(int)length, stock,
			market_name(market, symbol->number ? symbol->number : message->locate),
			message->locate);
	memcpy(symbol->stock, stock, ITCH_STOCK_BYTES);
	memcpy(symbol->name, stock, length);
	count(market, MARKET_COUNTER_SYMBOLS);
	return 0;
}

static inline bool is_named(const struct market *market, uint16_t locate, const char *stock)
{
	const struct symbol *symbol = &market->symbols[locate];

	return symbol->name[0] && memcmp(symbol->stock, stock, ITCH_STOCK_BYTES) == 0;
}

static __attribute__((noinline)) int malformed(struct market *market, int result, uint64_t offset)
{
	defect(market,
	       result == -ENOMSG     ? MARKET_COUNTER_UNKNOWN_TYPE
	       : result == -EMSGSIZE ? MARKET_COUNTER_WRONG_LENGTH
	       : result == -EEXIST   ? MARKET_COUNTER_NAME_CONFLICT
				     : MARKET_COUNTER_BAD_VALUE,
	       tb_error());
	if (market->malformed++ < MARKET_MALFORMED_REPORTED && market->options.malformed)
		market->options.malformed(market->options.user, offset, tb_error());
	return MARKET_DEFECT;
}

void market_expect(struct market *market, const uint8_t *bytes, size_t length)
{
	__builtin_prefetch(
		&market->symbols[book_ahead(&market->ahead, &market->book, bytes, length)], 1);
}

/* Processes a message of a type. Inlined for each type that is known. */
ITCH_INLINE int process(struct market *market, const struct source_message *raw, char type)
{
	struct itch_message message;
	const char *stock;
	int result = itch_decode_type(type, raw->bytes, raw->length, &message);

	market->why = NULL;
	if (!result && (stock = itch_stock(&message)) && !is_named(market, message.locate, stock))
		result = name_set(market, &message, stock);
	if (__builtin_expect(result < 0, 0))
		return result == -ENOMEM ? result : malformed(market, result, raw->offset);
	count(market, itch_number(type));
	market->now_ns = market->options.midnight_ns + message.time_ns;
	result = apply(market, &message);
	if (result == 0)
		result = evaluate(market);
	return result < 0 ? result : market->why ? MARKET_DEFECT : 0;
}

static __attribute__((noinline)) int process_any(struct market *market,
						 const struct source_message *raw)
{
	if (raw->length)
		return process(market, raw, (char)raw->bytes[0]);
	return malformed(market, itch_bad_frame(raw->bytes, 0), raw->offset);
}

/* Nearly all messages add, delete, replace or execute an order. Each of these has its own code. */
int market_message(struct market *market, const struct source_message *raw)
{
	switch (raw->length ? raw->bytes[0] : 0) {
	case 'A':
		return process(market, raw, 'A');
	case 'D':
		return process(market, raw, 'D');
	case 'E':
		return process(market, raw, 'E');
	case 'U':
		return process(market, raw, 'U');
	}
	return process_any(market, raw);
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

const char *market_why(const struct market *market)
{
	return market->why;
}

void market_date(struct market *market, uint64_t midnight_ns)
{
	market->options.midnight_ns = midnight_ns;
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

void market_count_jump(struct market *market)
{
	count(market, MARKET_COUNTER_TIME_AHEAD);
}

uint64_t market_valid(const struct market *market)
{
	uint64_t sum = 0;

	for (unsigned type = 0; type < ITCH_TYPE_COUNT; type++)
		sum += market->counters[type];
	return sum;
}

const uint64_t *market_counters(const struct market *market)
{
	return market->counters;
}

const struct tb_counter *market_counter_table(size_t *number)
{
	*number = MARKET_COUNTER_COUNT;
	return counter_table;
}
