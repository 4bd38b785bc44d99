/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher/pulse.h"

#include "bus/bus_page.h"
#include "bus/clock.h"
#include "publisher/announce.h"
#include "publisher/realm.h"

static uint64_t quarter_ns(const struct tb_publisher *publisher)
{
	return UINT64_C(1000000) * PULSE_QUARTER_MS(publisher);
}

void pulse_begin(struct tb_publisher *publisher)
{
	publisher->pulse_due_ns = clock_ns() + quarter_ns(publisher);
}

/* After a long sleep one pulse is due, not one for each quarter that was missed. */
bool pulse_due(struct tb_publisher *publisher)
{
	const uint64_t now = clock_ns(), quarter = quarter_ns(publisher);

	if (now < publisher->pulse_due_ns)
		return false;
	publisher->pulse_due_ns += (now - publisher->pulse_due_ns) / quarter * quarter + quarter;
	return true;
}

void pulse_count_silence(struct tb_publisher *publisher)
{
	for (uint32_t i = 0; i < publisher->topic_count; i++) {
		struct tb_topic *topic = publisher->topics[i];

		if (atomic_exchange_explicit(&topic->touched, 0, memory_order_relaxed) ||
		    !(topic->flags & TB_TOPIC_WATCHED) ||
		    atomic_load_explicit(&topic->end_due, memory_order_relaxed))
			topic->silent = 0;
		else
			topic->silent++;
	}
}

/* A silent topic's beat falls behind the count, so readers see the topic as stale. Only quarters of
 * the bound count, not the pulses between them that report changes. */
static void entry_store(struct tb_publisher *publisher, const struct tb_topic *topic,
			uint32_t realms)
{
	struct bus_entry entry = { .epoch = topic->shape.epoch,
				   .head = topic_head(topic),
				   .topic_id = topic->shape.topic_id,
				   .state = TOPIC_LIVE };

	if (atomic_load_explicit(&topic->end_due, memory_order_acquire))
		entry.state = TOPIC_ENDED;
	for (uint32_t i = 0; i < publisher->realm_count; i++) {
		const struct realm *realm = &publisher->realms[i];

		if (!(realms >> i & 1) || !realm_has(realm, topic))
			continue;
		entry.beat = realm->pulse.count - topic->silent;
		bus_page_store_entry(realm->page.base, entry.topic_id - 1, &entry,
				     publisher->bus_id);
	}
}

void pulse_write(struct tb_publisher *publisher, uint32_t realms)
{
	for (uint32_t i = 0; i < publisher->realm_count; i++)
		publisher->realms[i].pulse.count += realms >> i & 1;
	for (uint32_t i = 0; i < publisher->topic_count; i++)
		entry_store(publisher, publisher->topics[i], realms);
	for (uint32_t i = 0; i < publisher->realm_count; i++)
		if (realms >> i & 1)
			bus_page_store_pulse(publisher->realms[i].page.base,
					     &publisher->realms[i].pulse);
	announce_heads(publisher);
}
