/* SPDX-License-Identifier: Apache-2.0 */
/* The position in a topic: where it begins, and what a slot without a valid record means.
 *
 * Q1  Each sequence from the start to next - 1 was delivered or reported in a gap, exactly once. Or
 *     it is held for the next batch, and will be delivered (C-I1).
 * Q2  next never goes back within an epoch.
 * Q3  A gap needs a valid progress line. The line shows the records as overwritten (overrun), or
 *     it shows a record as present while TRIES_MAX copies of it failed (corrupt).
 * Q4  The quality changes by its record. That record may be lost in a gap, or lie before the start.
 *     So there a line's quality counts, at once if it is not good. A line that says good counts
 *     when all records up to its head were read: the record of the change may still come. The
 *     topic's head may have moved on by then. A start beyond the head has records of changes before
 *     it that no line counts yet. So the line is read again when the first record comes.
 * Q5  After an overrun the policy TB_GAP_NEWEST skips the records up to the head. The gap's event
 *     and the counter `skipped` have them. They are neither delivered nor lost.
 * Q6  What a subscription keeps of the values begins where the program asked to begin. So a gap at
 *     the start is as any other gap: its values come. Only TB_FROM_OLDEST asks for nothing before
 *     the oldest record that is held. */
#include "subscriber/reader.h"

#include "bus/clock.h"
#include "bus/counters.h"
#include "subscriber/choice_scan.h"
#include "subscriber/collect.h"
#include "subscriber/conflate.h"
#include "subscriber/deliver.h"
#include "subscriber/image.h"
#include "subscriber/merge_state.h"
#include "subscriber/pull_watch.h"
#include "subscriber/start.h"
#include "tickbus/subscriber.h"

void reader_head(struct tb_source *source, uint64_t head)
{
	if (source->head < head)
		source->head = head;
}

bool reader_line(struct tb_source *source, bool valid)
{
	if (valid) {
		source->invalid = 0;
	} else if (source->invalid++ == 0) {
		source->invalid_ms = clock_coarse_ms();
		source->next_when_invalid = source->next;
	}
	return valid;
}

/* Moves to `next`, and then as the subscription's gap policy says. Conflation and images bring the
 * values of the records that the program asked for. An image that is being made begins again after
 * each gap. */
static void skip_to(struct tb_source *source, uint64_t next, enum tb_cause cause)
{
	const struct image *image = source->mapping.image;
	const enum tb_gap policy = source->subscription->options.gap;
	const bool asked = cause != TB_CAUSE_BEFORE_JOIN ||
			   source->subscription->options.from != TB_FROM_OLDEST;
	const uint64_t first = source->next;

	deliver_holes(source);
	reader_head(source, next - 1); /* the head of an unchecked line may be old */
	source->next = next;
	if (cause == TB_CAUSE_OVERRUN && policy == TB_GAP_NEWEST && source->head >= next)
		source->next = source->head + 1;
	source->tries = 0;
	source->quality_head = 0;
	if (source->mapping.conflate && asked)
		conflate_lapped(source->mapping.conflate);
	deliver_gap(source, first, next - 1, cause, source->next - next);
	if (image && asked && (policy == TB_GAP_IMAGE || image_is_busy(image)) &&
	    !deliver_stopped(source))
		deliver_image(source, source->next - 1);
}

/* What chooses and watches instruments learns how many there are, and how far the writer is. */
void reader_note(struct tb_source *source, const struct progress *progress)
{
	struct mapping *mapping = &source->mapping;

	choice_scan_line(mapping->choice, progress->instruments);
	if (mapping->watch) {
		choice_scan_want(mapping->choice, progress->instruments);
		pull_watch_line(mapping->watch, progress);
	}
}

/* Whether the end has to wait. An image completes at the last head. Missing names are reported. The
 * last values are looked at. */
static bool has_more(struct tb_source *source, const struct progress *progress)
{
	return image_is_busy(source->mapping.image) ||
	       choice_scan_last(source->subscription, source->mapping.choice,
				progress->instruments) ||
	       pull_watch_last(source);
}

/* A program that only asks for values wants no records up to the head. */
static void pass(struct tb_source *source, const struct progress *progress)
{
	if (source_reads_records(source) || source->next > progress->head)
		return;
	source->subscription->counters[SUBSCRIPTION_SKIPPED] += progress->head + 1 - source->next;
	source->next = progress->head + 1;
}

/* A held copy comes before the gap. A program that only wants values has no gap. */
static bool is_lapped(const struct tb_source *source, uint64_t oldest)
{
	return oldest > source->next && !source->held && source_reads_records(source);
}

enum reader_verdict reader_look(struct tb_source *source, const struct progress *progress)
{
	const uint64_t oldest = progress_oldest(progress, source->mapping.shape.slots);
	struct conflate *conflate = source->mapping.conflate;

	if (source->leaving && source->final) {
		reader_note(source, progress);
		source->look = false; /* later records come when it is back */
		return source->next <= source->head && is_lapped(source, oldest) ? READER_LAPPED
										 : READER_STAYS;
	}
	source->final = source->leaving;
	merge_state_line(source, progress);
	if (conflate)
		conflate_counts(conflate, progress->instruments);
	pass(source, progress);
	reader_note(source, progress);
	/* The line is read again when all records up to its head were read, if it says ended. Or if
	 * its quality differs: the record of the change may come until then (Q4). */
	source->look = (source->next <= progress->head &&
			(progress->state == TOPIC_ENDED || progress->quality != source->quality)) ||
		       source->lines_owed > 0;
	reader_head(source, progress->head);
	if (progress->state == TOPIC_ENDED && conflate)
		conflate_ended(conflate);
	if (is_lapped(source, oldest)) {
		if (!conflate_overtaken(conflate))
			return READER_LAPPED;
		source->tries = 0; /* its slot was overwritten, not corrupt */
	}
	if (progress->state != TOPIC_ENDED || source->next <= progress->head ||
	    source->state != SOURCE_RUNNING || source->has_successor)
		return READER_STAYS;
	if (conflate_is_active(conflate) && conflate_owes(conflate))
		conflate->hurries = true;
	else if (!has_more(source, progress))
		return READER_ENDED;
	source->look = true;
	return READER_STAYS;
}

/* Keeps the line's quality until all records up to its head were read. A record of a change ends
 * this, and so does a gap: it may hide a newer change. */
static void quality_keep(struct tb_source *source, const struct progress *progress)
{
	if (source->quality_head || progress->quality == source->quality)
		return;
	source->quality_head = progress->head;
	source->quality_at_head = progress->quality;
}

/* The record of a change may be lost, or still to come. */
static void quality_guess(struct tb_source *source, const struct progress *progress)
{
	if (progress->quality != TB_QUALITY_GOOD)
		deliver_quality(source, progress->quality);
	source->look |= progress->quality != source->quality;
	quality_keep(source, progress);
}

static void quality_report(struct tb_source *source, uint32_t quality)
{
	if (quality != source->quality) {
		if (collect_interrupt(source))
			return;
		deliver_holes(source); /* they come before the change */
		if (deliver_stopped(source))
			return;
	}
	deliver_quality(source, quality);
}

void reader_quality(struct tb_source *source, const struct progress *progress)
{
	if (source->next > progress->head)
		quality_report(source, progress->quality);
	else if (source->quality_head && source->next > source->quality_head)
		quality_report(source, source->quality_at_head);
	quality_keep(source, progress);
}

void reader_skip(struct tb_source *source, const struct progress *progress)
{
	if (collect_interrupt(source))
		return;
	skip_to(source, progress_oldest(progress, source->mapping.shape.slots), TB_CAUSE_OVERRUN);
	quality_guess(source, progress);
}

bool reader_failed(struct tb_source *source, const struct progress *progress)
{
	if (++source->tries < TRIES_MAX || collect_interrupt(source))
		return false;
	skip_to(source, source->next + 1, TB_CAUSE_CORRUPT);
	quality_guess(source, progress);
	return true;
}

/* Records before the first that the topic ever had are not asked for. */
static uint64_t back_from(uint64_t sequence, uint64_t back)
{
	return sequence > back ? sequence - back : 1;
}

/* Where the caller asked to begin. reader_start() reports what is lost there. */
static uint64_t start_of(const struct tb_source *source, uint64_t head, bool other_epoch)
{
	const struct tb_subscription_options *options = &source->subscription->options;
	const uint64_t newest = (source->joined < head ? source->joined : head) + 1;

	if (!source_reads_records(source))
		return head + 1;
	if (options->from == TB_FROM_IMAGE)
		return head + 1;
	if (source->rejoins)
		return 1; /* no record of a new epoch is left out; those up to T are skipped */
	if (options->from == TB_FROM_NEWEST)
		return newest;
	if (options->from == TB_FROM_SEQUENCE && !other_epoch)
		return options->sequence;
	if (options->from == TB_FROM_TIME)
		return back_from(start_found(source), options->back);
	if (options->from == TB_FROM_LAST)
		return back_from(newest, options->back);
	return 1;
}

/* A topic that left a merge comes back in the same epoch. An image brings what lies behind. */
static uint64_t start_again(const struct tb_source *source, uint64_t head)
{
	const struct tb_subscription *subscription = source->subscription;

	if (subscription->options.from != TB_FROM_IMAGE || source->next > head)
		return source->next;
	source->subscription->counters[SUBSCRIPTION_SKIPPED] += head + 1 - source->next;
	return head + 1;
}

/* Whether the program goes on from records of this epoch that it read before. */
static bool is_resumed(const struct tb_source *source, bool other_epoch)
{
	const struct tb_subscription_options *options = &source->subscription->options;

	return options->from == TB_FROM_SEQUENCE && !other_epoch && options->sequence > 1;
}

/* Images and conflation begin at the position that the program asked for, before the gap there. So
 * they know that it lacks the values of the gap (Q6). */
static void values_begin(struct tb_source *source, const struct progress *progress, bool resumed)
{
	struct image *image = source->mapping.image;
	struct conflate *conflate = source->mapping.conflate;

	if (image && resumed)
		image_forget(image);
	if (source->subscription->options.from == TB_FROM_IMAGE && !deliver_stopped(source))
		deliver_image(source, progress->head);
	if (!conflate)
		return;
	conflate_counts(conflate, progress->instruments);
	if (conflate_is_active(conflate))
		conflate_begin(conflate, source->next - 1, resumed);
	if (progress->state == TOPIC_ENDED)
		conflate_ended(conflate);
}

/* The records below `oldest` were overwritten before they were read. A program that begins at the
 * oldest record begins behind them. */
static void skip_at_start(struct tb_source *source, uint64_t oldest, bool joined_before)
{
	const enum tb_from from = source->subscription->options.from;
	const bool overrun = joined_before || from == TB_FROM_NEWEST || from == TB_FROM_IMAGE;

	skip_to(source, oldest, overrun ? TB_CAUSE_OVERRUN : TB_CAUSE_BEFORE_JOIN);
	if (!overrun && from == TB_FROM_OLDEST && conflate_is_active(source->mapping.conflate))
		conflate_begin(source->mapping.conflate, source->next - 1, false);
}

void reader_start(struct tb_source *source, const struct progress *progress)
{
	const struct tb_subscription_options *options = &source->subscription->options;
	const uint64_t oldest = progress_oldest(progress, source->mapping.shape.slots);
	const bool other_epoch = options->from == TB_FROM_SEQUENCE && options->epoch &&
				 options->epoch != source->mapping.shape.epoch;
	const bool back = source->left && source->next != 0;

	source->state = SOURCE_RUNNING;
	reader_note(source, progress);
	source->look = progress->state == TOPIC_ENDED;
	reader_head(source, progress->head);
	merge_state_line(source, progress);
	source->next = source->started = back ? start_again(source, progress->head)
					      : start_of(source, progress->head, other_epoch);
	source->left = source->leaving = source->final = false;
	source->away_ms = 0;
	source->ahead = source->next > progress->head + 1; /* Q4 */
	deliver_detour(source);
	deliver_event(source, TB_EVENT_APPEARED);
	values_begin(source, progress, back || is_resumed(source, other_epoch));
	if (other_epoch)
		deliver_restart(source, options->epoch, 0, 0); /* nothing of it was delivered */
	if (is_lapped(source, oldest))
		skip_at_start(source, oldest, other_epoch || back || source->rejoins);
	if (source->next != 1)
		quality_guess(source, progress);
}
