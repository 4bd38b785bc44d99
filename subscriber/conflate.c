/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of conflation: per instrument and interval the newest value.
 *
 * At the end of an interval a progress line is loaded. If it counts at most as many new records as
 * there are values, the ring is walked up to its head. That shows which instruments have changed,
 * and their values are copied. If it counts more, all values are copied instead, and the position
 * then jumps to its head. If some kinds are exempt, the ring is read all the time instead.
 *
 * Z-I1  A value that the position passes is held, at most one for each instrument: its sequence
 *       alone. A newer value takes its place, and then the older value is skipped. So nothing is
 *       buffered. At any time: delivered + skipped + lost + held = what the position has passed.
 * Z-I2  The held value is delivered out of its slot at the end of the interval. The slot has that
 *       value or a newer value. If it is newer, the held value is skipped. A copy that is older
 *       was made before the writer came to the slot: it counts as failed.
 * Z-I3  A copy ahead of the position is delivered. It counts as delivered when the position passes
 *       it: in the walk, in a jump, and in a gap, which then has lost one less. Older values of
 *       its instrument that the ring brings later are skipped. A hostile publisher may give several
 *       values the same sequence. So no more records count as delivered than the position passes.
 * Z-I4  At most one value of each instrument is ahead of the position, or ahead of the target of
 *       a jump. Else a publisher that does not flush could be ahead by any number, and the
 *       accounts would need memory for each. The next interval finds the newer value.
 * Z-I5  A copy at or below the position is in the accounts already, unless it is held. A gap lost
 *       it, or a jump skipped it. It is delivered as an image record.
 * Z-I6  The values of a jump are copied after its line was loaded. So each value up to the target
 *       is in its slot, or was replaced by a newer value. The position moves when all are copied.
 *       A jump needs nothing of the ring, so laps do not matter meanwhile. So if no kind is
 *       exempt, a lap loses nothing: a walk that is lapped becomes a jump to its target.
 * Z-I7  A gap may hide values of any instrument. So the next pass copies all slots that a line
 *       has counted.
 * Z-I8  A stored clear is delivered only if a record of its instrument was. A program that resumes
 *       may have got that record in an earlier run.
 * Z-I9  Copies that fail in TRIES_MAX passes stay due for the next interval. Their slots are not
 *       corrupt: a writer may be inside them each time. In an epoch that is over there is no
 *       writer. There they are left behind the last record, and the values held of them are
 *       lost. The cause is corrupt, or overrun if READs of them failed.
 * J-I1  A record of an exempt kind is delivered at its place. Its slot's copy is not delivered
 *       ahead of the position, because the ring brings it.
 * J-I6  If an exempt kind is a value, the ring may bring an older value at any time. So no copy is
 *       delivered ahead of the position then. The instrument is late instead: the next value of it
 *       that the ring brings is delivered at its place. So no value goes back, and a value that is
 *       replaced all the time comes in each interval. */
#include "subscriber/conflate.h"

#include <stdlib.h>
#include <string.h>

#include "bus/sparse.h"
#include "subscriber/reader.h"

static size_t words_of(uint32_t bits)
{
	return ((size_t)bits + 63) / 64;
}

static bool bit_of(const uint64_t *bits, uint32_t at)
{
	return bits[at / 64] >> at % 64 & 1;
}

static void bit_set(uint64_t *bits, uint32_t at)
{
	bits[at / 64] |= UINT64_C(1) << at % 64;
}

static void bit_clear(uint64_t *bits, uint32_t at)
{
	bits[at / 64] &= ~(UINT64_C(1) << at % 64);
}

struct conflate *conflate_new(const struct region_shape *shape, const uint64_t *exempt,
			      uint64_t interval_ns, uint64_t now_ns)
{
	const size_t words = words_of(shape->capacity);
	struct conflate *conflate = calloc(1, sizeof(*conflate));

	if (!conflate)
		return NULL;
	conflate->capacity = shape->capacity;
	conflate->exempt = exempt;
	for (unsigned int i = 0; i < EXEMPT_KIND_WORDS; i++)
		conflate->exempts |= exempt[i] != 0;
	for (unsigned int kind = 0; kind < EXEMPT_KIND_WORDS * 64; kind++)
		conflate->in_order |= bit_of(exempt, kind) && record_is_value((uint8_t)kind, 0);
	conflate->interval_ns = interval_ns;
	conflate->ends_ns = now_ns + interval_ns;
	conflate->seen = sparse_new(shape->capacity, sizeof(*conflate->seen));
	conflate->held = sparse_new(shape->capacity, sizeof(*conflate->held));
	conflate->delivered = calloc(words, sizeof(*conflate->delivered));
	conflate->due = calloc(words, sizeof(*conflate->due));
	conflate->late = calloc(words, sizeof(*conflate->late));
	if (conflate->seen && conflate->held && conflate->delivered && conflate->due &&
	    conflate->late)
		return conflate;
	conflate_free(conflate);
	return NULL;
}

void conflate_free(struct conflate *conflate)
{
	if (!conflate)
		return;
	sparse_free(conflate->seen, conflate->capacity, sizeof(*conflate->seen));
	sparse_free(conflate->held, conflate->capacity, sizeof(*conflate->held));
	free(conflate->delivered);
	free(conflate->due);
	free(conflate->late);
	free(conflate);
}

void conflate_begin(struct conflate *conflate, uint64_t floor, bool resumed)
{
	conflate->active = true;
	conflate->floor = floor;
	if (resumed)
		memset(conflate->delivered, 0xff,
		       words_of(conflate->capacity) * sizeof(*conflate->delivered));
}

void conflate_begin_imaged(struct conflate *conflate, const uint64_t *seen,
			   const uint64_t *delivered)
{
	const size_t words = words_of(conflate->capacity);

	conflate->active = true;
	memcpy(conflate->seen, seen, conflate->capacity * sizeof(*seen));
	memcpy(conflate->delivered, delivered, words * sizeof(*delivered));
}

/* -- intervals -------------------------------------------------------------------------------- */

bool conflate_interval_ends(struct conflate *conflate, uint64_t now_ns)
{
	const uint64_t interval_ns = conflate->interval_ns;

	if (interval_ns != 0 && now_ns >= conflate->ends_ns)
		conflate->ends_ns += ((now_ns - conflate->ends_ns) / interval_ns + 1) * interval_ns;
	else if (interval_ns != 0 && !conflate->hurries)
		return false;
	conflate->hurries = false;
	return true;
}

bool conflate_owes(const struct conflate *conflate)
{
	return conflate->due_count > 0 || conflate->held_count > 0 || conflate->all ||
	       conflate->phase > CONFLATE_LINE;
}

/* With exempt kinds the ring is read first, without haste: it may hold many intervals. */
void conflate_ended(struct conflate *conflate)
{
	conflate->hurries |= !conflate->exempts;
}

void conflate_counts(struct conflate *conflate, uint32_t instruments)
{
	if (conflate->range < instruments)
		conflate->range = instruments;
}

void conflate_line(struct conflate *conflate, uint64_t head, uint64_t values, uint64_t position)
{
	conflate->target = head;
	if (head <= position) {
		conflate->target = position;
		conflate_pass_begins(conflate);
	} else if (head - position > values) {
		conflate->jumps = true;
		conflate->all = true;
		conflate_pass_begins(conflate);
	} else {
		conflate->phase = CONFLATE_WALK;
	}
}

/* -- slots that are due ----------------------------------------------------------------------- */

static void due_set(struct conflate *conflate, uint32_t instrument)
{
	if (bit_of(conflate->due, instrument))
		return;
	bit_set(conflate->due, instrument);
	conflate->due_count++;
}

static void due_clear(struct conflate *conflate, uint32_t instrument)
{
	if (!bit_of(conflate->due, instrument))
		return;
	bit_clear(conflate->due, instrument);
	conflate->due_count--;
}

bool conflate_is_due(const struct conflate *conflate, uint32_t instrument)
{
	return bit_of(conflate->due, instrument);
}

void conflate_pass_begins(struct conflate *conflate)
{
	for (uint32_t i = 0; conflate->all && i < conflate->range; i++) /* Z-I7 */
		due_set(conflate, i);
	conflate->whole = conflate->all;
	conflate->all = false;
	conflate->pass_due = true;
	conflate->tries = 0;
	conflate->phase = CONFLATE_PASS;
}

bool conflate_pass_ends(struct conflate *conflate)
{
	conflate->pass_due = true;
	if (conflate->due_count > 0 && ++conflate->tries < TRIES_MAX)
		return false;
	conflate->phase = CONFLATE_SLEEPS; /* Z-I9 */
	return true;
}

/* -- values ----------------------------------------------------------------------------------- */

static bool is_exempt(const struct conflate *conflate, uint8_t kind)
{
	return bit_of(conflate->exempt, kind);
}

/* Takes the place of the held value, if there is any. Returns how many are skipped by that. */
static uint8_t held_replace(struct conflate *conflate, uint32_t instrument, uint64_t sequence)
{
	const bool held = conflate->held[instrument] != 0;

	conflate->held[instrument] = sequence;
	conflate->held_count = conflate->held_count + (sequence != 0) - held;
	return held;
}

static void value_delivered(struct conflate *conflate, uint32_t instrument, uint64_t sequence)
{
	bit_set(conflate->delivered, instrument);
	if (conflate->seen[instrument] < sequence)
		conflate->seen[instrument] = sequence;
	if (conflate->highest < sequence)
		conflate->highest = sequence;
}

bool conflate_came(const struct conflate *conflate, const struct record *record)
{
	return record->instrument < conflate->capacity &&
	       conflate->seen[record->instrument] == record->sequence;
}

static struct conflate_verdict exempt_passes(struct conflate *conflate, const struct record *record)
{
	struct conflate_verdict verdict = { .deliver = true };

	bit_set(conflate->delivered, record->instrument);
	if (!record_is_value(record->kind, record->flags))
		return verdict;
	verdict.skipped = held_replace(conflate, record->instrument, 0);
	due_clear(conflate, record->instrument);
	value_delivered(conflate, record->instrument, record->sequence);
	return verdict;
}

/* A value that was late comes at its place, unless it is a clear of an unknown instrument. */
static bool is_late(const struct conflate *conflate, const struct record *record)
{
	return bit_of(conflate->late, record->instrument) &&
	       record->sequence > conflate->seen[record->instrument] &&
	       record_is_value(record->kind, record->flags) &&
	       (record->kind != TB_KIND_CLEAR || bit_of(conflate->delivered, record->instrument));
}

struct conflate_verdict conflate_passes(struct conflate *conflate, const struct record *record)
{
	const uint64_t sequence = record->sequence, seen = conflate->seen[record->instrument];

	if (is_exempt(conflate, record->kind))
		return exempt_passes(conflate, record); /* J-I1 */
	if (is_late(conflate, record)) {
		bit_clear(conflate->late, record->instrument);
		return exempt_passes(conflate, record); /* J-I6 */
	}
	conflate->quiet++;
	if (!record_is_value(record->kind, record->flags) || sequence < seen)
		return (struct conflate_verdict){ .skipped = 1 };
	if (sequence == seen)
		return (struct conflate_verdict){ .records = 1 }; /* Z-I3 */
	due_set(conflate, record->instrument);
	return (struct conflate_verdict){
		.skipped = held_replace(conflate, record->instrument, sequence) /* Z-I1 */
	};
}

/* Whether a copy is not to be delivered now. */
static bool copy_waits(const struct conflate *conflate, const struct record *copy,
		       uint64_t position)
{
	const uint64_t seen = conflate->seen[copy->instrument];
	const uint64_t reach = conflate->jumps ? conflate->target : position;

	if (copy->sequence <= seen || copy->sequence <= conflate->floor)
		return true; /* nothing is new */
	return copy->sequence > position &&
	       (conflate->in_order /* J-I1, J-I6 */ || seen > reach /* Z-I4 */);
}

struct conflate_verdict conflate_takes(struct conflate *conflate, const struct record *copy,
				       uint64_t position)
{
	const uint32_t instrument = copy->instrument;
	const uint64_t held = conflate->held[instrument];
	struct conflate_verdict verdict = { .deliver = true };

	if (copy->sequence < held)
		return (struct conflate_verdict){ 0 }; /* Z-I2 */
	due_clear(conflate, instrument);
	/* Also if the copy waits: its slot has the held value no more. */
	verdict.skipped = held_replace(conflate, instrument, 0);
	if (conflate->in_order && copy->sequence > position)
		bit_set(conflate->late, instrument); /* J-I6 */
	if (copy_waits(conflate, copy, position) ||
	    (copy->kind == TB_KIND_CLEAR && !bit_of(conflate->delivered, instrument) /* Z-I8 */)) {
		verdict.deliver = false;
		return verdict;
	}
	if (conflate->seen[instrument] > position)
		conflate->replaced++; /* it lies inside the jump */
	if (copy->sequence == held) {
		verdict.records = 1;
		verdict.skipped = 0;
	}
	verdict.image = copy->sequence <= position && copy->sequence != held; /* Z-I5 */
	bit_clear(conflate->late, instrument);
	value_delivered(conflate, instrument, copy->sequence);
	return verdict;
}

void conflate_empty(struct conflate *conflate, uint32_t instrument)
{
	if (!conflate->held[instrument]) /* Z-I2 */
		due_clear(conflate, instrument);
}

uint64_t conflate_forget(struct conflate *conflate, uint32_t instrument)
{
	due_clear(conflate, instrument);
	bit_clear(conflate->late, instrument);
	return held_replace(conflate, instrument, 0);
}

uint64_t conflate_leave(struct conflate *conflate, const uint64_t *left)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < conflate->capacity; i++)
		if (bit_of(left, i) && (bit_of(conflate->due, i) || conflate->held[i]))
			count += conflate_forget(conflate, i);
	return count;
}

/* -- jumps and gaps --------------------------------------------------------------------------- */

uint64_t conflate_delivered_in(const struct conflate *conflate, uint64_t first, uint64_t last)
{
	uint64_t count = conflate->replaced;

	if (conflate->highest < first)
		return 0;
	for (uint32_t i = 0; i < conflate->capacity; i++)
		count += conflate->seen[i] >= first && conflate->seen[i] <= last;
	return count < last - first + 1 ? count : last - first + 1; /* Z-I3 */
}

void conflate_lapped(struct conflate *conflate)
{
	conflate->all = true;
}

bool conflate_overtaken(struct conflate *conflate)
{
	if (!conflate_is_active(conflate) || conflate->exempts)
		return false;
	if (conflate->phase == CONFLATE_WALK) { /* Z-I6 */
		conflate->jumps = true;
		conflate->all = true;
		conflate_pass_begins(conflate);
	}
	return true;
}

uint64_t conflate_give_up(struct conflate *conflate, uint64_t *first, uint64_t *last)
{
	const uint64_t count = conflate->held_count;

	*first = *last = 0;
	for (uint32_t i = 0; i < conflate->capacity; i++) {
		const uint64_t held = conflate->held[i];

		due_clear(conflate, i);
		if (held == 0)
			continue;
		*first = *first == 0 || held < *first ? held : *first;
		*last = held > *last ? held : *last;
		held_replace(conflate, i, 0);
	}
	return count;
}

void conflate_interrupted(struct conflate *conflate)
{
	conflate->line_asked = conflate->landed = false;
}
