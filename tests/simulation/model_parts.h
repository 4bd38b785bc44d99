/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the model share. */
#ifndef TICKBUS_TESTS_SIMULATION_MODEL_PARTS_H
#define TICKBUS_TESTS_SIMULATION_MODEL_PARTS_H

#include "tests/simulation/model.h"

/* A line of the trace. */
void model_say(const struct model *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Compares each byte with what was published: Y2. */
void model_content_check(const struct model *, const struct tb_record *);
/* A gap: Y1, Y3. */
void model_gap(struct model *, const struct tb_event *);

/* Whether the program wants records of this instrument now. */
bool model_chooses(const struct model *, uint32_t instrument);
/* Whether it was in the list at all times since the position was certain. */
bool model_always_chooses(const struct model *, uint32_t instrument);
/* Whether the subscriber may pass the record without a call, at any time since the position was
 * certain: Y9. */
bool model_skips(const struct model *, uint64_t sequence);
/* Something at this sequence, or behind it, was delivered: what lies before it was skipped. Stops
 * at a record that is not skipped. */
void model_pass(struct model *, uint64_t sequence);

#endif
