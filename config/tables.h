/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of all keys. */
#ifndef TICKBUS_CONFIG_TABLES_H
#define TICKBUS_CONFIG_TABLES_H

#include "config/keys.h"

extern const struct key tables_root[];      /* struct settings */
extern const struct key tables_feed[];      /* struct settings_feed: keys of every type */
extern const struct key tables_itch50[];    /* struct settings_feed: further keys */
extern const struct key tables_synthetic[]; /* struct settings_feed: further keys */
extern const char *const tables_types[];    /* words of enum settings_type, ended by NULL */
extern const struct key tables_topic[];     /* struct settings_topic */
extern const struct key tables_realm[];     /* struct settings_realm */

#endif
