/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of wanted entries. A hole of a few entries is READ along: its bytes cost less than the
 * headers of another READ. Runs are found from where the last posted run ended, around the page, so
 * no entry waits for ever behind others. A look that follows a complete one begins at the first
 * entry. Otherwise, if topics are added after a look, their entries would stay a run of their own.
 */
#include "subscriber/entries.h"

bool entries_have(const struct entries *entries, uint32_t index)
{
	return entries->wanted[index / 64] >> index % 64 & 1;
}

void entries_want(struct entries *entries, uint32_t index)
{
	entries->wanted[index / 64] |= UINT64_C(1) << index % 64;
}

/* The first wanted index from here on; BOUND_TOPICS_MAX: no entry is wanted there. */
static uint32_t wanted_from(const struct entries *entries, uint32_t index)
{
	while (index < BOUND_TOPICS_MAX && !entries_have(entries, index))
		index = entries->wanted[index / 64] >> index % 64 ? index + 1
								  : (index / 64 + 1) * 64;
	return index;
}

void entries_begin(struct entries *entries)
{
	if (wanted_from(entries, 0) == BOUND_TOPICS_MAX)
		entries->next = 0;
}

static struct entry_run run_at(const struct entries *entries, uint32_t first)
{
	uint32_t end = first + 1, next = wanted_from(entries, end);

	while (next < BOUND_TOPICS_MAX && next - end <= ENTRIES_HOLE_MAX) {
		end = next + 1;
		next = wanted_from(entries, end);
	}
	return (struct entry_run){ first, end - first };
}

unsigned int entries_runs(const struct entries *entries, struct entry_run *runs, unsigned int max)
{
	uint32_t first = wanted_from(entries, entries->next);
	unsigned int count = 0;

	if (first == BOUND_TOPICS_MAX)
		first = wanted_from(entries, 0);
	while (first < BOUND_TOPICS_MAX && count < max) {
		runs[count] = run_at(entries, first);
		first = wanted_from(entries, runs[count].first + runs[count].count);
		count++;
	}
	return count;
}

void entries_posted(struct entries *entries, const struct entry_run *run)
{
	for (uint32_t i = run->first; i < run->first + run->count; i++)
		entries->wanted[i / 64] &= ~(UINT64_C(1) << i % 64);
	entries->next = run->first + run->count;
}
