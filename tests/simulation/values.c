/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/values.h"

#include <inttypes.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/model_parts.h"
#include "tests/simulation/world.h"

/* V3. The values of an interval may come after the end of the next interval, if few are polled.
 * Then the next values follow at once, and the third at the next end, which may be near. But the
 * fourth comes an interval later. The values of a topic that ends come at once. */
static void interval_check(struct model *m, uint32_t i)
{
	uint64_t *const came = m->came_ns[i];

	if (m->conflates_ns <= 1 || m->epoch->left)
		return;
	if (came[0] && world.now_ns - came[0] <= m->conflates_ns)
		model_complain(m, "4 values of %s in %" PRIu64 " ns, with an interval of %" PRIu64,
			       m->epoch->names[i], world.now_ns - came[0], m->conflates_ns);
	came[0] = came[1];
	came[1] = came[2];
	came[2] = world.now_ns;
}

void values_begin(struct model *m)
{
	counts[COUNT_CONFLATED_IMAGES]++;
	m->conflates = true;
	m->whole = false;
	m->floor = m->exempt_next = m->next;
}

static bool is_exempt(const struct model *m, uint8_t kind)
{
	return kind == m->exempt[0] || kind == m->exempt[1];
}

/* V6. With a list, only instruments that were always chosen count. */
static bool is_exempt_record(const struct model *m, uint64_t sequence)
{
	const struct truth_record *record = truth_at(m->epoch, sequence);

	return is_exempt(m, record->kind) && model_always_chooses(m, record->instrument);
}

void values_exempt_pass(struct model *m, uint64_t sequence, uint64_t next)
{
	if (!m->conflates)
		return;
	for (; m->exempt[0] && m->exempt_next < sequence && m->exempt_next <= m->epoch->count;
	     m->exempt_next++)
		if (is_exempt_record(m, m->exempt_next))
			model_complain(m, "record %" PRIu64 ", of an exempt kind, did not come",
				       m->exempt_next);
	if (m->exempt_next < next)
		m->exempt_next = next;
}

/* V6 */
static void exempt_record(struct model *m, const struct tb_record *record)
{
	const uint64_t sequence = record->sequence;
	const uint32_t i = record->instrument;

	counts[COUNT_EXEMPT]++;
	if (sequence < m->exempt_next || sequence > m->epoch->count)
		model_complain(m, "record %" PRIu64 ", of an exempt kind, comes before %" PRIu64,
			       sequence, m->exempt_next);
	else if (!model_chooses(m, i))
		model_complain(m, "record %" PRIu64 " of %s, which is not chosen", sequence,
			       record->name);
	if (model_wrong[0])
		return;
	values_exempt_pass(m, sequence, sequence + 1);
	model_content_check(m, record);
	if (!truth_is_value(truth_at(m->epoch, sequence)))
		return;
	if (sequence <= m->table[i])
		model_complain(m, "value %" PRIu64 " of %s comes after value %" PRIu64, sequence,
			       record->name, m->table[i]);
	m->table[i] = sequence;
	m->dirty[i] = false;
}

void values_record(struct model *m, const struct tb_record *record)
{
	const uint64_t sequence = record->sequence;
	const uint32_t i = record->instrument;

	model_say(m, "value %" PRIu64 " of %s, kind %u", sequence, record->name, record->kind);
	m->values += m->watches;
	m->records += m->conflates && !(record->flags & TB_FLAG_IMAGE);
	m->image_records += m->conflates && record->flags & TB_FLAG_IMAGE;
	if (is_exempt(m, record->kind) && !(record->flags & TB_FLAG_IMAGE)) {
		exempt_record(m, record);
		return;
	}
	counts[m->watches ? COUNT_VALUES : COUNT_CONFLATED]++;
	if (m->watches && !(record->flags & TB_FLAG_IMAGE))
		model_complain(m, "value %" PRIu64 " lacks its flag", sequence);
	else if (sequence == 0 || sequence > m->epoch->count)
		model_complain(m, "value %" PRIu64 " was never published", sequence);
	else if (i >= m->epoch->instruments || !truth_is_value(truth_at(m->epoch, sequence)))
		model_complain(m, "record %" PRIu64 " is no value", sequence);
	else if (!model_chooses(m, i))
		model_complain(m, "value %" PRIu64 " of %s, which is not chosen", sequence,
			       record->name);
	else if (sequence < m->table[i] || (sequence == m->table[i] && !m->dirty[i]))
		model_complain(m, "value %" PRIu64 " of %s comes after value %" PRIu64, sequence,
			       record->name, m->table[i]);
	if (model_wrong[0])
		return;
	model_content_check(m, record);
	interval_check(m, i);
	m->table[i] = sequence;
	m->dirty[i] = false;
}

uint64_t values_in(const struct model *m, uint64_t first, uint64_t last)
{
	uint64_t count = 0;

	for (uint32_t i = 0; m->conflates && i < m->epoch->instruments; i++)
		count += m->table[i] >= first && m->table[i] <= last;
	return count;
}

const char *values_unsettled(const struct model *m)
{
	for (uint64_t s = m->exempt_next; m->exempt[0] && m->conflates && s <= m->epoch->flushed;
	     s++)
		if (is_exempt_record(m, s))
			return "a record of an exempt kind is missing";
	for (uint32_t i = 0; i < m->epoch->instruments; i++) {
		const uint64_t newest = truth_value(m->epoch, i, m->epoch->count);
		const bool empty = newest == 0 || truth_at(m->epoch, newest)->kind == TB_KIND_CLEAR;

		if (!model_chooses(m, i) || m->epoch->value_corrupt[i])
			continue;
		if (m->conflates && newest < m->floor && m->table[i] == 0)
			continue; /* it was published before the subscription */
		if (m->conflates && newest <= m->added[i])
			continue; /* it was published before it was chosen */
		if (m->table[i] != newest && !(empty && (m->table[i] == 0 || m->dirty[i])))
			return "the newest value of an instrument is missing";
	}
	return NULL;
}
