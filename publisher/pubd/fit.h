/* SPDX-License-Identifier: Apache-2.0 */
/* What only the feeds can say of settings: whether a topic's schema fits what it selects, whether a
 * day begins there, and what a synthetic exchange can be made of. */
#ifndef TICKBUS_PUBD_FIT_H
#define TICKBUS_PUBD_FIT_H

#include <stdbool.h>
#include <stdio.h>

#include "config/settings.h"

/* Whether all fits; else a line in `errors` for each that does not. Fills in the symbols and the
 * rate of synthetic feeds that were left to the exchange. */
bool fit_check(struct settings *, FILE *errors);

#endif
