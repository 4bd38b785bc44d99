/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher of a given number of records, for tests that count its instructions or its time.
 *
 *   counted RECORDS ROUNDS [marks]
 *
 * Opens bus b with topic t and prints "ready". For each line on standard input it publishes RECORDS
 * records and prints how many nanoseconds they took. Ends after ROUNDS, or with standard input.
 * With "marks", the topic marks messages, and each record ends a message. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tickbus/publisher.h"

static void expect(int result)
{
	if (result >= 0)
		return;
	fprintf(stderr, "counted: %s\n", tb_error());
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void publish(struct tb_topic *topic, int instrument, long records, bool marks)
{
	const char payload[32] = "as large as a quote";
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)instrument,
					  .kind = TB_KIND_UPDATE,
					  .flags = marks ? TB_FLAG_LAST : 0,
					  .length = sizeof(payload),
					  .time_ns = 1,
					  .data = payload };

	for (long i = 0; i < records; i++)
		expect(tb_publish(topic, &update));
}

int main(int argc, char **argv)
{
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "b",
						      .exit_wait_ms = UINT32_MAX };
	struct tb_topic_options how = { .size = sizeof(how), .name = "t", .slots = 65536 };
	struct tb_publisher *publisher;
	struct tb_schema *schema;
	struct tb_topic *topic;
	char line[16];
	int instrument;
	bool marks;

	if (argc != 3 && argc != 4)
		return 2;
	marks = argc == 4 && strcmp(argv[3], "marks") == 0;
	how.flags = marks ? TB_TOPIC_MARKS_MESSAGES : 0;
	expect(tb_schema_load(&schema, "quote"));
	how.schema = schema;
	expect(tb_publisher_open(&publisher, &options));
	expect(tb_topic_create(publisher, &how, &topic));
	instrument = tb_instrument(topic, "A"); /* a name is flushed too */
	expect(instrument);
	puts("ready");
	fflush(stdout);
	for (long round = atol(argv[2]); round > 0 && fgets(line, sizeof(line), stdin); round--) {
		const uint64_t begun = now_ns();

		publish(topic, instrument, atol(argv[1]), marks);
		printf("%" PRIu64 "\n", now_ns() - begun);
		fflush(stdout);
	}
	tb_publisher_close(publisher);
	tb_schema_free(schema);
	return 0;
}
