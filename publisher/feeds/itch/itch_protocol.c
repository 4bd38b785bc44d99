/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/feeds/itch/itch_protocol.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "bus/error.h"
#include "publisher/feeds/itch/definitions.h"
#include "publisher/feeds/itch/itch_counters.h"
#include "publisher/feeds/itch/itch_decode.h"
#include "publisher/feeds/itch/statuses.h"
#include "publisher/feeds/market/book.h"

/* Adds, executions, cancels, deletes and replaces have a reference at the same place. */
#define REFERENCE_AT  11
#define REFERENCE_END 19
#define EVENT_BYTES   12
#define EVENT_AT      11
#define TIME_AT       5

static_assert(ITCH_COUNTER_COUNT + MARKET_COUNTER_COUNT + PROTOCOL_COUNTER_COUNT <=
		      PROTOCOL_COUNTERS_MAX,
	      "counters of a feed");

struct itch {
	struct protocol base;
	char stocks[BOOK_SYMBOLS][ITCH_STOCK_BYTES]; /* of the locates, as in messages */
	bool listed[BOOK_SYMBOLS];                   /* the directory has it */
};

static const struct tb_counter counters[ITCH_COUNTER_COUNT] = {
#define TYPE(code, length, member, fields, name) { name, "messages", "messages of this type" },
#define OTHER(what, name, meaning)               { name, "messages", meaning },
	ITCH_TYPES(TYPE) ITCH_COUNTERS(OTHER)
};

/* -- the day ------------------------------------------------------------------------------------
 */

static enum day_mark mark(const struct source_message *raw)
{
	if (raw->length != EVENT_BYTES || raw->bytes[0] != 'S')
		return DAY_MARK_NONE;
	return raw->bytes[EVENT_AT] == 'O'   ? DAY_MARK_START
	       : raw->bytes[EVENT_AT] == 'C' ? DAY_MARK_END
					     : DAY_MARK_NONE;
}

/* Messages of an unknown type or a wrong length have a time, too. */
ITCH_INLINE uint64_t time_of(const uint8_t *bytes)
{
	return (uint64_t)itch_get_uint16_t(bytes + TIME_AT) << 32 |
	       itch_get_uint32_t(bytes + TIME_AT + 2);
}

/* False: the message begins another day. */
ITCH_INLINE bool day_goes_on(struct itch *itch, const struct source_message *raw, char type)
{
	return protocol_goes_on(&itch->base, raw, type == 'S' ? mark(raw) : DAY_MARK_NONE,
				raw->length >= ITCH_HEAD_BYTES ? time_of(raw->bytes)
							       : itch->base.marks.time_ns);
}

/* -- messages -----------------------------------------------------------------------------------
 */

static int on_add(struct market *market, uint16_t locate, const struct itch_add *add)
{
	struct book_order order = {
		.reference = add->reference,
		.price = add->price,
		.shares = add->shares,
		.locate = locate,
		.side = add->side == 'B' ? BOOK_BUY : BOOK_SELL,
	};

	return market_add(market, &order);
}

static struct tb_trade trade_of(uint32_t price, uint64_t match, char condition)
{
	return (struct tb_trade){ .price = price,
				  .match_id = match,
				  .condition = { condition, ' ', ' ' } };
}

static int on_priced(struct market *market, uint16_t locate, const struct itch_priced *message)
{
	struct tb_trade trade = trade_of(message->price, message->match, ' ');

	return market_execute_at(market, locate, message->reference, message->shares,
				 message->printable == ITCH_PRINTABLE ? &trade : NULL);
}

static int on_trade(struct market *market, uint16_t locate, const struct itch_trade *message)
{
	struct tb_trade trade = trade_of(message->price, message->match, ' ');

	return market_trade(market, locate, &trade, message->shares);
}

static int on_cross(struct market *market, uint16_t locate, const struct itch_cross *message)
{
	struct tb_trade trade = trade_of(message->price, message->match, message->cross);

	return message->shares ? market_trade(market, locate, &trade, message->shares) : 0;
}

static int on_status(struct itch *itch, const struct itch_message *message)
{
	const uint32_t symbol = statuses_wide(message) ? MARKET_WIDE : message->locate;
	struct tb_status *status;
	const int result = market_status(itch->base.market, symbol, &status);

	if (result < 0 || !status)
		return result;
	if (statuses_merge(status, message)) {
		market_status_changed(itch->base.market, symbol);
	} else {
		protocol_count(&itch->base, ITCH_COUNTER_UNKNOWN_MARKET);
		market_defect(itch->base.market, "it halts trading at a market without a field");
	}
	return 0;
}

static void on_directory(struct itch *itch, const struct itch_message *message)
{
	struct tb_definition definition = definitions_make(&message->directory);

	itch->listed[message->locate] = true;
	market_definition(itch->base.market, message->locate, &definition);
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

	market_imbalance(market, locate, &imbalance);
}

ITCH_INLINE int apply(struct itch *itch, const struct itch_message *message)
{
	struct market *market = itch->base.market;
	const uint16_t locate = message->locate;

	switch (message->type) {
	case 'A':
	case 'F':
		return on_add(market, locate, &message->add);
	case 'E':
		return market_execute(market, locate, message->executed.reference,
				      message->executed.shares, message->executed.match);
	case 'C':
		return on_priced(market, locate, &message->priced);
	case 'X':
		return market_cancel(market, locate, message->cancel.reference,
				     message->cancel.shares);
	case 'D':
		return market_delete(market, locate, message->deleted.reference);
	case 'U':
		return market_replace(market, locate, message->replace.reference,
				      message->replace.new_reference, message->replace.shares,
				      message->replace.price);
	case 'P':
		return on_trade(market, locate, &message->trade);
	case 'Q':
		return on_cross(market, locate, &message->cross);
	case 'B':
		market_break(market, locate, message->broken.match);
		break;
	case 'I':
		on_imbalance(market, locate, &message->imbalance);
		break;
	case 'R':
		on_directory(itch, message);
		break;
	case 'H':
	case 'h':
	case 'Y':
	case 'J':
	case 'S':
	case 'V':
	case 'W':
		return on_status(itch, message);
	}
	return 0;
}

/* -- names --------------------------------------------------------------------------------------
 */

/* A directory message gives a locate another name. */
static int rename_locate(struct itch *itch, const struct itch_message *message, size_t length)
{
	const uint16_t locate = message->locate;
	const int result =
		market_rename(itch->base.market, locate, message->directory.stock, length);

	if (result == -EEXIST)
		return result;
	if (!itch->listed[locate]) {
		protocol_count(&itch->base, ITCH_COUNTER_NAME_CONFLICT);
		market_defect(itch->base.market,
			      "messages before it had another name for its stock locate");
	}
	memcpy(itch->stocks[locate], message->directory.stock, ITCH_STOCK_BYTES);
	return result;
}

/* Gives a locate its name: from the first message that has a name for it, and from each directory
 * message. -EEXIST: another message has another name; it has no effect. */
static __attribute__((noinline)) int name_set(struct itch *itch, const struct itch_message *message,
					      const char *stock)
{
	const uint16_t locate = message->locate;
	const char *name = market_name_of(itch->base.market, locate);
	size_t length = ITCH_STOCK_BYTES;
	int result;

	while (length && stock[length - 1] == ' ')
		length--;
	result = market_check_name(stock, length);
	if (result < 0)
		return result;
	if (name[0] && message->type == 'R')
		return rename_locate(itch, message, length);
	if (name[0])
		return error_set(EEXIST, "symbol: found %.*s, expected %s, the name of locate %u",
				 (int)length, stock, name, locate);
	memcpy(itch->stocks[locate], stock, ITCH_STOCK_BYTES);
	market_name_set(itch->base.market, locate, stock, length);
	return 0;
}

/* A name has no zeros, which stand for a locate without a name. */
ITCH_INLINE bool is_named(const struct itch *itch, uint16_t locate, const char *stock)
{
	return memcmp(itch->stocks[locate], stock, ITCH_STOCK_BYTES) == 0 && stock[0];
}

/* -- the protocol -------------------------------------------------------------------------------
 */

static __attribute__((noinline)) int malformed(struct itch *itch, int result, uint64_t offset)
{
	return protocol_malformed(&itch->base,
				  result == -ENOMSG     ? ITCH_COUNTER_UNKNOWN_TYPE
				  : result == -EMSGSIZE ? ITCH_COUNTER_WRONG_LENGTH
				  : result == -EEXIST   ? ITCH_COUNTER_NAME_CONFLICT
							: ITCH_COUNTER_BAD_VALUE,
				  offset);
}

/* Processes a message of a type. Inlined for each type that is known. */
ITCH_INLINE int process(struct itch *itch, const struct source_message *raw, char type)
{
	struct market *market = itch->base.market;
	struct itch_message message;
	const char *stock;
	int result;

	if (!day_goes_on(itch, raw, type))
		return PROTOCOL_NEXT_DAY;
	result = itch_decode_type(type, raw->bytes, raw->length, &message);
	if (__builtin_expect(result == 0, 1)) {
		market_begin(market, itch->base.midnight_ns + message.time_ns);
		stock = itch_stock(&message);
		if (stock && !is_named(itch, message.locate, stock))
			result = name_set(itch, &message, stock);
	}
	if (__builtin_expect(result < 0, 0))
		return result == -ENOMEM ? result : malformed(itch, result, raw->offset);
	protocol_count(&itch->base, itch_number(type));
	result = apply(itch, &message);
	return result < 0 ? result : market_end(market);
}

static __attribute__((noinline)) int process_any(struct itch *itch,
						 const struct source_message *raw)
{
	if (raw->length)
		return process(itch, raw, (char)raw->bytes[0]);
	if (!day_goes_on(itch, raw, 0))
		return PROTOCOL_NEXT_DAY;
	return malformed(itch, itch_bad_frame(raw->bytes, 0), raw->offset);
}

/* Nearly all messages add, delete, replace or execute an order. Each of these has its own code. */
static int on_message(struct protocol *protocol, const struct source_message *raw)
{
	struct itch *itch = (struct itch *)protocol;

	switch (raw->length ? raw->bytes[0] : 0) {
	case 'A':
		return process(itch, raw, 'A');
	case 'D':
		return process(itch, raw, 'D');
	case 'E':
		return process(itch, raw, 'E');
	case 'U':
		return process(itch, raw, 'U');
	}
	return process_any(itch, raw);
}

static void expect(struct protocol *protocol, const uint8_t *bytes, size_t length)
{
	const struct itch *itch = (const struct itch *)protocol;
	uint16_t locate;

	if (length < REFERENCE_END)
		return;
	locate = itch_get_uint16_t(bytes + 1);
	__builtin_prefetch(itch->stocks[locate]);
	market_expect(protocol->market, locate, itch_get_uint64_t(bytes + REFERENCE_AT));
}

static bool is_trade(const struct itch_message *message)
{
	switch (message->type) {
	case 'E':
		return message->executed.shares > 0;
	case 'C':
		return message->priced.shares > 0 && message->priced.printable == ITCH_PRINTABLE;
	case 'P':
		return message->trade.shares > 0;
	case 'Q':
		return message->cross.shares > 0;
	}
	return false;
}

static bool time_take(const struct source_message *raw, struct protocol_time *time)
{
	struct itch_message message;

	if (itch_decode(raw->bytes, raw->length, &message) < 0)
		return false;
	time->time_ns = message.time_ns;
	time->is_trade = is_trade(&message);
	return true;
}

static void clear(struct protocol *protocol)
{
	struct itch *itch = (struct itch *)protocol;

	memset(itch->stocks, 0, sizeof(itch->stocks));
	memset(itch->listed, 0, sizeof(itch->listed));
}

const struct protocol_kind itch_protocol = {
	.name = "ITCH 5.0",
	.start = "the start of the day's messages (system event O)",
	.end = "the end of the day's messages (system event C)",
	.bytes = sizeof(struct itch),
	.counters = counters,
	.types = ITCH_TYPE_COUNT,
	.count = ITCH_COUNTER_COUNT,
	.mark = mark,
	.time = time_take,
	.expect = expect,
	.message = on_message,
	.clear = clear,
};
