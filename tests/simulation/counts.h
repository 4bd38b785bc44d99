/* SPDX-License-Identifier: Apache-2.0 */
/* What the histories reached. Each count must be above a floor: laps are tested only if they
 * happen. */
#ifndef TICKBUS_TESTS_SIMULATION_COUNTS_H
#define TICKBUS_TESTS_SIMULATION_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

enum sim_count {
	COUNT_RECORDS,
	COUNT_LAPS,
	COUNT_BEFORE_JOIN,
	COUNT_UPSTREAM,
	COUNT_CORRUPT,
	COUNT_RESTARTS,
	COUNT_ENDS,
	COUNT_STALES,
	COUNT_QUALITIES,
	COUNT_TORN,
	COUNT_FAILED,
	COUNT_PIECES,
	COUNT_LOST_NOTICES,
	COUNT_DOUBLED_NOTICES,
	COUNT_REORDERED_NOTICES,
	COUNT_FORGED_NOTICES,
	COUNT_FALSE_HINTS,
	COUNT_CUTS,
	COUNT_KILLS,
	COUNT_KILLS_INSIDE,
	COUNT_INSIDE_WRITER,
	COUNT_INSIDE_READER,
	COUNT_SETTLED,
	COUNT_SKIPS,
	COUNT_IMAGES,
	COUNT_IMAGE_RECORDS,
	COUNT_COMPLETE,
	COUNT_IMAGES_LAPPED,
	COUNT_IMAGES_RESTARTED,
	COUNT_NO_VALUES,
	COUNT_BATCHES,
	COUNTS
};

extern uint64_t counts[COUNTS];

/* Prints each count per 1,000 histories with its floor. Returns whether all are above. */
bool counts_report(uint64_t histories);

#endif
