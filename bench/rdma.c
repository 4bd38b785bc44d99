/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-rdma: a measurement of records over RDMA. bench/rdma.py alternates it with
 * perftest's tools.
 *
 *   tickbus-bench-rdma MEASURE PUBLISHER SUBSCRIBER SLOT_BYTES COUNT
 *
 * - notice: COUNT records, each by a READ of its own. Microseconds to its delivery: from the
 * tb_poll that posted the READ (record), and from before tb_publish (notice). Medians.
 * - known: COUNT READs of READ_BYTES, of records known to be published. Each READ is posted when
 * the last is delivered. Microseconds from delivery to delivery. Median.
 * - bulk: the same with READ_DEPTH READs at once. MiB per second, from the call that posts the
 * first READ to the last delivery.
 * - image: an image of COUNT instruments. MiB of values and names per second, from its begin to its
 *   completion.
 *
 * PUBLISHER and SUBSCRIBER are addresses of this machine's devices. The publisher is a second
 * process on the first core. It sleeps until it is asked for a record, like the peer of
 * ib_read_lat. The subscriber polls on the second core. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "tickbus/counters.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define PORT        7476
#define READ_BYTES  8192 /* READs that the library posts for a batch, up to READ_DEPTH */
#define READ_DEPTH  32
#define ENTRY_BYTES 32    /* of the directory */
#define WARM        50    /* records: the first also fetches its instrument's name */
#define REST_NS     20000 /* enough for the publisher to be awake when it publishes */
#define GIVE_UP_S   100
#define COUNTS_MAX  64
#define COUNT_MAX   65536

struct plan {
	const char *publisher, *subscriber;
	uint32_t words, slots, batch_bytes;
	uint64_t filled;      /* records before the subscriber joins */
	uint32_t instruments; /* of an image; 0: no values */
	int asks[2];          /* pipes: a byte asks for a record */
	int ready[2];
};

struct pulled {
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;
	uint32_t words;
	size_t reads; /* the counter's index */
	uint64_t next, posted_ns, delivered_ns, published_ns;
	uint64_t values, image_ns, complete_ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

/* -- the publisher's process --------------------------------------------------------------------
 */

static uint32_t slot_bytes(const struct plan *plan)
{
	return plan->words * 8 + HEADER_BYTES;
}

static struct tb_topic *topic_make(struct tb_publisher *publisher, const struct plan *plan)
{
	struct tb_topic_options how = { .size = sizeof(how),
					.name = "t",
					.slots = plan->slots,
					.instruments = plan->instruments ? plan->instruments : 1,
					.flags = TB_TOPIC_MANUAL_FLUSH };
	struct tb_schema *schema = NULL;
	struct tb_topic *topic;
	char text[128], name[16];

	if (plan->instruments == 0)
		how.flags |= TB_TOPIC_NO_LAST_VALUE;
	snprintf(text, sizeof(text),
		 "name: bench\nversion: 1\nfields:\n- {name: words, type: 'u64[%u]', doc: words}\n",
		 plan->words);
	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	how.schema = schema;
	expect(tb_topic_create(publisher, &how, &topic), "topic");
	tb_schema_free(schema);
	for (uint32_t i = 0; i < how.instruments; i++) {
		snprintf(name, sizeof(name), "I%u", i);
		expect(tb_instrument(topic, name), "instrument");
	}
	return topic;
}

static void record_write(struct tb_topic *topic, const struct plan *plan, uint64_t number)
{
	uint64_t payload[PAYLOAD_WORDS];
	struct tb_update update = { .size = sizeof(update),
				    .kind = TB_KIND_UPDATE,
				    .length = (uint16_t)(plan->words * 8),
				    .data = payload };

	payload_fill(payload, plan->words, number);
	update.time_ns = now_ns();
	if (plan->instruments)
		update.instrument = (uint32_t)(number % plan->instruments);
	expect(tb_publish(topic, &update), "publish");
}

static void publisher_main(const struct plan *plan)
{
	char address[128], ask;
	const char *listen = address;
	struct tb_publisher_options how = { .size = sizeof(how),
					    .name = "bench-rdma",
					    .listen = &listen,
					    .listen_count = 1,
					    .topics_max = 1,
					    .exit_wait_ms = UINT32_MAX };
	struct tb_publisher *publisher;
	struct tb_topic *topic;

	snprintf(address, sizeof(address), "rdma:%s:%d", plan->publisher, PORT);
	expect(tb_publisher_open(&publisher, &how), "publisher");
	topic = topic_make(publisher, plan);
	machine_pin(0); /* after the library has started its thread, which thus is not pinned */
	for (uint64_t i = 1; i <= plan->filled; i++)
		record_write(topic, plan, i);
	tb_flush(topic);
	if (write(plan->ready[1], "", 1) != 1)
		machine_fail("the subscriber has ended");
	for (uint64_t i = plan->filled + 1; read(plan->asks[0], &ask, 1) == 1; i++) {
		const uint64_t until = now_ns() + REST_NS;

		while (now_ns() < until)
			machine_pause();
		record_write(topic, plan, i);
		tb_flush(topic);
	}
	tb_publisher_close(publisher);
}

/* Forks before the library is used: its device resources do not survive a fork. */
static pid_t publisher_start(struct plan *plan)
{
	pid_t child;
	char byte;

	if (pipe(plan->asks) < 0 || pipe(plan->ready) < 0 || (child = fork()) < 0)
		machine_fail("cannot start the publisher's process");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(plan->asks[1]);
		publisher_main(plan);
		exit(0);
	}
	close(plan->ready[1]);
	if (read(plan->ready[0], &byte, 1) != 1)
		machine_fail("the publisher ended before it was ready");
	return child;
}

static void publisher_stop(struct plan *plan, pid_t child)
{
	int status;

	close(plan->asks[1]);
	waitpid(child, &status, 0);
	if (status)
		machine_fail("the publisher ended with status 0x%x", (unsigned int)status);
}

/* -- the subscriber -----------------------------------------------------------------------------
 */

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct pulled *pulled = user;

	(void)source;
	if (record->flags & TB_FLAG_IMAGE) {
		pulled->values++;
		return;
	}
	pulled->delivered_ns = now_ns();
	pulled->published_ns = record->time_ns;
	if (record->sequence != pulled->next++ || record->length != pulled->words * 8 ||
	    payload_wrong(record->data, pulled->words, record->sequence))
		machine_fail("record %llu is wrong", (unsigned long long)record->sequence);
}

/* An emulated machine may stop for a while, which must not end the measurement. */
static void on_event(void *user, const struct tb_event *event)
{
	struct pulled *pulled = user;

	if (event->kind == TB_EVENT_APPEARED)
		pulled->next = event->first;
	else if (event->kind == TB_EVENT_IMAGE)
		pulled->image_ns = now_ns();
	else if (event->kind == TB_EVENT_COMPLETE)
		pulled->complete_ns = now_ns();
	else if (event->kind != TB_EVENT_STALE && event->kind != TB_EVENT_LIVE)
		machine_fail("found event %d between records", (int)event->kind);
}

static size_t counter_index(const char *name)
{
	size_t count;
	const struct tb_counter *table = tb_counters(TB_SCOPE_SUBSCRIPTION, &count);

	for (size_t i = 0; i < count && i < COUNTS_MAX; i++)
		if (strcmp(table[i].name, name) == 0)
			return i;
	machine_fail("no counter %s", name);
}

static void pulled_open(struct pulled *pulled, const struct plan *plan, enum tb_from from)
{
	char address[192];
	struct tb_subscriber_options bus = { .size = sizeof(bus),
					     .address = address,
					     .connect_ms = 20000,
					     .stale_ms = 10000,
					     .topics_max = 1,
					     .batch_bytes = plan->batch_bytes };
	struct tb_subscription_options how = { .size = sizeof(how),
					       .on_record = on_record,
					       .on_event = on_event,
					       .user = pulled,
					       .from = from };

	snprintf(address, sizeof(address), "rdma:%s:%d,source=%s", plan->publisher, PORT,
		 plan->subscriber);
	pulled->words = plan->words;
	pulled->reads = counter_index("reads");
	expect(tb_subscriber_open(&pulled->subscriber, &bus), "subscriber");
	expect(tb_subscribe(pulled->subscriber, "t", &how, &pulled->subscription), "subscribe");
	machine_pin(1);
}

static uint64_t reads(const struct pulled *pulled)
{
	uint64_t values[COUNTS_MAX] = { 0 };

	tb_subscription_counters(pulled->subscription, values, COUNTS_MAX);
	return values[pulled->reads];
}

/* Polls once. Keeps the begin of the poll that posted the last READ. */
static void look(struct pulled *pulled)
{
	const uint64_t before = reads(pulled), from = now_ns();

	expect(tb_poll(pulled->subscriber, INT32_MAX), "poll");
	if (reads(pulled) != before)
		pulled->posted_ns = from;
}

static int pulled_close(struct pulled *pulled, struct plan *plan, pid_t child)
{
	tb_subscriber_close(pulled->subscriber);
	publisher_stop(plan, child);
	return 0;
}

/* -- measurements -------------------------------------------------------------------------------
 */

static double *samples_make(size_t count)
{
	double *samples = calloc(count, sizeof(*samples));

	if (!samples)
		machine_fail("no memory");
	return samples;
}

static int notice_main(struct plan *plan, size_t count)
{
	double *record = samples_make(count), *notice = samples_make(count);
	struct pulled pulled = { 0 };
	pid_t child;

	plan->slots = 65536;
	child = publisher_start(plan);
	pulled_open(&pulled, plan, TB_FROM_NEWEST);
	for (size_t i = 0; i < WARM + count; i++) {
		const uint64_t next = pulled.next;
		const size_t at = i < WARM ? 0 : i - WARM;

		if (write(plan->asks[1], "", 1) != 1)
			machine_fail("the publisher has ended");
		while (pulled.next == next)
			look(&pulled);
		record[at] = (double)(pulled.delivered_ns - pulled.posted_ns) / 1e3;
		notice[at] = (double)(pulled.delivered_ns - pulled.published_ns) / 1e3;
	}
	printf("{\"record\": %.3f, ", machine_quantile(record, count, 0.5));
	printf("\"notice\": %.3f}\n", machine_quantile(notice, count, 0.5));
	free(record);
	free(notice);
	return pulled_close(&pulled, plan, child);
}

/* Fills a ring with the records of so many READs. The ring is twice as large, so that no record is
 * overwritten. */
static pid_t ring_fill(struct plan *plan, struct pulled *pulled, size_t count)
{
	pid_t child;

	plan->filled = count * (READ_BYTES / slot_bytes(plan));
	for (plan->slots = 64; plan->slots < 2 * plan->filled;)
		plan->slots *= 2;
	child = publisher_start(plan);
	pulled_open(pulled, plan, TB_FROM_OLDEST);
	return child;
}

static int known_main(struct plan *plan, size_t count)
{
	double *cycle = samples_make(count);
	struct pulled pulled = { 0 };
	uint64_t before = 0;
	size_t at = 0;
	pid_t child;

	plan->batch_bytes = READ_BYTES;
	child = ring_fill(plan, &pulled, count);
	while (pulled.next <= plan->filled) {
		const int got = tb_poll(pulled.subscriber, INT32_MAX);

		expect(got, "poll");
		if (got > 0 && before && at < count)
			cycle[at++] = (double)(pulled.delivered_ns - before) / 1e3;
		if (got > 0)
			before = pulled.delivered_ns;
	}
	printf("{\"record\": %.3f}\n", machine_quantile(cycle, at, 0.5));
	free(cycle);
	return pulled_close(&pulled, plan, child);
}

static int bulk_main(struct plan *plan, size_t count)
{
	struct pulled pulled = { 0 };
	const pid_t child = ring_fill(plan, &pulled, count);
	const uint64_t from = now_ns();

	while (pulled.next <= plan->filled)
		expect(tb_poll(pulled.subscriber, INT32_MAX), "poll");
	printf("{\"rate\": %.3f}\n", (double)(plan->filled * slot_bytes(plan)) / 1048576 * 1e9 /
					     (double)(pulled.delivered_ns - from));
	return pulled_close(&pulled, plan, child);
}

static int image_main(struct plan *plan, size_t count)
{
	const uint64_t bytes = count * (slot_bytes(plan) + ENTRY_BYTES);
	struct pulled pulled = { 0 };
	pid_t child;

	plan->instruments = (uint32_t)count;
	plan->filled = count;
	plan->slots = 64;
	child = publisher_start(plan);
	pulled_open(&pulled, plan, TB_FROM_IMAGE);
	while (pulled.complete_ns == 0)
		expect(tb_poll(pulled.subscriber, INT32_MAX), "poll");
	if (pulled.values != count)
		machine_fail("found %llu values, expected %zu", (unsigned long long)pulled.values,
			     count);
	printf("{\"rate\": %.3f}\n",
	       (double)bytes / 1048576 * 1e9 / (double)(pulled.complete_ns - pulled.image_ns));
	return pulled_close(&pulled, plan, child);
}

/* -- the command --------------------------------------------------------------------------------
 */

static unsigned int number(const char *text, unsigned long low, unsigned long high)
{
	char *end;
	const unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || value < low || value > high)
		machine_fail("found %s, expected a number from %lu to %lu", text, low, high);
	return (unsigned int)value;
}

static const struct {
	const char *name;
	int (*run)(struct plan *, size_t count);
} measures[] = { { "notice", notice_main },
		 { "known", known_main },
		 { "bulk", bulk_main },
		 { "image", image_main } };

int main(int argc, char **argv)
{
	struct plan plan = { .batch_bytes = READ_BYTES * READ_DEPTH };

	if (argc != 6) {
		fputs("usage: tickbus-bench-rdma notice|known|bulk|image PUBLISHER SUBSCRIBER "
		      "SLOT_BYTES COUNT\n",
		      stderr);
		return 2;
	}
	alarm(GIVE_UP_S); /* ends the program even if the publisher hangs */
	plan.publisher = argv[2];
	plan.subscriber = argv[3];
	plan.words = (number(argv[4], 64, 4096) / 64 * 64 - HEADER_BYTES) / 8;
	for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++)
		if (strcmp(measures[i].name, argv[1]) == 0)
			return measures[i].run(&plan, number(argv[5], 2, COUNT_MAX));
	machine_fail("found measure %s, expected notice, known, bulk or image", argv[1]);
}
