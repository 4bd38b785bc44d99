/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/order.h"

#include <inttypes.h>

#include "tests/simulation/counts.h"
#include "tests/simulation/model_parts.h"
#include "tests/simulation/table.h"

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Whether the record comes after what came last. */
static bool is_later(const struct order *order, const struct truth_epoch *epoch, uint64_t sequence)
{
	int result = compare(epoch->life, order->life);

	if (result == 0)
		result = compare(truth_at(epoch, sequence)->time_ns, order->time_ns);
	if (result == 0)
		result = compare(epoch->topic_id, order->topic_id);
	if (result == 0)
		result = compare(sequence, order->sequence);
	return result > 0;
}

/* O2. The memory of a publisher that is gone is read to its end, and its last lines may lack what
 * was written since. */
static bool is_complete(const struct truth_epoch *epoch, uint64_t time_ns)
{
	return epoch->left || time_ns <= truth.complete_ns[epoch->life];
}

void order_pass(const struct model *m, uint64_t sequence)
{
	const uint64_t time_ns = truth_at(m->epoch, sequence)->time_ns;
	struct order *order = m->order;

	if (time_ns <= m->joined_ns)
		return; /* a hole or a quality from before the join */
	if (order->begun && !is_later(order, m->epoch, sequence))
		model_complain(m,
			       "record %" PRIu64 " of time %" PRIu64 " comes after record %" PRIu64
			       " of topic id %" PRIu32 " of time %" PRIu64,
			       sequence, time_ns, order->sequence, order->topic_id, order->time_ns);
	if (!is_complete(m->epoch, time_ns))
		model_complain(m,
			       "record %" PRIu64 " of time %" PRIu64
			       " comes, but the group is complete up to %" PRIu64,
			       sequence, time_ns, truth.complete_ns[m->epoch->life]);
	counts[COUNT_MERGED]++;
	counts[COUNT_MERGE_TURNS] += order->begun && order->topic_id != m->epoch->topic_id;
	*order = (struct order){ .begun = true,
				 .life = m->epoch->life,
				 .time_ns = time_ns,
				 .sequence = sequence,
				 .topic_id = m->epoch->topic_id };
}

void order_join(const struct model *m, const struct truth_epoch *epoch, uint64_t time_ns)
{
	const struct order *order = m->order;

	if (time_ns == 0)
		return;
	counts[COUNT_MERGE_JOINS]++;
	if (order->begun && order->life == epoch->life && time_ns < order->time_ns)
		model_complain(m, "joins at time %" PRIu64 ", but the merge had come to %" PRIu64,
			       time_ns, order->time_ns);
	/* The first line of a new topic has the last message that is over, also before its flush. T
	 * may be that, if all other topics have left. */
	if (!is_complete(epoch, time_ns) && time_ns > truth.over_ns[epoch->life])
		model_complain(
			m, "joins at time %" PRIu64 ", but the group is complete up to %" PRIu64,
			time_ns, truth.complete_ns[epoch->life]);
}

/* O4, for a topic. Behind the cut there may be records that the image covers and that change no
 * value. */
static void cut_check(struct model *m, uint64_t time_ns)
{
	const uint64_t last = truth_until(m->epoch, time_ns);

	if (m->next <= last)
		model_pass(m, last + 1);
	if (m->next - 1 > last && m->next - 1 > m->base)
		model_complain(m,
			       "complete at time %" PRIu64 ", which is record %" PRIu64
			       ", but record %" PRIu64 " came",
			       time_ns, last, m->next - 1);
	for (uint64_t s = last + 1; s < m->next; s++)
		if (truth_is_value(truth_at(m->epoch, s)) &&
		    model_chooses(m, truth_at(m->epoch, s)->instrument) &&
		    !m->dirty[truth_at(m->epoch, s)->instrument])
			model_complain(m,
				       "complete at time %" PRIu64 ", which is record %" PRIu64
				       ", but the image covers value %" PRIu64,
				       time_ns, last, s);
	if (m->due)
		model_complain(m, "complete, but its image did not begin");
	m->imaging = false;
	m->whole = true;
	if (!model_wrong[0])
		table_check(m, "complete");
}

void order_complete(struct model *models, unsigned int count, const struct tb_event *event)
{
	bool imaging = false;
	unsigned int life = 0; /* of the publisher that is merged */

	counts[COUNT_CUTS_COMPLETE]++;
	for (unsigned int i = 0; i < count; i++) {
		imaging |= models[i].imaging;
		if (models[i].epoch && models[i].epoch->life > life)
			life = models[i].epoch->life;
	}
	/* A topic that restarts while the first cut is made may be complete with the cut, and once
	 * more alone. */
	if (!imaging && !(count == 1 && models->whole))
		model_complain(models, "a cut is complete, but no image began");
	for (unsigned int i = 0; i < count && !model_wrong[0]; i++)
		if (models[i].epoch && models[i].epoch->life == life && !models[i].left &&
		    !models[i].joins && !(models[i].restarted && models[i].due))
			cut_check(&models[i], event->time_ns);
}
