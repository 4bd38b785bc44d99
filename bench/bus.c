/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus as users use it: installed headers, the shared library, a handler call per record. With
 * `_batches` a handler call per batch.
 *
 *   local    no check, the caller passes a time
 *   checked  check and time in every record, every delivered record checked
 *   marked   the same, and each fourth record ends a message: for the measure `count` alone
 *
 * All without a last-value cache, which the other rings lack. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "bench/bench.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define LOOK    256
#define WAIT_MS 1000
#define MESSAGE 4 /* records of a message */

/* A writer or a reader. */
struct end {
	struct tb_publisher *publisher;
	struct tb_topic *topic;
	struct tb_subscriber *subscriber;
	struct tally *tally;
	uint32_t words, instrument;
	int epoll_fd; /* of bus_wait(); 0: none */
	bool checked;
};

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

static void *bus_writer_open(const struct shape *shape, unsigned int channel, bool checked,
			     uint32_t flags)
{
	struct tb_topic_options topic = { .size = sizeof(topic),
					  .name = "t",
					  .slots = shape->slots,
					  .instruments = 1,
					  .flags = TB_TOPIC_NO_LAST_VALUE | TB_TOPIC_MANUAL_FLUSH |
						   flags };
	struct tb_publisher_options bus = { .size = sizeof(bus), .exit_wait_ms = UINT32_MAX };
	struct end *writer = calloc(1, sizeof(*writer));
	struct tb_schema *schema = NULL;
	char text[128], name[32];

	if (!writer)
		machine_fail("no memory");
	snprintf(name, sizeof(name), "bench-%u", channel);
	bus.name = name;
	snprintf(text, sizeof(text),
		 "name: bench\nversion: 1\nfields:\n- {name: words, type: 'u64[%u]', doc: words}\n",
		 shape->payload_words);
	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	topic.schema = schema;
	if (!checked)
		topic.flags |= TB_TOPIC_UNCHECKED;
	expect(tb_publisher_open(&writer->publisher, &bus), "publisher");
	expect(tb_topic_create(writer->publisher, &topic, &writer->topic), "topic");
	tb_schema_free(schema);
	writer->instrument = (uint32_t)tb_instrument(writer->topic, "BENCH");
	writer->words = shape->payload_words;
	writer->checked = checked;
	return writer;
}

static void *local_writer_open(const struct shape *shape, unsigned int channel)
{
	return bus_writer_open(shape, channel, false, 0);
}

static void *checked_writer_open(const struct shape *shape, unsigned int channel)
{
	return bus_writer_open(shape, channel, true, 0);
}

static void *marked_writer_open(const struct shape *shape, unsigned int channel)
{
	return bus_writer_open(shape, channel, true, TB_TOPIC_MARKS_MESSAGES);
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void bus_write(void *user, const uint64_t *payloads, unsigned int count)
{
	struct end *writer = user;
	struct tb_update update = { .size = sizeof(update),
				    .instrument = writer->instrument,
				    .kind = TB_KIND_UPDATE,
				    .length = (uint16_t)(writer->words * 8),
				    .time_ns = writer->checked ? clock_ns() : 1,
				    .data = payloads };

	for (; count > 0; count--, update.data = payloads += writer->words)
		if (tb_publish(writer->topic, &update) < 0)
			machine_fail("publish: %s", tb_error());
	tb_flush(writer->topic);
}

static void marked_write(void *user, const uint64_t *payloads, unsigned int count)
{
	struct end *writer = user;
	struct tb_update update = { .size = sizeof(update),
				    .instrument = writer->instrument,
				    .kind = TB_KIND_UPDATE,
				    .length = (uint16_t)(writer->words * 8),
				    .time_ns = clock_ns(),
				    .data = payloads };

	for (; count > 0; count--, update.data = payloads += writer->words) {
		update.flags = count % MESSAGE == 1 ? TB_FLAG_LAST : 0;
		if (tb_publish(writer->topic, &update) < 0)
			machine_fail("publish: %s", tb_error());
	}
	tb_flush(writer->topic);
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const struct end *reader = user;

	(void)source;
	reader->tally->received++;
	reader->tally->wrong += record->length != reader->words * 8 ||
				payload_wrong(record->data, reader->words, record->sequence);
}

static void on_batch(void *user, const struct tb_source *source, const struct tb_batch *batch)
{
	const struct end *reader = user;

	(void)source;
	reader->tally->received += batch->count;
	for (uint32_t i = 0; i < batch->count; i++) {
		const struct tb_slot *slot = tb_batch_record(batch, i);

		reader->tally->wrong +=
			slot->length != reader->words * 8 ||
			payload_wrong(tb_slot_data(slot), reader->words, slot->sequence);
	}
}

static void on_timed(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const struct end *reader = user;

	(void)source;
	tally_timed(reader->tally, record->data, reader->words);
	reader->tally->wrong += record->length != reader->words * 8;
}

static void on_event(void *user, const struct tb_event *event)
{
	const struct end *reader = user;

	if (event->kind == TB_EVENT_GAP && reader->tally)
		reader->tally->lost += event->last - event->first + 1;
}

static void *subscribe(const struct shape *shape, unsigned int channel,
		       tb_record_handler *for_records, tb_batch_handler *for_batches)
{
	struct end *reader = calloc(1, sizeof(*reader));
	char address[32];
	struct tb_subscriber_options bus = { .size = sizeof(bus),
					     .address = address,
					     .connect_ms = 20000 };
	struct tb_subscription_options how = { .size = sizeof(how),
					       .on_record = for_records,
					       .on_batch = for_batches,
					       .on_event = on_event,
					       .user = reader };
	struct tb_subscription *subscription;

	if (!reader)
		machine_fail("no memory");
	reader->words = shape->payload_words;
	snprintf(address, sizeof(address), "shm:bench-%u", channel);
	expect(tb_subscriber_open(&reader->subscriber, &bus), "subscriber");
	expect(tb_subscribe(reader->subscriber, "t", &how, &subscription), "subscribe");
	return reader;
}

static void *bus_reader_open(const struct shape *shape, unsigned int channel)
{
	return subscribe(shape, channel, shape->timed ? on_timed : on_record, NULL);
}

static void *batch_reader_open(const struct shape *shape, unsigned int channel)
{
	return subscribe(shape, channel, NULL, on_batch);
}

static void bus_read(void *user, struct tally *tally)
{
	struct end *reader = user;

	reader->tally = tally;
	expect(tb_poll(reader->subscriber, LOOK), "poll");
}

static void bus_wait(void *user, bool by_epoll)
{
	struct end *reader = user;
	struct epoll_event event = { .events = EPOLLIN };

	if (!by_epoll) {
		expect(tb_wait(reader->subscriber, WAIT_MS), "wait");
		return;
	}
	if (reader->epoll_fd == 0) {
		reader->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (reader->epoll_fd < 0 ||
		    epoll_ctl(reader->epoll_fd, EPOLL_CTL_ADD, tb_subscriber_fd(reader->subscriber),
			      &event) < 0)
			machine_fail("no epoll");
		return; /* from the next poll on, the descriptor says when */
	}
	epoll_wait(reader->epoll_fd, &event, 1, WAIT_MS);
}

static void bus_close(void *user)
{
	struct end *end = user;

	tb_publisher_close(end->publisher);
	tb_subscriber_close(end->subscriber);
	free(end);
}

#define BUS(setting, of, opens, writes)                                                            \
	const struct transport setting##_transport = {                                             \
		.name = #setting,                                                                  \
		.writer_open = of##_writer_open,                                                   \
		.write = writes,                                                                   \
		.reader_open = opens##_reader_open,                                                \
		.read = bus_read,                                                                  \
		.wait = bus_wait,                                                                  \
		.close = bus_close,                                                                \
	}
BUS(local, local, bus, bus_write);
BUS(checked, checked, bus, bus_write);
BUS(marked, marked, bus, marked_write);
BUS(local_batches, local, batch, bus_write);
BUS(checked_batches, checked, batch, bus_write);
