/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/values.h"

#include <inttypes.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/model_parts.h"
#include "tests/simulation/world.h"

/* V3. A value may come late in its interval and the next value early. The third is an interval
 * behind the first. The values of a topic that ends come at once. */
static void interval_check(struct model *m, uint32_t i)
{
	const uint64_t now_ns = world.now_ns, before_ns = m->at_ns[i][0];

	if (m->conflates_ns > 1 && !m->epoch->left && before_ns &&
	    now_ns - before_ns < m->conflates_ns)
		model_complain(m, "3 values of %s in %" PRIu64 " ns, which is less than an interval",
			       m->epoch->names[i], now_ns - before_ns);
	m->at_ns[i][0] = m->at_ns[i][1];
	m->at_ns[i][1] = now_ns;
}

void values_record(struct model *m, const struct tb_record *record)
{
	const uint64_t sequence = record->sequence;
	const uint32_t i = record->instrument;

	model_say(m, "value %" PRIu64 " of %s, kind %u", sequence, record->name, record->kind);
	m->values += m->watches;
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

const char *values_unsettled(const struct model *m)
{
	for (uint32_t i = 0; i < m->epoch->instruments; i++) {
		const uint64_t newest = truth_value(m->epoch, i, m->epoch->count);
		const bool empty = newest == 0 || truth_at(m->epoch, newest)->kind == TB_KIND_CLEAR;

		if (!model_chooses(m, i) || m->epoch->value_corrupt[i])
			continue;
		if (m->conflates_ns && newest <= m->before && (m->table[i] == 0 || m->epoch->left))
			continue;
		if (m->table[i] != newest && !(empty && (m->table[i] == 0 || m->dirty[i])))
			return "the newest value of an instrument is missing";
	}
	return NULL;
}
