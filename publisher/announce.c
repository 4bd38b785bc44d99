/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: what a flush tells the network, once, whoever listens; and the heads of all topics with
 * each pulse, so that a lost notice is made good and an idle bus is heard.
 *
 * A topic's notices go to one group, its heads among them: so whoever reads it needs no other, and
 * knows by that one whether notices reach him. A topic that no network serves has none. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "bus/address.h"
#include "bus/error.h"
#include "bus/notice.h"
#include "publisher/publisher.h"

#define TOPIC_NOTICE_BYTES (NOTICE_HEADER + NOTICE_ENTRY)

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -- groups -------------------------------------------------------------------------------------
 */

/* Only shared memory serves an unchecked topic, and nobody one of no realm. */
static bool is_announced(const struct tb_topic *topic)
{
	return (topic->shape.flags & REGION_FLAG_CHECKED) && topic->realms;
}

static bool gate_announces(const struct gate *gate)
{
	return gate->listener->ops->announcer_open &&
	       gate->publisher->notices.kind != FABRIC_NOTICES_NONE;
}

static int crowd_open(struct crowd *crowd, struct gate *gate)
{
	if (!gate_announces(gate))
		return 0;
	return gate->listener->ops->announcer_open(gate->listener, crowd->where,
						   gate->publisher->notices.bytes,
						   &crowd->announcers[gate->index]);
}

static void crowd_close(struct crowd *crowd)
{
	for (uint32_t i = 0; i < TOPIC_LISTENERS_MAX; i++) {
		if (crowd->announcers[i])
			crowd->announcers[i]->ops->announcer_close(crowd->announcers[i]);
		crowd->announcers[i] = NULL;
	}
}

int announce_gate(struct gate *gate)
{
	gate->publisher->crowd_count = 1;
	return crowd_open(&gate->publisher->crowds[0], gate);
}

void announce_end(struct tb_publisher *publisher)
{
	while (publisher->crowd_count > 0)
		crowd_close(&publisher->crowds[--publisher->crowd_count]);
}

/* The index of the group's crowd, which may be new; or -errno. */
static int crowd_find(struct tb_topic *topic, const char *text)
{
	struct tb_publisher *publisher = topic->publisher;
	struct groups *groups = &publisher->groups;
	const int index =
		groups_take(groups, text, topic->name, topic->shape.flags & REGION_FLAG_CHECKED);
	struct crowd *crowd;
	int result = 0;

	if (index < 0)
		return error_prefix(index, "multicast: ");
	if ((uint32_t)index < publisher->crowd_count)
		return index;
	crowd = &publisher->crowds[index];
	*crowd = (struct crowd){ .where = &groups->others[index - 1].where };
	for (uint32_t i = 0; i < publisher->gate_count && result == 0; i++)
		result = crowd_open(crowd, &publisher->gates[i]);
	if (result < 0) {
		crowd_close(crowd);
		groups_drop(groups);
		return result;
	}
	publisher->crowd_count++;
	return index;
}

void announce_told(const struct gate *gate, const struct tb_topic *topic,
		   struct fabric_notices *told)
{
	const struct crowd *crowd = &gate->publisher->crowds[topic->crowd];

	memset(told, 0, sizeof(*told));
	if (crowd->announcers[gate->index] && is_announced(topic))
		gate->listener->ops->notices(gate->listener, crowd->where, told);
}

/* -- a topic's ----------------------------------------------------------------------------------
 */

int announce_open(struct tb_topic *topic, const char *multicast)
{
	struct tb_publisher *publisher = topic->publisher;
	const struct crowd *crowd;
	int result = multicast ? crowd_find(topic, multicast) : 0;

	if (result < 0 || !is_announced(topic))
		return result < 0 ? result : 0;
	topic->crowd = (uint32_t)result;
	crowd = &publisher->crowds[topic->crowd];
	result = 0;
	for (uint32_t i = 0; i < publisher->gate_count && result == 0; i++) {
		struct listener *listener = publisher->gates[i].listener;
		struct announcer *announcer = NULL;

		if (!crowd->announcers[i])
			continue;
		result = listener->ops->announcer_open(listener, crowd->where, TOPIC_NOTICE_BYTES,
						       &announcer);
		if (announcer)
			topic->announcers[topic->announcer_count++] = announcer;
	}
	return result;
}

void announce_close(struct tb_topic *topic)
{
	while (topic->announcer_count > 0) {
		struct announcer *announcer = topic->announcers[--topic->announcer_count];

		announcer->ops->announcer_close(announcer);
	}
}

void announce_topic(struct tb_topic *topic)
{
	uint8_t bytes[NOTICE_BYTES_MIN];
	struct notice_writer writer;
	size_t length;

	notice_begin(&writer, bytes, sizeof(bytes), topic->publisher->bus_id, clock_ns());
	notice_number(&writer, topic->shape.topic_id, ++topic->notices);
	notice_entry(&writer, topic->shape.topic_id, topic->shape.epoch, topic->progress.head);
	length = notice_finish(&writer);
	for (uint32_t i = 0; i < topic->announcer_count; i++) {
		struct announcer *announcer = topic->announcers[i];
		const int result = announcer->ops->announce(announcer, bytes, length);

		counter_add(result == 0 ? &topic->announced : &topic->unannounced, 1);
	}
}

/* -- heads --------------------------------------------------------------------------------------
 */

/* The number of the last heads that went to a crowd's group from a gate. Where a topic named the
 * group that is the gate's own, the two crowds are one there. */
static uint64_t *heads_number(struct gate *gate, struct crowd *crowd)
{
	if (crowd->where && address_same(crowd->where, gate->group))
		crowd = &gate->publisher->crowds[0];
	return &crowd->notices[gate->index];
}

static void heads_send(struct gate *gate, const struct crowd *crowd, struct notice_writer *writer)
{
	struct announcer *announcer = crowd->announcers[gate->index];
	const size_t length = notice_finish(writer);

	if (length && announcer->ops->announce(announcer, writer->bytes, length) == 0)
		counter_add(&gate->publisher->counters[BUS_NOTICES], 1);
}

/* As many datagrams as it takes. */
static void heads_tell(struct gate *gate, struct crowd *crowd, size_t limit,
		       const struct bus_entry *entries, uint32_t count)
{
	uint8_t bytes[NOTICE_BYTES_MAX];
	struct notice_writer writer = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		const struct bus_entry *entry = &entries[i];

		if (writer.bytes &&
		    notice_entry(&writer, entry->topic_id, entry->epoch, entry->head) == 0)
			continue;
		if (writer.bytes)
			heads_send(gate, crowd, &writer);
		notice_begin(&writer, bytes, limit, gate->publisher->bus_id, clock_ns());
		notice_number(&writer, 0, ++*heads_number(gate, crowd));
		notice_entry(&writer, entry->topic_id, entry->epoch, entry->head);
	}
	if (writer.bytes)
		heads_send(gate, crowd, &writer);
}

static void crowd_tell(struct tb_publisher *publisher, uint32_t index)
{
	struct crowd *crowd = &publisher->crowds[index];
	struct bus_entry entries[BUS_TOPICS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < publisher->topic_count; i++)
		if (publisher->topics[i]->crowd == index && is_announced(publisher->topics[i]))
			entries[count++] = (struct bus_entry){
				.topic_id = publisher->topics[i]->shape.topic_id,
				.epoch = publisher->topics[i]->shape.epoch,
				.head = topic_head(publisher->topics[i]),
			};
	for (uint32_t i = 0; i < publisher->gate_count; i++) {
		struct gate *gate = &publisher->gates[i];
		struct fabric_notices notices;

		if (!crowd->announcers[i])
			continue;
		gate->listener->ops->notices(gate->listener, crowd->where, &notices);
		if (notices.kind != FABRIC_NOTICES_NONE && notices.bytes >= NOTICE_BYTES_MIN)
			heads_tell(gate, crowd, notices.bytes, entries, count);
	}
}

void announce_heads(struct tb_publisher *publisher)
{
	for (uint32_t i = 0; i < publisher->crowd_count; i++)
		crowd_tell(publisher, i);
}
