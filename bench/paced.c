/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-paced: a reader of a feed that runs at a pace. Prints a line of JSON.
 *
 *   tickbus-bench-paced ADDRESS TOPIC WAY MS
 *
 * WAY is what the reader does when a poll finds nothing: `wait` for more, or `spin`. In
 * microseconds: `p50` and `p99` from publication until the reader has the record, and `late`, the
 * p99 of how late records were published. A feed at a pace publishes each record at a fixed
 * distance from its source's time. The least distance that was seen is taken for that. Distances
 * are on the monotonic clock, which is the pace's: the other clock may be corrected meanwhile. The
 * first WARM_MS are not measured. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "tickbus/subscriber.h"

#define WARM_MS     200
#define LATE_MS     30000 /* a reader that gets nothing for so long gives up */
#define RECORDS_MAX (1U << 22)

static double taken[RECORDS_MAX], after[RECORDS_MAX];
static size_t seen, count;
static bool measuring;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Where the source's time is in a payload. */
static size_t source_time(const struct tb_source *source)
{
	static struct {
		const struct tb_schema *schema;
		size_t offset;
	} last;
	const struct tb_schema *schema = tb_source_schema(source);
	const struct tb_field *fields;
	size_t fields_count;

	if (schema == last.schema)
		return last.offset;
	last.schema = schema;
	fields = tb_schema_fields(schema, &fields_count);
	for (size_t i = 0; i < fields_count; i++)
		if (strcmp(fields[i].name, "source_time") == 0)
			last.offset = fields[i].offset;
	return last.offset;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const uint64_t real_ns = now_ns(CLOCK_REALTIME), steady_ns = now_ns(CLOCK_MONOTONIC);
	uint64_t source_ns;

	(void)user;
	seen++;
	if (!measuring || count == RECORDS_MAX || record->kind != TB_KIND_UPDATE ||
	    record->length < source_time(source) + sizeof(source_ns))
		return;
	memcpy(&source_ns, (const char *)record->data + source_time(source), sizeof(source_ns));
	taken[count] = (double)(real_ns - record->time_ns) / 1e3;
	after[count++] =
		(double)(int64_t)(steady_ns - (real_ns - record->time_ns) - source_ns) / 1e3;
}

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

/* For `ms`, and until a record came. */
static void read_for(struct tb_subscriber *subscriber, uint64_t ms, bool spin, const size_t *came)
{
	const uint64_t began = now_ns(CLOCK_MONOTONIC);
	uint64_t passed_ms;

	do {
		const int found = tb_poll(subscriber, 1024);

		expect(found, "poll");
		if (found == 0 && !spin)
			expect(tb_wait(subscriber, 100), "wait");
		passed_ms = (now_ns(CLOCK_MONOTONIC) - began) / 1000000;
	} while (passed_ms < ms || (*came == 0 && passed_ms < LATE_MS));
}

int main(int argc, char **argv)
{
	struct tb_subscriber_options bus = { .size = sizeof(bus) };
	const struct tb_subscription_options how = { .size = sizeof(how), .on_record = on_record };
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;
	double least;
	bool spin;

	if (argc != 5)
		machine_fail("usage: %s ADDRESS TOPIC WAY MS", argv[0]);
	bus.address = argv[1];
	spin = strcmp(argv[3], "spin") == 0;
	expect(tb_subscriber_open(&subscriber, &bus), "subscriber");
	expect(tb_subscribe(subscriber, argv[2], &how, &subscription), "subscribe");
	read_for(subscriber, WARM_MS, spin, &seen);
	measuring = true;
	read_for(subscriber, strtoul(argv[4], NULL, 10), spin, &count);
	tb_subscriber_close(subscriber);
	if (count == 0)
		machine_fail("%s: found no records of %s", argv[1], argv[2]);
	least = machine_quantile(after, count, 0);
	printf("{\"records\": %zu, \"p50\": %.1f, \"p99\": %.1f, \"late\": %.1f}\n", count,
	       machine_quantile(taken, count, 0.5), machine_quantile(taken, count, 0.99),
	       machine_quantile(after, count, 0.99) - least);
	return 0;
}
