/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-conflate: what a conflated subscriber costs. Prints a line of JSON.
 *
 *   tickbus-bench-conflate SCHEME RATE WAY MS
 *
 * A publisher writes RATE records a second, of 1,000 instruments at random, into a ring of 16,384
 * slots of 64 bytes. A subscriber polls each millisecond. WAY is 0: each record is delivered; or
 * `poll`, or the interval in microseconds. Both run in one thread, by a clock of their own: MS
 * milliseconds of it, behind a second that is not measured. So the rate is exact on any machine.
 *
 * SCHEME shm: the time that tb_poll takes, in ns for each second. SCHEME bytewise (a fabric of the
 * tests, which READs from shared memory): the bytes of its READs for each second. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bus/clock.h"
#include "bus/fabric.h"
#include "subscriber/state.h"
#include "tests/support/bytewise.h"
#include "tests/support/random.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define INSTRUMENTS 1000
#define SLOTS       16384
#define WARM_MS     1000
#define QUIET       50 /* polls without a record: all READs have landed */
#define FLUSH       64 /* records */

static struct tb_publisher *publisher;
static struct tb_topic *topic;
static struct tb_subscriber *subscriber;
static struct fabric_ops counting;
static const struct fabric_ops *counted;
static uint64_t chance = 1, delivered, read_bytes;
static _Thread_local uint64_t now_ns; /* of this thread's clock; 0: the machine's */

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

static int read_clock(clockid_t clock, struct timespec *now)
{
	if (now_ns == 0 || clock == CLOCK_REALTIME)
		return clock_gettime(clock, now);
	now->tv_sec = (time_t)(now_ns / 1000000000);
	now->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

static int counting_read(struct link *link, const struct fabric_read *reads, unsigned int count)
{
	const int posted = counted->read(link, reads, count);

	for (int i = 0; i < posted; i++)
		read_bytes += reads[i].bytes;
	return posted;
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
	delivered++;
}

static void topic_make(void)
{
	static const char text[] =
		"name: x\nversion: 1\nfields:\n- {name: x, type: 'u64[4]', doc: d}\n";
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = "t",
					    .slots = SLOTS,
					    .instruments = INSTRUMENTS,
					    .flags = TB_TOPIC_MANUAL_FLUSH };
	struct tb_schema *schema;
	char name[16];

	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	options.schema = schema;
	expect(tb_topic_create(publisher, &options, &topic), "topic");
	tb_schema_free(schema);
	for (int i = 0; i < INSTRUMENTS; i++) {
		snprintf(name, sizeof(name), "I%d", i);
		expect(tb_instrument(topic, name), "instrument");
	}
}

static void join(const char *scheme, const char *way)
{
	char address[64];
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = address,
						   .stale_ms = 60000 };
	struct tb_subscription_options what = { .size = sizeof(what), .on_record = on_record };
	struct tb_subscription *subscription;

	what.conflate_us =
		strcmp(way, "poll") == 0 ? TB_CONFLATE_POLL : (uint32_t)strtoul(way, NULL, 10);
	snprintf(address, sizeof(address), "%s:bench-conflate", scheme);
	expect(tb_subscriber_open(&subscriber, &how), "subscriber");
	expect(tb_subscribe(subscriber, "t", &what, &subscription), "subscribe");
	counted = subscriber->ops;
	counting = *counted;
	counting.read = counting_read;
	subscriber->ops = &counting;
}

static void publish(uint64_t count)
{
	uint64_t payload[4] = { 0 };
	struct tb_update update = { .size = sizeof(update),
				    .kind = TB_KIND_UPDATE,
				    .length = sizeof(payload),
				    .time_ns = 1,
				    .data = payload };

	for (uint64_t i = 0; i < count; i++) {
		update.instrument = (uint32_t)random_below(&chance, INSTRUMENTS);
		expect(tb_publish(topic, &update), "publish");
		if (i % FLUSH == FLUSH - 1)
			tb_flush(topic);
	}
	tb_flush(topic);
}

/* The time that this thread has run, which excludes others on its core. */
static uint64_t run_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Until nothing more is there. Returns the ns that this took. */
static uint64_t poll_all(int quiet_max)
{
	const uint64_t from = run_ns();
	int quiet = 0;

	while (quiet < quiet_max) {
		const int count = tb_poll(subscriber, 1000);

		expect(count, "poll");
		quiet = count > 0 ? 0 : quiet + 1;
	}
	return run_ns() - from;
}

/* Returns the ns that polling took. */
static uint64_t run(uint64_t rate, uint64_t ms, int quiet_max)
{
	uint64_t ns = 0;

	for (uint64_t i = 0; i < ms; i++) {
		publish(rate * (i + 1) / 1000 - rate * i / 1000);
		now_ns += 1000000;
		ns += poll_all(quiet_max);
	}
	return ns;
}

int main(int argc, char **argv)
{
	const uint64_t rate = argc == 5 ? strtoull(argv[2], NULL, 10) : 0;
	const uint64_t ms = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
	const bool reads = argc == 5 && strcmp(argv[1], "bytewise") == 0;
	const char *const listen[] = { reads ? "bytewise:bench-conflate" : "shm:bench-conflate" };
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "bench-conflate",
						      .listen = listen,
						      .listen_count = 1,
						      .exit_wait_ms = UINT32_MAX };
	const int quiet_max = reads ? QUIET : 1;
	struct timespec start;
	uint64_t ns;

	if (rate == 0 || ms == 0 || rate > 100000000) {
		fputs("usage: tickbus-bench-conflate shm|bytewise RATE 0|poll|INTERVAL_US MS\n",
		      stderr);
		return 2;
	}
	bytewise_add(1);
	clock_replace(read_clock);
	expect(tb_publisher_open(&publisher, &options), "publisher");
	topic_make();
	join(argv[1], argv[3]);
	machine_pin(0); /* after the library has started its threads, which thus are not pinned */
	clock_gettime(CLOCK_MONOTONIC, &start);
	now_ns = (uint64_t)start.tv_sec * 1000000000 + (uint64_t)start.tv_nsec;
	run(rate, WARM_MS, quiet_max);
	delivered = read_bytes = 0;
	ns = run(rate, ms, quiet_max);
	printf("{\"time\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"records\": %" PRIu64 "}\n",
	       ns * 1000 / ms, read_bytes * 1000 / ms, delivered * 1000 / ms);
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	return 0;
}
