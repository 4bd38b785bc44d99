/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a source's READs land in: halves for batches of slots, then one page for the rest. */
#ifndef TICKBUS_SUBSCRIBER_LANDING_H
#define TICKBUS_SUBSCRIBER_LANDING_H

#include "subscriber/state.h"

/* Memory for what is fetched: of the link where READs land in it. */
int landing_open(struct tb_source *, bool local);
void landing_close(struct tb_source *);
char *landing_page(const struct tb_source *);

#endif
