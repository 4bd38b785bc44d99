/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/counts.h"

char model_wrong[1024];

void model_complain(const struct model *m, const char *format, ...)
{
	int used;
	va_list args;

	if (model_wrong[0])
		return;
	used = snprintf(model_wrong, sizeof(model_wrong),
			"subscriber %u, topic %s, position %" PRIu64 ": ", m->number, m->topic,
			m->next);
	va_start(args, format);
	vsnprintf(model_wrong + used, sizeof(model_wrong) - (size_t)used, format, args);
	va_end(args);
}

static void say(const struct model *m, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void say(const struct model *m, const char *format, ...)
{
	va_list args;

	if (!m->trace)
		return;
	printf("    subscriber %u %s: ", m->number, m->topic);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

void model_begin(struct model *m, const char *topic, const struct tb_subscription_options *options)
{
	const struct truth_epoch *newest = truth_newest(topic);

	m->topic = topic;
	m->from = options->from;
	m->gap = options->gap;
	m->batches = options->on_batch;
	m->from_epoch = options->epoch;
	m->from_sequence = options->sequence;
	m->epochs_before = newest ? newest->at + 1 : 0;
	m->flushed_before = newest ? newest->flushed : 0;
}

/* -- the program's table -----------------------------------------------------------------------
 */

static void table_clear(struct model *m)
{
	memset(m->table, 0, sizeof(m->table));
	memset(m->seen, 0, sizeof(m->seen));
	memset(m->any, 0, sizeof(m->any));
	memset(m->unread, 0, sizeof(m->unread));
	memset(m->dirty, 0, sizeof(m->dirty));
}

static void table_take(struct model *m, uint64_t sequence)
{
	const struct truth_record *record = truth_at(m->epoch, sequence);

	m->any[record->instrument] = true;
	if (!truth_is_value(record))
		return;
	m->table[record->instrument] = record->kind == TB_KIND_CLEAR ? 0 : sequence;
	m->seen[record->instrument] = sequence;
	m->dirty[record->instrument] = false;
}

/* Y7: compares the program's table with the publisher's, at the position. */
static void table_check(const struct model *m, const char *when)
{
	for (uint32_t i = 0; i < TRUTH_INSTRUMENTS && m->whole; i++) {
		uint64_t right = truth_value(m->epoch, i, m->next - 1);

		if (right && truth_at(m->epoch, right)->kind == TB_KIND_CLEAR)
			right = 0;
		if (m->table[i] != right && !m->dirty[i])
			model_complain(m,
				       "%s: the program has value %" PRIu64
				       " of instrument %" PRIu32 ", the publisher's is %" PRIu64,
				       when, m->table[i], i, right);
	}
}

/* -- records -----------------------------------------------------------------------------------
 */

static void content_check(const struct model *m, const struct tb_record *record)
{
	const struct truth_record *right = truth_at(m->epoch, record->sequence);

	if (record->time_ns != right->time_ns || record->instrument != right->instrument ||
	    record->length != right->length || record->kind != right->kind ||
	    (record->flags & ~TB_FLAG_IMAGE) != right->flags ||
	    memcmp(record->data, right->data, right->length) != 0)
		model_complain(m, "record %" PRIu64 " is not what was published", record->sequence);
	else if (strcmp(record->name, m->epoch->names[right->instrument]) != 0)
		model_complain(m, "record %" PRIu64 " has name %s, expected %s", record->sequence,
			       record->name, m->epoch->names[right->instrument]);
}

/* Whether a record of the instrument may wait in a batch: the reader has read it, and counts it as
 * delivered. */
static bool is_collected(const struct model *m, uint32_t instrument)
{
	bool found = false;

	for (uint64_t s = m->next; s <= m->epoch->count && m->batches && !found; s++)
		found = truth_at(m->epoch, s)->instrument == instrument;
	return found;
}

/* Y6 */
static void image_record(struct model *m, const struct tb_record *record)
{
	const uint64_t sequence = record->sequence;

	say(m, "image record %" PRIu64 " of %s", sequence, record->name);
	m->image_records++;
	counts[COUNT_IMAGE_RECORDS]++;
	if (!m->imaging)
		model_complain(m, "image record %" PRIu64 " outside an image", sequence);
	else if (sequence == 0 || sequence > m->base)
		model_complain(m, "image record %" PRIu64 " above the base %" PRIu64, sequence,
			       m->base);
	else if (record->instrument >= TRUTH_INSTRUMENTS ||
		 sequence != truth_value(m->epoch, record->instrument, m->base))
		model_complain(m,
			       "image record %" PRIu64
			       " is not the value of its instrument at %" PRIu64,
			       sequence, m->base);
	else if (sequence <= m->seen[record->instrument])
		model_complain(m, "image record %" PRIu64 " after record %" PRIu64, sequence,
			       m->seen[record->instrument]);
	else if (record->kind == TB_KIND_CLEAR && !m->any[record->instrument] &&
		 !is_collected(m, record->instrument))
		model_complain(m,
			       "image record %" PRIu64 " clears a value that was never delivered",
			       sequence);
	if (model_wrong[0])
		return;
	content_check(m, record);
	table_take(m, sequence);
}

/* Y5 at a record. */
static void quality_check(const struct model *m, uint32_t quality)
{
	bool right = m->doubt;

	if (quality != m->quality)
		model_complain(m,
			       "record %" PRIu64 " comes with quality %u, the last event said %u",
			       m->next, quality, m->quality);
	for (uint64_t s = m->next; s <= m->epoch->count && !right; s++)
		right = truth_quality(m->epoch, s) == quality;
	if (!right)
		model_complain(m, "record %" PRIu64 " comes with quality %u, which is too old",
			       m->next, quality);
}

void model_record(struct model *m, const struct tb_source *source, const struct tb_record *record)
{
	const uint64_t sequence = record->sequence;

	if (model_wrong[0])
		return;
	m->called++;
	if (!m->epoch || record->epoch != m->epoch->id || tb_source_epoch(source) != m->epoch->id) {
		model_complain(m, "record %" PRIu64 " of another epoch", sequence);
		return;
	}
	if (m->ended) {
		model_complain(m, "record %" PRIu64 " after the end", sequence);
		return;
	}
	if (record->flags & TB_FLAG_IMAGE) {
		image_record(m, record);
		return;
	}
	say(m, "record %" PRIu64 " of %s, kind %u", sequence, record->name, record->kind);
	if (sequence != m->next) { /* Y1 */
		model_complain(m, "record %" PRIu64 " comes", sequence);
		return;
	}
	if (sequence > m->epoch->count) {
		model_complain(m, "record %" PRIu64 " was never published", sequence);
		return;
	}
	content_check(m, record); /* Y2 */
	quality_check(m, tb_source_quality(source));
	if (record->kind == TB_KIND_HOLE || record->kind == TB_KIND_QUALITY)
		model_complain(m, "record %" PRIu64 " has kind %u", sequence, record->kind);
	if (model_wrong[0])
		return;
	m->records++;
	counts[COUNT_RECORDS]++;
	m->next++;
	m->first_gap = false;
	table_take(m, sequence);
}

/* -- gaps --------------------------------------------------------------------------------------
 */

static bool all_holes(const struct model *m, uint64_t first, uint64_t last)
{
	if (last > m->epoch->count)
		return false;
	for (uint64_t s = first; s <= last; s++)
		if (truth_at(m->epoch, s)->kind != TB_KIND_HOLE)
			return false;
	return true;
}

static bool all_corrupt(const struct model *m, uint64_t first, uint64_t last)
{
	if (last > m->epoch->count)
		return false;
	for (uint64_t s = first; s <= last; s++)
		if (!truth_at(m->epoch, s)->corrupt)
			return false;
	return true;
}

/* Whether the writer has given up all records up to `last`. */
static bool all_overrun(const struct model *m, uint64_t last)
{
	return last + m->epoch->slots <= m->epoch->reserved;
}

/* Y3 */
static void cause_check(const struct model *m, const struct tb_event *event)
{
	bool right = false;

	switch (event->cause) {
	case TB_CAUSE_UPSTREAM:
		right = all_holes(m, event->first, event->last);
		break;
	case TB_CAUSE_CORRUPT:
		right = all_corrupt(m, event->first, event->last);
		break;
	case TB_CAUSE_OVERRUN:
		right = all_overrun(m, event->last);
		break;
	case TB_CAUSE_BEFORE_JOIN:
		right = all_overrun(m, event->last) && m->first_gap && event->first == m->started &&
			m->from != TB_FROM_NEWEST;
		break;
	}
	if (!right)
		model_complain(m,
			       "a gap from %" PRIu64 " to %" PRIu64 " of cause %d, without cause",
			       event->first, event->last, (int)event->cause);
}

static void gap_count(enum tb_cause cause)
{
	static const enum sim_count numbers[] = {
		[TB_CAUSE_OVERRUN] = COUNT_LAPS,
		[TB_CAUSE_BEFORE_JOIN] = COUNT_BEFORE_JOIN,
		[TB_CAUSE_UPSTREAM] = COUNT_UPSTREAM,
		[TB_CAUSE_CORRUPT] = COUNT_CORRUPT,
	};

	counts[numbers[cause]]++;
}

static void skip_check(const struct model *m, const struct tb_event *event)
{
	const bool lapped = event->cause == TB_CAUSE_OVERRUN;
	const uint64_t behind = event->head > event->last ? event->head - event->last : 0;

	if (event->skipped && (m->gap != TB_GAP_NEWEST || !lapped))
		model_complain(m, "a gap skips %" PRIu64 " records, which nobody asked for",
			       event->skipped);
	if (m->gap == TB_GAP_NEWEST && lapped && event->skipped != behind)
		model_complain(m,
			       "a gap to %" PRIu64 " skips %" PRIu64
			       " records, but the head is %" PRIu64,
			       event->last, event->skipped, event->head);
	if (event->last + event->skipped > m->epoch->count)
		model_complain(m, "a gap skips to %" PRIu64 ", but only %" PRIu64 " are published",
			       event->last + event->skipped, m->epoch->count);
}

static void on_gap(struct model *m, const struct tb_event *event)
{
	say(m, "gap %" PRIu64 " to %" PRIu64 ", cause %d, %" PRIu64 " skipped", event->first,
	    event->last, (int)event->cause, event->skipped);
	if (event->first != m->next || event->last < event->first) {
		model_complain(m, "a gap from %" PRIu64 " to %" PRIu64, event->first, event->last);
		return;
	}
	cause_check(m, event);
	skip_check(m, event);
	if (model_wrong[0])
		return;
	gap_count(event->cause);
	m->lost[event->cause] += event->last - event->first + 1;
	m->skipped += event->skipped;
	counts[COUNT_SKIPS] += event->skipped > 0;
	m->next = event->last + event->skipped + 1;
	m->first_gap = false;
	if (event->cause == TB_CAUSE_UPSTREAM)
		return;
	m->doubt = true;
	m->whole = false;
	m->due |= m->imaging || (m->gap == TB_GAP_IMAGE && event->cause != TB_CAUSE_BEFORE_JOIN);
	counts[COUNT_IMAGES_LAPPED] += m->imaging;
	m->imaging = false;
}

/* -- epochs ------------------------------------------------------------------------------------
 */

static void epoch_begin(struct model *m, const struct truth_epoch *epoch, uint64_t first)
{
	m->epoch = epoch;
	m->next = m->started = first;
	m->first_gap = true;
	m->stale = m->ended = false;
	m->quality = TB_QUALITY_GOOD;
	m->doubt = first != 1;
	m->whole = first == 1;
	m->imaging = false;
	table_clear(m);
}

/* A subscription without an image that asks for it begins where it asked to. */
static void start_check(const struct model *m, const struct truth_epoch *epoch, uint64_t first)
{
	const bool known = m->epochs_before == epoch->at + 1;
	const uint64_t low = known ? m->flushed_before : 0;
	const bool other =
		m->from == TB_FROM_SEQUENCE && m->from_epoch && m->from_epoch != epoch->id;

	switch (m->from) {
	case TB_FROM_NEWEST:
	case TB_FROM_IMAGE:
		if (first < low + 1 || first > epoch->count + 1)
			model_complain(m, "begins at %" PRIu64 ", expected %" PRIu64 " to %" PRIu64,
				       first, low + 1, epoch->count + 1);
		break;
	case TB_FROM_OLDEST:
	case TB_FROM_SEQUENCE:
		if (first != (m->from == TB_FROM_SEQUENCE && !other ? m->from_sequence : 1))
			model_complain(m, "begins at %" PRIu64, first);
		break;
	}
}

static void on_appeared(struct model *m, const struct tb_event *event)
{
	const struct truth_epoch *epoch = truth_find(m->topic, event->epoch);

	say(m, "appeared, first %" PRIu64, event->first);
	if (m->epoch || !epoch) {
		model_complain(m, "appears in epoch %016" PRIx64 "%s", event->epoch,
			       epoch ? " for the second time" : ", which is unknown");
		return;
	}
	start_check(m, epoch, event->first);
	epoch_begin(m, epoch, event->first);
	m->due = m->from == TB_FROM_IMAGE;
	if (m->due)
		m->whole = false;
}

/* Y4 */
static void on_restart(struct model *m, const struct tb_event *event)
{
	const struct truth_epoch *epoch = truth_find(m->topic, event->epoch);
	const struct truth_epoch *old = m->epoch;

	say(m, "restart, delivered %" PRIu64 " of %" PRIu64, event->delivered, event->head);
	m->restarts++;
	counts[COUNT_RESTARTS]++;
	if (old && event->epoch == old->id && m->from == TB_FROM_SEQUENCE &&
	    event->old_epoch == m->from_epoch && m->next == 1)
		return; /* the epoch that was asked for is gone */
	if (!old || !epoch || event->old_epoch != old->id || epoch->at <= old->at) {
		model_complain(m, "a restart from epoch %016" PRIx64 " to %016" PRIx64,
			       event->old_epoch, event->epoch);
		return;
	}
	if (event->delivered != m->next - 1)
		model_complain(m, "a restart at %" PRIu64, event->delivered);
	if (event->head > old->count && event->head > event->delivered)
		model_complain(m, "a restart with head %" PRIu64 ", but %" PRIu64 " were published",
			       event->head, old->count);
	if (m->view && !old->torn && m->next <= old->flushed)
		model_complain(m, "a restart before the old epoch was read to %" PRIu64,
			       old->flushed);
	counts[COUNT_IMAGES_RESTARTED] += m->imaging;
	epoch_begin(m, epoch, 1);
	m->due = m->from == TB_FROM_IMAGE || m->gap == TB_GAP_IMAGE;
}

static void on_ended(struct model *m, const struct tb_event *event)
{
	say(m, "ended at %" PRIu64, event->head);
	counts[COUNT_ENDS]++;
	if (!m->epoch->ended || m->ended)
		model_complain(m, "the end of a topic that goes on");
	else if (event->head != m->epoch->count || m->next <= event->head ||
		 (m->next > event->head + 1 && m->next != m->started))
		model_complain(m, "the end at %" PRIu64 ", expected %" PRIu64, event->head,
			       m->epoch->count);
	else if (m->imaging)
		model_complain(m, "the end before the image is complete");
	m->ended = true;
	m->stale = false;
}

/* -- other events ------------------------------------------------------------------------------
 */

static void on_stale(struct model *m, const struct tb_event *event)
{
	say(m, "stale %d", event->code);
	if (m->ended || (m->stale && event->code == 0))
		model_complain(m, "stale without a reason, %s",
			       m->ended ? "after the end" : "for the second time");
	else if (m->calm)
		model_complain(m, "stale, while the publisher is alive");
	m->stales += event->code == 0;
	counts[COUNT_STALES]++;
	m->stale = true;
}

static void on_live(struct model *m)
{
	say(m, "live");
	if (!m->stale)
		model_complain(m, "live, without being stale before");
	m->stale = false;
}

static void quality_record(struct model *m, const struct tb_event *event)
{
	if (event->first != m->next || event->first > m->epoch->count ||
	    truth_at(m->epoch, event->first)->kind != TB_KIND_QUALITY ||
	    truth_at(m->epoch, event->first)->quality != event->quality ||
	    truth_at(m->epoch, event->first)->data[4] != event->quality_cause) {
		model_complain(m, "quality %u, cause %u at %" PRIu64, event->quality,
			       event->quality_cause, event->first);
		return;
	}
	m->next++;
	m->records++;
	m->first_gap = m->doubt = false;
}

/* The least head of a line that the reader may use now. A subscription may begin beyond the head of
 * the line that it read at its start. */
static uint64_t line_least(const struct model *m)
{
	const bool known = m->epochs_before == m->epoch->at + 1;
	const uint64_t least = known ? m->flushed_before : 0;

	return m->next == m->started && least < m->next - 1 ? least : m->next - 1;
}

static void on_quality(struct model *m, const struct tb_event *event)
{
	/* An unchecked line does not prove that its head and its quality belong together. */
	const uint64_t last =
		event->quality == TB_QUALITY_GOOD && m->next < m->epoch->count && m->epoch->checked
			? m->next
			: m->epoch->count;
	const uint64_t position = line_least(m);
	bool right = event->first != 0;

	say(m, "quality %u at %" PRIu64, event->quality, event->first);
	counts[COUNT_QUALITIES]++;
	if (event->first)
		quality_record(m, event);
	else if (event->quality == m->quality)
		model_complain(m, "quality %u again", event->quality);
	for (uint64_t s = position; s <= last && !right; s++) /* Y5 */
		right = truth_quality(m->epoch, s) == event->quality;
	if (!right)
		model_complain(m, "quality %u, which the topic does not have", event->quality);
	m->quality = event->quality;
}

static void on_image(struct model *m, const struct tb_event *event)
{
	say(m, "image to %" PRIu64, event->first);
	m->images++;
	counts[COUNT_IMAGES]++;
	if (!m->due)
		model_complain(m, "an image that nothing asked for");
	if (event->first != m->next - 1)
		model_complain(m, "an image to %" PRIu64, event->first);
	m->due = false;
	m->imaging = true;
	m->base = event->first;
	memset(m->unread, 0, sizeof(m->unread));
}

static void on_complete(struct model *m, const struct tb_event *event)
{
	say(m, "complete at %" PRIu64, event->delivered);
	counts[COUNT_COMPLETE]++;
	if (!m->imaging)
		model_complain(m, "an image is complete that did not begin");
	else if (event->delivered != m->next - 1)
		model_complain(m, "an image is complete at %" PRIu64, event->delivered);
	else if (!truth_ends_message(m->epoch, event->delivered))
		model_complain(m, "an image is complete inside a message, at %" PRIu64,
			       event->delivered);
	m->imaging = false;
	m->whole = true;
	if (!model_wrong[0])
		table_check(m, "complete");
}

static void on_no_value(struct model *m, const struct tb_event *event)
{
	uint32_t i = 0;

	say(m, "no value of %s", event->words);
	counts[COUNT_NO_VALUES]++;
	if (event->words[0] == '#') /* its name is not known either */
		i = (uint32_t)strtoul(event->words + 1, NULL, 10);
	while (i < m->epoch->instruments && event->words[0] != '#' &&
	       strcmp(m->epoch->names[i], event->words) != 0)
		i++;
	if (!m->imaging || i >= m->epoch->instruments || m->unread[i] ||
	    !m->epoch->value_corrupt[i]) {
		model_complain(m, "no value of %s, which is readable", event->words);
		return;
	}
	m->unread[i] = m->dirty[i] = true;
}

void model_event(struct model *m, const struct tb_event *event)
{
	if (model_wrong[0])
		return;
	if (!m->epoch && event->kind != TB_EVENT_APPEARED && event->kind != TB_EVENT_REFUSED &&
	    event->kind != TB_EVENT_STALE) {
		model_complain(m, "event %d before the topic appeared", (int)event->kind);
		return;
	}
	if (event->kind != TB_EVENT_APPEARED && event->kind != TB_EVENT_RESTART && m->epoch &&
	    event->epoch != 0 && event->epoch != m->epoch->id)
		model_complain(m, "event %d of another epoch", (int)event->kind);
	switch (event->kind) {
	case TB_EVENT_APPEARED:
		on_appeared(m, event);
		break;
	case TB_EVENT_GAP:
		on_gap(m, event);
		break;
	case TB_EVENT_STALE:
		on_stale(m, event);
		break;
	case TB_EVENT_LIVE:
		on_live(m);
		break;
	case TB_EVENT_RESTART:
		on_restart(m, event);
		break;
	case TB_EVENT_ENDED:
		on_ended(m, event);
		break;
	case TB_EVENT_REFUSED:
		model_complain(m, "refused: %s", event->words);
		break;
	case TB_EVENT_QUALITY:
		on_quality(m, event);
		break;
	case TB_EVENT_IMAGE:
		on_image(m, event);
		break;
	case TB_EVENT_COMPLETE:
		on_complete(m, event);
		break;
	case TB_EVENT_NO_VALUE:
		on_no_value(m, event);
		break;
	}
}

const char *model_unsettled(const struct model *m)
{
	const struct truth_epoch *newest = truth_newest(m->topic);

	if (!newest)
		return NULL;
	if (!m->epoch)
		return "the topic has not appeared";
	if (m->epoch != newest)
		return "an old epoch is read";
	if (m->next <= newest->flushed)
		return "records are missing";
	if (newest->ended && !m->ended)
		return "the end is missing";
	if (m->stale)
		return "the topic is stale";
	if (m->quality != truth_quality(newest, newest->count))
		return "the quality is not the topic's";
	if (m->imaging || (m->due && !m->whole))
		return "an image is not complete";
	table_check(m, "at rest");
	return NULL;
}
