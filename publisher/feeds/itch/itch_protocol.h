/* SPDX-License-Identifier: Apache-2.0 */
/* What the messages of NASDAQ TotalView-ITCH 5.0 mean to a market.
 *
 *   trade       E, C with printable Y, P, Q with shares. E has the price of the resting order, the
 *               others their own price. So C is a trade even if its order is unknown. The aggressor
 *               is null for P, Q, and C of an unknown order. B takes a trade back.
 *   status      H, h, Y, J for a symbol; S, V, W for the whole market.
 *   imbalance   I. A price of 0 is null.
 *   definition  R. A space is null.
 *
 * A symbol is a stock locate under one name. R gives a locate its name; before it, the first other
 * message with a stock does. If R gives another name, the locate is another symbol from there on.
 * Any other message with another name than the locate's has no effect. A change of an order has the
 * locate of that order. So each record has the name of its message or of its directory. Messages
 * without a known symbol (S, V, W) go to the symbol MARKET_WIDE.
 *
 * A day begins with system event O and ends with system event C. */
#ifndef TICKBUS_FEEDS_ITCH_PROTOCOL_H
#define TICKBUS_FEEDS_ITCH_PROTOCOL_H

#include "publisher/feeds/protocol.h"

extern const struct protocol_kind itch_protocol;

#endif
