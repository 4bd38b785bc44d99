/* SPDX-License-Identifier: Apache-2.0 */
/* From the events of an exchange to records: keeps the books, and gives out what each message
 * changed. A protocol (protocol.h) makes the events. This file knows no message.
 *
 * A message is market_begin, its events, market_end. It makes, in this order:
 *
 *   trade       at once with its event: of the message's shares, even if the book has less. An
 *               execution has the price of its order, or the message's own. Its aggressor is the
 *               side opposite to the resting order, null if that is unknown. A break takes a trade
 *               back: kind cancel with match and time, the rest null. If that trade was the value,
 *               the newest trade that stands follows as a correction, or a clear if the market
 *               knows none.
 *
 *   status      the record has all parts that are known, and says which message changed it.
 *
 *   imbalance, definition   as their events say.
 *
 *   quote       at the end of the message: the best bid or ask price, or the total size at it, has
 *               changed. An empty side has a null price and size 0.
 *
 *   depth10     at the end of the message: any of the ten best levels of a side has changed. A
 *               missing level has a null price.
 *
 * A symbol is a number that the protocol chooses. A change of an order has the symbol of that
 * order; with another symbol, the order is unknown. If a symbol gets another name, it is another
 * instrument from there on, and the book of the instrument before is empty. What concerns the whole
 * market goes to the symbol MARKET_WIDE.
 *
 * Errors   -ENOMEM, -EOVERFLOW (too many orders): the books are no longer right.
 * Threads  one thread at a time; any thread may read the counters.
 * Memory   that of the books, plus 72 bytes per symbol. If a symbol has them, its levels of depth10
 *          take 328 bytes, its last trades 264 and its status 72. */
#ifndef TICKBUS_FEEDS_MARKET_H
#define TICKBUS_FEEDS_MARKET_H

#include <stddef.h>
#include <stdint.h>

#include "publisher/feeds/market/book_orders.h"
#include "schemas/definition.h"
#include "schemas/imbalance.h"
#include "schemas/status.h"
#include "schemas/trade.h"

enum market_select {
	MARKET_QUOTE,
	MARKET_TRADE,
	MARKET_DEPTH10,
	MARKET_STATUS,
	MARKET_IMBALANCE,
	MARKET_DEFINITION,
	MARKET_SELECTS
};

/* The values of `select` in a configuration, by enum market_select. Each is also the name of a
 * built-in schema. */
extern const char *const market_selects[MARKET_SELECTS];

#define MARKET_WIDE       65536    /* the symbol of messages for the whole market */
#define MARKET_WIDE_NAME  "market" /* lower case: no exchange names a symbol so */
#define MARKET_RENAMED    65537    /* the first number of a symbol that was renamed */
#define MARKET_RENAMES    65535    /* in a day */
#define MARKET_SYMBOLS    (MARKET_RENAMED + MARKET_RENAMES)
#define MARKET_NAME_BYTES 9 /* of a name and its end */

struct market_output {
	enum market_select select;
	uint32_t symbol;  /* below MARKET_SYMBOLS; fixed as long as the name */
	const char *name; /* valid until market_clear */
	uint64_t time_ns; /* the exchange's time, nanoseconds since 1970 UTC */
	const void *data; /* a structure of the built-in schema, in the callback only */
	uint16_t length;
	uint8_t kind; /* enum tb_kind */
};

/* X(what, name, unit, meaning) */
#define MARKET_COUNTERS(X)                                                                         \
	X(UNKNOWN_REFERENCE, "unknown_reference", "messages",                                      \
	  "changes of unknown orders, breaks of trades without a name; without effect")            \
	X(CLAMPED, "clamped", "messages", "executions or cancels of more than was left")           \
	X(LIVE_REFERENCE, "live_reference", "messages",                                            \
	  "orders added under the reference of a live order, which was removed first")             \
	X(SATURATED, "saturated", "sizes",                                                         \
	  "sizes above what their field holds, published as the most that it holds")               \
	X(ORDERS, "orders", "orders", "live orders now")                                           \
	X(SYMBOLS, "symbols", "symbols", "symbols with a name now")

enum market_counter {
#define MARKET_COUNTER(what, name, unit, meaning) MARKET_COUNTER_##what,
	MARKET_COUNTERS(MARKET_COUNTER)
#undef MARKET_COUNTER
		MARKET_COUNTER_COUNT
};

struct market_options {
	uint32_t wanted;    /* bits 1 << enum market_select: the outputs to call */
	uint64_t *counters; /* MARKET_COUNTER_COUNT, zero at first; each is stored whole */
	void (*output)(void *user, const struct market_output *);
	void *user;
};

struct market;

int market_open(struct market **, const struct market_options *);

/* Takes NULL. */
void market_close(struct market *);

/* Removes all orders and names. Counters go on. */
void market_clear(struct market *);

/* The day lacks its beginning: until market_clear, a change of an unknown order is no defect. */
void market_partial(struct market *);

/* Fetches the memory that a later message about an order will need. Neither is checked. */
void market_expect(struct market *, uint16_t symbol, uint64_t reference);

/* -- a message ----------------------------------------------------------------------------------
 */

/* The exchange's time, nanoseconds since 1970 UTC. */
void market_begin(struct market *, uint64_t time_ns);

#define MARKET_DEFECT 1

/* Gives out what the message changed. 0; MARKET_DEFECT: it cannot be used as it is, and the records
 * from here on may be wrong; or -errno. */
int market_end(struct market *);

/* The message has a defect, for people: "it changes an unknown order". The text is not copied. */
void market_defect(struct market *, const char *why);

/* Why the last message has a defect, NULL: there is no defect. Valid until the next message. */
const char *market_why(const struct market *);

/* -- its events: 0 or -errno --------------------------------------------------------------------
 */

/* Changes the order's field `forgotten`. */
int market_add(struct market *, struct book_order *);
int market_cancel(struct market *, uint16_t symbol, uint64_t reference, uint32_t shares);
int market_delete(struct market *, uint16_t symbol, uint64_t reference);
/* The new order keeps the side of the old order. */
int market_replace(struct market *, uint16_t symbol, uint64_t reference, uint64_t new_reference,
		   uint32_t shares, uint32_t price);

/* At the price of the order. */
int market_execute(struct market *, uint16_t symbol, uint64_t reference, uint32_t shares,
		   uint64_t match);
/* At a price of its own. The trade has its price, match and condition; NULL: it is not shown. If
 * the order is unknown, it is a trade if the symbol has a name. */
int market_execute_at(struct market *, uint16_t symbol, uint64_t reference, uint32_t shares,
		      struct tb_trade *);

/* A trade that changes no order. Sets its time and size. */
int market_trade(struct market *, uint16_t symbol, struct tb_trade *, uint64_t size);
/* Takes the trades of a match back. */
void market_break(struct market *, uint16_t symbol, uint64_t match);

/* *status: what is known of the symbol (also MARKET_WIDE), to be changed before
 * market_status_changed. NULL: statuses are not wanted. */
int market_status(struct market *, uint32_t symbol, struct tb_status **status);
void market_status_changed(struct market *, uint32_t symbol);

/* Set the time. */
void market_definition(struct market *, uint16_t symbol, struct tb_definition *);
void market_imbalance(struct market *, uint16_t symbol, struct tb_imbalance *);

/* -- names --------------------------------------------------------------------------------------
 */

/* 0, or -EBADMSG with a message: it cannot be a name, or is too long. */
int market_check_name(const char *name, size_t length);

/* The first name of a symbol, below MARKET_NAME_BYTES. */
void market_name_set(struct market *, uint16_t symbol, const char *name, size_t length);

/* Another name: from here on the symbol is another instrument. Gives out that the book before is
 * empty. -EEXIST, with a message: too many. */
int market_rename(struct market *, uint16_t symbol, const char *name, size_t length);

/* The name of a symbol of an output. Any thread that has seen the output may read it. Valid until
 * market_clear. */
const char *market_name(const struct market *, uint32_t symbol);

/* The present name of a protocol's symbol, "" before it has a name. */
const char *market_name_of(const struct market *, uint16_t symbol);

#endif
