/* SPDX-License-Identifier: Apache-2.0 */
/* Every key that there is. */
#ifndef TICKBUS_CONFIG_TABLES_H
#define TICKBUS_CONFIG_TABLES_H

#include "config/keys.h"

extern const struct key tables_root[];      /* struct settings */
extern const struct key tables_feed[];      /* struct settings_feed: of every type */
extern const struct key tables_itch50[];    /* further ones */
extern const struct key tables_synthetic[]; /* further ones */
extern const struct key tables_topic[];
extern const struct key tables_realm[]; /* struct settings_topic */

#endif
