/* SPDX-License-Identifier: Apache-2.0 */
/* Notices: what a flush tells the network, once, whoever listens; and the heads of all topics with
 * each pulse, so that a lost notice is made good and an idle bus is heard. */
#include <time.h>

#include "bus/notice.h"
#include "publisher/publisher.h"

#define TOPIC_NOTICE_BYTES (NOTICE_HEADER + NOTICE_ENTRY)

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int announce_open(struct tb_topic *topic)
{
	const struct tb_publisher *publisher = topic->publisher;
	int result = 0;

	for (uint32_t i = 0; i < publisher->gate_count && result == 0; i++) {
		struct listener *listener = publisher->gates[i].listener;
		struct announcer *announcer = NULL;

		if (!publisher->gates[i].announcer || !(topic->shape.flags & REGION_FLAG_CHECKED))
			continue;
		result = listener->ops->announcer_open(listener, TOPIC_NOTICE_BYTES, &announcer);
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

static void heads_send(struct gate *gate, struct notice_writer *writer)
{
	const size_t length = notice_finish(writer);

	if (length && gate->announcer->ops->announce(gate->announcer, writer->bytes, length) == 0)
		counter_add(&gate->publisher->counters[BUS_NOTICES], 1);
}

/* As many datagrams as it takes. */
static void heads_tell(struct gate *gate, size_t limit, const struct bus_entry *entries,
		       uint32_t count)
{
	uint8_t bytes[NOTICE_BYTES_MAX];
	struct notice_writer writer = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		const struct bus_entry *entry = &entries[i];

		if (writer.bytes &&
		    notice_entry(&writer, entry->topic_id, entry->epoch, entry->head) == 0)
			continue;
		if (writer.bytes)
			heads_send(gate, &writer);
		notice_begin(&writer, bytes, limit, gate->publisher->bus_id, clock_ns());
		notice_number(&writer, 0, ++gate->notices);
		notice_entry(&writer, entry->topic_id, entry->epoch, entry->head);
	}
	if (writer.bytes)
		heads_send(gate, &writer);
}

void announce_heads(struct tb_publisher *publisher)
{
	struct bus_entry entries[BUS_TOPICS_MAX];

	for (uint32_t i = 0; i < publisher->topic_count; i++)
		entries[i] = (struct bus_entry){
			.topic_id = publisher->topics[i]->shape.topic_id,
			.epoch = publisher->topics[i]->shape.epoch,
			.head = topic_head(publisher->topics[i]),
		};
	for (uint32_t i = 0; i < publisher->gate_count; i++) {
		struct gate *gate = &publisher->gates[i];
		struct fabric_notices notices;

		if (!gate->announcer)
			continue;
		gate->listener->ops->notices(gate->listener, &notices);
		if (notices.kind != FABRIC_NOTICES_NONE && notices.bytes >= NOTICE_BYTES_MIN)
			heads_tell(gate, notices.bytes, entries, publisher->topic_count);
	}
}
