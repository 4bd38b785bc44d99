/* SPDX-License-Identifier: Apache-2.0 */
/* The market's state: handlers fill it, market_view shows it. */
#ifndef MARKET_H
#define MARKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tickbus/subscriber.h>

#include "histogram.h"

#define MARKET_SYMBOLS  (1u << 16) /* further names are only counted */
#define MARKET_PLACES   (MARKET_SYMBOLS * 2)
#define MARKET_CAUSES   5         /* enum tb_cause, from 1 */
#define MARKET_QUALITY  32        /* bytes of a quality as text */
#define MARKET_NO_PRICE INT64_MIN /* no order, no trade, or not known yet */

struct symbol {
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	int64_t bid, ask, last;
	uint32_t bid_size, ask_size, last_size;
	int64_t shown_bid, shown_ask, shown_last; /* at the last drawing */
	uint64_t records;                         /* since the last drawing */
	uint64_t activity;                        /* records, older records with less weight */
};

struct stream {
	const char *topic;
	uint64_t records, gaps, restarts, lost[MARKET_CAUSES];
	uint64_t values;                 /* of the last image */
	const char *state;               /* "live", "image", "stale", ... */
	uint32_t quality, quality_cause; /* enum tb_quality, enum tb_quality_cause */
	bool imaging;                    /* an image is not complete */
	bool complete;                   /* an image has been */
	bool ended;
};

struct market {
	struct symbol *symbols; /* in order of appearance */
	size_t symbol_count;
	uint32_t *places; /* hash table by name: index in symbols + 1; 0: empty */
	struct stream quotes, trades;
	bool watched;                   /* a watch list: each record is a value, however old */
	struct histogram *recent, *all; /* publish-to-receive latency: this second, earlier */
};

/* 0, or -1: out of memory. */
int market_open(struct market *market, const char *quotes, const char *trades);
void market_close(struct market *market);

/* Handlers; user is the market. */
void market_quote(void *user, const struct tb_source *source, const struct tb_record *record);
void market_trade(void *user, const struct tb_source *source, const struct tb_record *record);
/* Returns the stream that the event is about. */
struct stream *market_event(struct market *market, const struct tb_event *event);

/* The quality, and its cause if that is known: "suspect (no start)". */
const char *market_quality(char text[MARKET_QUALITY], const struct stream *stream);
uint64_t market_lost(const struct stream *stream);
bool market_ended(const struct market *market);

/* Fills `found` with at most max of the most active symbols, sorted by name to keep rows in place.
 * Begins a new interval. Returns the number of symbols. */
size_t market_active(struct market *market, struct symbol **found, size_t max);

#endif
