/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a topic, but for gaps and images. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/model_parts.h"
#include "tests/simulation/order.h"
#include "tests/simulation/table.h"
#include "tests/simulation/values.h"

/* -- epochs ------------------------------------------------------------------------------------
 */

static void epoch_begin(struct model *m, const struct truth_epoch *epoch, uint64_t first,
			uint64_t joined_ns)
{
	if (m->order)
		order_join(m, epoch, joined_ns);
	else if (joined_ns)
		model_complain(m, "joins at time %" PRIu64 ", outside a merge", joined_ns);
	if (m->epoch || m->epochs_before != epoch->at + 1)
		m->instruments_before = 0;
	m->epoch = epoch;
	m->conflates = m->conflates_ns && m->from != TB_FROM_IMAGE;
	m->next = m->started = first;
	m->first_gap = true;
	m->stale = m->ended = false;
	m->floor = first;
	memset(m->came_ns, 0, sizeof(m->came_ns));
	memset(m->added, 0, sizeof(m->added));
	m->exempt_next = first;
	m->left = m->joins = m->restarted = m->back = false;
	m->joined_ns = joined_ns;
	m->missing_count = 0;
	m->quality = TB_QUALITY_GOOD;
	m->doubt = first != 1 || joined_ns;
	m->whole = first == 1 && !joined_ns && !m->watches && !m->conflates;
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
	case TB_FROM_TIME:
	case TB_FROM_LAST:
		abort(); /* no subscriber asks for it */
	}
}

/* A topic that left a merge comes back in its epoch. An image brings what lies behind. */
static void come_back(struct model *m, const struct tb_event *event)
{
	const uint64_t last = m->from == TB_FROM_IMAGE ? m->epoch->count + 1 : m->next;

	counts[COUNT_CAME_BACK]++;
	model_pass(m, event->first);
	if (event->first < m->next || event->first > (last > m->next ? last : m->next))
		model_complain(m, "comes back at %" PRIu64, event->first);
	order_join(m, m->epoch, event->time_ns);
	m->skipped += event->first - m->next;
	m->next = m->started = event->first;
	m->first_gap = m->doubt = true;
	m->left = m->whole = m->imaging = false;
	m->joined_ns = event->time_ns;
	m->due = m->from == TB_FROM_IMAGE;
	memset(m->seen, 0, sizeof(m->seen));
	m->back = true;
}

static void on_appeared(struct model *m, const struct tb_event *event)
{
	const struct truth_epoch *epoch = truth_find(m->topic, event->epoch);

	model_say(m, "appeared, first %" PRIu64, event->first);
	if (m->left && m->epoch == epoch) {
		come_back(m, event);
		return;
	}
	if (!epoch || (m->epoch && !(m->restarted && epoch->at >= m->epoch->at))) {
		model_complain(m, "appears in epoch %016" PRIx64 "%s", event->epoch,
			       epoch ? " for the second time" : ", which is unknown");
		return;
	}
	start_check(m, epoch, event->first);
	epoch_begin(m, epoch, event->first, event->time_ns);
	m->back = m->from == TB_FROM_SEQUENCE && event->first == m->from_sequence; /* it resumes */
	m->due = m->from == TB_FROM_IMAGE;
	if (m->due)
		m->whole = false;
}

/* Y4 */
static void on_restart(struct model *m, const struct tb_event *event)
{
	const struct truth_epoch *epoch = truth_find(m->topic, event->epoch);
	const struct truth_epoch *old = m->epoch;
	bool joins;

	model_say(m, "restart, delivered %" PRIu64 " of %" PRIu64, event->delivered, event->head);
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
	model_pass(m, event->delivered + 1);
	values_exempt_pass(m, event->delivered + 1, event->delivered + 1);
	m->accounted += model_behind(m, event->delivered);
	if (event->delivered != m->next - 1 && !m->conflates &&
	    !(m->next == m->started && event->delivered == event->head))
		model_complain(m, "a restart at %" PRIu64, event->delivered);
	if (event->head > old->count)
		model_complain(m, "a restart with head %" PRIu64 ", but %" PRIu64 " were published",
			       event->head, old->count);
	if (m->view && !old->torn && m->next <= old->flushed)
		model_complain(m, "a restart before the old epoch was read to %" PRIu64,
			       old->flushed);
	counts[COUNT_IMAGES_RESTARTED] += m->imaging;
	joins = m->order && (m->left || m->ended);
	epoch_begin(m, epoch, 1, event->time_ns);
	m->due = m->from == TB_FROM_IMAGE || m->gap == TB_GAP_IMAGE;
	m->joins = joins;
	m->restarted = m->order;
}

static void on_ended(struct model *m, const struct tb_event *event)
{
	model_say(m, "ended at %" PRIu64, event->head);
	counts[COUNT_ENDS]++;
	model_pass(m, event->head + 1);
	if (!m->epoch->ended || m->ended)
		model_complain(m, "the end of a topic that goes on");
	else if (event->head != m->epoch->count || m->next <= event->head ||
		 (m->next > event->head + 1 && m->next != m->started))
		model_complain(m, "the end at %" PRIu64 ", expected %" PRIu64, event->head,
			       m->epoch->count);
	else if (m->imaging)
		model_complain(m, "the end before the image is complete");
	if ((m->watches || m->conflates) && !model_wrong[0] && values_unsettled(m))
		model_complain(m, "the end: %s", values_unsettled(m));
	m->ended = true;
	m->stale = false;
}

/* -- other events ------------------------------------------------------------------------------
 */

static void on_stale(struct model *m, const struct tb_event *event)
{
	model_say(m, "stale %d", event->code);
	if (m->ended || (m->stale && (event->code == 0 || event->code == m->stale_code)))
		model_complain(m, "stale without a new reason, %s",
			       m->ended ? "after the end" : "for the second time");
	else if ((event->code == 0) != !event->words)
		model_complain(m, "stale with code %d and %s words", event->code,
			       event->words ? "with" : "without");
	else if (m->calm)
		model_complain(m, "stale, while the publisher is alive");
	m->stales += !m->stale;
	m->stale_code = event->code;
	counts[COUNT_STALES]++;
	m->stale = true;
}

static void on_live(struct model *m)
{
	model_say(m, "live");
	if (!m->stale)
		model_complain(m, "live, without being stale before");
	m->stale = false;
}

static void quality_record(struct model *m, const struct tb_event *event)
{
	model_pass(m, event->first);
	if (event->first != m->next || event->first > m->epoch->count ||
	    truth_at(m->epoch, event->first)->kind != TB_KIND_QUALITY ||
	    truth_at(m->epoch, event->first)->quality != event->quality ||
	    truth_at(m->epoch, event->first)->data[4] != event->quality_cause) {
		model_complain(m, "quality %u, cause %u at %" PRIu64, event->quality,
			       event->quality_cause, event->first);
		return;
	}
	if (m->order)
		order_pass(m, event->first);
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
	const uint64_t most = m->next + model_passed_most(m);
	const uint64_t last =
		event->quality == TB_QUALITY_GOOD && most < m->epoch->count && m->epoch->checked
			? most
			: m->epoch->count;
	const uint64_t position = line_least(m);
	bool right = event->first != 0;

	model_say(m, "quality %u at %" PRIu64, event->quality, event->first);
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

/* -- names and merges --------------------------------------------------------------------------
 */

/* Y9 */
static void on_no_instrument(struct model *m, const struct tb_event *event)
{
	struct picks text = { .count = 1 };

	model_say(m, "no instrument %s", event->words);
	counts[COUNT_NO_INSTRUMENTS]++;
	if (!m->picks || !picks_has(m->picks, event->words)) {
		model_complain(m, "no instrument %s, which is not in the list", event->words);
		return;
	}
	for (unsigned int i = 0; i < m->missing_count; i++)
		if (strcmp(m->missing[i], event->words) == 0)
			model_complain(m, "no instrument %s, for the second time", event->words);
	snprintf(text.texts[0], PICKS_TEXT, "%s", event->words);
	for (uint32_t i = 0; i < m->instruments_before && i < m->epoch->instruments; i++)
		if (picks_bits(&text) & UINT32_C(1) << picks_number(m->epoch->names[i]))
			model_complain(m, "no instrument %s, but the topic has %s", event->words,
				       m->epoch->names[i]);
	if (m->missing_count < MODEL_MISSING)
		snprintf(m->missing[m->missing_count++], PICKS_TEXT, "%s", event->words);
}

static void on_left(struct model *m, const struct tb_event *event)
{
	model_say(m, "left: %s", event->words);
	counts[COUNT_LEFT]++;
	if (!m->order || m->left)
		model_complain(m, "a topic leaves%s", m->left ? " for the second time" : "");
	else if (m->calm)
		model_complain(m, "leaves while nothing is wrong: %s", event->words);
	m->left = true;
}

/* Only a topic that ended in an earlier era has no place in a merge. */
static void on_refused(struct model *m, const struct tb_event *event)
{
	model_say(m, "refused: %s", event->words);
	m->refused = NULL;
	for (unsigned int i = 0; i < truth.count; i++)
		if (strcmp(truth.epochs[i].topic, m->topic) == 0 && truth.epochs[i].ended &&
		    truth.epochs[i].life + 1 < truth.lives)
			m->refused = &truth.epochs[i];
	if (!m->order || !m->refused)
		model_complain(m, "refused: %s", event->words);
	counts[COUNT_OUTDATED]++;
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
	if (event->delivered > event->head) /* Y1 */
		model_complain(m, "event %d has delivered %" PRIu64 ", but its head is %" PRIu64,
			       (int)event->kind, event->delivered, event->head);
	switch (event->kind) {
	case TB_EVENT_APPEARED:
		on_appeared(m, event);
		break;
	case TB_EVENT_GAP:
		model_gap(m, event);
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
		on_refused(m, event);
		break;
	case TB_EVENT_QUALITY:
		on_quality(m, event);
		break;
	case TB_EVENT_IMAGE:
		table_image(m, event);
		break;
	case TB_EVENT_COMPLETE:
		table_complete(m, event);
		break;
	case TB_EVENT_NO_VALUE:
		table_no_value(m, event);
		break;
	case TB_EVENT_NO_INSTRUMENT:
		on_no_instrument(m, event);
		break;
	case TB_EVENT_LEFT:
		on_left(m, event);
		break;
	}
}

const char *model_unsettled(const struct model *m)
{
	const struct truth_epoch *newest = truth_newest(m->topic);

	if (!newest || newest == m->refused)
		return NULL;
	if (!m->epoch)
		return "the topic has not appeared";
	if (m->epoch != newest)
		return "an old epoch is read";
	if (m->left || m->joins)
		return "the merge goes on without it";
	if (m->next + model_passed(m, newest->flushed + 1) <= newest->flushed)
		return "records are missing";
	if (newest->ended && !m->ended)
		return "the end is missing";
	if ((m->watches || m->conflates) && !m->ended && values_unsettled(m))
		return values_unsettled(m);
	if (m->stale)
		return "the topic is stale";
	if (m->quality != truth_quality(newest, newest->count))
		return "the quality is not the topic's";
	if (m->imaging || (m->due && !m->whole))
		return "an image is not complete";
	table_check(m, "at rest");
	return NULL;
}
