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
	[COUNT_RECORDS] = { "records delivered", 330000 },
	[COUNT_LAPS] = { "gaps of cause overrun", 2000 },
	[COUNT_BEFORE_JOIN] = { "gaps of cause before_join", 310 },
	[COUNT_UPSTREAM] = { "gaps of cause upstream", 500 },
	[COUNT_CORRUPT] = { "gaps of cause corrupt", 76 },
	[COUNT_RESTARTS] = { "restarts", 1200 },
	[COUNT_ENDS] = { "ends", 610 },
	[COUNT_STALES] = { "stale topics", 2900 },
	[COUNT_QUALITIES] = { "quality events", 3100 },
	[COUNT_TORN] = { "torn copies refused", 4400 },
	[COUNT_FAILED] = { "failed READs", 7700 },
	[COUNT_PIECES] = { "pieces of READs", 1000000 },
	[COUNT_LOST_NOTICES] = { "notices lost", 8600 },
	[COUNT_DOUBLED_NOTICES] = { "notices doubled", 3600 },
	[COUNT_REORDERED_NOTICES] = { "notices reordered", 1800 },
	[COUNT_FORGED_NOTICES] = { "notices forged", 470 },
	[COUNT_FALSE_HINTS] = { "false hints", 4400 },
	[COUNT_CUTS] = { "connections cut", 320 },
	[COUNT_KILLS] = { "publishers killed", 220 },
	[COUNT_KILLS_INSIDE] = { "publishers killed inside a store", 69 },
	[COUNT_INSIDE_WRITER] = { "looks inside a write", 380000 },
	[COUNT_INSIDE_READER] = { "writes inside a look", 1600 },
	[COUNT_SETTLED] = { "subscriptions settled", 2500 },
	[COUNT_SKIPS] = { "gaps that skip to the head", 410 },
	[COUNT_IMAGES] = { "images begun", 1400 },
	[COUNT_IMAGE_RECORDS] = { "image records", 2000 },
	[COUNT_COMPLETE] = { "images completed", 1000 },
	[COUNT_IMAGES_LAPPED] = { "images that a gap made begin again", 220 },
	[COUNT_IMAGES_RESTARTED] = { "images given up at a restart", 25 },
	[COUNT_NO_VALUES] = { "values never readable", 8 },
	[COUNT_BATCHES] = { "batches of several records", 12000 },
	[COUNT_GROUP_FLUSHES] = { "flushes of a group", 13000 },
	[COUNT_LINES] = { "lines of a group checked", 390000 },
	[COUNT_MERGED] = { "records in the order of a merge", 68000 },
	[COUNT_MERGE_TURNS] = { "changes of topic in a merge", 20000 },
	[COUNT_MERGE_JOINS] = { "joins of a running merge", 83 },
	[COUNT_CUTS_COMPLETE] = { "cuts completed", 33 },
	[COUNT_LEFT] = { "topics that left a merge", 7 },
	[COUNT_CAME_BACK] = { "topics that came back to a merge", 2 },
	[COUNT_CLOCK_BACK] = { "clocks set back", 85 },
	[COUNT_ERAS] = { "eras of groups", 65 },
	[COUNT_OUTDATED] = { "topics that ended before an era", 2 },
	[COUNT_FILTERED] = { "records that a list skips", 140000 },
	[COUNT_NAMES_CHANGED] = { "changes of a list", 530 },
	[COUNT_NO_INSTRUMENTS] = { "names without an instrument", 1300 },
	[COUNT_VALUES] = { "values that a watch list delivers", 1700 },
	[COUNT_CONFLATED] = { "records of a conflation", 9500 },
	[COUNT_CONFLATED_IMAGES] = { "conflations behind an image", 40 },
	[COUNT_EXEMPT] = { "records of exempt kinds", 2000 },
	[COUNT_GIVEN_UP] = { "gaps of values that a conflation held", 1 },
	[COUNT_STARTS_LAPPED] = { "gaps at the start of a conflation", 130 },
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
