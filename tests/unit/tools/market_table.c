/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the example market_view: what records, images, gaps and restarts do to it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "examples/market.h"
#include <tickbus/schemas/quote.h>
#include <tickbus/schemas/trade.h>

static struct market market;

static void enter(void)
{
	cr_assert_eq(market_open(&market, "m.quote", "m.trade"), 0);
}

static void leave(void)
{
	market_close(&market);
}

TestSuite(market_table, .init = enter, .fini = leave, .timeout = 60);

static struct tb_record record_of(const char *name, uint8_t kind, uint8_t flags)
{
	return (struct tb_record){ .size = sizeof(struct tb_record),
				   .sequence = 1,
				   .time_ns = 1,
				   .kind = kind,
				   .flags = flags,
				   .name = name };
}

static void quote(const char *name, uint8_t kind, uint8_t flags, int64_t bid)
{
	const struct tb_quote quote = {
		.bid_price = bid, .ask_price = bid + 100, .bid_size = 5, .ask_size = 6
	};
	struct tb_record record = record_of(name, kind, flags);

	record.data = &quote;
	record.length = kind == TB_KIND_CLEAR ? 0 : sizeof(quote);
	market_quote(&market, NULL, &record);
}

static void trade(const char *name, uint8_t kind, uint8_t flags, int64_t price)
{
	const struct tb_trade trade = { .price = price, .size = 7 };
	struct tb_record record = record_of(name, kind, flags);

	record.data = &trade;
	record.length = kind == TB_KIND_CLEAR ? 0 : sizeof(trade);
	market_trade(&market, NULL, &record);
}

static const struct stream *event(const char *topic, enum tb_event_kind kind)
{
	const struct tb_event event = { .size = sizeof(event), .kind = kind, .topic = topic };

	return market_event(&market, &event);
}

static const struct symbol *symbol(const char *name)
{
	for (size_t i = 0; i < market.symbol_count; i++)
		if (!strcmp(market.symbols[i].name, name))
			return &market.symbols[i];
	cr_assert_fail("found no symbol %s", name);
	return NULL;
}

Test(market_table, image_shows_the_whole_market_at_once)
{
	struct symbol *found[64];
	char name[16];

	event("m.quote", TB_EVENT_IMAGE);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "S%02d", i);
		quote(name, TB_KIND_UPDATE, TB_FLAG_IMAGE, 1000 + i);
	}
	cr_assert_eq(market_active(&market, found, 64), 50);
	for (int i = 0; i < 50; i++)
		cr_expect_eq(found[i]->bid, 1000 + i);
	cr_expect_eq(market.quotes.values, 50);
	cr_expect_eq(market.quotes.records, 0);
	cr_expect_eq(market.recent->count, 0, "an old value has no latency");
}

Test(market_table, image_lasts_until_it_is_complete)
{
	event("m.trade", TB_EVENT_IMAGE);
	trade("A", TB_KIND_UPDATE, 0, 5);
	cr_expect_str_eq(market.trades.state, "image");
	cr_expect_str_eq(market.quotes.state, "waiting");
	cr_expect_eq(event("m.trade", TB_EVENT_COMPLETE), &market.trades);
	cr_expect_str_eq(market.trades.state, "live");
	trade("A", TB_KIND_UPDATE, 0, 6);
	event("m.trade", TB_EVENT_STALE);
	cr_expect_str_eq(market.trades.state, "stale");
	trade("A", TB_KIND_UPDATE, 0, 7);
	cr_expect_str_eq(market.trades.state, "live");
}

Test(market_table, clear_of_a_gaps_image_removes_the_value)
{
	quote("A", TB_KIND_UPDATE, 0, 1000);
	trade("A", TB_KIND_UPDATE, 0, 1050);
	event("m.quote", TB_EVENT_GAP);
	event("m.quote", TB_EVENT_IMAGE);
	quote("A", TB_KIND_CLEAR, TB_FLAG_IMAGE, 0);
	cr_expect_eq(symbol("A")->bid, MARKET_NO_PRICE);
	cr_expect_eq(symbol("A")->ask, MARKET_NO_PRICE);
	cr_expect_eq(symbol("A")->bid_size, 0);
	cr_expect_eq(symbol("A")->last, 1050, "the trade stays");
	trade("A", TB_KIND_CLEAR, 0, 0);
	cr_expect_eq(symbol("A")->last, MARKET_NO_PRICE);
	cr_expect_eq(symbol("A")->last_size, 0);
}

Test(market_table, record_that_changes_no_value_leaves_the_table)
{
	trade("A", TB_KIND_UPDATE, 0, 1050);
	trade("A", TB_KIND_CANCEL, 0, 1);
	trade("A", TB_KIND_CORRECTION, TB_FLAG_PAST, 2);
	cr_expect_eq(symbol("A")->last, 1050);
	trade("A", TB_KIND_CORRECTION, 0, 1040);
	cr_expect_eq(symbol("A")->last, 1040);
}

Test(market_table, restart_empties_the_table_of_its_topic)
{
	quote("A", TB_KIND_UPDATE, 0, 1000);
	trade("A", TB_KIND_UPDATE, 0, 1050);
	event("m.quote", TB_EVENT_RESTART);
	cr_expect_eq(symbol("A")->bid, MARKET_NO_PRICE);
	cr_expect_eq(symbol("A")->last, 1050);
	event("m.trade", TB_EVENT_RESTART);
	cr_expect_eq(symbol("A")->last, MARKET_NO_PRICE);
	cr_expect_eq(market.trades.restarts, 1);
}

Test(market_table, symbol_without_a_value_in_the_new_epochs_is_not_active)
{
	struct symbol *found[2];

	for (int i = 0; i < 100; i++)
		quote("OLD", TB_KIND_UPDATE, 0, 1000);
	trade("OLD", TB_KIND_UPDATE, 0, 1050);
	cr_assert_eq(market_active(&market, found, 2), 1);
	quote("OLD", TB_KIND_UPDATE, 0, 1000);
	event("m.trade", TB_EVENT_RESTART);
	trade("NEW", TB_KIND_UPDATE, 0, 1060);
	cr_expect_eq(market_active(&market, found, 2), 2,
		     "the old quotes are of the present epoch");
	event("m.quote", TB_EVENT_RESTART);
	cr_assert_eq(market_active(&market, found, 2), 1);
	cr_expect_str_eq(found[0]->name, "NEW");
}

static void quality(uint32_t state, uint32_t cause)
{
	const struct tb_event event = { .size = sizeof(event),
					.kind = TB_EVENT_QUALITY,
					.topic = "m.quote",
					.quality = state,
					.quality_cause = cause };

	market_event(&market, &event);
}

Test(market_table, quality_of_a_topic_has_its_cause_until_a_restart)
{
	char text[MARKET_QUALITY];

	cr_expect_str_eq(market_quality(text, &market.quotes), "good");
	quality(TB_QUALITY_SUSPECT, TB_QUALITY_NO_START);
	quote("A", TB_KIND_UPDATE, 0, 1000);
	cr_expect_str_eq(market_quality(text, &market.quotes), "suspect (no start)");
	cr_expect_str_eq(market.quotes.state, "live");
	cr_expect_str_eq(market_quality(text, &market.trades), "good");
	quality(TB_QUALITY_SUSPECT, TB_QUALITY_USER + 2);
	cr_expect_str_eq(market_quality(text, &market.quotes), "suspect (cause 130)");
	quality(TB_QUALITY_REBUILDING, TB_QUALITY_CAUSE_NONE);
	cr_expect_str_eq(market_quality(text, &market.quotes), "rebuilding");
	event("m.quote", TB_EVENT_RESTART);
	cr_expect_str_eq(market_quality(text, &market.quotes), "good");
	quality(TB_QUALITY_SUSPECT, TB_QUALITY_DAMAGED);
	quality(TB_QUALITY_GOOD, TB_QUALITY_CAUSE_NONE);
	cr_expect_str_eq(market_quality(text, &market.quotes), "good");
}
