/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the synthetic exchange about the day and about symbols. Prices are in a message's
 * units. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_STATUS_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_STATUS_H

#include "publisher/feeds/synthetic/synthetic_book.h"
#include "publisher/feeds/synthetic/synthetic_tape.h"

void synthetic_status_event(struct synthetic_tape *, char event);
void synthetic_status_declines(struct synthetic_tape *);
void synthetic_status_breach(struct synthetic_tape *, char level);

void synthetic_status_directory(struct synthetic_tape *, const struct synthetic_symbol *, bool ipo);
void synthetic_status_action(struct synthetic_tape *, const struct synthetic_symbol *, char state,
			     const char reason[4]);
void synthetic_status_short_sale(struct synthetic_tape *, const struct synthetic_symbol *, char);
void synthetic_status_maker(struct synthetic_tape *, const struct synthetic_symbol *,
			    const char maker[4]);
void synthetic_status_ipo(struct synthetic_tape *, const struct synthetic_symbol *, uint32_t price);
void synthetic_status_listing(struct synthetic_tape *, const struct synthetic_symbol *,
			      uint32_t price);
void synthetic_status_collar(struct synthetic_tape *, const struct synthetic_symbol *,
			     uint32_t price);
void synthetic_status_halt(struct synthetic_tape *, const struct synthetic_symbol *, char action);
void synthetic_status_retail(struct synthetic_tape *, const struct synthetic_symbol *, char side);

#endif
