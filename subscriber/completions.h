/* SPDX-License-Identifier: Apache-2.0 */
/* Completed READs: taken from the link, kept in order, processed by turn_reap().
 *
 * A call that waits for its own READs inside a handler must not call handlers. It takes completions
 * from the link as well, and leaves those of others here. */
#ifndef TICKBUS_SUBSCRIBER_COMPLETIONS_H
#define TICKBUS_SUBSCRIBER_COMPLETIONS_H

#include "subscriber/state.h"
#include "subscriber/tag.h"

/* Takes completions from the link. Those of READ_GET are counted at once, the others are kept.
 * Returns whether there may be more. Calls no handler. */
bool completions_reap(struct tb_subscriber *);
/* Keeps a completion. There is room for each READ that has a place in the queue. */
void completions_add(struct tb_subscriber *, const struct fabric_completion *);
/* The oldest that is kept. False: no completion is left. */
bool completions_next(struct tb_subscriber *, struct fabric_completion *done);
/* The source that posted a READ of a topic, which is outstanding no longer. NULL: the source is
 * not there. */
struct tb_source *completions_source(struct tb_subscriber *, struct tag);

#endif
