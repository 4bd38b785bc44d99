/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-get: what tb_get of a value costs over shared memory. Prints a line of JSON.
 *
 *   tickbus-bench-get SLOT_BYTES ROUNDS
 *
 * ns per call of tb_get, of a value that is in the cache. The yardstick copies the same slot and
 * compares its check, by the library's own function: bus/record.c is part of this program. Both
 * alternate, WINDOWS times in a round. A round has the median of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bus/record.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define CALLS     1000 /* in a window */
#define WINDOWS   200
#define WORDS_MAX ((SLOT_BYTES_MAX - RECORD_HEADER_BYTES) / 8)

static struct tb_publisher *publisher;
static struct tb_subscriber *subscriber;
static const struct tb_source *source;
static _Alignas(64) _Atomic uint64_t memory[SLOT_WORDS_MAX];
static uint64_t salt;

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

static struct tb_topic *topic_make(unsigned int words)
{
	struct tb_topic_options options = {
		.size = sizeof(options), .name = "t", .slots = 64, .instruments = 16
	};
	char text[256];
	struct tb_schema *schema;
	struct tb_topic *topic;

	snprintf(text, sizeof(text),
		 "name: x\nversion: 1\nfields:\n- {name: x, type: 'u64[%u]', doc: d}\n", words);
	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	options.schema = schema;
	expect(tb_topic_create(publisher, &options, &topic), "topic");
	tb_schema_free(schema);
	return topic;
}

/* The value as the topic has it, and the same record in memory of this program. */
static void value_make(unsigned int words)
{
	struct tb_topic *topic = topic_make(words);
	uint64_t payload[WORDS_MAX];
	struct record record = {
		.sequence = 1, .time_ns = 1, .length = (uint16_t)(words * 8), .kind = TB_KIND_UPDATE
	};
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = (uint16_t)(words * 8),
					  .time_ns = 1,
					  .data = payload };

	payload_fill(payload, words, 1);
	expect(tb_instrument(topic, "A"), "instrument");
	expect(tb_publish(topic, &update), "publish");
	memcpy(record.payload, payload, words * 8);
	salt = record_salt(7, 1, TAG_RECORD);
	record_store((struct slot *)memory, &record, true, salt);
}

static void join(void)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:bench-get" };
	const struct tb_subscription_options what = { .size = sizeof(what), .flags = TB_VALUES };
	struct tb_subscription *subscription;

	expect(tb_subscriber_open(&subscriber, &how), "subscriber");
	expect(tb_subscribe(subscriber, "t", &what, &subscription), "subscribe");
	source = tb_subscription_source(subscription, "t");
	if (!source)
		machine_fail("the topic was not joined");
}

static double get_window(unsigned int words)
{
	const struct tb_record *record;
	const uint64_t from = machine_ticks();
	uint64_t until;

	for (int i = 0; i < CALLS; i++)
		if (tb_get(source, 0, &record) != 1)
			machine_fail("tb_get: %s", tb_error());
	until = machine_ticks_behind();
	if (payload_wrong(record->data, words, 1))
		machine_fail("tb_get: a wrong value");
	return (double)(until - from);
}

static double slot_window(uint32_t slot_bytes, unsigned int words)
{
	static struct record copy;
	const uint64_t from = machine_ticks();
	uint64_t found, until;

	for (int i = 0; i < CALLS; i++)
		if (record_take((const struct slot *)memory, slot_bytes, 1, &copy, &found, &salt) <
		    0)
			machine_fail("the yardstick's slot is not valid");
	until = machine_ticks_behind();
	if (payload_wrong((const uint64_t *)(const void *)copy.payload, words, 1))
		machine_fail("the yardstick copies a wrong value");
	return (double)(until - from);
}

static void round_print(uint32_t slot_bytes, unsigned int words, bool first)
{
	const double scale = machine_ticks_per_ns() * CALLS;
	double gets[WINDOWS], slots[WINDOWS];

	for (int i = 0; i < WINDOWS; i++) {
		slots[i] = slot_window(slot_bytes, words) / scale;
		gets[i] = get_window(words) / scale;
	}
	printf("%s{\"get\": %.3f, \"slot\": %.3f}", first ? "" : ", ",
	       machine_quantile(gets, WINDOWS, 0.5), machine_quantile(slots, WINDOWS, 0.5));
}

int main(int argc, char **argv)
{
	const uint32_t slot_bytes = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	const int rounds = argc == 3 ? atoi(argv[2]) : 0;
	const unsigned int words = (slot_bytes - RECORD_HEADER_BYTES) / 8;
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "bench-get",
						      .exit_wait_ms = UINT32_MAX };

	if (slot_bytes < SLOT_BYTES_MIN || slot_bytes > SLOT_BYTES_MAX || rounds < 1) {
		fputs("usage: tickbus-bench-get SLOT_BYTES ROUNDS\n", stderr);
		return 2;
	}
	expect(tb_publisher_open(&publisher, &options), "publisher");
	value_make(words);
	join();
	machine_pin(0); /* after the library has started its threads, which thus are not pinned */
	printf("{\"rounds\": [");
	for (int i = 0; i < rounds; i++)
		round_print(slot_bytes, words, i == 0);
	printf("]}\n");
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	return 0;
}
