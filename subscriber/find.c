/* SPDX-License-Identifier: Apache-2.0 */
/* Bisection: the last record of a ring with a time up to T.
 *
 * Times do not fall in a topic whose publisher keeps its word. Nothing here relies on that but the
 * meaning of the result.
 *
 * Q-I1  The result was copied whole, and its time is up to T. The next record that was copied whole
 *       is later than T, or there is no next record. Records between the two are corrupt.
 * Q-I2  Each copy that is whole halves the range. So does a copy that is not whole, if a line that
 *       was loaded afterwards shows its record as overwritten. All records below it are, too.
 * Q-I3  A record that is held, and that is not whole in FIND_TRIES copies, is left out. Its
 *       neighbour above is copied in its place.
 * Q-I4  A bisection ends after FIND_COPIES copies, whatever the memory shows. A ring has at most
 *       2^24 slots, which is 25 copies. The rest is for records that are overwritten or corrupt. */
#include "subscriber/find.h"

#include <errno.h>

/* Halves what is left of the range. */
static void choose(struct find *find)
{
	find->at = find->first_at = find->low + (find->high - find->low) / 2;
	find->tries = 0;
}

void find_begin(struct find *find, uint64_t time_ns, const struct progress *progress,
		uint64_t slots)
{
	const uint64_t oldest = progress_oldest(progress, slots);

	*find = (struct find){ .time_ns = time_ns, .slots = slots };
	find->low = oldest - 1;
	find->high = progress->head + 1;
	if (find->high < oldest)
		find->high = oldest;
	choose(find);
}

bool find_next(const struct find *find, uint64_t *sequence)
{
	*sequence = find->at;
	return find->high - find->low > 1 && find->copies < FIND_COPIES;
}

void find_copied(struct find *find, uint64_t time_ns)
{
	find->copies++;
	if (time_ns <= find->time_ns) {
		find->low = find->at;
		find->low_found = true;
	} else {
		find->high = find->first_at; /* Q-I3 */
		find->above = find->at;
		find->above_ns = time_ns;
	}
	choose(find);
}

/* The record was overwritten: all records below the oldest that the line shows are. Without a later
 * record, newer records may be the result. */
static void overwritten(struct find *find, uint64_t oldest, const struct progress *progress)
{
	find->low = oldest - 1;
	find->low_found = false;
	if (!find->above && find->high <= progress->head)
		find->high = progress->head + 1;
	if (find->high < oldest)
		find->high = oldest;
	choose(find);
}

void find_failed(struct find *find, const struct progress *progress)
{
	const uint64_t oldest = progress_oldest(progress, find->slots);

	find->copies++;
	if (find->at < oldest) { /* Q-I2 */
		overwritten(find, oldest, progress);
		return;
	}
	if (++find->tries < FIND_TRIES)
		return;
	find->tries = 0;
	if (++find->at < find->high)
		return;
	find->high = find->first_at;
	choose(find);
}

int find_result(const struct find *find, uint64_t *sequence)
{
	*sequence = find->low;
	if (find->high - find->low > 1 || (!find->low_found && !find->above))
		return -EAGAIN;
	return find->low_found ? 0 : -ERANGE;
}
