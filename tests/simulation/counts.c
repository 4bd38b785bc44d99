/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/counts.h"

#include <inttypes.h>
#include <stdio.h>

uint64_t counts[COUNTS];

/* The floors are per 1,000 histories: half of what 2,000 histories reached. */
static const struct {
	const char *name;
	uint64_t floor;
} table[COUNTS] = {
	[COUNT_RECORDS] = { "records delivered", 520000 },
	[COUNT_LAPS] = { "gaps of cause overrun", 2300 },
	[COUNT_BEFORE_JOIN] = { "gaps of cause before_join", 310 },
	[COUNT_UPSTREAM] = { "gaps of cause upstream", 570 },
	[COUNT_CORRUPT] = { "gaps of cause corrupt", 76 },
	[COUNT_RESTARTS] = { "restarts", 1200 },
	[COUNT_ENDS] = { "ends", 610 },
	[COUNT_STALES] = { "stale topics", 2900 },
	[COUNT_QUALITIES] = { "quality events", 3500 },
	[COUNT_TORN] = { "torn copies refused", 5500 },
	[COUNT_FAILED] = { "failed READs", 8700 },
	[COUNT_PIECES] = { "pieces of READs", 1200000 },
	[COUNT_LOST_NOTICES] = { "notices lost", 12000 },
	[COUNT_DOUBLED_NOTICES] = { "notices doubled", 5700 },
	[COUNT_REORDERED_NOTICES] = { "notices reordered", 2400 },
	[COUNT_FORGED_NOTICES] = { "notices forged", 470 },
	[COUNT_FALSE_HINTS] = { "false hints", 7500 },
	[COUNT_CUTS] = { "connections cut", 320 },
	[COUNT_KILLS] = { "publishers killed", 220 },
	[COUNT_KILLS_INSIDE] = { "publishers killed inside a store", 69 },
	[COUNT_INSIDE_WRITER] = { "looks inside a write", 440000 },
	[COUNT_INSIDE_READER] = { "writes inside a look", 1600 },
	[COUNT_SETTLED] = { "subscriptions settled", 2500 },
	[COUNT_SKIPS] = { "gaps that skip to the head", 470 },
	[COUNT_IMAGES] = { "images begun", 2000 },
	[COUNT_IMAGE_RECORDS] = { "image records", 3400 },
	[COUNT_COMPLETE] = { "images completed", 1600 },
	[COUNT_IMAGES_LAPPED] = { "images that a gap made begin again", 330 },
	[COUNT_IMAGES_RESTARTED] = { "images given up at a restart", 35 },
	[COUNT_NO_VALUES] = { "values never readable", 27 },
	[COUNT_BATCHES] = { "batches of several records", 20000 },
	[COUNT_GROUP_FLUSHES] = { "flushes of a group", 0 },
	[COUNT_LINES] = { "lines of a group checked", 0 },
	[COUNT_MERGED] = { "records in the order of a merge", 0 },
	[COUNT_MERGE_TURNS] = { "changes of topic in a merge", 0 },
	[COUNT_MERGE_JOINS] = { "joins of a running merge", 0 },
	[COUNT_CUTS_COMPLETE] = { "cuts completed", 0 },
	[COUNT_LEFT] = { "topics that left a merge", 0 },
	[COUNT_CAME_BACK] = { "topics that came back to a merge", 0 },
	[COUNT_CLOCK_BACK] = { "clocks set back", 0 },
	[COUNT_FILTERED] = { "records that a list skips", 0 },
	[COUNT_NAMES_CHANGED] = { "changes of a list", 0 },
	[COUNT_NO_INSTRUMENTS] = { "names without an instrument", 0 },
	[COUNT_VALUES] = { "values that a watch list delivers", 0 },
};

bool counts_report(uint64_t histories)
{
	bool good = true;

	for (int i = 0; i < COUNTS; i++) {
		const uint64_t rate = counts[i] * 1000 / histories;
		const bool above = rate >= table[i].floor;

		printf("%12" PRIu64 " per 1,000 histories  %s%s\n", rate, table[i].name,
		       above ? "" : ": BELOW ITS FLOOR");
		if (!above)
			printf("%12" PRIu64 " expected\n", table[i].floor);
		good &= above;
	}
	return good;
}
