/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of how messages make records, shown by a few messages. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "publisher/feeds/framings/source_file.h"
#include "publisher/feeds/market/book.h"
#include "publisher/feeds/itch/itch.h"
#include "publisher/feeds/itch/itch_counters.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "publisher/feeds/market/trades.h"
#include "schemas/definition.h"
#include "schemas/depth10.h"
#include "schemas/imbalance.h"
#include "schemas/quote.h"
#include "schemas/status.h"
#include "schemas/trade.h"
#include "tickbus/error.h"
#include "tickbus/record.h"

#define MIDNIGHT_NS UINT64_C(1577682000000000000)
#define RECORDS     64
#define NO_PRICE    TB_QUOTE_BID_PRICE_NULL

struct record {
	enum market_select select;
	uint32_t symbol;
	uint8_t kind;
	uint64_t time_ns;
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	union {
		struct tb_quote quote;
		struct tb_trade trade;
		struct tb_depth10 depth10;
		struct tb_status status;
		struct tb_imbalance imbalance;
		struct tb_definition definition;
	};
};

/* The output of the last message. */
static struct record records[RECORDS];
static unsigned record_count, reported;
static int answered; /* of the market, to the last message */

static struct protocol *protocol;
static uint64_t time_ns;
static const struct day_marks begun = { .started = true, .end = 1 }; /* in the middle of a day */
static char report[256];

static void keep(void *user, const struct market_output *output)
{
	static const size_t bytes[MARKET_SELECTS] = {
		sizeof(struct tb_quote),  sizeof(struct tb_trade),     sizeof(struct tb_depth10),
		sizeof(struct tb_status), sizeof(struct tb_imbalance), sizeof(struct tb_definition)
	};
	struct record *record = &records[record_count++];

	(void)user;
	cr_assert_leq(record_count, RECORDS);
	cr_assert_eq(output->length, bytes[output->select]);
	record->select = output->select;
	record->symbol = output->symbol;
	record->kind = output->kind;
	record->time_ns = output->time_ns;
	snprintf(record->name, sizeof(record->name), "%s", output->name);
	memcpy(&record->quote, output->data, output->length);
}

static void keep_malformed(void *user, uint64_t offset, const char *message)
{
	(void)user;
	reported++;
	snprintf(report, sizeof(report), "%llu %s", (unsigned long long)offset, message);
}

static void open_market(uint32_t wanted)
{
	const struct protocol_options options = { .wanted = wanted,
						  .output = keep,
						  .malformed = keep_malformed };

	cr_assert_eq(protocol_open(&protocol, &itch_protocol, &options), 0);
	protocol_date(protocol, MIDNIGHT_NS);
}

static void begin(void)
{
	open_market((1u << MARKET_SELECTS) - 1);
}

static void end(void)
{
	protocol_close(protocol);
}

TestSuite(market, .init = begin, .fini = end);

static void send_bytes(const uint8_t *bytes, size_t length, uint64_t offset)
{
	const struct source_message message = { .bytes = bytes,
						.length = length,
						.offset = offset };

	record_count = 0;
	protocol->marks = begun;
	answered = protocol_message(protocol, &message);
	cr_assert_geq(answered, 0);
}

static void send(struct itch_message message)
{
	uint8_t bytes[ITCH_LENGTH_MAX];
	int length;

	message.time_ns = ++time_ns;
	length = itch_encode(&message, bytes);
	cr_assert_gt(length, 0);
	send_bytes(bytes, (size_t)length, 0);
	for (unsigned i = 0; i < record_count; i++)
		cr_assert_eq(records[i].time_ns, MIDNIGHT_NS + time_ns);
}

#define STOCK "ACME    "

static void add(uint64_t reference, char side, uint32_t shares, uint32_t price)
{
	struct itch_message message = {
		.type = 'A',
		.locate = 5,
		.add = { .reference = reference, .side = side, .shares = shares, .price = price },
	};

	memcpy(message.add.stock, STOCK, ITCH_STOCK_BYTES);
	send(message);
}

static void replace(uint64_t reference, uint64_t new_reference, uint32_t shares, uint32_t price)
{
	send((struct itch_message){
		.type = 'U',
		.locate = 5,
		.replace = { reference, new_reference, shares, price },
	});
}

static void execute(uint64_t reference, uint32_t shares, uint64_t match)
{
	send((struct itch_message){
		.type = 'E',
		.locate = 5,
		.executed = { reference, shares, match },
	});
}

static void delete (uint64_t reference)
{
	send((struct itch_message){ .type = 'D', .locate = 5, .deleted = { reference } });
}

static uint64_t counter(enum itch_counter which)
{
	return protocol->counters[which];
}

static uint64_t of_market(enum market_counter which)
{
	return protocol->counters[ITCH_COUNTER_COUNT + which];
}

/* The last message's record of that selection, or NULL; at most one is allowed. */
static const struct record *made(enum market_select select)
{
	const struct record *found = NULL;

	for (unsigned i = 0; i < record_count; i++) {
		if (records[i].select != select)
			continue;
		cr_assert_null(found, "two of %s", market_selects[select]);
		found = &records[i];
	}
	return found;
}

static void check_quote(int64_t bid, uint32_t bid_size, int64_t ask, uint32_t ask_size)
{
	const struct record *record = made(MARKET_QUOTE);

	cr_assert_not_null(record);
	cr_assert_eq(record->kind, TB_KIND_UPDATE);
	cr_assert_str_eq(record->name, "ACME");
	cr_assert_eq(record->quote.source_time, record->time_ns);
	cr_assert_eq(record->quote.bid_price, bid);
	cr_assert_eq(record->quote.bid_size, bid_size);
	cr_assert_eq(record->quote.ask_price, ask);
	cr_assert_eq(record->quote.ask_size, ask_size);
}

static void check_trade(int64_t price, uint32_t size, uint64_t match, char aggressor,
			const char *condition)
{
	const struct record *record = made(MARKET_TRADE);

	cr_assert_not_null(record);
	cr_assert_eq(record->kind, TB_KIND_UPDATE);
	cr_assert_str_eq(record->name, "ACME");
	cr_assert_eq(record->trade.source_time, record->time_ns);
	cr_assert_eq(record->trade.price, price);
	cr_assert_eq(record->trade.size, size);
	cr_assert_eq(record->trade.match_id, match);
	cr_assert_eq(record->trade.aggressor[0], aggressor);
	cr_assert_arr_eq(record->trade.condition, condition, 3);
}

Test(market, quote_follows_a_change_of_best_price_or_size)
{
	add(1, 'B', 100, 10000);
	check_quote(10000, 100, NO_PRICE, 0);
	add(2, 'S', 50, 10200);
	check_quote(10000, 100, 10200, 50);
	add(3, 'B', 7, 10000);
	check_quote(10000, 107, 10200, 50);
	add(4, 'B', 7, 9900);
	cr_assert_null(made(MARKET_QUOTE));
	delete (1);
	check_quote(10000, 7, 10200, 50);
	delete (3);
	check_quote(9900, 7, 10200, 50);
	execute(4, 7, 1);
	check_quote(NO_PRICE, 0, 10200, 50);
	delete (2);
	check_quote(NO_PRICE, 0, NO_PRICE, 0);
}

Test(market, crossed_book_is_published_unchanged)
{
	add(1, 'B', 1, 10000);
	add(2, 'S', 2, 9000);
	check_quote(10000, 1, 9000, 2);
}

Test(market, replacement_is_evaluated_once)
{
	add(1, 'B', 100, 10000);
	add(2, 'B', 30, 9900);
	replace(1, 3, 100, 10000);
	cr_assert_eq(record_count, 0);
	replace(3, 4, 100, 10100);
	check_quote(10100, 100, NO_PRICE, 0);
	cr_assert_eq(record_count, 2);
	replace(4, 5, 100, 9800);
	check_quote(9900, 30, NO_PRICE, 0);
	replace(5, 5, 1, 9900);
	check_quote(9900, 31, NO_PRICE, 0);
	cr_assert_eq(of_market(MARKET_COUNTER_LIVE_REFERENCE), 0);
	cr_assert_eq(of_market(MARKET_COUNTER_ORDERS), 2);
}

Test(market, depth_follows_a_change_of_any_of_ten_levels)
{
	for (uint32_t i = 0; i < 11; i++) {
		add(i + 1, 'S', 10 + i, 10000 + i * 100);
		cr_assert_eq(made(MARKET_DEPTH10) != NULL, i < 10);
	}
	add(20, 'S', 1, 10850);
	cr_assert_not_null(made(MARKET_DEPTH10));
	cr_assert_null(made(MARKET_QUOTE));
	delete (11);
	cr_assert_eq(record_count, 0);
	add(21, 'S', 4, 10300);
	cr_assert_eq(made(MARKET_DEPTH10)->depth10.asks[3].orders, 2);
	cr_assert_eq(made(MARKET_DEPTH10)->depth10.asks[3].size, 17);
	/* The same size from another number of orders is another level. */
	replace(21, 22, 3, 10300);
	cr_assert_eq(made(MARKET_DEPTH10)->depth10.asks[3].size, 16);
	delete (1);
	for (uint32_t i = 0; i < 10; i++) {
		const struct tb_depth10 *depth = &made(MARKET_DEPTH10)->depth10;

		cr_assert_eq(depth->asks[i].price, i < 8 ? 10100 + 100 * i : 10850 + (i - 8) * 50);
		cr_assert_eq(depth->bids[i].price, TB_DEPTH10_BIDS_PRICE_NULL);
		cr_assert_eq(depth->bids[i].size, 0);
		cr_assert_eq(depth->bids[i].orders, 0);
	}
}

Test(market, equal_size_in_other_orders_changes_depth_not_quote)
{
	add(1, 'B', 10, 10000);
	add(2, 'B', 20, 9000);
	replace(2, 3, 20, 9000);
	cr_assert_eq(record_count, 0);
	add(4, 'B', 0, 10000);
	cr_assert_null(made(MARKET_QUOTE));
	cr_assert_eq(made(MARKET_DEPTH10)->depth10.bids[0].orders, 2);
	cr_assert_eq(made(MARKET_DEPTH10)->depth10.bids[0].size, 10);
}

Test(market, execution_is_a_trade_at_the_resting_price)
{
	add(1, 'B', 100, 10000);
	add(2, 'S', 100, 10100);
	execute(1, 40, 77);
	check_trade(10000, 40, 77, 'S', "   ");
	check_quote(10000, 60, 10100, 100);
	execute(2, 100, 78);
	check_trade(10100, 100, 78, 'B', "   ");
}

static void execute_priced(uint64_t reference, char printable)
{
	send((struct itch_message){
		.type = 'C',
		.locate = 5,
		.priced = { .reference = reference,
			    .shares = 10,
			    .match = 9,
			    .printable = printable,
			    .price = 10050 },
	});
}

Test(market, printable_priced_execution_trades_at_its_own_price)
{
	add(1, 'S', 100, 10100);
	execute_priced(1, 'Y');
	check_trade(10050, 10, 9, 'B', "   ");
	check_quote(NO_PRICE, 0, 10100, 90);
	execute_priced(1, 'N');
	cr_assert_null(made(MARKET_TRADE));
	check_quote(NO_PRICE, 0, 10100, 80);
}

Test(market, hidden_trade_leaves_the_book_unchanged)
{
	struct itch_message message = {
		.type = 'P',
		.locate = 5,
		.trade = { .side = 'B', .shares = 300, .price = 10025, .match = 12 },
	};

	add(1, 'B', 100, 10000);
	memcpy(message.trade.stock, STOCK, ITCH_STOCK_BYTES);
	send(message);
	check_trade(10025, 300, 12, '\0', "   ");
	cr_assert_eq(record_count, 1);
}

static void cross(uint64_t shares, char type)
{
	struct itch_message message = {
		.type = 'Q',
		.locate = 5,
		.cross = { .shares = shares, .price = 10025, .match = 12, .cross = type },
	};

	memcpy(message.cross.stock, STOCK, ITCH_STOCK_BYTES);
	send(message);
}

Test(market, cross_with_shares_is_a_trade)
{
	cross(0, 'O');
	cr_assert_eq(record_count, 0);
	cross(1000, 'C');
	check_trade(10025, 1000, 12, '\0', "C  ");
	cross(UINT64_C(0x100000000), 'O');
	check_trade(10025, UINT32_MAX - 1, 12, '\0', "O  ");
	cr_assert_eq(of_market(MARKET_COUNTER_SATURATED), 1);
}

/* A size of a trade that equals null would be no size. */
Test(market, size_of_a_trade_stops_below_its_null)
{
	add(1, 'B', UINT32_MAX, 10000);
	execute(1, UINT32_MAX - 1, 1);
	check_trade(10000, UINT32_MAX - 1, 1, 'S', "   ");
	cr_assert_eq(of_market(MARKET_COUNTER_SATURATED), 0);
	delete (1);
	add(2, 'B', UINT32_MAX, 10000);
	execute(2, UINT32_MAX, 2);
	check_trade(10000, UINT32_MAX - 1, 2, 'S', "   ");
	cr_assert_eq(answered, MARKET_DEFECT);
	cr_assert_eq(of_market(MARKET_COUNTER_SATURATED), 1);
}

static void break_match(uint16_t locate, uint64_t match)
{
	send((struct itch_message){ .type = 'B', .locate = locate, .broken = { match } });
}

/* The message's first record takes back the match: nothing but match and time is known. */
static void check_cancel(uint64_t match, unsigned count)
{
	const struct tb_trade expected = { .price = TB_TRADE_PRICE_NULL,
					   .match_id = match,
					   .source_time = MIDNIGHT_NS + time_ns,
					   .size = TB_TRADE_SIZE_NULL };

	cr_assert_eq(record_count, count, "%u records", record_count);
	cr_assert_eq(records[0].kind, TB_KIND_CANCEL);
	cr_assert_str_eq(records[0].name, "ACME");
	cr_assert_eq(memcmp(&records[0].trade, &expected, sizeof(expected)), 0);
}

Test(market, broken_trade_that_was_no_value_is_only_cancelled)
{
	add(1, 'B', 100, 10000);
	break_match(5, 99);
	check_cancel(99, 1);
	execute(1, 10, 1);
	execute(1, 20, 2);
	break_match(5, 1);
	check_cancel(1, 1);
	break_match(5, 99);
	check_cancel(99, 1);
}

static void check_correction(uint64_t match, uint32_t size, uint64_t source_time)
{
	cr_assert_eq(records[1].kind, TB_KIND_CORRECTION);
	cr_assert_str_eq(records[1].name, "ACME");
	cr_assert_eq(records[1].trade.match_id, match);
	cr_assert_eq(records[1].trade.size, size);
	cr_assert_eq(records[1].trade.price, 10000);
	cr_assert_eq(records[1].trade.source_time, source_time);
}

Test(market, broken_last_trade_brings_back_the_trade_before_it)
{
	uint64_t first_ns;

	add(1, 'B', 100, 10000);
	execute(1, 10, 1);
	first_ns = records[0].trade.source_time;
	execute(1, 20, 2);
	execute(1, 30, 3);
	break_match(5, 2);
	check_cancel(2, 1);
	break_match(5, 3);
	check_cancel(3, 2);
	check_correction(1, 10, first_ns);
	break_match(5, 1);
	check_cancel(1, 2);
	cr_assert_eq(records[1].kind, TB_KIND_CLEAR);
	cr_assert_eq(records[1].trade.match_id, 1);
	cr_assert_eq(records[1].trade.price, TB_TRADE_PRICE_NULL);
	break_match(5, 1);
	check_cancel(1, 1);
}

Test(market, trade_before_the_last_eight_does_not_come_back)
{
	add(1, 'B', 100, 10000);
	for (uint64_t match = 1; match <= TRADES_KEPT + 1; match++)
		execute(1, (uint32_t)match, match);
	for (uint64_t match = TRADES_KEPT + 1; match > 2; match--) {
		break_match(5, match);
		check_cancel(match, 2);
		check_correction(match - 1, (uint32_t)match - 1, records[1].trade.source_time);
	}
	break_match(5, 2);
	check_cancel(2, 2);
	cr_assert_eq(records[1].kind, TB_KIND_CLEAR);
	break_match(5, 1);
	check_cancel(1, 1);
}

/* The message's locate says whose trade it is. Another symbol's trade of that match stands. */
Test(market, broken_trade_is_of_the_messages_own_symbol)
{
	struct itch_message directory = { .type = 'R', .locate = 6 };

	memcpy(directory.directory.stock, "OTHER   ", ITCH_STOCK_BYTES);
	send(directory);
	add(1, 'B', 100, 10000);
	execute(1, 10, 7);
	break_match(6, 7);
	cr_assert_eq(record_count, 1);
	cr_assert_str_eq(records[0].name, "OTHER");
	break_match(5, 7);
	check_cancel(7, 2);
}

Test(market, trades_of_one_match_are_broken_together)
{
	add(1, 'B', 100, 10000);
	execute(1, 10, 1);
	execute(1, 20, 2);
	execute(1, 30, 2);
	break_match(5, 2);
	check_cancel(2, 2);
	check_correction(1, 10, records[1].trade.source_time);
}

Test(market, unknown_reference_has_no_effect)
{
	add(1, 'B', 100, 10000);
	execute(2, 10, 1);
	cr_assert_eq(record_count, 0);
	execute_priced(2, 'N');
	cr_assert_eq(record_count, 0);
	delete (2);
	cr_assert_eq(record_count, 0);
	replace(2, 1, 5, 20000);
	cr_assert_eq(record_count, 0);
	send((struct itch_message){ .type = 'X', .locate = 5, .cancel = { 2, 10 } });
	cr_assert_eq(record_count, 0);
	cr_assert_eq(of_market(MARKET_COUNTER_UNKNOWN_REFERENCE), 5);
	cr_assert_eq(of_market(MARKET_COUNTER_ORDERS), 1);
}

/* The message has all of the trade but the aggressor. */
Test(market, priced_execution_of_an_unknown_order_is_a_trade)
{
	struct itch_message directory = { .type = 'R', .locate = 5 };

	execute_priced(2, 'Y');
	cr_assert_eq(record_count, 0, "a symbol without a name");
	memcpy(directory.directory.stock, STOCK, ITCH_STOCK_BYTES);
	send(directory);
	execute_priced(2, 'Y');
	check_trade(10050, 10, 9, '\0', "   ");
	cr_assert_eq(answered, MARKET_DEFECT);
	break_match(5, 9);
	cr_assert_eq(record_count, 2, "it is a trade like others");
}

Test(market, defect_is_said_for_its_message_alone)
{
	add(1, 'B', 100, 10000);
	cr_assert_eq(answered, 0);
	delete (2);
	cr_assert_eq(answered, MARKET_DEFECT);
	cr_assert_str_eq(market_why(protocol->market), "it changes an unknown order");
	add(1, 'B', 100, 10000);
	cr_assert_eq(answered, MARKET_DEFECT);
	cr_assert_str_eq(market_why(protocol->market),
			 "it adds an order under the reference of a live order");
	delete (1);
	cr_assert_eq(answered, 0);
	market_partial(protocol->market);
	delete (1);
	cr_assert_eq(answered, 0);
	cr_assert_eq(of_market(MARKET_COUNTER_UNKNOWN_REFERENCE), 2);
	protocol_clear(protocol);
	delete (1);
	cr_assert_eq(answered, MARKET_DEFECT);
}

/* The trade is what the message says, whatever the book has. */
Test(market, quantity_above_the_rest_is_traded_and_empties_the_order)
{
	add(1, 'B', 100, 10000);
	execute(1, 101, 3);
	check_trade(10000, 101, 3, 'S', "   ");
	cr_assert_eq(answered, MARKET_DEFECT);
	cr_assert_str_eq(market_why(protocol->market),
			 "it executes or cancels more than was left of its order");
	check_quote(NO_PRICE, 0, NO_PRICE, 0);
	add(2, 'S', 100, 10000);
	send((struct itch_message){ .type = 'X', .locate = 5, .cancel = { 2, UINT32_MAX } });
	check_quote(NO_PRICE, 0, NO_PRICE, 0);
	cr_assert_eq(of_market(MARKET_COUNTER_CLAMPED), 2);
	cr_assert_eq(of_market(MARKET_COUNTER_ORDERS), 0);
}

Test(market, live_order_is_removed_when_its_reference_is_added)
{
	struct itch_message other = {
		.type = 'F',
		.locate = 6,
		.add_mpid = { .reference = 1, .side = 'S', .shares = 5, .price = 500 },
	};

	add(1, 'B', 100, 10000);
	add(1, 'B', 20, 10000);
	check_quote(10000, 20, NO_PRICE, 0);
	memcpy(other.add_mpid.stock, "OTHER   ", ITCH_STOCK_BYTES);
	send(other);
	cr_assert_eq(of_market(MARKET_COUNTER_LIVE_REFERENCE), 2);
	cr_assert_eq(record_count, 4);
	cr_assert_str_eq(records[0].name, "ACME");
	cr_assert_eq(records[0].quote.bid_size, 0);
	cr_assert_eq(records[1].select, MARKET_DEPTH10);
	cr_assert_str_eq(records[2].name, "OTHER");
	cr_assert_eq(records[2].quote.ask_price, 500);
}

Test(market, sizes_above_32_bits_saturate)
{
	add(1, 'B', UINT32_MAX, 10000);
	check_quote(10000, UINT32_MAX, NO_PRICE, 0);
	cr_assert_eq(of_market(MARKET_COUNTER_SATURATED), 0);
	add(2, 'B', 2, 10000);
	check_quote(10000, UINT32_MAX, NO_PRICE, 0);
	cr_assert_eq(made(MARKET_DEPTH10)->depth10.bids[0].size, UINT32_MAX);
	cr_assert_eq(answered, MARKET_DEFECT);
	cr_assert_eq(of_market(MARKET_COUNTER_SATURATED), 2);
	delete (1);
	check_quote(10000, 2, NO_PRICE, 0);
}

static const struct tb_status *status_of(struct itch_message message, char type)
{
	message.type = type;
	message.locate = 5;
	send(message);
	cr_assert_eq(record_count, 1);
	cr_assert_eq(records[0].select, MARKET_STATUS);
	cr_assert_eq(records[0].kind, TB_KIND_UPDATE);
	cr_assert_eq(records[0].status.message[0], type);
	cr_assert_eq(records[0].status.source_time, MIDNIGHT_NS + time_ns);
	return &records[0].status;
}

static struct tb_status status_unknown(char message)
{
	return (struct tb_status){
		.source_time = MIDNIGHT_NS + time_ns,
		.reference_price = TB_STATUS_REFERENCE_PRICE_NULL,
		.upper_price = TB_STATUS_UPPER_PRICE_NULL,
		.lower_price = TB_STATUS_LOWER_PRICE_NULL,
		.level1 = TB_STATUS_LEVEL1_NULL,
		.level2 = TB_STATUS_LEVEL2_NULL,
		.level3 = TB_STATUS_LEVEL3_NULL,
		.extension = TB_STATUS_EXTENSION_NULL,
		.message = { message },
	};
}

static void check_status(const struct tb_status *found, struct tb_status expected)
{
	expected.source_time = MIDNIGHT_NS + time_ns;
	cr_assert_eq(memcmp(found, &expected, sizeof(expected)), 0);
}

/* A halt stays visible after a message about short sales, and so does every other part. */
Test(market, status_message_changes_its_part_and_keeps_the_others)
{
	const struct itch_message halts[] = { { .halt = { STOCK, 'Q', 'H' } },
					      { .halt = { STOCK, 'B', 'h' } },
					      { .halt = { STOCK, 'X', 'T' } } };
	struct tb_status expected = status_unknown('H');

	expected.state[0] = 'P';
	memcpy(expected.reason, "LUDP", 4);
	check_status(status_of((struct itch_message){ .action = { STOCK, 'P', ' ', "LUDP" } }, 'H'),
		     expected);
	cr_assert_str_eq(records[0].name, "ACME");
	expected.message[0] = 'Y';
	expected.reg_sho[0] = '2';
	check_status(status_of((struct itch_message){ .reg_sho = { STOCK, '2' } }, 'Y'), expected);
	expected.message[0] = 'J';
	expected.reference_price = 100;
	expected.upper_price = 110;
	expected.lower_price = 90;
	expected.extension = 2;
	check_status(status_of((struct itch_message){ .collar = { STOCK, 100, 110, 90, 2 } }, 'J'),
		     expected);
	expected.message[0] = 'h';
	expected.halt_nasdaq[0] = 'H';
	check_status(status_of(halts[0], 'h'), expected);
	expected.halt_bx[0] = 'h';
	check_status(status_of(halts[1], 'h'), expected);
	expected.halt_psx[0] = 'T';
	check_status(status_of(halts[2], 'h'), expected);
	expected.message[0] = 'H';
	expected.state[0] = 'T';
	memcpy(expected.reason, "    ", 4);
	check_status(status_of((struct itch_message){ .action = { STOCK, 'T', ' ', "    " } }, 'H'),
		     expected);
	status_of((struct itch_message){ .collar = { STOCK, 100, 110, 90, UINT32_MAX } }, 'J');
	cr_assert_eq(records[0].status.extension, UINT32_MAX - 1);
}

Test(market, state_of_the_whole_market_is_its_own_status)
{
	const uint64_t much = UINT64_MAX;
	struct tb_status expected = status_unknown('S');

	status_of((struct itch_message){ .action = { STOCK, 'H', ' ', "T1  " } }, 'H');
	expected.phase[0] = 'Q';
	check_status(status_of((struct itch_message){ .event = { 'Q' } }, 'S'), expected);
	cr_assert_str_eq(records[0].name, MARKET_WIDE_NAME);
	cr_assert_eq(records[0].symbol, MARKET_WIDE);
	expected.message[0] = 'V';
	expected.level1 = 3;
	expected.level2 = 2;
	expected.level3 = INT64_MAX;
	check_status(status_of((struct itch_message){ .decline = { 3, 2, much } }, 'V'), expected);
	expected.message[0] = 'W';
	expected.breach[0] = '3';
	check_status(status_of((struct itch_message){ .breach = { '3' } }, 'W'), expected);
	expected = status_unknown('Y');
	expected.state[0] = 'H';
	memcpy(expected.reason, "T1  ", 4);
	expected.reg_sho[0] = '1';
	check_status(status_of((struct itch_message){ .reg_sho = { STOCK, '1' } }, 'Y'), expected);
	cr_assert_str_eq(records[0].name, "ACME");
}

Test(market, halt_of_an_unknown_market_is_counted_and_has_no_effect)
{
	struct tb_status expected = status_unknown('Y');

	send((struct itch_message){ .type = 'h', .locate = 5, .halt = { STOCK, 'Z', 'H' } });
	cr_assert_eq(record_count, 0);
	cr_assert_eq(counter(ITCH_COUNTER_UNKNOWN_MARKET), 1);
	expected.reg_sho[0] = '0';
	check_status(status_of((struct itch_message){ .reg_sho = { STOCK, '0' } }, 'Y'), expected);
}

Test(market, directory_message_is_a_definition)
{
	struct itch_message message = {
		.type = 'R',
		.locate = 5,
		.directory = { STOCK, 'Q', 'N', 100, 'N', 'C', "Z ", 'P', 'N', 'N', '1', 'Y', 3,
			       'N' },
	};
	const struct tb_definition *found = &records[0].definition;

	send(message);
	cr_assert_eq(record_count, 1);
	cr_assert_eq(records[0].select, MARKET_DEFINITION);
	cr_assert_eq(records[0].kind, TB_KIND_UPDATE);
	cr_assert_str_eq(records[0].name, "ACME");
	cr_assert_eq(found->source_time, MIDNIGHT_NS + time_ns);
	cr_assert_eq(found->round_lot, 100);
	cr_assert_eq(found->leverage, 3);
	cr_assert_arr_eq(found->category, "QNNCZ PNN1YN", 12);
	message.directory = (struct itch_directory){ STOCK, ' ', ' ', 100, ' ', ' ', "  ",
						     ' ',   ' ', ' ', ' ', ' ', 0,   ' ' };
	send(message);
	cr_assert(TB_DEFINITION_CATEGORY_ISNULL(found->category));
	cr_assert(TB_DEFINITION_SUBTYPE_ISNULL(found->subtype));
	cr_assert_arr_eq(found->category, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
}

Test(market, imbalance_is_published_whole)
{
	const struct itch_message message = {
		.type = 'I',
		.locate = 5,
		.imbalance = { .paired = UINT64_C(1) << 40,
			       .imbalance = 7,
			       .direction = 'B',
			       .stock = STOCK,
			       .far_price = 1,
			       .near_price = 2,
			       .reference_price = 3,
			       .cross = 'O',
			       .variation = 'L' },
	};
	const struct tb_imbalance *imbalance = &records[0].imbalance;

	send(message);
	cr_assert_eq(record_count, 1);
	cr_assert_eq(records[0].select, MARKET_IMBALANCE);
	cr_assert_eq(imbalance->source_time, MIDNIGHT_NS + time_ns);
	cr_assert_eq(imbalance->paired_size, UINT64_C(1) << 40);
	cr_assert_eq(imbalance->imbalance_size, 7);
	cr_assert_eq(imbalance->far_price, 1);
	cr_assert_eq(imbalance->near_price, 2);
	cr_assert_eq(imbalance->reference_price, 3);
	cr_assert_eq(imbalance->direction[0], 'B');
	cr_assert_eq(imbalance->cross_type[0], 'O');
	cr_assert_eq(imbalance->price_variation[0], 'L');
}

/* Before it has a price, the exchange sends 0. */
Test(market, auction_without_a_price_has_nulls)
{
	const struct tb_imbalance *imbalance = &records[0].imbalance;

	send((struct itch_message){
		.type = 'I', .locate = 5, .imbalance = { .stock = STOCK, .variation = ' ' } });
	cr_assert_eq(imbalance->far_price, TB_IMBALANCE_FAR_PRICE_NULL);
	cr_assert_eq(imbalance->near_price, TB_IMBALANCE_NEAR_PRICE_NULL);
	cr_assert_eq(imbalance->reference_price, TB_IMBALANCE_REFERENCE_PRICE_NULL);
	cr_assert_eq(imbalance->price_variation[0], '\0');
}

/* An order may have price 0 or size 0. A side is empty only without orders. */
Test(market, price_of_zero_is_a_price)
{
	add(1, 'B', 0, 0);
	check_quote(0, 0, NO_PRICE, 0);
	delete (1);
	check_quote(NO_PRICE, 0, NO_PRICE, 0);
}

/* The book of the name before is empty, its orders are void, and so are its status and trades. */
Test(market, directory_that_renames_a_locate_begins_another_symbol)
{
	struct itch_message directory = { .type = 'R', .locate = 5 };
	uint32_t before;

	memcpy(directory.directory.stock, "OTHER   ", ITCH_STOCK_BYTES);
	add(1, 'B', 100, 10000);
	for (unsigned int i = 0; i < BOOK_NEAR_MAX + 1; i++) /* far levels too */
		add(100 + i, 'S', 1, 20000 + i);
	add(2, 'B', 7, 9000);
	execute(2, 5, 77);
	before = made(MARKET_TRADE)->symbol;
	send(directory);
	cr_assert_eq(answered, MARKET_DEFECT, "orders were published under a wrong name");
	cr_assert_str_eq(made(MARKET_QUOTE)->name, "ACME");
	check_quote(NO_PRICE, 0, NO_PRICE, 0);
	cr_assert_str_eq(made(MARKET_DEFINITION)->name, "OTHER");
	cr_assert_neq(made(MARKET_DEFINITION)->symbol, before);
	cr_assert_str_eq(market_name(protocol->market, before), "ACME", "it stays readable");
	cr_assert_eq(of_market(MARKET_COUNTER_SYMBOLS), 1);
	cr_assert_eq(of_market(MARKET_COUNTER_ORDERS), 0);
	delete (1);
	cr_assert_eq(record_count, 0);
	cr_assert_eq(answered, MARKET_DEFECT, "an order of another symbol");
	break_match(5, 77);
	cr_assert_eq(record_count, 1, "no trade of this symbol stands");
	cr_assert_str_eq(records[0].name, "OTHER");
	add(1, 'B', 100, 10000);
	cr_assert_eq(record_count, 0);
	cr_assert_eq(answered, MARKET_DEFECT, "the old name");
	send((struct itch_message){
		.type = 'A', .locate = 5, .add = { 2, 'B', 30, "OTHER   ", 9500 } });
	cr_assert_eq(answered, 0, "the reference of a void order is free");
	cr_assert_str_eq(made(MARKET_QUOTE)->name, "OTHER");
	cr_assert_eq(made(MARKET_QUOTE)->quote.bid_size, 30);
	send((struct itch_message){ .type = 'D', .locate = 5, .deleted = { 2 } });
	cr_assert_eq(made(MARKET_QUOTE)->quote.bid_size, 0);
	cr_assert_eq(of_market(MARKET_COUNTER_ORDERS), 0);
}

/* The reference is live, but it is not an order of the symbol that the message is about. */
Test(market, change_of_another_symbols_order_has_no_effect_on_it)
{
	const struct itch_message changes[] = {
		{ .type = 'E', .locate = 6, .executed = { 1, 10, 1 } },
		{ .type = 'X', .locate = 6, .cancel = { 1, 10 } },
		{ .type = 'U', .locate = 6, .replace = { 1, 2, 10, 9000 } },
		{ .type = 'D', .locate = 6, .deleted = { 1 } },
		{ .type = 'C', .locate = 6, .priced = { 1, 10, 2, 'Y', 9000 } },
	};
	const size_t count = sizeof(changes) / sizeof(changes[0]);

	send((struct itch_message){
		.type = 'R', .locate = 6, .directory = { .stock = "OTHER   " } });
	add(1, 'B', 100, 10000);
	for (size_t i = 0; i < count; i++) {
		send(changes[i]);
		cr_expect_eq(answered, MARKET_DEFECT, "%c", changes[i].type);
		cr_expect_eq(record_count, changes[i].type == 'C', "%c", changes[i].type);
	}
	cr_expect_eq(of_market(MARKET_COUNTER_UNKNOWN_REFERENCE), count);
	cr_expect_str_eq(made(MARKET_TRADE)->name, "OTHER", "the message says its price");
	cr_expect_eq(made(MARKET_TRADE)->trade.aggressor[0], '\0');
	delete (1);
	check_quote(NO_PRICE, 0, NO_PRICE, 0);
}

Test(market, message_with_another_name_than_its_locate_has_no_effect)
{
	struct itch_message trade = { .type = 'P', .locate = 5, .trade = { .shares = 1 } };

	memcpy(trade.trade.stock, "OTHER   ", ITCH_STOCK_BYTES);
	add(1, 'B', 100, 10000);
	send(trade);
	cr_assert_eq(record_count, 0);
	cr_assert_eq(answered, MARKET_DEFECT);
	cr_assert_str_eq(market_why(protocol->market),
			 "symbol: found OTHER, expected ACME, the name of locate 5");
	cr_assert_eq(counter(ITCH_COUNTER_NAME_CONFLICT), 1);
	cr_assert_eq(counter(ITCH_COUNTER_trade), 0);
}

/* A hostile feed: each name costs as much as the first, and their number has a bound. */
Test(market, renames_have_a_bound)
{
	struct itch_message directory = { .type = 'R', .locate = 5 };

	for (unsigned int i = 0; i <= MARKET_RENAMES + 1; i++) {
		char stock[ITCH_STOCK_BYTES + 1];

		snprintf(stock, sizeof(stock), "S%07u", i);
		memcpy(directory.directory.stock, stock, ITCH_STOCK_BYTES);
		send(directory);
		cr_assert_eq(answered, i <= MARKET_RENAMES ? 0 : MARKET_DEFECT, "name %u", i);
	}
	cr_assert_eq(counter(ITCH_COUNTER_NAME_CONFLICT), 1);
	protocol_clear(protocol);
	send(directory);
	cr_assert_eq(answered, 0);
}

Test(market, broken_trade_of_a_locate_without_a_name_is_no_record)
{
	const struct itch_message message = { .type = 'B', .locate = 5, .broken = { 99 } };

	send(message);
	cr_expect_eq(answered, MARKET_DEFECT);
	market_partial(protocol->market);
	send(message);
	cr_expect_eq(answered, 0);
	cr_expect_eq(record_count, 0);
	cr_expect_eq(of_market(MARKET_COUNTER_UNKNOWN_REFERENCE), 2);
}

/* Its records would be those of the whole market. */
Test(market, symbol_named_as_the_whole_market_is_refused)
{
	struct itch_message directory = { .type = 'R', .locate = 5 };

	memcpy(directory.directory.stock, "market  ", ITCH_STOCK_BYTES);
	send(directory);
	cr_expect_eq(answered, MARKET_DEFECT);
	cr_expect_eq(record_count, 0);
	cr_expect_eq(counter(ITCH_COUNTER_BAD_VALUE), 1);
}

Test(market, malformed_messages_are_counted_and_have_no_effect)
{
	static const char *const names[] = { "        ", "\0\0\0\0\0\0\0\0", "AB\nC    ",
					     " ABC    ", "\xff       " };
	struct itch_message directory = { .type = 'R', .locate = 5 };
	const uint8_t unknown[12] = { 'z' };
	uint64_t bad = 0;

	add(1, 'B', 100, 10000);
	send_bytes(unknown, sizeof(unknown), 12345);
	cr_assert_eq(reported, 1);
	cr_assert(!strncmp(report, "12345 found message type 0x7a", 29), "%s", report);
	send_bytes((const uint8_t[]){ 'D', 0 }, 2, 1);
	send_bytes(unknown, 0, 2);
	directory.locate = 9;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		memcpy(directory.directory.stock, names[i], ITCH_STOCK_BYTES);
		send(directory);
		cr_assert_eq(counter(ITCH_COUNTER_BAD_VALUE), ++bad);
	}
	cr_assert_eq(reported, PROTOCOL_MALFORMED_REPORTED);
	for (unsigned i = 0; i < 100; i++)
		send_bytes(unknown, sizeof(unknown), i);
	cr_assert_eq(reported, PROTOCOL_MALFORMED_REPORTED);
	cr_assert_eq(counter(ITCH_COUNTER_UNKNOWN_TYPE), 101);
	cr_assert_eq(counter(ITCH_COUNTER_WRONG_LENGTH), 2);
	cr_assert_eq(of_market(MARKET_COUNTER_SYMBOLS), 1);
	cr_assert_eq(counter(ITCH_COUNTER_directory), 0);
	cr_assert_eq(record_count, 0);
	delete (1);
	check_quote(NO_PRICE, 0, NO_PRICE, 0);
}

static unsigned selects(void)
{
	unsigned seen = 0;

	for (unsigned i = 0; i < record_count; i++)
		seen |= 1u << records[i].select;
	return seen;
}

/* Log lines say when the last message was, even if it is malformed. */
Test(market, malformed_message_has_a_time_if_it_is_long_enough)
{
	const uint8_t bytes[13] = { [0] = '?', [9] = 1, [10] = 2 };

	protocol->marks = begun;
	send_bytes(bytes, sizeof(bytes), 0);
	cr_expect_eq(answered, PROTOCOL_DEFECT);
	cr_expect_eq(protocol->marks.time_ns, 258);
	send_bytes(bytes, ITCH_HEAD_BYTES - 1, 0);
	cr_expect_eq(answered, PROTOCOL_DEFECT);
	cr_expect_eq(protocol->marks.time_ns, 0, "send_bytes begins in the middle of a day");
}

Test(market, only_wanted_selects_are_output)
{
	for (unsigned wanted = 0; wanted < 1u << MARKET_SELECTS; wanted++) {
		unsigned seen = 0;

		protocol_close(protocol);
		open_market(wanted);
		add(1, 'B', 100, 10000);
		seen |= selects();
		execute(1, 1, 1);
		seen |= selects();
		cross(5, 'O');
		seen |= selects();
		send((struct itch_message){
			.type = 'H', .locate = 5, .action = { .stock = STOCK } });
		seen |= selects();
		send((struct itch_message){
			.type = 'I', .locate = 5, .imbalance = { .stock = STOCK } });
		seen |= selects();
		send((struct itch_message){
			.type = 'R', .locate = 5, .directory = { .stock = STOCK } });
		seen |= selects();
		cr_assert_eq(seen, wanted);
	}
}

Test(market, cleared_market_restarts_and_keeps_counting)
{
	add(1, 'B', 100, 10000);
	protocol_clear(protocol);
	cr_assert_eq(of_market(MARKET_COUNTER_ORDERS), 0);
	cr_assert_eq(of_market(MARKET_COUNTER_SYMBOLS), 0);
	delete (1);
	cr_assert_eq(record_count, 0);
	add(2, 'B', 100, 10000);
	check_quote(10000, 100, NO_PRICE, 0);
	cr_assert_not_null(made(MARKET_DEPTH10));
	cr_assert_eq(counter(ITCH_COUNTER_add), 2);
	cr_assert_eq(of_market(MARKET_COUNTER_UNKNOWN_REFERENCE), 1);
}

Test(market, cleared_market_forgets_statuses_and_trades)
{
	struct tb_status expected = status_unknown('Y');

	status_of((struct itch_message){ .action = { STOCK, 'H', ' ', "T1  " } }, 'H');
	add(1, 'B', 100, 10000);
	execute(1, 10, 7);
	protocol_clear(protocol);
	expected.reg_sho[0] = '1';
	check_status(status_of((struct itch_message){ .reg_sho = { STOCK, '1' } }, 'Y'), expected);
	break_match(5, 7);
	check_cancel(7, 1);
}

Test(market, every_counter_fits_a_bus)
{
	size_t count;
	const struct tb_counter *table = protocol_counter_table(protocol, &count);

	cr_assert_leq(count, 64);
	for (size_t i = 0; i < count; i++) {
		cr_assert_leq(strlen(table[i].name), 39);
		cr_assert_geq(strlen(table[i].name), 1);
		cr_assert_leq(strlen(table[i].unit), 11);
		cr_assert_not_null(table[i].meaning);
		for (size_t j = 0; j < i; j++)
			cr_assert_str_neq(table[i].name, table[j].name);
	}
	cr_assert_str_eq(table[ITCH_COUNTER_priced].name, "order_executed_with_price");
	cr_assert_str_eq(table[ITCH_COUNTER_COUNT + MARKET_COUNTER_ORDERS].name, "orders");
}

/* Random bytes, and messages with random bytes after a valid type. */
Test(market, random_bytes_never_crash_the_market)
{
	uint64_t state = 7;
	uint8_t bytes[256];

	cr_log_info("seed 7");
	for (unsigned i = 0; i < 300000; i++) {
		size_t length;

		for (unsigned j = 0; j < sizeof(bytes); j += 8) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			memcpy(bytes + j, (uint64_t[]){ state ^ state >> 29 }, 8);
		}
		length = bytes[255] % 64;
		if (i % 4) {
			const struct itch_type *type = &itch_types[bytes[254] % ITCH_TYPE_COUNT];

			bytes[0] = (uint8_t)type->code;
			bytes[5] = 0;
			memset(bytes + 11, 0, 7);
			memset(bytes + 24, 'A', 8);
			bytes[19] = i % 3 ? 'B' : bytes[19];
			length = type->length;
		}
		send_bytes(bytes, length, i);
	}
	cr_assert_gt(of_market(MARKET_COUNTER_LIVE_REFERENCE), 0);
	cr_assert_gt(counter(ITCH_COUNTER_UNKNOWN_TYPE), 0);
}

Test(market, real_minute_ends_with_the_known_book)
{
	const char *folder = getenv("TICKBUS_TEST_DATA");
	struct source_message message;
	struct tb_quote last = { .bid_price = NO_PRICE };
	struct source *source;
	char path[4096];
	int result;

	if (!folder)
		cr_skip("TICKBUS_TEST_DATA is not set");
	snprintf(path, sizeof(path), "%s/itch/itch50_aapl_20191230_0935.bin", folder);
	if (access(path, R_OK) != 0)
		cr_skip("%s is not there", path);
	cr_assert_eq(source_file_open(&source, path), 0, "%s", tb_error());
	while ((result = source_next(source, &message)) > 0) {
		send_bytes(message.bytes, message.length, message.offset);
		if (made(MARKET_QUOTE))
			last = made(MARKET_QUOTE)->quote;
		cr_assert(last.bid_price == NO_PRICE || last.ask_price == NO_PRICE ||
			  last.bid_price < last.ask_price);
	}
	cr_assert_eq(result, 0);
	source_close(source);
	cr_assert_eq(of_market(MARKET_COUNTER_UNKNOWN_REFERENCE), 3970);
	cr_assert_eq(of_market(MARKET_COUNTER_CLAMPED), 0);
	cr_assert_eq(of_market(MARKET_COUNTER_LIVE_REFERENCE), 0);
	cr_assert_eq(of_market(MARKET_COUNTER_ORDERS), 339);
	cr_assert_eq(counter(ITCH_COUNTER_add), 22121);
	cr_assert_eq(counter(ITCH_COUNTER_deleted), 24150);
	cr_assert_eq(last.bid_price, 2866700);
	cr_assert_eq(last.ask_price, 2867300);
	cr_assert_str_eq(records[0].name, "AAPL");
}
