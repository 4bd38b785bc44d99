/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/model_parts.h"
#include "tests/simulation/values.h"

void table_clear(struct model *m)
{
	memset(m->table, 0, sizeof(m->table));
	memset(m->seen, 0, sizeof(m->seen));
	memset(m->any, 0, sizeof(m->any));
	memset(m->unread, 0, sizeof(m->unread));
	memset(m->dirty, 0, sizeof(m->dirty));
}

void table_take(struct model *m, uint64_t sequence)
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
void table_check(const struct model *m, const char *when)
{
	for (uint32_t i = 0; i < m->epoch->instruments && m->whole; i++) {
		uint64_t right = truth_value(m->epoch, i, m->next - 1);

		if (right && truth_at(m->epoch, right)->kind == TB_KIND_CLEAR)
			right = 0;
		if (m->table[i] != right && !m->dirty[i] && model_chooses(m, i))
			model_complain(m,
				       "%s: the program has value %" PRIu64
				       " of instrument %" PRIu32 ", the publisher's is %" PRIu64,
				       when, m->table[i], i, right);
	}
}

/* -- images ------------------------------------------------------------------------------------
 */

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
void table_image_record(struct model *m, const struct tb_record *record)
{
	const uint64_t sequence = record->sequence;

	model_say(m, "image record %" PRIu64 " of %s", sequence, record->name);
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
	else if (!model_chooses(m, record->instrument))
		model_complain(m, "image record %" PRIu64 " of %s, which is not chosen", sequence,
			       record->name);
	else if (record->kind == TB_KIND_CLEAR && !m->any[record->instrument] && !m->back &&
		 !is_collected(m, record->instrument))
		model_complain(m,
			       "image record %" PRIu64 " clears a value that was never delivered",
			       sequence);
	if (model_wrong[0])
		return;
	model_content_check(m, record);
	table_take(m, sequence);
}

void table_image(struct model *m, const struct tb_event *event)
{
	model_say(m, "image to %" PRIu64, event->first);
	m->images++;
	counts[COUNT_IMAGES]++;
	if (!m->due)
		model_complain(m, "an image that nothing asked for");
	model_pass(m, event->first + 1);
	if (event->first != m->next - 1)
		model_complain(m, "an image to %" PRIu64, event->first);
	m->due = false;
	m->imaging = true;
	m->base = event->first;
	memset(m->unread, 0, sizeof(m->unread));
}

void table_complete(struct model *m, const struct tb_event *event)
{
	model_say(m, "complete at %" PRIu64, event->delivered);
	counts[COUNT_COMPLETE]++;
	model_pass(m, event->delivered + 1);
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
	if (m->conflates_ns)
		values_begin(m);
}

void table_no_value(struct model *m, const struct tb_event *event)
{
	uint32_t i = 0;

	model_say(m, "no value of %s", event->words);
	counts[COUNT_NO_VALUES]++;
	if (event->words[0] == '#') /* its name is not known either */
		i = (uint32_t)strtoul(event->words + 1, NULL, 10);
	while (i < m->epoch->instruments && event->words[0] != '#' &&
	       strcmp(m->epoch->names[i], event->words) != 0)
		i++;
	/* A watch list reports a value that was rewritten at each of its looks, too. */
	if (!(m->imaging || m->watches) || i >= m->epoch->instruments || m->unread[i] ||
	    !(m->epoch->value_corrupt[i] || m->watches)) {
		model_complain(m, "no value of %s, which is readable", event->words);
		return;
	}
	m->unread[i] = !m->watches; /* a watch list may report it again after a better copy */
	m->dirty[i] = true;
}
