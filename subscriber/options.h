/* SPDX-License-Identifier: Apache-2.0 */
/* What a subscriber is opened with: options, and what its address says; defaults and bounds. */
#ifndef TICKBUS_SUBSCRIBER_OPTIONS_H
#define TICKBUS_SUBSCRIBER_OPTIONS_H

#include "subscriber/state.h"
#include "tickbus/subscriber.h"

int options_apply(struct tb_subscriber *, const struct tb_subscriber_options *);

#endif
