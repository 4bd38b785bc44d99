/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-merge: what the order of a merge costs a reader over shared memory. Prints a line
 * of JSON.
 *
 *   tickbus-bench-merge TOPICS RUN ROUNDS
 *
 * A publisher writes a backlog into the topics of a group, RUN records to each topic in turn. A
 * message has one record. Then a subscriber reads all of them, merged or topic by topic. The two
 * alternate, WINDOWS times in a round. A round has the median ns per record of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define TOPICS_MAX 64
#define SLOTS      8192
#define BACKLOG    4096 /* records of all topics: a topic may get all of them */
#define WINDOWS    100
#define POLL       1024

static struct tb_publisher *publisher;
static struct tb_group *group;
static struct tb_topic *topics[TOPICS_MAX];

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	unsigned int *received = user;

	(void)source;
	*received += record->length > 0;
}

static void on_event(void *user, const struct tb_event *event)
{
	(void)user;
	if (event->kind == TB_EVENT_GAP || event->kind == TB_EVENT_REFUSED)
		machine_fail("found event %d of topic %s", (int)event->kind, event->topic);
}

static void bus_open(unsigned int count)
{
	static const char text[] = "name: bench\nversion: 1\n"
				   "fields:\n- {name: word, type: u64, doc: word}\n";
	const struct tb_publisher_options bus = { .size = sizeof(bus),
						  .name = "bench-merge",
						  .topics_max = TOPICS_MAX,
						  .exit_wait_ms = UINT32_MAX };
	const struct tb_group_options feed = { .size = sizeof(feed), .name = "feed" };
	struct tb_schema *schema;
	char name[32];

	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	expect(tb_publisher_open(&publisher, &bus), "publisher");
	expect(tb_group_create(publisher, &feed, &group), "group");
	for (unsigned int i = 0; i < count; i++) {
		struct tb_topic_options how = { .size = sizeof(how),
						.name = name,
						.schema = schema,
						.slots = SLOTS,
						.instruments = 16,
						.group = group };

		snprintf(name, sizeof(name), "feed.topic%u", i);
		expect(tb_topic_create(publisher, &how, &topics[i]), "topic");
		expect(tb_instrument(topics[i], "A"), "instrument");
	}
	tb_schema_free(schema);
}

static struct tb_subscriber *join(uint32_t flags, unsigned int *received)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:bench-merge",
						   .topics_max = TOPICS_MAX,
						   .connect_ms = 60000 };
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = on_record,
						      .on_event = on_event,
						      .user = received,
						      .from = TB_FROM_OLDEST,
						      .flags = flags };
	struct tb_subscription *subscription;
	struct tb_subscriber *subscriber;

	expect(tb_subscriber_open(&subscriber, &how), "subscriber");
	expect(tb_subscribe(subscriber, "feed.*", &what, &subscription), "subscribe");
	return subscriber;
}

static void backlog_write(unsigned int count, unsigned int run)
{
	const uint64_t word = 1;
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(word),
					  .data = &word };

	for (unsigned int i = 0; i < BACKLOG; i++) {
		expect(tb_group_message(group), "message");
		expect(tb_publish(topics[i / run % count], &update), "publish");
	}
	expect(tb_group_flush(group), "flush");
}

/* ns per record. */
static double backlog_read(struct tb_subscriber *subscriber, unsigned int *received, double scale)
{
	uint64_t from;

	*received = 0;
	from = machine_ticks();
	while (*received < BACKLOG)
		expect(tb_poll(subscriber, POLL), "poll");
	return (double)(machine_ticks_behind() - from) / scale / BACKLOG;
}

struct reader {
	struct tb_subscriber *subscriber;
	unsigned int received;
	double ns[WINDOWS];
};

/* Each backlog is timed for its first reader. */
static void round_print(struct reader readers[2], unsigned int count, unsigned int run, bool first)
{
	const double scale = machine_ticks_per_ns();

	for (int i = 0; i < 2 * WINDOWS; i++) {
		struct reader *timed = &readers[i % 2], *other = &readers[1 - i % 2];

		backlog_write(count, run);
		timed->ns[i / 2] = backlog_read(timed->subscriber, &timed->received, scale);
		backlog_read(other->subscriber, &other->received, scale);
	}
	printf("%s{\"merged\": %.2f, \"apart\": %.2f}", first ? "" : ", ",
	       machine_quantile(readers[0].ns, WINDOWS, 0.5),
	       machine_quantile(readers[1].ns, WINDOWS, 0.5));
}

int main(int argc, char **argv)
{
	const unsigned int count = argc > 3 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	const unsigned int run = argc > 3 ? (unsigned int)strtoul(argv[2], NULL, 10) : 0;
	const int rounds = argc > 3 ? atoi(argv[3]) : 0;
	static struct reader readers[2];

	if (count < 1 || count > TOPICS_MAX || run < 1 || rounds < 1) {
		fputs("usage: tickbus-bench-merge TOPICS RUN ROUNDS\n", stderr);
		return 2;
	}
	bus_open(count);
	readers[0].subscriber = join(TB_MERGE, &readers[0].received);
	readers[1].subscriber = join(0, &readers[1].received);
	machine_pin(0); /* after the library has started its threads, which thus are not pinned */
	printf("{\"rounds\": [");
	for (int i = 0; i < rounds; i++)
		round_print(readers, count, run, i == 0);
	printf("]}\n");
	tb_subscriber_close(readers[0].subscriber);
	tb_subscriber_close(readers[1].subscriber);
	tb_publisher_close(publisher);
	return 0;
}
