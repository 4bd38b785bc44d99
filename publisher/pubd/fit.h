/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of settings that need the feeds. A topic's schema must fit its select, and the day must
 * have a beginning. The synthetic exchange must accept its settings. A feed's file must not begin
 * like a file of another format. */
#ifndef TICKBUS_PUBD_FIT_H
#define TICKBUS_PUBD_FIT_H

#include <stdbool.h>
#include <stdio.h>

#include "config/settings.h"
#include "publisher/feeds/feed.h"
#include "publisher/feeds/market/market.h"
#include "publisher/feeds/synthetic/synthetic.h"

/* The number of errors, with a line in `errors` for each. Passes over what is 0 or NULL because of
 * an earlier error. Fills in symbols and rate of synthetic feeds if they are not given. */
unsigned int fit_check(struct settings *, FILE *errors);

/* Values of the settings as the feeds' types. */
enum market_select fit_select(const struct settings_topic *);
struct synthetic_settings fit_exchange(const struct settings_feed *);

/* The n-th day of a feed's source: day 0 has the date of the settings, and each later day is the
 * next weekday. 0, or the error of day_begin. */
int fit_day(const struct settings_feed *, unsigned int number, struct feed_day *);

#endif
