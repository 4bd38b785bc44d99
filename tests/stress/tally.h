/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a subscription delivers. Every sequence is delivered or in a gap, exactly once and in
 * order. Every record is right, and every gap was really overwritten. */
#ifndef TICKBUS_TESTS_TALLY_H
#define TICKBUS_TESTS_TALLY_H

#include <stdatomic.h>

#include "tests/stress/truth.h"
#include "tickbus/subscriber.h"

struct tally {
	struct truth truth;
	const _Atomic uint64_t *written; /* the last sequence for which tb_publish has returned */
	uint64_t slots;
	uint64_t next; /* the sequence that must come next */
	uint64_t delivered, lost, gaps;
	uint32_t quality;         /* of the last quality event */
	struct tb_source *source; /* of the last record */
	bool appeared, ended, restarted;
	char wrong[192]; /* "", or the first complaint */
};

void tally_record(void *tally, const struct tb_source *, const struct tb_record *);
void tally_batch(void *tally, const struct tb_source *, const struct tb_batch *);
void tally_event(void *tally, const struct tb_event *);

/* Keeps the first complaint. */
void tally_complain(struct tally *, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
