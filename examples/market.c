/* SPDX-License-Identifier: Apache-2.0 */
#include "market.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tickbus/schemas/quote.h>
#include <tickbus/schemas/trade.h>

#define ACTIVE_MAX 256

/* The clock of the publishers' time stamps. It may be set back or forward: for latency only. */
static uint64_t market_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int market_open(struct market *market, const char *quotes, const char *trades)
{
	*market = (struct market){ .quotes = { .topic = quotes, .state = "waiting" },
				   .trades = { .topic = trades, .state = "waiting" } };
	market->symbols = calloc(MARKET_SYMBOLS, sizeof(*market->symbols));
	market->places = calloc(MARKET_PLACES, sizeof(*market->places));
	market->recent = calloc(1, sizeof(*market->recent));
	market->all = calloc(1, sizeof(*market->all));
	return market->symbols && market->places && market->recent && market->all ? 0 : -1;
}

void market_close(struct market *market)
{
	free(market->symbols);
	free(market->places);
	free(market->recent);
	free(market->all);
}

/* Each topic has its own instrument numbers, so symbols are found by name. */
static struct symbol *market_symbol(struct market *market, const char *name)
{
	uint64_t at = UINT64_C(14695981039346656037);
	struct symbol *symbol;

	for (const char *letter = name; *letter; letter++)
		at = (at ^ (unsigned char)*letter) * UINT64_C(1099511628211);
	for (at %= MARKET_PLACES; market->places[at]; at = (at + 1) % MARKET_PLACES) {
		symbol = &market->symbols[market->places[at] - 1];
		if (!strcmp(symbol->name, name))
			return symbol;
	}
	if (market->symbol_count == MARKET_SYMBOLS)
		return NULL;
	symbol = &market->symbols[market->symbol_count++];
	market->places[at] = (uint32_t)market->symbol_count;
	strncpy(symbol->name, name, TB_INSTRUMENT_NAME_MAX);
	symbol->bid = symbol->ask = symbol->last = MARKET_NO_PRICE;
	symbol->shown_bid = symbol->shown_ask = symbol->shown_last = MARKET_NO_PRICE;
	return symbol;
}

/* Counts the record. Returns its symbol, or NULL if it changes no value. The values of an image are
 * old: they have no latency. */
static struct symbol *market_count(struct market *market, struct stream *stream,
				   const struct tb_record *record)
{
	struct symbol *symbol = market_symbol(market, record->name);

	if (market->watched) {
		stream->records++;
		stream->state = "live";
	} else if (record->flags & TB_FLAG_IMAGE) {
		stream->values++;
	} else {
		const uint64_t now_ns = market_now_ns();

		histogram_add(market->recent,
			      now_ns > record->time_ns ? now_ns - record->time_ns : 0);
		stream->records++;
		if (!stream->imaging)
			stream->state = "live";
	}
	if (symbol)
		symbol->records++;
	return record->kind == TB_KIND_UPDATE || record->kind == TB_KIND_CLEAR ||
			       (record->kind == TB_KIND_CORRECTION &&
				!(record->flags & TB_FLAG_PAST))
		       ? symbol
		       : NULL;
}

void market_quote(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct market *market = user;
	struct symbol *symbol = market_count(market, &market->quotes, record);
	struct tb_quote quote = { .bid_price = TB_QUOTE_BID_PRICE_NULL,
				  .ask_price = TB_QUOTE_ASK_PRICE_NULL };

	(void)source;
	if (!symbol || (record->kind != TB_KIND_CLEAR && record->length < sizeof(quote)))
		return;
	if (record->kind != TB_KIND_CLEAR)
		memcpy(&quote, record->data, sizeof(quote));
	symbol->bid =
		TB_QUOTE_BID_PRICE_ISNULL(quote.bid_price) ? MARKET_NO_PRICE : quote.bid_price;
	symbol->ask =
		TB_QUOTE_ASK_PRICE_ISNULL(quote.ask_price) ? MARKET_NO_PRICE : quote.ask_price;
	symbol->bid_size = quote.bid_size;
	symbol->ask_size = quote.ask_size;
}

void market_trade(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct market *market = user;
	struct symbol *symbol = market_count(market, &market->trades, record);
	struct tb_trade trade = { .price = TB_TRADE_PRICE_NULL, .size = TB_TRADE_SIZE_NULL };

	(void)source;
	if (!symbol || (record->kind != TB_KIND_CLEAR && record->length < sizeof(trade)))
		return;
	if (record->kind != TB_KIND_CLEAR)
		memcpy(&trade, record->data, sizeof(trade));
	symbol->last = TB_TRADE_PRICE_ISNULL(trade.price) ? MARKET_NO_PRICE : trade.price;
	symbol->last_size = TB_TRADE_SIZE_ISNULL(trade.size) ? 0 : trade.size;
}

/* A new epoch begins without values. A symbol that has no value left was active in the past. */
static void market_forget(struct market *market, const struct stream *stream)
{
	for (struct symbol *s = market->symbols; s < market->symbols + market->symbol_count; s++) {
		if (stream == &market->quotes) {
			s->bid = s->ask = MARKET_NO_PRICE;
			s->bid_size = s->ask_size = 0;
		} else {
			s->last = MARKET_NO_PRICE;
			s->last_size = 0;
		}
		if (s->bid == MARKET_NO_PRICE && s->ask == MARKET_NO_PRICE &&
		    s->last == MARKET_NO_PRICE)
			s->activity = s->records = 0;
	}
}

struct stream *market_event(struct market *market, const struct tb_event *event)
{
	static const char *const words[] = {
		[TB_EVENT_APPEARED] = "joined", [TB_EVENT_STALE] = "stale",
		[TB_EVENT_LIVE] = "live",       [TB_EVENT_RESTART] = "restarted",
		[TB_EVENT_ENDED] = "ended",     [TB_EVENT_REFUSED] = "refused",
		[TB_EVENT_IMAGE] = "image",     [TB_EVENT_COMPLETE] = "live",
	};
	struct stream *stream =
		!strcmp(event->topic, market->quotes.topic) ? &market->quotes : &market->trades;

	if (event->kind == TB_EVENT_GAP) {
		stream->gaps++;
		if (event->cause < MARKET_CAUSES)
			stream->lost[event->cause] += event->lost;
	} else if ((size_t)event->kind < sizeof(words) / sizeof(words[0]) && words[event->kind]) {
		stream->state = words[event->kind];
		if (event->kind == TB_EVENT_RESTART) {
			stream->restarts++;
			market_forget(market, stream);
		}
		if (event->kind == TB_EVENT_IMAGE || event->kind == TB_EVENT_COMPLETE)
			stream->imaging = event->kind == TB_EVENT_IMAGE;
		if (event->kind == TB_EVENT_IMAGE)
			stream->values = 0;
		stream->complete |= event->kind == TB_EVENT_COMPLETE;
		stream->ended = event->kind == TB_EVENT_ENDED || event->kind == TB_EVENT_REFUSED;
	}
	if (event->kind == TB_EVENT_APPEARED || event->kind == TB_EVENT_RESTART ||
	    event->kind == TB_EVENT_QUALITY) {
		stream->quality = event->quality;
		stream->quality_cause = event->quality_cause;
	}
	return stream;
}

const char *market_quality(char text[MARKET_QUALITY], const struct stream *stream)
{
	static const char *const causes[] = {
		[TB_QUALITY_NO_START] = "no start",
		[TB_QUALITY_NO_END] = "no end",
		[TB_QUALITY_DAMAGED] = "damaged",
		[TB_QUALITY_MISSING] = "missing",
	};
	const char *word = stream->quality == TB_QUALITY_GOOD      ? "good"
			   : stream->quality == TB_QUALITY_SUSPECT ? "suspect"
								   : "rebuilding";
	const uint32_t cause = stream->quality_cause;

	if (cause == TB_QUALITY_CAUSE_NONE)
		return word;
	if (cause < sizeof(causes) / sizeof(causes[0]))
		snprintf(text, MARKET_QUALITY, "%s (%s)", word, causes[cause]);
	else
		snprintf(text, MARKET_QUALITY, "%s (cause %" PRIu32 ")", word, cause);
	return text;
}

uint64_t market_lost(const struct stream *stream)
{
	uint64_t lost = 0;

	for (int cause = 0; cause < MARKET_CAUSES; cause++)
		lost += stream->lost[cause];
	return lost;
}

bool market_ended(const struct market *market)
{
	return market->quotes.ended && market->trades.ended;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct symbol *const *)a)->name, (*(struct symbol *const *)b)->name);
}

size_t market_active(struct market *market, struct symbol **found, size_t max)
{
	size_t count = 0;

	max = max < ACTIVE_MAX ? max : ACTIVE_MAX;
	for (struct symbol *s = market->symbols; s < market->symbols + market->symbol_count; s++) {
		size_t at = count;

		s->activity -= s->activity / 16;
		s->activity += s->records * 16;
		s->records = 0;
		if (s->activity == 0)
			continue;
		/* found[] is sorted by activity, the least active last. */
		while (at > 0 && found[at - 1]->activity < s->activity)
			at--;
		if (at == max)
			continue;
		count += count < max;
		memmove(&found[at + 1], &found[at], (count - at - 1) * sizeof(*found));
		found[at] = s;
	}
	qsort(found, count, sizeof(*found), by_name);
	return count;
}
