/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a topic's values while an image is made: the reader follows the ring, and copies
 * the last-value slots meanwhile. After the watermark method of DBLog (arXiv 2010.12597).
 *
 * I3  base is the sequence before the first record that the ring must deliver. Values up to base
 *     come from slots, all later values from the ring. So a copy above base is dropped.
 * I4  A copy counts only if it was made after base was fixed, and the range is that of a line
 *     loaded after that. So each pass over the slots begins after its base was fixed (VR1), and
 *     lines are marked as asked.
 * I5  A copy of sequence s is delivered if seen < s <= base, where seen is the last delivered
 *     record that changed this value. So nothing is delivered twice, and no value goes back. A
 *     stored clear is delivered only if a record of its instrument was. Records are noted only
 *     while an image is made. So after others an image delivers each stored clear.
 * I6  A slot is settled by a valid copy, or if it was never written. A value of its instrument
 *     from the ring settles it too: any value up to base is old then.
 * I7  A copy that failed was overwritten by a value above base, or the slot is corrupt. The ring
 *     brings that value at the latest before the `reserved` of a line loaded after the copy. So a
 *     failed copy proves a slot corrupt only if the ring was read past it. After TRIES_MAX proofs
 *     the slot is given up. Before that, the slots are copied again at a pace. A READ that failed
 *     made no copy, so its pass proves nothing. A pass waits for its proof while later passes copy.
 *     Beside a writer `reserved` is ahead of each line's head. Over a slow device the reader has
 *     just come to that head when the next pass may begin. A topic that ends takes back what it
 *     reserved: the proof is due where the last line says.
 * I8  The image is complete at position C when every slot is settled, C is at or above every copy,
 *     and C ends a message. Then the program's table is the publisher's table at C: dropped copies
 *     were at or below C, so the ring has delivered them.
 * I10 In a merge, C is the last record with a time up to t, where t lies between two stamps. Stamps
 *     rise with the sequences, so C is at or above every copy if t is at or above their times. */
#include "subscriber/image.h"

#include <stdlib.h>
#include <string.h>

#include "bus/sparse.h"
#include "subscriber/fetch.h"
#include "subscriber/reader.h"
#include "subscriber/value_reads.h"

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

struct image *image_new(const struct region_shape *shape)
{
	const size_t words = words_of(shape->capacity);
	struct image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	image->capacity = shape->capacity;
	image->seen = sparse_new(shape->capacity, sizeof(*image->seen));
	image->delivered = calloc(words, sizeof(*image->delivered));
	image->open_slots = calloc(words, sizeof(*image->open_slots));
	image->marks_messages = shape->flags & REGION_FLAG_MARKS_MESSAGES;
	if (image->seen && image->delivered && image->open_slots)
		return image;
	image_free(image);
	return NULL;
}

void image_free(struct image *image)
{
	if (!image)
		return;
	sparse_free(image->seen, image->capacity, sizeof(*image->seen));
	free(image->delivered);
	free(image->open_slots);
	free(image);
}

bool image_begin(struct image *image, uint64_t base)
{
	const bool again = image->phase != IMAGE_IDLE;

	image->laps = again ? image->laps + 1 : 0;
	image->phase = IMAGE_RANGE;
	image->base = base;
	image->largest = image->latest_ns = 0;
	image->tries = 0;
	image->proof_due = false;
	image->line_asked = false;
	return again && image->laps % IMAGE_LAPS == 0;
}

void image_forget(struct image *image)
{
	memset(image->delivered, 0xff, words_of(image->capacity) * sizeof(*image->delivered));
}

void image_line_asked(struct image *image)
{
	image->line_asked = image->phase == IMAGE_RANGE || image->phase == IMAGE_JUDGE;
}

bool image_wants_line(const struct image *image)
{
	return (image->phase == IMAGE_RANGE || image->phase == IMAGE_JUDGE) && !image->line_asked;
}

void image_line_invalid(struct image *image)
{
	image->line_asked = false;
}

static void pass_begin(struct image *image)
{
	image->phase = image->open > 0 ? IMAGE_PASS : IMAGE_SETTLED;
	image->at = 0;
	image->pass_due = true;
}

static void range_take(struct image *image, uint32_t instruments)
{
	image->range = instruments;
	image->open = 0;
	memset(image->open_slots, 0, words_of(image->capacity) * sizeof(*image->open_slots));
	for (uint32_t i = 0; i < instruments; i++)
		if (image->seen[i] <= image->base) { /* I6 */
			bit_set(image->open_slots, i);
			image->open++;
		}
	pass_begin(image);
}

void image_line(struct image *image, const struct progress *line)
{
	if (image->ends_at < line->whole)
		image->ends_at = line->whole;
	if (!image->line_asked)
		return;
	image->line_asked = false;
	if (image->phase == IMAGE_RANGE) {
		range_take(image, line->instruments);
	} else if (image->phase == IMAGE_JUDGE) {
		image->judged_head = line->head;
		image->judged_reserved = line->reserved;
		image->phase = IMAGE_BEHIND;
	}
}

bool image_is_open(const struct image *image, uint32_t instrument)
{
	return bit_of(image->open_slots, instrument);
}

void image_settle(struct image *image, uint32_t instrument)
{
	if (instrument >= image->range || !image_is_open(image, instrument))
		return;
	image->open_slots[instrument / 64] &= ~(UINT64_C(1) << instrument % 64);
	image->open--;
}

void image_leave(struct image *image, const uint64_t *left)
{
	for (size_t i = 0; i < words_of(image->range); i++) {
		image->open -= (uint32_t)__builtin_popcountll(image->open_slots[i] & left[i]);
		image->open_slots[i] &= ~left[i];
	}
}

void image_passed(struct image *image, uint64_t sequence, uint32_t instrument, uint8_t kind,
		  uint8_t flags)
{
	if (flags & TB_FLAG_LAST)
		image->ends_at = sequence;
	if (instrument >= image->capacity || kind == TB_KIND_HOLE || kind == TB_KIND_QUALITY)
		return;
	bit_set(image->delivered, instrument);
	if (!record_is_value(kind, flags))
		return;
	image->seen[instrument] = sequence;
	if (image->phase > IMAGE_RANGE)
		image_settle(image, instrument); /* I6: the ring is above base */
}

bool image_takes(struct image *image, const struct record *copy)
{
	const uint32_t instrument = copy->instrument;

	if (image->largest < copy->sequence)
		image->largest = copy->sequence;
	if (image->latest_ns < copy->time_ns)
		image->latest_ns = copy->time_ns;
	image_settle(image, instrument);
	if (copy->sequence > image->base || copy->sequence <= image->seen[instrument])
		return false;
	if (copy->kind == TB_KIND_CLEAR && !bit_of(image->delivered, instrument))
		return false;
	image->seen[instrument] = copy->sequence;
	bit_set(image->delivered, instrument);
	return true;
}

uint32_t image_next_open(const struct image *image, uint32_t from)
{
	return value_reads_next(image->open_slots, from, image->range);
}

void image_pass_ends(struct image *image, bool unread)
{
	image->unread = unread;
	image->phase = image->open > 0 ? IMAGE_JUDGE : IMAGE_SETTLED;
}

/* A slot that is still open failed in the pass that waits, too. */
static void prove(struct image *image, uint64_t position)
{
	if (!image->proof_due && !image->unread) {
		image->proof_due = true;
		image->proof_at = image->judged_reserved;
	}
	if (image->proof_at > image->judged_reserved)
		image->proof_at = image->judged_reserved; /* its topic has ended */
	if (!image->proof_due || position < image->proof_at)
		return;
	image->proof_due = false;
	image->tries++;
}

void image_judge(struct image *image, uint64_t position, uint64_t now_ns)
{
	if (image->open == 0) {
		image->phase = IMAGE_SETTLED;
		return;
	}
	if (position < image->judged_head || now_ns - image->pass_ns < RETRY_NS)
		return;
	image->pass_ns = now_ns;
	prove(image, position);
	pass_begin(image);
	if (image->tries == TRIES_MAX)
		image->phase = IMAGE_GIVE_UP;
}

bool image_allows_cut(const struct image *image, uint64_t time_ns)
{
	return image->phase == IMAGE_SETTLED && image->latest_ns <= time_ns;
}

bool image_may_complete(const struct image *image, uint64_t position)
{
	return image->phase == IMAGE_SETTLED && position >= image->largest &&
	       (!image->marks_messages || image->ends_at == position);
}

void image_completes(struct image *image)
{
	image->phase = IMAGE_IDLE;
}

void image_interrupted(struct image *image)
{
	image->line_asked = false;
}
