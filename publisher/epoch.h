/* SPDX-License-Identifier: Apache-2.0 */
/* The epochs of a topic: memory that no reader has seen yet, and the switch to it. */
#ifndef TICKBUS_PUBLISHER_EPOCH_H
#define TICKBUS_PUBLISHER_EPOCH_H

#include "bus/quality.h"
#include "publisher/state.h"

/* A topic's next epoch. After epoch_begin, what was the topic's until then. */
struct epoch {
	struct region_shape shape;
	struct memory memory;
	struct exposures exposures;
	uint8_t notice_key[NOTICE_KEY_BYTES];
	uint32_t instruments;   /* that it begins with */
	struct quality quality; /* after epoch_begin: at the end of the old epoch */
};

/* Memory with a header, a directory of the topic's first `instruments` names, and a first line. In
 * a group the line's W is the group's last stamp (P-I6). 0, or an error with a message; then there
 * is nothing to drop. */
int epoch_make(struct epoch *, const struct tb_topic *, uint32_t instruments);
/* Under the publisher's lock. 0, or an error with a message. */
int epoch_expose(struct epoch *, const struct tb_topic *);
/* The topic switches to it, under the publisher's lock. */
void epoch_begin(struct tb_topic *, struct epoch *);
/* Frees what epoch_make or epoch_begin left there; under the lock if it is exposed. */
void epoch_drop(struct epoch *);

/* The first epoch of a topic that no reader can see yet. */
void epoch_take(struct tb_topic *, const struct epoch *);
/* Points the writer at the topic's memory. */
void epoch_aim(struct tb_topic *, uint32_t instruments);
/* The end of a topic or epoch ends the open message (P-I5). */
void epoch_end_message(struct tb_topic *);

#endif
