/* SPDX-License-Identifier: Apache-2.0 */
/* The synthetic exchange as a source of messages. */
#ifndef TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_SOURCE_H
#define TICKBUS_PUBLISHER_FEEDS_SYNTHETIC_SOURCE_H

#include "publisher/feeds/source.h"
#include "publisher/feeds/synthetic/synthetic.h"

int synthetic_source_open(struct source **, const struct synthetic_settings *);

#endif
