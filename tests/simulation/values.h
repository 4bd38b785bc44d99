/* SPDX-License-Identifier: Apache-2.0 */
/* What a watch list and a conflation may deliver.
 *
 * V1  Each record is a value that the truth has, of a chosen instrument, each byte. Its sequence is
 *     above that of the value before, of this instrument in this epoch.
 * V3  In a conflation, at most one value of each instrument comes in an interval. So any four
 * values span more than an interval. V4  In a conflation, at rest: delivered + skipped + lost = all
 * that the position passed. Each record without TB_FLAG_IMAGE counts as delivered then. Before, it
 * may lie ahead of the position. A restart may come before the position reaches it. V5  Values that
 * it holds when their epoch is over are lost if their slots are corrupt, or if their memory is
 * gone. Their gap lies behind the position. V6
 * Records of exempt kinds come in the order of the ring, and each of them comes or is in a gap. V2
 * At rest, the delivered value of each chosen instrument is the newest of the truth. */
#ifndef TICKBUS_TESTS_SIMULATION_VALUES_H
#define TICKBUS_TESTS_SIMULATION_VALUES_H

#include "tests/simulation/model.h"

/* V1 */
void values_record(struct model *, const struct tb_record *);
/* The conflation begins, behind its image. */
void values_begin(struct model *);
/* V6. The position of a conflation has reached `sequence`, and goes on from `next`. */
void values_exempt_pass(struct model *, uint64_t sequence, uint64_t next);
/* How many of these records a conflation has delivered already, ahead of the position. */
uint64_t values_in(const struct model *, uint64_t first, uint64_t last);
/* V2: what is missing, or NULL. */
const char *values_unsettled(const struct model *);

#endif
