/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of NASDAQ TotalView-ITCH 5.0. Each is described once: its structure, decoder and
 * encoder come from one list of fields.
 *
 * A list has each field with its offset in the message. INT(type, name, offset) is an unsigned
 * big-endian number, CODE(name, offset) one character, TEXT(name, offset, bytes) characters padded
 * with spaces. All messages begin with the same 11 bytes: type, stock locate, tracking number, and
 * nanoseconds since midnight in 48 bits. Prices are in units of 1/10,000, those of V in units of
 * 1/10^8. */
#ifndef TICKBUS_FEEDS_ITCH_H
#define TICKBUS_FEEDS_ITCH_H

#include <stddef.h>
#include <stdint.h>

#define ITCH_HEAD_BYTES  11
#define ITCH_LENGTH_MAX  50 /* of the longest message, I */
#define ITCH_STOCK_BYTES 8
#define ITCH_DAY_NS      (UINT64_C(86400) * 1000000000)
#define ITCH_PRINTABLE   'Y'

#define ITCH_EVENT_FIELDS(INT, CODE, TEXT) CODE(event, 11)

#define ITCH_DIRECTORY_FIELDS(INT, CODE, TEXT)                                                     \
	TEXT(stock, 11, 8)                                                                         \
	CODE(category, 19)                                                                         \
	CODE(financial, 20)                                                                        \
	INT(uint32_t, round_lot, 21)                                                               \
	CODE(round_lots_only, 25)                                                                  \
	CODE(classification, 26)                                                                   \
	TEXT(subtype, 27, 2)                                                                       \
	CODE(authenticity, 29)                                                                     \
	CODE(short_sale_threshold, 30)                                                             \
	CODE(ipo, 31)                                                                              \
	CODE(luld_tier, 32)                                                                        \
	CODE(etp, 33)                                                                              \
	INT(uint32_t, etp_leverage, 34)                                                            \
	CODE(inverse, 38)

#define ITCH_ACTION_FIELDS(INT, CODE, TEXT)                                                        \
	TEXT(stock, 11, 8)                                                                         \
	CODE(state, 19)                                                                            \
	CODE(reserved, 20)                                                                         \
	TEXT(reason, 21, 4)

#define ITCH_REG_SHO_FIELDS(INT, CODE, TEXT) TEXT(stock, 11, 8) CODE(action, 19)

#define ITCH_PARTICIPANT_FIELDS(INT, CODE, TEXT)                                                   \
	TEXT(mpid, 11, 4)                                                                          \
	TEXT(stock, 15, 8)                                                                         \
	CODE(primary, 23)                                                                          \
	CODE(mode, 24)                                                                             \
	CODE(state, 25)

#define ITCH_DECLINE_FIELDS(INT, CODE, TEXT)                                                       \
	INT(uint64_t, level1, 11) INT(uint64_t, level2, 19) INT(uint64_t, level3, 27)

#define ITCH_BREACH_FIELDS(INT, CODE, TEXT) CODE(level, 11)

#define ITCH_IPO_FIELDS(INT, CODE, TEXT)                                                           \
	TEXT(stock, 11, 8)                                                                         \
	INT(uint32_t, release_s, 19)                                                               \
	CODE(qualifier, 23)                                                                        \
	INT(uint32_t, price, 24)

#define ITCH_COLLAR_FIELDS(INT, CODE, TEXT)                                                        \
	TEXT(stock, 11, 8)                                                                         \
	INT(uint32_t, reference_price, 19)                                                         \
	INT(uint32_t, upper_price, 23)                                                             \
	INT(uint32_t, lower_price, 27)                                                             \
	INT(uint32_t, extension, 31)

#define ITCH_HALT_FIELDS(INT, CODE, TEXT) TEXT(stock, 11, 8) CODE(market, 19) CODE(action, 20)

#define ITCH_ADD_FIELDS(INT, CODE, TEXT)                                                           \
	INT(uint64_t, reference, 11)                                                               \
	CODE(side, 19)                                                                             \
	INT(uint32_t, shares, 20)                                                                  \
	TEXT(stock, 24, 8)                                                                         \
	INT(uint32_t, price, 32)

/* Begins like ITCH_ADD_FIELDS: `add` of the union may be read where `add_mpid` was stored. */
#define ITCH_ADD_MPID_FIELDS(INT, CODE, TEXT) ITCH_ADD_FIELDS(INT, CODE, TEXT) TEXT(mpid, 36, 4)

#define ITCH_EXECUTED_FIELDS(INT, CODE, TEXT)                                                      \
	INT(uint64_t, reference, 11)                                                               \
	INT(uint32_t, shares, 19)                                                                  \
	INT(uint64_t, match, 23)

#define ITCH_PRICED_FIELDS(INT, CODE, TEXT)                                                        \
	ITCH_EXECUTED_FIELDS(INT, CODE, TEXT)                                                      \
	CODE(printable, 31)                                                                        \
	INT(uint32_t, price, 32)

#define ITCH_CANCEL_FIELDS(INT, CODE, TEXT) INT(uint64_t, reference, 11) INT(uint32_t, shares, 19)

#define ITCH_DELETE_FIELDS(INT, CODE, TEXT) INT(uint64_t, reference, 11)

#define ITCH_REPLACE_FIELDS(INT, CODE, TEXT)                                                       \
	INT(uint64_t, reference, 11)                                                               \
	INT(uint64_t, new_reference, 19)                                                           \
	INT(uint32_t, shares, 27)                                                                  \
	INT(uint32_t, price, 31)

#define ITCH_TRADE_FIELDS(INT, CODE, TEXT)                                                         \
	INT(uint64_t, reference, 11)                                                               \
	CODE(side, 19)                                                                             \
	INT(uint32_t, shares, 20)                                                                  \
	TEXT(stock, 24, 8)                                                                         \
	INT(uint32_t, price, 32)                                                                   \
	INT(uint64_t, match, 36)

#define ITCH_CROSS_FIELDS(INT, CODE, TEXT)                                                         \
	INT(uint64_t, shares, 11)                                                                  \
	TEXT(stock, 19, 8)                                                                         \
	INT(uint32_t, price, 27)                                                                   \
	INT(uint64_t, match, 31)                                                                   \
	CODE(cross, 39)

#define ITCH_BROKEN_FIELDS(INT, CODE, TEXT) INT(uint64_t, match, 11)

#define ITCH_IMBALANCE_FIELDS(INT, CODE, TEXT)                                                     \
	INT(uint64_t, paired, 11)                                                                  \
	INT(uint64_t, imbalance, 19)                                                               \
	CODE(direction, 27)                                                                        \
	TEXT(stock, 28, 8)                                                                         \
	INT(uint32_t, far_price, 36)                                                               \
	INT(uint32_t, near_price, 40)                                                              \
	INT(uint32_t, reference_price, 44)                                                         \
	CODE(cross, 48)                                                                            \
	CODE(variation, 49)

#define ITCH_RETAIL_FIELDS(INT, CODE, TEXT) TEXT(stock, 11, 8) CODE(interest, 19)

#define ITCH_LISTING_FIELDS(INT, CODE, TEXT)                                                       \
	TEXT(stock, 11, 8)                                                                         \
	CODE(eligible, 19)                                                                         \
	INT(uint32_t, lowest_price, 20)                                                            \
	INT(uint32_t, highest_price, 24)                                                           \
	INT(uint32_t, near_price, 28)                                                              \
	INT(uint64_t, near_time_ns, 32)                                                            \
	INT(uint32_t, lower_collar, 40)                                                            \
	INT(uint32_t, upper_collar, 44)

/* X(code, length, member of the union, fields, name) for each type. */
#define ITCH_TYPES(X)                                                                              \
	X('S', 12, event, ITCH_EVENT_FIELDS, "system_event")                                       \
	X('R', 39, directory, ITCH_DIRECTORY_FIELDS, "stock_directory")                            \
	X('H', 25, action, ITCH_ACTION_FIELDS, "trading_action")                                   \
	X('Y', 20, reg_sho, ITCH_REG_SHO_FIELDS, "reg_sho_restriction")                            \
	X('L', 26, participant, ITCH_PARTICIPANT_FIELDS, "participant_position")                   \
	X('V', 35, decline, ITCH_DECLINE_FIELDS, "mwcb_decline_levels")                            \
	X('W', 12, breach, ITCH_BREACH_FIELDS, "mwcb_status")                                      \
	X('K', 28, ipo, ITCH_IPO_FIELDS, "ipo_quoting_period")                                     \
	X('J', 35, collar, ITCH_COLLAR_FIELDS, "auction_collar")                                   \
	X('h', 21, halt, ITCH_HALT_FIELDS, "operational_halt")                                     \
	X('A', 36, add, ITCH_ADD_FIELDS, "add_order")                                              \
	X('F', 40, add_mpid, ITCH_ADD_MPID_FIELDS, "add_order_mpid")                               \
	X('E', 31, executed, ITCH_EXECUTED_FIELDS, "order_executed")                               \
	X('C', 36, priced, ITCH_PRICED_FIELDS, "order_executed_with_price")                        \
	X('X', 23, cancel, ITCH_CANCEL_FIELDS, "order_cancel")                                     \
	X('D', 19, deleted, ITCH_DELETE_FIELDS, "order_delete")                                    \
	X('U', 35, replace, ITCH_REPLACE_FIELDS, "order_replace")                                  \
	X('P', 44, trade, ITCH_TRADE_FIELDS, "trade")                                              \
	X('Q', 40, cross, ITCH_CROSS_FIELDS, "cross_trade")                                        \
	X('B', 19, broken, ITCH_BROKEN_FIELDS, "broken_trade")                                     \
	X('I', 50, imbalance, ITCH_IMBALANCE_FIELDS, "net_order_imbalance")                        \
	X('N', 20, retail, ITCH_RETAIL_FIELDS, "retail_interest")                                  \
	X('O', 48, listing, ITCH_LISTING_FIELDS, "direct_listing")

#define ITCH_STRUCT_INT(type, name, offset)   type name;
#define ITCH_STRUCT_CODE(name, offset)        char name;
#define ITCH_STRUCT_TEXT(name, offset, bytes) char name[bytes];
#define ITCH_STRUCT(code, length, member, fields, name)                                            \
	struct itch_##member {                                                                     \
		fields(ITCH_STRUCT_INT, ITCH_STRUCT_CODE, ITCH_STRUCT_TEXT)                        \
	};
ITCH_TYPES(ITCH_STRUCT)

struct itch_message {
	char type;
	uint16_t locate;
	uint16_t tracking;
	uint64_t time_ns; /* since midnight */
	union {
#define ITCH_MEMBER(code, length, member, fields, name) struct itch_##member member;
		ITCH_TYPES(ITCH_MEMBER)
#undef ITCH_MEMBER
	};
};

#define ITCH_ONE(...)   +1
#define ITCH_TYPE_COUNT (0 ITCH_TYPES(ITCH_ONE))

struct itch_type {
	char code;
	uint8_t length; /* of the whole message */
	const char *name;
};

/* In the order of ITCH_TYPES. */
extern const struct itch_type itch_types[ITCH_TYPE_COUNT];

/* The length of a whole message, by type; 0: an unknown type. */
extern const uint8_t itch_lengths[256];

/* A type's index in itch_types, or -1 for an unknown type. */
int itch_index(char type);

/* Decodes one message. 0, or with a message that says what was found and expected: -ENOMSG unknown
 * type; -EMSGSIZE wrong length for the type; -EBADMSG an impossible value: a time of day beyond 24
 * hours, or a side of A or F other than B and S. */
int itch_decode(const uint8_t *bytes, size_t length, struct itch_message *message);

/* Writes at most ITCH_LENGTH_MAX bytes. Returns their number, or -ENOMSG: unknown type. */
int itch_encode(const struct itch_message *message, uint8_t *bytes);

#endif
