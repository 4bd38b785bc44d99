/* SPDX-License-Identifier: Apache-2.0 */
/* What a conflated subscription exempts: kinds of records, and topics by pattern. */
#ifndef TICKBUS_SUBSCRIBER_EXEMPT_H
#define TICKBUS_SUBSCRIBER_EXEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "tickbus/subscriber.h"

#define EXEMPT_KIND_WORDS 4 /* a bit for each kind */

struct exempt;

/* Copies what the options exempt. *out NULL: the subscription is not conflated. 0, -EINVAL or
 * -ENOMEM. */
int exempt_open(const struct tb_subscription_options *, struct exempt **out);
/* Takes NULL. */
void exempt_close(struct exempt *);
/* A bit for each kind that is exempt. */
const uint64_t *exempt_kinds(const struct exempt *);
bool exempt_has_topic(const struct exempt *, const char *topic);

#endif
