/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a source's READs land in: halves for batches of slots, then one page for everything
 * else. */
#ifndef TICKBUS_SUBSCRIBER_LANDING_H
#define TICKBUS_SUBSCRIBER_LANDING_H

#include "subscriber/state.h"

/* Allocates the landing unless the source has it. local: plain memory of one page, for a topic with
 * a view; else memory of the link. 0 or -ENOMEM. */
int landing_open(struct tb_source *, bool local);
void landing_close(struct tb_source *);
/* The page behind the halves. */
char *landing_page(const struct tb_source *);
/* A chunk of an image, behind the page. */
char *landing_chunk(const struct tb_source *, unsigned int chunk);

#endif
