/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a subscription's pattern and options. */
#ifndef TICKBUS_SUBSCRIBER_SUBSCRIPTION_CHECK_H
#define TICKBUS_SUBSCRIBER_SUBSCRIPTION_CHECK_H

#include "tickbus/subscriber.h"

/* 0, or -EINVAL with a message. */
int subscription_check(const char *pattern, const struct tb_subscription_options *);

#endif
