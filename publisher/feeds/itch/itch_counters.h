/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of ITCH 5.0: valid messages of each type, then what was wrong with messages. */
#ifndef TICKBUS_FEEDS_ITCH_COUNTERS_H
#define TICKBUS_FEEDS_ITCH_COUNTERS_H

#include "publisher/feeds/itch/itch.h"

/* X(what, name, meaning): messages that come after those of ITCH_TYPES. */
#define ITCH_COUNTERS(X)                                                                           \
	X(UNKNOWN_TYPE, "unknown_type", "messages of a type that is not in ITCH 5.0")              \
	X(WRONG_LENGTH, "wrong_length", "messages whose length is wrong for their type")           \
	X(BAD_VALUE, "bad_value", "messages with an impossible time, side or symbol")              \
	X(NAME_CONFLICT, "name_conflict",                                                          \
	  "messages whose symbol is not that of their stock locate; without effect")               \
	X(UNKNOWN_MARKET, "unknown_market",                                                        \
	  "operational halts of a market without a field; without effect")

enum itch_counter {
#define ITCH_TYPE_COUNTER(code, length, member, fields, name) ITCH_COUNTER_##member,
	ITCH_TYPES(ITCH_TYPE_COUNTER)
#undef ITCH_TYPE_COUNTER
#define ITCH_OTHER_COUNTER(what, name, meaning) ITCH_COUNTER_##what,
		ITCH_COUNTERS(ITCH_OTHER_COUNTER)
#undef ITCH_OTHER_COUNTER
			ITCH_COUNTER_COUNT
};

#endif
