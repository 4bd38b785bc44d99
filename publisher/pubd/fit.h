/* SPDX-License-Identifier: Apache-2.0 */
/* What only the feeds can say of settings: whether a topic's schema fits what it selects, and
 * whether there is such a time zone. */
#ifndef TICKBUS_PUBD_FIT_H
#define TICKBUS_PUBD_FIT_H

#include <stdbool.h>
#include <stdio.h>

#include "config/settings.h"

/* Whether all fits; else a line in `errors` for each that does not. */
bool fit_check(const struct settings *, FILE *errors);

#endif
