/* SPDX-License-Identifier: Apache-2.0 */
/* What a subscriber is opened with: its options and what its address says, with defaults and
 * bounds. */
#ifndef TICKBUS_SUBSCRIBER_OPTIONS_H
#define TICKBUS_SUBSCRIBER_OPTIONS_H

#include "subscriber/state.h"
#include "tickbus/subscriber.h"

/* Checks the options and stores them in the subscriber. 0 or -errno. */
int options_apply(struct tb_subscriber *, const struct tb_subscriber_options *);

#endif
