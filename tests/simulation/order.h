/* SPDX-License-Identifier: Apache-2.0 */
/* What a merge of several topics may deliver, beside the rules for each topic (model.h).
 *
 * O1  Records, holes and qualities come in the order of time, topic id and sequence. Those of an
 *     earlier publisher come first.
 * O2  While a publisher lives, nothing comes that is later than the last message that it flushed.
 * O3  If a topic joins a running merge, exactly its records up to the event's time are skipped.
 *     The merge had come at least so far as its last record, and at most to a message that is over.
 * O4  An image is complete at a cut: the table of each topic is the publisher's after the last
 *     record up to the event's time. Each topic was delivered up to there, and not further.
 */
#ifndef TICKBUS_TESTS_SIMULATION_ORDER_H
#define TICKBUS_TESTS_SIMULATION_ORDER_H

#include "tests/simulation/model.h"

struct order {
	bool begun;
	/* The record that came last. */
	unsigned int life;
	uint64_t time_ns, sequence;
	uint32_t topic_id;
};

/* Record `sequence` of the model's epoch comes now: O1, O2. */
void order_pass(const struct model *, uint64_t sequence);
/* The topic has joined a merge that had come to time_ns: O3. */
void order_join(const struct model *, const struct truth_epoch *, uint64_t time_ns);
/* The image of all topics is complete: O4. */
void order_complete(struct model *models, unsigned int count, const struct tb_event *);

#endif
