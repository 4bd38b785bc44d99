/* SPDX-License-Identifier: Apache-2.0 */
/* What only the feeds can say of settings: whether a topic's schema fits what it selects, when the
 * day begins there, and what a synthetic exchange can be made of. */
#ifndef TICKBUS_PUBD_FIT_H
#define TICKBUS_PUBD_FIT_H

#include <stdbool.h>
#include <stdio.h>

#include "config/settings.h"
#include "publisher/feeds/market.h"
#include "publisher/feeds/synthetic.h"

/* Whether all fits; else a line in `errors` for each that does not. Fills in the symbols and the
 * rate of synthetic feeds that were left to the exchange. */
bool fit_check(struct settings *, FILE *errors);

/* The words of the settings as the feeds have them. */
enum market_select fit_select(const struct settings_topic *);
struct synthetic_settings fit_exchange(const struct settings_feed *);

/* When the feed's day begins, in nanoseconds since 1970 UTC. 0, or what day_begin gives. */
int fit_midnight(const struct settings_feed *, uint64_t *midnight_ns);

#endif
