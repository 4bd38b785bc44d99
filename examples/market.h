/* SPDX-License-Identifier: Apache-2.0 */
/* What market_view knows of the market, filled by the bus and shown by the view. */
#ifndef MARKET_H
#define MARKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tickbus/subscriber.h>

#include "histogram.h"

#define MARKET_SYMBOLS (1u << 16) /* more names than that are counted only */
#define MARKET_PLACES  (MARKET_SYMBOLS * 2)
#define MARKET_CAUSES  5 /* enum tb_cause, from 1 */

struct symbol {
	char name[TB_INSTRUMENT_NAME_MAX + 1];
	int64_t bid, ask, last;
	uint32_t bid_size, ask_size, last_size;
	int64_t shown_bid, shown_ask, shown_last; /* when it was drawn before */
	uint64_t records;                         /* since the last drawing */
	uint64_t activity;                        /* records, older ones counting less and less */
};

struct stream {
	const char *topic;
	uint64_t records, gaps, restarts, lost[MARKET_CAUSES];
	const char *state; /* a word */
	bool ended;
};

struct market {
	struct symbol *symbols; /* in the order in which they appeared: a drawing walks them all */
	size_t symbol_count;
	uint32_t *places; /* a hash table by name: index in symbols, from 1 */
	struct stream quotes, trades;
	struct histogram *recent, *all; /* publish-to-receive latency: this second's, before it */
};

/* 0, or -1: no memory. */
int market_open(struct market *market, const char *quotes, const char *trades);
void market_close(struct market *market);

/* Handlers; user is the market. */
void market_quote(void *user, const struct tb_source *source, const struct tb_record *record);
void market_trade(void *user, const struct tb_source *source, const struct tb_record *record);
void market_event(void *user, const struct tb_event *event);

uint64_t market_lost(const struct stream *stream);
bool market_ended(const struct market *market);

/* The most active symbols, at most max, in order of their names: rows move little. Begins a new
 * interval. Their number. */
size_t market_active(struct market *market, struct symbol **found, size_t max);

#endif
