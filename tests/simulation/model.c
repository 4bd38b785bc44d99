/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/model_parts.h"
#include "tests/simulation/order.h"
#include "tests/simulation/table.h"
#include "tests/simulation/values.h"

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

void model_say(const struct model *m, const char *format, ...)
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

/* -- records that are not wanted
 * ---------------------------------------------------------------------
 */

static uint32_t bit_of(const struct model *m, uint32_t instrument)
{
	return UINT32_C(1) << picks_number(m->epoch->names[instrument]);
}

bool model_chooses(const struct model *m, uint32_t instrument)
{
	return !m->picks || (picks_bits(m->picks) & bit_of(m, instrument));
}

bool model_always_chooses(const struct model *m, uint32_t instrument)
{
	return !m->picks || !(m->unchosen & bit_of(m, instrument));
}

/* The list changed, or the position is certain again. */
static void picks_fix(struct model *m)
{
	m->listed = m->chosen = picks_bits(m->picks);
	m->unchosen = ~m->chosen;
}

/* The reader knows the instruments of which it delivered records. */
static void instruments_note(struct model *m)
{
	for (uint32_t i = 0; i < TRUTH_INSTRUMENTS; i++)
		if (m->any[i])
			m->instruments_before = i + 1;
}

static void missing_forget(struct model *m, const char *text)
{
	for (unsigned int i = 0; i < m->missing_count; i++)
		if (strcmp(m->missing[i], text) == 0)
			memmove(m->missing[i], m->missing[--m->missing_count], PICKS_TEXT);
}

void model_choose(struct model *m, const char *text)
{
	const uint32_t now = picks_bits(m->picks);

	for (uint32_t i = 0; m->epoch && i < m->epoch->instruments; i++)
		if (m->watches && !(now & bit_of(m, i)))
			m->dirty[i] = true; /* may come again if it is chosen again */
		else if (now & m->unchosen & bit_of(m, i))
			m->dirty[i] = true; /* its row was not kept up to date */
	for (uint32_t i = 0; m->epoch && i < m->epoch->instruments; i++)
		if (now & ~m->listed & bit_of(m, i))
			m->added[i] = m->epoch->count;
	m->listed = now;
	m->chosen |= now;
	m->unchosen |= ~now;
	instruments_note(m);
	missing_forget(m, text);
}

bool model_skips(const struct model *m, uint64_t sequence)
{
	const struct truth_record *record;

	if (sequence > m->epoch->count)
		return false;
	record = truth_at(m->epoch, sequence);
	if (m->watches || m->conflates)
		return true;
	if (record->kind == TB_KIND_HOLE || record->kind == TB_KIND_QUALITY)
		return false;
	if (record->time_ns <= m->joined_ns)
		return true;
	return m->picks && (m->unchosen & bit_of(m, record->instrument));
}

void model_pass(struct model *m, uint64_t sequence)
{
	while (m->next < sequence && model_skips(m, m->next)) {
		m->skipped += !m->conflates;
		counts[COUNT_FILTERED] += !m->conflates;
		m->next++;
		m->first_gap = false;
	}
}

void model_rest(struct model *m)
{
	if (!m->epoch || m->conflates)
		return; /* a conflation says its position in each event */
	model_pass(m, m->epoch->flushed + 1);
	if (m->picks)
		picks_fix(m);
}

uint64_t model_passed(const struct model *m, uint64_t sequence)
{
	uint64_t next = m->next;

	while (next < sequence && model_skips(m, next))
		next++;
	return next - m->next;
}

uint64_t model_behind(const struct model *m, uint64_t sequence)
{
	return sequence < m->started ? 0 : sequence + 1 - m->started;
}

uint64_t model_passed_most(const struct model *m)
{
	uint64_t result = 0;

	for (uint64_t s = m->next; m->batches && m->epoch && s <= m->epoch->count; s++)
		result += model_skips(m, s);
	return m->batches || !m->epoch ? result : model_passed(m, m->epoch->count + 1);
}

/* -- records -----------------------------------------------------------------------------------
 */

void model_content_check(const struct model *m, const struct tb_record *record)
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

/* Y9. A record that waits in a batch was chosen when it was read. */
static void wanted_check(const struct model *m, uint64_t sequence)
{
	const struct truth_record *record = truth_at(m->epoch, sequence);
	const bool chosen = model_chooses(m, record->instrument) ||
			    (m->batches && (m->chosen & bit_of(m, record->instrument)));

	if (!chosen)
		model_complain(m, "record %" PRIu64 " is of an instrument that is not chosen",
			       sequence);
	if (record->time_ns <= m->joined_ns)
		model_complain(m,
			       "record %" PRIu64 " of time %" PRIu64 ", but it joined at %" PRIu64,
			       sequence, record->time_ns, m->joined_ns);
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
	if (m->ended || m->left || m->joins) {
		model_complain(m, "record %" PRIu64 " after the end", sequence);
		return;
	}
	if (m->watches || m->conflates) {
		values_record(m, record);
		return;
	}
	if (record->flags & TB_FLAG_IMAGE) {
		table_image_record(m, record);
		return;
	}
	model_say(m, "record %" PRIu64 " of %s, kind %u", sequence, record->name, record->kind);
	model_pass(m, sequence);
	if (sequence != m->next) { /* Y1 */
		model_complain(m, "record %" PRIu64 " comes", sequence);
		return;
	}
	if (sequence > m->epoch->count) {
		model_complain(m, "record %" PRIu64 " was never published", sequence);
		return;
	}
	model_content_check(m, record); /* Y2 */
	quality_check(m, tb_source_quality(source));
	if (record->kind == TB_KIND_HOLE || record->kind == TB_KIND_QUALITY)
		model_complain(m, "record %" PRIu64 " has kind %u", sequence, record->kind);
	wanted_check(m, sequence);
	if (m->order)
		order_pass(m, sequence);
	if (model_wrong[0])
		return;
	m->restarted = false;
	m->records++;
	counts[COUNT_RECORDS]++;
	m->next++;
	m->first_gap = false;
	if (m->picks && !m->batches) /* the rest of a batch was read with an earlier list */
		picks_fix(m);
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

/* Y3. A conflation without exempt kinds needs nothing of the ring behind its start, and behind its
 * image. */
static bool has_cause(const struct model *m, const struct tb_event *event)
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
		right = all_overrun(m, event->last) && (m->conflates_ns == 0 || m->exempt[0] ||
							m->imaging || event->first == m->started);
		break;
	case TB_CAUSE_BEFORE_JOIN:
		right = all_overrun(m, event->last) && m->first_gap && event->first == m->started &&
			m->from != TB_FROM_NEWEST;
		break;
	}
	return right;
}

static void cause_check(const struct model *m, const struct tb_event *event)
{
	if (!has_cause(m, event))
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

/* Whether this may be the record of a value that a conflation gives up. */
static bool may_give_up(const struct model *m, const struct tb_event *event, uint64_t sequence)
{
	const struct truth_record *record = truth_at(m->epoch, sequence);

	return truth_is_value(record) && (event->cause == TB_CAUSE_OVERRUN || m->epoch->torn ||
					  m->epoch->value_corrupt[record->instrument]);
}

/* V5. Whether these are values that a conflation held, behind the position. */
static bool is_given_up(const struct model *m, const struct tb_event *event)
{
	const bool corrupt = event->cause == TB_CAUSE_CORRUPT;
	uint32_t most = corrupt && m->epoch->torn;

	if (!m->conflates || !m->epoch->left || event->held > 0 || event->skipped > 0 ||
	    event->first == 0 || event->last < event->first || event->last > event->delivered ||
	    event->delivered > m->epoch->count || (!corrupt && event->cause != TB_CAUSE_OVERRUN))
		return false;
	for (uint32_t i = 0; i < m->epoch->instruments; i++)
		most += !corrupt || m->epoch->value_corrupt[i];
	return event->lost <= most && may_give_up(m, event, event->first) &&
	       may_give_up(m, event, event->last);
}

/* Whether the gap has lost its records but for those that came ahead of the position. */
static bool loses_all(const struct model *m, const struct tb_event *event)
{
	return event->lost + values_in(m, event->first, event->last) ==
	       event->last - event->first + 1;
}

/* Whether the program asked for these records. The oldest record is that which is held. */
static bool is_asked(const struct model *m, const struct tb_event *event)
{
	return event->cause != TB_CAUSE_BEFORE_JOIN || m->from != TB_FROM_OLDEST;
}

void model_gap(struct model *m, const struct tb_event *event)
{
	model_say(m, "gap %" PRIu64 " to %" PRIu64 ", cause %d, %" PRIu64 " skipped", event->first,
		  event->last, (int)event->cause, event->skipped);
	if (is_given_up(m, event) && (event->delivered > event->last || event->first < m->next ||
				      !has_cause(m, event) || !loses_all(m, event))) {
		counts[COUNT_GIVEN_UP]++;
		m->lost[event->cause] += event->lost;
		return;
	}
	model_pass(m, event->first);
	if (event->first != m->next || event->last < event->first) {
		model_complain(m, "a gap from %" PRIu64 " to %" PRIu64, event->first, event->last);
		return;
	}
	cause_check(m, event);
	if (!loses_all(m, event))
		model_complain(m, "a gap from %" PRIu64 " to %" PRIu64 " has lost %" PRIu64,
			       event->first, event->last, event->lost);
	skip_check(m, event);
	if (model_wrong[0])
		return;
	if (m->order && event->cause == TB_CAUSE_UPSTREAM)
		order_pass(m, event->first);
	gap_count(event->cause);
	if (!is_asked(m, event))
		m->floor = event->last + 1;
	counts[COUNT_STARTS_LAPPED] += m->conflates && is_asked(m, event) &&
				       event->first == m->started &&
				       event->cause != TB_CAUSE_UPSTREAM;
	values_exempt_pass(m, event->first, event->last + 1);
	m->lost[event->cause] += event->lost;
	m->skipped += event->skipped;
	counts[COUNT_SKIPS] += event->skipped > 0;
	m->next = event->last + event->skipped + 1;
	m->first_gap = false;
	if (event->cause == TB_CAUSE_UPSTREAM)
		return;
	m->doubt = true;
	m->whole = false;
	m->due |= m->imaging || (m->gap == TB_GAP_IMAGE && is_asked(m, event));
	counts[COUNT_IMAGES_LAPPED] += m->imaging;
	m->imaging = false;
}

void model_begin(struct model *m, const char *topic, const struct tb_subscription_options *options)
{
	const struct truth_epoch *newest = truth_newest(topic);

	m->topic = topic;
	m->from = options->from;
	m->gap = options->gap;
	m->batches = options->on_batch;
	m->watches = options->flags & TB_WATCH;
	m->conflates_ns = options->conflate_us == TB_CONFLATE_POLL
				  ? 1
				  : 1000 * (uint64_t)options->conflate_us;
	for (size_t i = 0; i < options->exempt_kind_count; i++)
		m->exempt[i] = options->exempt_kinds[i];
	m->from_epoch = options->epoch;
	m->from_sequence = options->sequence;
	m->epochs_before = newest ? newest->at + 1 : 0;
	m->flushed_before = newest ? newest->flushed : 0;
	m->instruments_before = newest ? newest->instruments : 0;
	if (m->picks)
		picks_fix(m);
}
