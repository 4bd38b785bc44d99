/* SPDX-License-Identifier: Apache-2.0 */
/* stress_merge [--messages N]
 *
 * A writer at full speed with a group of four topics, and a reader that merges them, each on its
 * own thread. In half of the variants the writer waits for the reader, which must get everything.
 * In the others it does not wait. There the reader waits once until it is lapped; further laps are
 * chance.
 *
 * Payloads say the message and the place in it. So the reader checks that messages come in order,
 * and topics in order within a message. Per topic, delivered + lost = published. In TAP. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/bytewise.h"
#include "tests/support/random.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define TOPICS  4
#define SLOTS   256
#define LATE_MS 60000
#define LAP_AT  1000 /* the record at which a reader that may lose records waits to be lapped */

struct variant {
	const char *name, *scheme;
	uint32_t flags;
	bool paced;
	uint32_t share; /* of all messages, in percent */
};

static const struct variant variants[] = {
	{ "shm-paced", "shm", 0, true, 30 },
	{ "shm-unchecked-paced", "shm", TB_TOPIC_UNCHECKED, true, 20 },
	{ "shm-lapped", "shm", 0, false, 20 },
	{ "shm-unchecked-lapped", "shm", TB_TOPIC_UNCHECKED, false, 20 },
	{ "bytewise-paced", "bytewise", 0, true, 5 },
	{ "bytewise-lapped", "bytewise", 0, false, 5 },
};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

static const char *const names[TOPICS] = { "m.a", "m.b", "m.c", "m.d" };
static const struct variant *variant;
static struct tb_publisher *publisher;
static struct tb_group *group;
static struct tb_topic *topics[TOPICS];

static struct {
	uint64_t message;
	unsigned int topic;
	uint64_t time_ns, position[TOPICS], records, lost[TOPICS];
	unsigned int ended;
	char wrong[192];
} seen;
static _Alignas(64) _Atomic uint64_t read_to; /* the message that the reader has come to */
static _Alignas(64) _Atomic uint64_t written; /* the message that the writer has come to */
static _Atomic bool failed;

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void complain(const char *format, ...)
{
	va_list args;

	if (seen.wrong[0])
		return;
	va_start(args, format);
	vsnprintf(seen.wrong, sizeof(seen.wrong), format, args);
	va_end(args);
	atomic_store(&failed, true);
}

static unsigned int number_of(const char *topic)
{
	return (unsigned int)(topic[2] - 'a');
}

/* Each message has a record of one of the topics at least. So some ring is overwritten. */
static void wait_for_lap(uint64_t message)
{
	while (atomic_load_explicit(&written, memory_order_relaxed) <
		       message + (uint64_t)2 * TOPICS * SLOTS &&
	       !atomic_load_explicit(&failed, memory_order_relaxed))
		sched_yield();
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	const unsigned int topic = number_of(tb_source_topic(source));
	uint64_t message;

	(void)user;
	memcpy(&message, record->data, sizeof(message));
	if (record->sequence != seen.position[topic] + 1)
		complain("topic %u: record %" PRIu64 " after %" PRIu64, topic, record->sequence,
			 seen.position[topic]);
	if (message < seen.message || (message == seen.message && topic < seen.topic))
		complain("message %" PRIu64 ", topic %u after message %" PRIu64 ", topic %u",
			 message, topic, seen.message, seen.topic);
	if ((message == seen.message) != (record->time_ns == seen.time_ns) && seen.records > 0)
		complain("message %" PRIu64 " has another time than its stamp", message);
	seen.position[topic] = record->sequence;
	seen.message = message;
	seen.topic = topic;
	seen.time_ns = record->time_ns;
	seen.records++;
	atomic_store_explicit(&read_to, message, memory_order_relaxed);
	if (!variant->paced && seen.records == LAP_AT)
		wait_for_lap(message);
}

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	if (event->kind == TB_EVENT_GAP) {
		const unsigned int topic = number_of(event->topic);

		if (event->first != seen.position[topic] + 1)
			complain("topic %u: a gap from %" PRIu64 " after %" PRIu64, topic,
				 event->first, seen.position[topic]);
		seen.position[topic] = event->last;
		seen.lost[topic] += event->last - event->first + 1;
	} else if (event->kind == TB_EVENT_ENDED) {
		seen.ended++;
	} else if (event->kind != TB_EVENT_APPEARED) {
		complain("event %d", event->kind);
	}
}

static void *read_all(void *user)
{
	struct tb_subscriber *subscriber = user;

	while (seen.ended < TOPICS && !atomic_load_explicit(&failed, memory_order_relaxed))
		if (tb_poll(subscriber, 64) < 0)
			complain("tb_poll: %s", tb_error());
	atomic_store(&failed, true); /* the writer waits no longer */
	return NULL;
}

static struct tb_subscriber *reader_open(void)
{
	char address[32];
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .connect_ms = LATE_MS,
						       .poll_us = TB_POLL_SPIN };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = on_record,
						     .on_event = on_event,
						     .from = TB_FROM_OLDEST,
						     .flags = TB_MERGE };
	struct tb_subscriber *subscriber;
	struct tb_subscription *subscription;

	snprintf(address, sizeof(address), "%s:merge", variant->scheme);
	if (tb_subscriber_open(&subscriber, &options) < 0 ||
	    tb_subscribe(subscriber, "m.*", &how, &subscription) < 0) {
		complain("%s", tb_error());
		return NULL;
	}
	return subscriber;
}

/* -- the writer ------------------------------------------------------------------------------- */

/* Each message has at most 4 records of a topic, so this many fit into half a ring. */
static void keep_pace(uint64_t message)
{
	if (!variant->paced)
		return;
	while (message > atomic_load_explicit(&read_to, memory_order_relaxed) + SLOTS / 8 &&
	       !atomic_load_explicit(&failed, memory_order_relaxed))
		sched_yield();
}

static bool message_write(uint64_t message, uint64_t *state)
{
	const uint64_t bits = random_draw(state);
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(message),
					  .data = &message };
	bool good = tb_group_message(group) == 0;

	for (unsigned int i = 0; i <= (bits & 3); i++)
		good &= tb_publish(topics[bits >> (4 + 2 * i) & 3], &update) == 0;
	/* Sometimes a flush is late, or a message is idle. */
	if (!variant->paced ? message % 16 == 0 : (bits >> 20 & 3) == 0)
		good &= tb_group_flush(group) == 0;
	return good;
}

static void write_all(uint64_t messages, uint64_t seed)
{
	uint64_t state = seed;

	for (uint64_t n = 1; n <= messages; n++) {
		keep_pace(n);
		if (n % 8 == 0)
			tb_group_flush(group);
		if (atomic_load_explicit(&failed, memory_order_relaxed))
			return;
		if (!message_write(n, &state)) {
			complain("%s", tb_error());
			return;
		}
		atomic_store_explicit(&written, n, memory_order_relaxed);
	}
	atomic_store(&written, UINT64_MAX); /* the reader waits no longer */
	for (unsigned int i = 0; i < TOPICS; i++)
		if (tb_topic_end(topics[i]) < 0)
			complain("%s", tb_error());
}

static int topics_make(void)
{
	static const char text[] = "name: x\nversion: 1\nfields:\n"
				   "- {name: x, type: u64, doc: d}\n";
	char address[32];
	const char *listen = address;
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "merge",
						      .listen = &listen,
						      .listen_count = 1,
						      .stale_ms = LATE_MS,
						      .exit_wait_ms = UINT32_MAX };
	const struct tb_group_options grouped = { .size = sizeof(grouped), .name = "m" };
	struct tb_topic_options how = {
		.size = sizeof(how), .slots = SLOTS, .instruments = 1, .flags = variant->flags
	};
	struct tb_schema *schema = NULL;
	int result;

	snprintf(address, sizeof(address), "%s:merge", variant->scheme);
	result = tb_publisher_open(&publisher, &options);
	if (result == 0)
		result = tb_schema_parse(&schema, text, strlen(text), "merge");
	if (result == 0)
		result = tb_group_create(publisher, &grouped, &group);
	how.schema = schema;
	how.group = group;
	for (unsigned int i = 0; i < TOPICS && result >= 0; i++) {
		how.name = names[i];
		result = tb_topic_create(publisher, &how, &topics[i]);
		if (result == 0)
			result = tb_instrument(topics[i], "I0");
	}
	tb_schema_free(schema);
	return result;
}

static void accounts_check(void)
{
	uint64_t lost = 0;

	for (unsigned int i = 0; i < TOPICS; i++) {
		if (seen.position[i] != tb_topic_sequence(topics[i]))
			complain("topic %u: read up to %" PRIu64 " of %" PRIu64, i,
				 seen.position[i], tb_topic_sequence(topics[i]));
		lost += seen.lost[i];
	}
	if (variant->paced && lost > 0)
		complain("%" PRIu64 " records are lost, although the writer waits", lost);
	if (!variant->paced && lost == 0)
		complain("the reader was never lapped");
	printf("# %s: %" PRIu64 " records, %" PRIu64 " lost\n", variant->name, seen.records, lost);
}

static void run(uint64_t messages, uint64_t seed)
{
	struct tb_subscriber *subscriber = NULL;
	pthread_t thread;

	memset(&seen, 0, sizeof(seen));
	atomic_store(&read_to, 0);
	atomic_store(&written, 0);
	atomic_store(&failed, false);
	if (topics_make() < 0)
		complain("%s", tb_error());
	else
		subscriber = reader_open();
	if (subscriber) {
		if (pthread_create(&thread, NULL, read_all, subscriber))
			abort();
		write_all(messages, seed);
		pthread_join(thread, NULL);
		accounts_check();
	}
	tb_subscriber_close(subscriber);
	tb_publisher_close(publisher);
	publisher = NULL;
}

int main(int argc, char **argv)
{
	const uint64_t messages = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
	const uint64_t seed = random_seed();
	int result = 0;

	bytewise_add(seed);
	printf("1..%zu\n", VARIANTS);
	for (size_t i = 0; i < VARIANTS; i++) {
		variant = &variants[i];
		run(messages * variant->share / 100, seed + i);
		printf("%sok %zu - %s%s%s\n", seen.wrong[0] ? "not " : "", i + 1, variant->name,
		       seen.wrong[0] ? " # " : "", seen.wrong);
		result |= seen.wrong[0] != 0;
		fflush(stdout);
	}
	return result;
}
