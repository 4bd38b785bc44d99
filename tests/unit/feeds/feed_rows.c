/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes one select of an ITCH file with a real feed, and prints what its topic's memory then
 * has: feed-rows FILE SELECT DATE ZONE THREADS. A line for each record of the ring: `record
 * SEQUENCE last HASH` or `record SEQUENCE - HASH`. The hash is of instrument, kind and payload. A
 * line for each instrument with a value: `value NAME SEQUENCE KIND`. With 2 THREADS, a thread of
 * its own reads and keeps the books. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bus/record.h"
#include "publisher/feeds/calendar/day.h"
#include "publisher/feeds/feed.h"
#include "publisher/feeds/framings/source_file.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "publisher/state.h"

#define SLOTS (1u << 17)

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "feed-rows: %s: %s\n", what, tb_error());
	exit(1);
}

static void expect(int result, const char *what)
{
	if (result < 0)
		fail(what);
}

static int file_open(void *path, struct source **source)
{
	return source_file_open(source, path);
}

static enum market_select select_of(const char *name)
{
	for (unsigned int i = 0; i < MARKET_SELECTS; i++)
		if (strcmp(name, market_selects[i]) == 0)
			return (enum market_select)i;
	fail("select");
}

/* The topic as pubd makes it. */
static void topic_make(struct feed_options *feed, const char *select, struct feed_topic *made)
{
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = select,
					    .slots = SLOTS,
					    .flags = TB_TOPIC_MARKS_MESSAGES,
					    .group = feed->group };
	struct tb_schema *schema;

	expect(tb_schema_load(&schema, select), "schema");
	options.schema = made->schema = schema;
	made->select = select_of(select);
	expect(tb_topic_create(feed->publisher, &options, &made->topic), "topic");
}

static void feed_run(struct feed_options *options)
{
	struct pollfd done = { .fd = options->done_fd, .events = POLLIN };
	struct feed *feed;
	int result = 0;

	expect(feed_open(&feed, options), "feed");
	expect(feed_start(feed), "feed");
	while (!feed_over(feed, &result))
		poll(&done, 1, -1);
	expect(result, "feed");
	feed_stop(feed);
	/* The publisher shows the feed's counters: it lives as long as this program. */
}

/* FNV-1a. */
static uint64_t hash_of(const struct record *record)
{
	const uint8_t *payload = (const uint8_t *)record->payload;
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ record->instrument << 8 ^ record->kind;

	for (uint32_t i = 0; i < record->length; i++)
		hash = (hash ^ payload[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static void records_print(const struct tb_topic *topic)
{
	uint64_t found;
	struct record record;

	if (topic->sequence > SLOTS)
		fail("more records than slots");
	for (uint64_t sequence = 1; sequence <= topic->sequence; sequence++) {
		const struct slot *slot =
			(void *)(topic->ring + (sequence & topic->slot_mask) * topic->slot_bytes);

		expect(record_take(slot, topic->slot_bytes, sequence, &record, &found,
				   &topic->salt),
		       "record");
		/* An incomplete day has a quality record, which no message made. */
		if (record.kind != TB_KIND_QUALITY)
			printf("record %" PRIu64 " %s %016" PRIx64 "\n", sequence,
			       record.flags & TB_FLAG_LAST ? "last" : "-", hash_of(&record));
		else
			printf("quality %" PRIu64 "\n", sequence);
	}
}

static void values_print(const struct tb_topic *topic)
{
	struct record record;

	for (uint32_t i = 0; i < topic->names.count; i++) {
		const struct slot *slot =
			(void *)(topic->last_value + (size_t)i * topic->slot_bytes);

		const int result =
			record_take_value(slot, topic->slot_bytes, i, &record, &topic->salt);

		expect(result, "value");
		if (result > 0)
			printf("value %s %" PRIu64 " %s\n", topic->names.entries[i].name,
			       record.sequence, tb_kind_name(record.kind));
	}
}

int main(int count, char **arguments)
{
	struct tb_publisher_options bus = { .size = sizeof(bus),
					    .name = "feed-rows",
					    .exit_wait_ms = UINT32_MAX };
	const struct tb_group_options group = { .size = sizeof(group), .name = "itch" };
	struct feed_topic topic;
	struct feed_options options = { .name = "itch",
					.protocol = &itch_protocol,
					.open = file_open,
					.wait = PACE_SPIN,
					.at_end = FEED_LINGER,
					.incomplete = FEED_WARN,
					.cpu = -1,
					.topics = &topic,
					.topic_count = 1,
					.touch_ms = 100,
					.done_fd = eventfd(0, EFD_CLOEXEC) };

	if (count != 6)
		return 2;
	options.reading_thread = strcmp(arguments[5], "2") == 0;
	options.open_user = arguments[1];
	expect(day_begin(arguments[3], arguments[4], &options.midnight_ns), "day");
	expect(tb_publisher_open(&options.publisher, &bus), "publisher");
	expect(tb_group_create(options.publisher, &group, &options.group), "group");
	topic_make(&options, arguments[2], &topic);
	feed_run(&options);
	records_print(topic.topic);
	values_print(topic.topic);
	return 0;
}
