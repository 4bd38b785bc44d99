/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-itch: what a day of ITCH costs. Each run is a measurement and a line of JSON.
 *
 *   tickbus-bench-itch books|publish|single|memory FILE
 *   tickbus-bench-itch day|messages COUNT
 *
 * - books: decodes messages and builds the order books; counts messages
 * - publish: also publishes quotes and trades as pubd does, by two threads where there are two
 * cores; counts records
 * - single: the same by one thread, on one core
 * - memory: books, and bytes of memory per order at the most live orders
 * - day: publish, for so many messages of the synthetic exchange, made meanwhile by the thread that
 *   reads
 * - messages: only makes those messages
 *
 * Topics have pubd's defaults: checked, with a last-value cache, 65,536 slots. They are flushed
 * every FEED_BATCH messages. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench/bench.h"
#include "publisher/feeds/cores.h"
#include "publisher/feeds/feed.h"
#include "publisher/feeds/framings/source_file.h"
#include "publisher/feeds/itch/itch_protocol.h"
#include "publisher/feeds/synthetic/synthetic_source.h"
#include "tickbus/publisher.h"

#define SAMPLE_MESSAGES 65536
#define ORDERS_LEAST    10000 /* too few give no memory per order */

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int file_open(void *path, struct source **source)
{
	return source_file_open(source, path);
}

static void nothing(void *user, const struct market_output *output)
{
	(void)user;
	(void)output;
}

/* Bytes of resident memory. */
static uint64_t resident(void)
{
	unsigned long long size, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%llu %llu", &size, &pages) != 2)
		machine_fail("cannot read /proc/self/statm");
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Reads all messages into the books. *memory: bytes per order, unless NULL. */
static uint64_t books(char *path, double *memory)
{
	const struct protocol_options options = { .output = nothing };
	const uint64_t before = resident();
	struct source_message message;
	struct source *source;
	struct protocol *protocol;
	uint64_t count = 0, most = 0;
	int result;

	expect(protocol_open(&protocol, &itch_protocol, &options), "market");
	expect(file_open(path, &source), "file");
	while ((result = source_next(source, &message)) > 0) {
		if (message.ahead)
			protocol_expect(protocol, message.ahead, message.ahead_length);
		result = protocol_message(protocol, &message);
		if (result == PROTOCOL_NEXT_DAY) {
			protocol_clear(protocol);
			result = protocol_message(protocol, &message);
		}
		expect(result, "protocol");
		if (++count % SAMPLE_MESSAGES || !memory)
			continue;
		if (protocol->counters[itch_protocol.count + MARKET_COUNTER_ORDERS] <= most)
			continue;
		most = protocol->counters[itch_protocol.count + MARKET_COUNTER_ORDERS];
		*memory = (double)(resident() - before) / (double)most;
	}
	expect(result, "file");
	source_close(source);
	protocol_close(protocol);
	if (memory && most < ORDERS_LEAST)
		machine_fail("found at most %llu live orders, expected %d or more",
			     (unsigned long long)most, ORDERS_LEAST);
	return count;
}

static struct tb_topic *topic_make(struct feed_options *feed_options, struct feed_topic *feed,
				   enum market_select select)
{
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = market_selects[select],
					    .flags = TB_TOPIC_MARKS_MESSAGES,
					    .group = feed_options->group };
	struct tb_schema *schema;

	expect(tb_schema_load(&schema, market_selects[select]), "schema");
	options.schema = feed->schema = schema;
	expect(tb_topic_create(feed_options->publisher, &options, &feed->topic), "topic");
	feed->select = select;
	return feed->topic;
}

static uint64_t publish(int (*open)(void *, struct source **), void *user, bool apart)
{
	struct tb_publisher_options bus = { .size = sizeof(bus),
					    .name = "bench-itch",
					    .exit_wait_ms = UINT32_MAX };
	const struct tb_group_options group = { .size = sizeof(group), .name = "itch" };
	struct feed_topic topics[2];
	struct feed_options options = { .name = "itch",
					.protocol = &itch_protocol,
					.open = open,
					.open_user = user,
					.wait = PACE_SPIN,
					.at_end = FEED_LINGER,
					.cpu = -1,
					.reading_thread = apart,
					.topics = topics,
					.topic_count = 2,
					.touch_ms = 100,
					.done_fd = eventfd(0, EFD_CLOEXEC) };
	struct pollfd done = { .fd = options.done_fd, .events = POLLIN };
	uint64_t count;
	struct feed *feed;
	int result = 0;

	expect(tb_publisher_open(&options.publisher, &bus), "publisher");
	expect(tb_group_create(options.publisher, &group, &options.group), "group");
	topic_make(&options, &topics[0], MARKET_QUOTE);
	topic_make(&options, &topics[1], MARKET_TRADE);
	expect(feed_open(&feed, &options), "feed");
	expect(feed_start(feed), "feed");
	while (!feed_over(feed, &result))
		poll(&done, 1, -1);
	expect(result, "feed");
	count = tb_topic_sequence(topics[0].topic) + tb_topic_sequence(topics[1].topic);
	feed_stop(feed);
	tb_publisher_close(options.publisher);
	feed_close(feed);
	tb_schema_free((struct tb_schema *)(uintptr_t)topics[0].schema);
	tb_schema_free((struct tb_schema *)(uintptr_t)topics[1].schema);
	close(options.done_fd);
	return count;
}

static int exchange_open(void *count, struct source **source)
{
	const struct synthetic_settings settings = { .seed = 1,
						     .messages = *(const uint64_t *)count };

	return synthetic_source_open(source, &settings);
}

static uint64_t messages(uint64_t wanted)
{
	struct source_message message;
	struct source *source;
	uint64_t count = 0;
	int result;

	expect(exchange_open(&wanted, &source), "exchange");
	while ((result = source_next(source, &message)) > 0)
		count++;
	expect(result, "exchange");
	source_close(source);
	return count;
}

static uint64_t run(const char *what, char *of, double *memory)
{
	uint64_t wanted = strtoull(of, NULL, 10);

	if (strcmp(what, "books") == 0)
		return books(of, NULL);
	if (strcmp(what, "publish") == 0)
		return publish(file_open, of, cores_usable() > 1);
	if (strcmp(what, "single") == 0)
		return publish(file_open, of, false);
	if (strcmp(what, "memory") == 0)
		return books(of, memory);
	if (strcmp(what, "day") == 0)
		return publish(exchange_open, &wanted, cores_usable() > 1);
	if (strcmp(what, "messages") == 0)
		return messages(wanted);
	machine_fail("found %s, expected books, publish, single, memory, day or messages", what);
}

int main(int argc, char **argv)
{
	const double from_s = now_s();
	double memory = 0;
	uint64_t count;

	if (argc != 3) {
		fputs("usage: tickbus-bench-itch books|publish|single|memory FILE\n"
		      "       tickbus-bench-itch day|messages COUNT\n",
		      stderr);
		return 2;
	}
	if (strcmp(argv[1], "publish") != 0 && strcmp(argv[1], "day") != 0)
		machine_pin(0); /* the feed's thread inherits it */
	count = run(argv[1], argv[2], &memory);
	printf("{\"count\": %llu, \"seconds\": %.6f, \"memory\": %.1f}\n",
	       (unsigned long long)count, now_s() - from_s, memory);
	return 0;
}
