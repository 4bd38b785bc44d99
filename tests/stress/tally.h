/* SPDX-License-Identifier: Apache-2.0 */
/* What one subscription was told, held against the truth as it comes: every sequence delivered or
 * told as a gap, exactly once, in order; every record right; no gap that the ring does not explain.
 */
#ifndef TICKBUS_TESTS_TALLY_H
#define TICKBUS_TESTS_TALLY_H

#include <stdatomic.h>

#include "tests/stress/truth.h"
#include "tickbus/subscriber.h"

struct tally {
	struct truth truth;
	const _Atomic uint64_t *written; /* the last sequence that tb_publish has returned from */
	uint64_t slots;
	uint64_t next; /* the sequence that must come next */
	uint64_t delivered, lost, gaps;
	struct tb_source *source; /* as the last record's handler was given it */
	bool appeared, ended, restarted;
	char wrong[192]; /* "", or what was wrong first */
};

void tally_record(void *tally, const struct tb_source *, const struct tb_record *);
void tally_event(void *tally, const struct tb_event *);

/* Keeps the first complaint. */
void tally_complain(struct tally *, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
