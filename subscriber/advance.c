/* SPDX-License-Identifier: Apache-2.0 */
/* Moves a joined topic forward: compares the header, finds the start, reads records, and switches
 * to the next epoch. */
#include "subscriber/advance.h"

#include <errno.h>
#include <string.h>

#include "bus/clock.h"
#include "bus/error.h"
#include "bus/pattern.h"
#include "bus/progress.h"
#include "bus/region.h"
#include "bus/words.h"
#include "subscriber/choice_scan.h"
#include "subscriber/collect.h"
#include "subscriber/conflate.h"
#include "subscriber/connection.h"
#include "subscriber/deliver.h"
#include "subscriber/fetch.h"
#include "subscriber/image.h"
#include "subscriber/landing.h"
#include "subscriber/mapping.h"
#include "subscriber/merge_state.h"
#include "subscriber/names.h"
#include "subscriber/notices.h"
#include "subscriber/pull_conflate.h"
#include "subscriber/pull_image.h"
#include "subscriber/pull_read.h"
#include "subscriber/pull_view.h"
#include "subscriber/pull_watch.h"
#include "subscriber/reader.h"
#include "subscriber/source.h"
#include "subscriber/start.h"

#define SWITCH_TRIES 64 /* invalid lines of an old epoch before it is left */

/* -- fetched parts ---------------------------------------------------------------------------- */

/* Leaves a topic that does not fit, with tb_error() as the reason. */
static void refuse(struct tb_source *source, int code)
{
	struct tb_subscription *subscription = source->subscription;
	const uint32_t id = source->mapping.shape.topic_id;
	bool differs;

	if (collect_interrupt(source))
		return;
	differs = deliver_refusal_differs(subscription, id, tb_error());
	deliver_outcome(subscription, code, tb_error());
	if (differs && !(subscription->fresh && pattern_is_name(subscription->pattern)))
		deliver_refused(subscription, source->name, code, tb_error());
	source_leave(source);
}

static void header_fetched(struct tb_source *source)
{
	struct region_header header;

	words_load(&header, landing_page(source), sizeof(header));
	if (region_header_verify(&header, &source->mapping.shape, source->name) < 0) {
		refuse(source, EPROTO);
		return;
	}
	source->state = source->next == 0 || source->left || merge_state_is_late(source)
				? SOURCE_START
				: SOURCE_RUNNING;
	source->fetched_ns = 0;
}

/* Required names come first: a topic that lacks a name is not joined. A topic that was joined stays
 * joined: its new epoch may begin without names. */
static void start(struct tb_source *source, const struct progress *progress)
{
	int result;

	if (merge_state_is_older(source)) {
		if (progress->state == TOPIC_ENDED && !source->has_successor) {
			merge_state_refuse(source);
			refuse(source, EINVAL);
		}
		return;
	}
	result = source->rejoins ? 1 : choice_scan_required(source, progress->instruments);
	if (result < 0) {
		refuse(source, ENOENT);
	} else if (result == 1) {
		source->subscription->refusal_hash[source->mapping.shape.topic_id] = 0;
		reader_start(source, progress);
	} else {
		source->fetched_ns = 0; /* the next step needs no pause */
	}
}

static void progress_fetched(struct tb_source *source)
{
	const struct mapping *mapping = &source->mapping;
	const bool copy_failed = source->copy_failed;
	struct progress progress;

	words_load(&progress, landing_page(source), sizeof(progress));
	if (!reader_line(source, progress_verify(&progress, &mapping->shape,
						 mapping->progress_salt) == 0)) {
		if (mapping->image)
			image_line_invalid(mapping->image);
		pull_conflate_line(source, NULL);
		return;
	}
	if (mapping->image)
		image_line(mapping->image, &progress);
	pull_conflate_line(source, &progress);
	source->copy_failed = false;
	pull_read_proven(source);
	if (source->state == SOURCE_START || source->state == SOURCE_FIND) {
		if ((!source->subscription->merge || merge_state_may_start(source, &progress)) &&
		    start_line(source, &progress))
			start(source, &progress);
		return;
	}
	switch (reader_look(source, &progress)) {
	case READER_LAPPED:
		if (source->collected.held > 0)
			pull_read_drop(source); /* the line shows them as overwritten (N4) */
		reader_skip(source, &progress);
		return;
	case READER_ENDED:
		reader_quality(source, &progress);
		if (!deliver_stopped(source))
			source_end(source);
		return;
	case READER_STAYS:
		reader_quality(source, &progress);
		break;
	}
	if (!copy_failed || deliver_stopped(source))
		return;
	if (source->next > source->head)
		notices_false(source);
	else
		reader_failed(source, &progress);
}

/* A record without a name is treated as torn. */
static void name_missing(struct tb_source *source)
{
	pull_read_drop(source);
	source->look = source->copy_failed = true;
}

static void slot_fetched(struct tb_source *source)
{
	if (source->state != SOURCE_FIND)
		return;
	start_landed(source);
	source->fetched_ns = 0;
}

void advance_fetched(struct tb_source *source, enum read_kind kind, int status)
{
	source->page_under_way = false;
	if (status < 0 && kind == READ_PROGRESS && source->mapping.image)
		image_line_invalid(source->mapping.image); /* it is to be requested again */
	if (status < 0 && kind == READ_PROGRESS)
		pull_conflate_line(source, NULL);
	if (source->state == SOURCE_DEAD || status < 0)
		return;
	if (kind == READ_HEADER)
		header_fetched(source);
	else if (kind == READ_PROGRESS)
		progress_fetched(source);
	else if (kind == READ_START)
		slot_fetched(source);
	else if (kind == READ_DIRECTORY)
		choice_scan_landed(source, status);
	else if (kind == READ_NAMES && !names_take(source))
		name_missing(source);
}

/* -- steps ------------------------------------------------------------------------------------ */

/* Fetches what a source lacks to be read. With a view it comes at once. -EAGAIN: the queue is
 * full. */
static int part_fetch(struct tb_source *source)
{
	int result;

	if (source->state == SOURCE_HEADER) {
		result = fetch(source, READ_HEADER, 0, sizeof(struct region_header));
		if (result == 1)
			header_fetched(source);
	} else if (source->state == SOURCE_FIND && start_wants_slot(source)) {
		result = start_fetch(source);
		if (result == 1)
			source->fetched_ns = 0;
	} else {
		result = fetch(source, READ_PROGRESS, source->mapping.layout.progress,
			       sizeof(struct progress));
		if (result == 1)
			progress_fetched(source);
	}
	return result;
}

static void source_begin(struct tb_source *source)
{
	source->state = SOURCE_HEADER;
	source_settling(source);
	if (part_fetch(source) == 1 && source->state == SOURCE_START)
		advance_settle(source);
}

int advance_grant(struct tb_subscription *subscription, const struct tb_schema *schema,
		  const struct control_message *grant)
{
	struct tb_source *source = NULL;
	const int result = source_grant(subscription, schema, grant, &source);

	if (result < 0)
		return result;
	if (result == 1) {
		notices_begin(source);
		source_begin(source);
	}
	if (source_follows(source) && !pull_conflate_needs_no_notices(source))
		notices_join(source, &grant->grant.topic.notices);
	return 0;
}

/* Whether an old epoch's memory counts as gone (U1). The rest of it is lost. */
static bool source_gone(const struct tb_source *source)
{
	return source->has_successor && source->under_way == 0 && !connection_may_read(source);
}

/* Whether the old epoch was read to its end. Its writer may have died while it wrote the line that
 * has the end; so many invalid lines end it too. An epoch without a start has no end to wait for.
 */
bool advance_drained(const struct tb_source *source)
{
	if (source->under_way > 0 || pull_read_holds(source))
		return false;
	if (source_gone(source) || source->state == SOURCE_ENDED || !source->mapping.remote ||
	    source->next == 0 || source->invalid > SWITCH_TRIES)
		return true;
	return source->next > source->head && !source->look && !pull_conflate_owes(source);
}

/* A source that had begun reads the new epoch from its oldest record. A source that had not
 * begun starts where the subscription asked, and does not report the old epoch. A topic that a
 * merge went on without reports it, and joins at T, from its first record on. That holds although
 * the epoch that ends may have had no start. */
void advance_switch(struct tb_source *source)
{
	const uint64_t old_epoch = source->mapping.shape.epoch;
	const uint64_t delivered = deliver_position(source), head = source->head;
	const bool begun = source->next != 0;
	const bool joins = !begun || merge_state_is_past(source);
	const bool imaged = source->subscription->options.from == TB_FROM_IMAGE ||
			    image_is_busy(source->mapping.image);

	deliver_holes(source);
	deliver_given_up(source, TB_CAUSE_OVERRUN);
	mapping_close(source->subscription->subscriber, &source->mapping);
	source->mapping = source->successor;
	collect_begin(source);
	memset(&source->successor, 0, sizeof(source->successor));
	source->joined = source->successor_joined;
	source->has_successor = source->armed = false;
	source->copy_failed = source->stale = false;
	source->look = true;
	source->next = source->started = joins ? 0 : 1;
	source->ahead_of_line = (struct ahead){ 0 };
	source->rejoins |= begun;
	source->complete_ns = 0; /* a W counts for its own epoch (MG7) */
	source->lines_owed = 0;
	source->finished = source->left = source->leaving = source->final = false;
	source->head = source->written = source->hint = source->entry_lost_ms = 0;
	notices_begin(source);
	source->batched = false;
	source->quality = TB_QUALITY_GOOD;
	source->quality_head = 0;
	source->tries = source->idle = source->invalid = 0;
	pull_read_drop(source);
	source->state =
		SOURCE_HEADER; /* a handler that ends the source ends the new epoch's join */
	deliver_detour(source);
	if (begun)
		deliver_restart(source, old_epoch, delivered, head);
	if (!joins && imaged && source->mapping.image && !deliver_stopped(source))
		deliver_image(source, 0);
	if (!deliver_stopped(source))
		source_begin(source);
}

/* Goes on with the names that the first line counted. False: more are to be READ. */
static bool names_judged(struct tb_source *source)
{
	struct choice *choice = source->mapping.choice;

	if (choice && choice->at < choice->end)
		choice_scan_entries(source);
	return !choice || choice->at >= choice->end;
}

void advance_settle(struct tb_source *source)
{
	uint64_t now;
	bool searches;
	int result;

	if (source->under_way > 0)
		return;
	if (source->state == SOURCE_START && !names_judged(source))
		return;
	now = clock_ns();
	if (now - source->fetched_ns < RETRY_NS)
		return;
	do { /* in place, a search goes on to its end */
		searches = start_searches(source);
		source->fetched_ns = now;
		result = part_fetch(source);
		searches |= start_searches(source);
	} while (result == 1 && searches && source->fetched_ns == 0);
	if (result == -EAGAIN)
		source->fetched_ns = 0; /* nothing was requested */
}

void advance_settle_all(struct tb_subscriber *subscriber)
{
	for (struct tb_source *source = subscriber->settling, *next; source; source = next) {
		next = source->next_settling;
		if (source_is_settling(source))
			advance_settle(source);
		if (!source_is_settling(source))
			source_settled(source);
	}
}

static int records_poll(struct tb_source *source, int max)
{
	if (collects(source))
		return collect_poll(source, max, source->mapping.view ? pull_view : pull_read);
	return source->mapping.view ? pull_view(source, max) : pull_read(source, max);
}

/* Without records, the line is read when something else shows that it moved. */
static void line_poll(struct tb_source *source)
{
	const bool again = source->invalid > 0 || source->under_way > 0;

	if (!source->look || source->page_under_way ||
	    (again && clock_ns() - source->fetched_ns < RETRY_NS) || choice_scan_takes_turn(source))
		return;
	source->fetched_ns = clock_ns();
	part_fetch(source);
}

static bool runs_on(const struct tb_source *source)
{
	return source->state == SOURCE_RUNNING && !deliver_stopped(source);
}

/* Whether records and values come first in turn: a poll for a single record has no room for both. A
 * batch needs the whole room, or it would be cut inside a message. */
static bool takes_turns(const struct tb_source *source, int max)
{
	return max == 1 ||
	       (collects(source) && max == (int)source->subscription->subscriber->records_max);
}

/* While an image is made, records and values share the poll. */
static int image_poll(struct tb_source *source, int max)
{
	struct image *image = source->mapping.image;
	int count = 0, room;

	image->image_first = takes_turns(source, max) && !image->image_first;
	if (image->image_first)
		count = pull_image(source, max);
	room = collects(source) ? max - count : (max + 1) / 2;
	if (count < max && runs_on(source))
		count += records_poll(source, room);
	if (count < max && runs_on(source) && !image->image_first)
		count += pull_image(source, max - count);
	return count;
}

/* A program that wants no records: the line shows the head, and a watch list what to look at. */
static int values_poll(struct tb_source *source, int max)
{
	pull_watch_ask(source);
	line_poll(source);
	return runs_on(source) ? pull_watch(source, max) : 0;
}

void advance_names(struct tb_source *source)
{
	if (choice_scan_is_due(source->mapping.choice) && runs_on(source))
		choice_scan_step(source);
}

int advance_poll(struct tb_source *source, int max)
{
	int count = 0;

	if (source->has_successor && advance_drained(source)) {
		if (collect_interrupt(source))
			return collect_rest(source, max);
		advance_switch(source);
		return 0;
	}
	if (source->state != SOURCE_RUNNING && source_is_settling(source))
		advance_settle(source);
	if (source->state != SOURCE_RUNNING)
		count = collect_rest(source, max);
	else if (!source_reads_records(source))
		count = values_poll(source, max);
	else if (conflate_is_active(source->mapping.conflate))
		count = pull_conflate(source, max);
	else
		count = image_is_busy(source->mapping.image) ? image_poll(source, max)
							     : records_poll(source, max);
	advance_names(source);
	if (count == 0 && source_gone(source))
		pull_read_drop(source); /* what has landed cannot be proven or named any more */
	return count;
}
