/* SPDX-License-Identifier: Apache-2.0 */
/* Pulling where the ring can be looked at in mapping. */
#ifndef TICKBUS_SUBSCRIBER_PULL_VIEW_H
#define TICKBUS_SUBSCRIBER_PULL_VIEW_H

#include "subscriber/state.h"

/* Records in order from `next`; the number delivered. */
int pull_view(struct tb_source *, int max);

#endif
