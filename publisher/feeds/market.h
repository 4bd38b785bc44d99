/* SPDX-License-Identifier: Apache-2.0 */
/* From messages of an exchange to records: keeps the books, and gives out what each message
 * changed.
 *
 * Each message is evaluated once, in this order:
 *
 *   trade       E, C with printable Y, P, Q with shares: a trade of the message's shares, even if
 *               the book has less. E has the price of the resting order, the others their own
 *               price. So C is a trade even if its order is unknown. The aggressor is the side
 *               opposite to the resting order for E and C. It is null for P, Q, and C of an unknown
 *               order. B takes a trade back: kind cancel with match and time, the rest null. If
 *               that trade was the value, the newest trade that stands follows as a correction, or
 *               a clear if the market knows none.
 *
 *   status      H, h, Y, J for a symbol; S, V, W for the whole market. The record has all parts
 *               that are known, and says which message changed it.
 *
 *   imbalance   I. A price of 0 is null.
 *
 *   definition  R. A space is null.
 *
 *   quote       the best bid or ask price, or the total size at it, has changed. An empty side has
 *               a null price and size 0.
 *
 *   depth10     any of the ten best levels of a side has changed. A missing level has a null price.
 *
 * A symbol is a stock locate under one name. R gives a locate its name; before it, the first other
 * message with a stock does. If R gives another name, the locate is another symbol from there on,
 * and the book of the symbol before is empty. Any other message with another name than the locate's
 * has no effect. A change of an order has the locate of that order; with another locate, the order
 * is unknown. So each record has the name of its message or of its directory.
 * Messages without a known symbol (S, V, W, and B for an unseen symbol) go to the
 * symbol MARKET_WIDE.
 *
 * Errors   a malformed message is counted and has no effect; the first few are reported with their
 *          offset. A message with a defect is malformed, or disagrees with the book or with a name.
 *          The caller learns each.
 * Threads  one thread at a time; any thread may read the counters.
 * Memory   that of the books, plus 80 bytes per symbol. If a symbol has them, its levels of depth10
 *          take 328 bytes, its last trades 264 and its status 72. */
#ifndef TICKBUS_FEEDS_MARKET_H
#define TICKBUS_FEEDS_MARKET_H

#include <stddef.h>
#include <stdint.h>

#include "publisher/feeds/itch.h"
#include "publisher/feeds/source.h"
#include "tickbus/counters.h"

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

#define MARKET_WIDE      65536    /* the symbol of messages for the whole market */
#define MARKET_WIDE_NAME "market" /* lower case: no exchange names a symbol so */
#define MARKET_RENAMED   65537    /* the first symbol of a locate that was renamed */
#define MARKET_RENAMES   65535    /* in a day */
#define MARKET_SYMBOLS   (MARKET_RENAMED + MARKET_RENAMES)

struct market_output {
	enum market_select select;
	uint32_t symbol;  /* below MARKET_SYMBOLS; fixed as long as the name */
	const char *name; /* valid until market_clear */
	uint64_t time_ns; /* the exchange's time, nanoseconds since 1970 UTC */
	const void *data; /* a structure of the built-in schema, in the callback only */
	uint16_t length;
	uint8_t kind; /* enum tb_kind */
};

#define MARKET_MALFORMED_REPORTED 8 /* malformed messages that are reported; all are counted */

struct market_options {
	uint32_t wanted;      /* bits 1 << enum market_select: the outputs to call */
	uint64_t midnight_ns; /* of the messages' day, nanoseconds since 1970 UTC */
	void (*output)(void *user, const struct market_output *);
	void (*malformed)(void *user, uint64_t offset, const char *message); /* or NULL */
	void *user;
};

struct market;

int market_open(struct market **, const struct market_options *);

/* Takes NULL. */
void market_close(struct market *);

/* Fetches the memory that a later message will need. The message is not checked. */
void market_expect(struct market *, const uint8_t *bytes, size_t length);

/* Sets the midnight of the messages that follow, in nanoseconds since 1970 UTC. */
void market_date(struct market *, uint64_t midnight_ns);

/* The day lacks its beginning: until market_clear, a change of an unknown order is no defect. */
void market_partial(struct market *);

#define MARKET_DEFECT 1

/* Processes one message. 0, or -ENOMEM: the books are no longer right. MARKET_DEFECT: the message
 * cannot be used as it is. The records from here on may be wrong. */
int market_message(struct market *, const struct source_message *message);

/* Why the last message has a defect: "it changes an unknown order". Valid until the next message.
 */
const char *market_why(const struct market *);

/* The name of a symbol for which there was an output. Any thread that has seen the output may read
 * it. Valid until market_clear. */
const char *market_name(const struct market *, uint32_t symbol);

/* Removes all orders and names. Counters go on. */
void market_clear(struct market *);

/* Counts a message whose time is too far ahead to wait for it. */
void market_count_jump(struct market *);

/* Valid messages so far. */
uint64_t market_valid(const struct market *);

/* The counters, and the table that describes them. Both addresses stay valid. */
const uint64_t *market_counters(const struct market *);
const struct tb_counter *market_counter_table(size_t *count);

/* X(what, name, unit, meaning): the counters that come after those of ITCH_TYPES. */
#define MARKET_COUNTERS(X)                                                                         \
	X(UNKNOWN_TYPE, "unknown_type", "messages", "messages of a type that is not in ITCH 5.0")  \
	X(WRONG_LENGTH, "wrong_length", "messages",                                                \
	  "messages whose length is wrong for their type")                                         \
	X(BAD_VALUE, "bad_value", "messages", "messages with an impossible time, side or symbol")  \
	X(UNKNOWN_REFERENCE, "unknown_reference", "messages",                                      \
	  "changes of unknown orders, breaks of trades without a name; without effect")            \
	X(CLAMPED, "clamped", "messages", "executions or cancels of more than was left")           \
	X(LIVE_REFERENCE, "live_reference", "messages",                                            \
	  "orders added under the reference of a live order, which was removed first")             \
	X(NAME_CONFLICT, "name_conflict", "messages",                                              \
	  "messages whose symbol is not that of their stock locate; without effect")               \
	X(SATURATED, "saturated", "sizes",                                                         \
	  "sizes above what their field holds, published as the most that it holds")               \
	X(UNKNOWN_MARKET, "unknown_market", "messages",                                            \
	  "operational halts of a market without a field; without effect")                         \
	X(TIME_AHEAD, "time_ahead", "messages",                                                    \
	  "messages more than an hour ahead of the message before; not waited for")                \
	X(ORDERS, "orders", "orders", "live orders now")                                           \
	X(SYMBOLS, "symbols", "symbols", "symbols with a name now")

enum market_counter {
#define MARKET_TYPE_COUNTER(code, length, member, fields, name) MARKET_COUNTER_##member,
	ITCH_TYPES(MARKET_TYPE_COUNTER)
#undef MARKET_TYPE_COUNTER
#define MARKET_OTHER_COUNTER(what, name, unit, meaning) MARKET_COUNTER_##what,
		MARKET_COUNTERS(MARKET_OTHER_COUNTER)
#undef MARKET_OTHER_COUNTER
			MARKET_COUNTER_COUNT
};

#endif
