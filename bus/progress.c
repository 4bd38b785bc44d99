/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line: written by the topic's writer, read by all readers.
 *
 * W3  records, barrier, line.  Pairs with R3: a reader that sees head n finds records up to n
 *     complete, or overwritten by later records.
 * W4  line, barrier, next slot.  Pairs with R4: a reader that sees a word of record n in a slot and
 *     then reads the line finds reserved >= n.
 * W7  the line with the last head, barrier, the line that says ended (tb_topic_end).  Pairs with
 *     R7: a reader that sees the end finds the last head.
 * R3  line, acquire fence, then slots.
 * R4  slots, acquire fence, then the line.
 * R7  the state, acquire fence, then head: a line that says ended is loaded again.
 * W8  the line with a new quality, barrier, the line whose head counts the record of the change
 *     (tb_topic_quality). Pairs with R8: the quality is at least as new as the head.
 * R8  head, acquire fence, then the quality.
 * W9  head, barrier, then W (P-I6); in unchecked topics only. Pairs with R9: the head is at least
 *     as new as W, so it counts all records up to W.
 * R9  W, acquire fence, then head.
 *
 * The words of a line are not stored together. Over any fabric the check proves that a copy is one
 * line. Without a check (shared memory only) each word is right on its own. */
#include "bus/progress.h"

#include <errno.h>

#include "bus/barrier.h"
#include "bus/quality.h"
#include "bus/words.h"

/* The words with instruments, state and quality, and with W. */
#define STATE_WORD    (offsetof(struct progress, instruments) / 8)
#define COMPLETE_WORD (offsetof(struct progress, complete_ns) / 8)
#define WHOLE_WORD    (offsetof(struct progress, whole) / 8)

static_assert(WHOLE_WORD == COMPLETE_WORD + 1, "all other words lie on both sides of W");

/* A check covers head and W together. Without a check, W has to follow. */
static void line_store_unchecked(struct progress_line *line, const struct progress *progress)
{
	words_store(line, progress, COMPLETE_WORD * 8);
	words_store(&line->word[WHOLE_WORD], (const char *)progress + WHOLE_WORD * 8,
		    sizeof(*progress) - WHOLE_WORD * 8);
	barrier_store(); /* W9 */
	words_store(&line->word[COMPLETE_WORD], &progress->complete_ns, 8);
}

void progress_store(struct progress_line *line, struct progress *progress, bool checked,
		    uint64_t salt)
{
	progress->check = checked ? record_hash(progress, sizeof(*progress),
						offsetof(struct progress, check), salt)
				  : 0;
	barrier_store(); /* W3 */
	if (checked)
		words_store(line, progress, sizeof(*progress));
	else
		line_store_unchecked(line, progress);
	barrier_store(); /* W4 */
}

static_assert(offsetof(struct progress, quality) / 8 == STATE_WORD, "one word");

/* Only the quality: a newer state needs a newer head (R7). In a checked topic the check fails if
 * the quality changed meanwhile. */
static void quality_load(const struct progress_line *line, struct progress *copy)
{
	struct progress again;

	words_load((char *)&again + STATE_WORD * 8, &line->word[STATE_WORD], 8);
	copy->quality = again.quality;
}

/* W first: a newer head does no harm. */
static void line_load(const struct progress_line *line, struct progress *copy)
{
	words_load(&copy->complete_ns, &line->word[COMPLETE_WORD], 8);
	atomic_thread_fence(memory_order_acquire); /* R9 */
	words_load(copy, line, COMPLETE_WORD * 8);
	words_load((char *)copy + WHOLE_WORD * 8, &line->word[WHOLE_WORD],
		   sizeof(*copy) - WHOLE_WORD * 8);
}

void progress_load(const struct progress_line *line, struct progress *copy)
{
	atomic_thread_fence(memory_order_acquire); /* R4 */
	line_load(line, copy);
	if (copy->state == TOPIC_ENDED)
		line_load(line, copy);             /* R7: the fence is R9's */
	atomic_thread_fence(memory_order_acquire); /* R3, R8 */
	quality_load(line, copy);
}

/* Readers add up to two rings to these counts; the sums must not wrap. */
static bool counts_wrap(const struct progress *copy, uint64_t slots)
{
	const uint64_t last = UINT64_MAX - 2 * slots;

	return copy->head > last || copy->reserved > last || copy->first > last;
}

/* Fields that have no meaning, and W in a topic without group. */
static bool has_unused(const struct progress *copy, const struct region_shape *shape)
{
	return copy->zero || (copy->complete_ns && shape->group == 0);
}

int progress_verify(struct progress *copy, const struct region_shape *shape, uint64_t salt)
{
	if (copy->epoch != shape->epoch || copy->first == 0 ||
	    copy->instruments > shape->capacity ||
	    (copy->state != TOPIC_LIVE && copy->state != TOPIC_ENDED) ||
	    copy->quality > QUALITY_STATE_MAX || has_unused(copy, shape) ||
	    counts_wrap(copy, shape->slots))
		return -EAGAIN;
	if (!(shape->flags & REGION_FLAG_CHECKED))
		return 0;
	if (copy->head > copy->reserved || copy->reserved - copy->head > shape->slots ||
	    copy->first - 1 > copy->head || copy->whole > copy->head)
		return -EAGAIN;
	if (record_hash(copy, sizeof(*copy), offsetof(struct progress, check), salt) != copy->check)
		return -EAGAIN;
	return 0;
}

uint64_t progress_oldest(const struct progress *copy, uint64_t slots)
{
	uint64_t oldest = copy->reserved >= slots ? copy->reserved - slots + 1 : 1;

	return oldest > copy->first ? oldest : copy->first;
}
