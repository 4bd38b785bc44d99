/* SPDX-License-Identifier: Apache-2.0 */
/* Reference data of a symbol, from a directory message. */
#ifndef TICKBUS_FEEDS_DEFINITIONS_H
#define TICKBUS_FEEDS_DEFINITIONS_H

#include "publisher/feeds/itch/itch.h"
#include "schemas/definition.h"

/* The exchange writes a space where it has no value: null. The time is left open. */
struct tb_definition definitions_make(const struct itch_directory *);

#endif
