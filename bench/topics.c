/* SPDX-License-Identifier: Apache-2.0 */
/* tickbus-bench-topics: what an idle joined topic costs tb_poll over shared memory. Prints a line
 * of JSON.
 *
 *   tickbus-bench-topics TOPICS STATE ROUNDS [POLLS]
 *
 * - rest: nothing is published. Each topic has had some records, as many as chance says.
 * - fresh: nothing was ever published.
 * - busy: before each poll, a record of one topic is published.
 *
 * ns per poll of a subscriber of TOPICS topics, and of a subscriber of one topic. The two
 * alternate, WINDOWS times in a round. A round has the median of each, and what each further topic
 * adds. With POLLS, the program makes as many polls in many_polls() instead, for tools that count
 * instructions or cache misses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define TOPICS_MAX  1024
#define SLOTS       256
#define RECORDS_MAX 512   /* of a topic before the measurement */
#define LOOKS       60000 /* topics that a window looks at: a window is shorter than a time slice */
#define POLLS_MIN   50
#define WINDOWS     400

enum state { REST, FRESH, BUSY };
static const char *const states[] = { "rest", "fresh", "busy" };

static struct tb_publisher *publisher;
static struct tb_topic *topics[TOPICS_MAX];
static uint64_t received;

static void expect(int result, const char *what)
{
	if (result < 0)
		machine_fail("%s: %s", what, tb_error());
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	received += record->length > 0;
}

static void publish(struct tb_topic *topic, unsigned int records)
{
	const uint64_t word = 1;
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(word),
					  .time_ns = 1,
					  .data = &word };

	for (unsigned int i = 0; i < records; i++)
		expect(tb_publish(topic, &update), "publish");
	expect(tb_flush(topic), "flush");
}

static void bus_open(unsigned int count)
{
	static const char text[] = "name: bench\nversion: 1\n"
				   "fields:\n- {name: word, type: u64, doc: word}\n";
	const struct tb_publisher_options bus = { .size = sizeof(bus),
						  .name = "bench-topics",
						  .topics_max = TOPICS_MAX,
						  .exit_wait_ms = UINT32_MAX };
	struct tb_schema *schema;
	char name[32];

	expect(tb_schema_parse(&schema, text, strlen(text), "bench"), "schema");
	expect(tb_publisher_open(&publisher, &bus), "publisher");
	for (unsigned int i = 0; i < count; i++) {
		struct tb_topic_options how = { .size = sizeof(how),
						.name = name,
						.schema = schema,
						.slots = SLOTS,
						.instruments = 16 };

		snprintf(name, sizeof(name), "exchange.feed%u.quote", i);
		expect(tb_topic_create(publisher, &how, &topics[i]), "topic");
		expect(tb_instrument(topics[i], "A"), "instrument");
	}
	tb_schema_free(schema);
}

static struct tb_subscriber *join(const char *pattern, unsigned int count)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:bench-topics",
						   .topics_max = TOPICS_MAX,
						   .connect_ms = 60000 };
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = on_record,
						      .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;
	struct tb_subscriber *subscriber;
	char last[32];

	expect(tb_subscriber_open(&subscriber, &how), "subscriber");
	expect(tb_subscribe(subscriber, pattern, &what, &subscription), "subscribe");
	snprintf(last, sizeof(last), "exchange.feed%u.quote", count - 1);
	if (!tb_subscription_source(subscription, last))
		machine_fail("found topic %s not joined", last);
	return subscriber;
}

/* The ring's slots that are watched then lie at many different places of their pages. */
static void topics_move(unsigned int count)
{
	uint64_t chance = 88172645463325252;

	for (unsigned int i = 0; i < count; i++) {
		chance ^= chance << 13;
		chance ^= chance >> 7;
		chance ^= chance << 17;
		publish(topics[i], (unsigned int)(chance % RECORDS_MAX));
	}
}

static __attribute__((noinline)) void many_polls(struct tb_subscriber *subscriber, enum state state,
						 unsigned int polls)
{
	for (unsigned int i = 0; i < polls; i++) {
		if (state == BUSY)
			publish(topics[0], 1);
		expect(tb_poll(subscriber, 64), "poll");
	}
}

/* ns per poll. */
static double window(struct tb_subscriber *subscriber, enum state state, unsigned int polls,
		     double scale)
{
	uint64_t from;

	from = machine_ticks();
	many_polls(subscriber, state, polls);
	return (double)(machine_ticks_behind() - from) / scale / polls;
}

/* The busy topic has records for each of the two. */
static void drain(struct tb_subscriber *subscriber)
{
	while (tb_poll(subscriber, 64) > 0)
		;
}

static void round_print(struct tb_subscriber *all, struct tb_subscriber *one, unsigned int count,
			enum state state, bool first)
{
	const unsigned int polls = LOOKS / count > POLLS_MIN ? LOOKS / count : POLLS_MIN;
	const double scale = machine_ticks_per_ns();
	double many[WINDOWS], single[WINDOWS];
	double poll, alone;

	for (int i = 0; i < WINDOWS; i++) {
		drain(one);
		single[i] = window(one, state, polls, scale);
		drain(all);
		many[i] = window(all, state, polls, scale);
	}
	poll = machine_quantile(many, WINDOWS, 0.5);
	alone = machine_quantile(single, WINDOWS, 0.5);
	printf("%s{\"poll\": %.2f, \"one\": %.2f, \"topic\": %.3f}", first ? "" : ", ", poll, alone,
	       (poll - alone) / (count - 1));
}

static enum state state_of(const char *name)
{
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (strcmp(states[i], name) == 0)
			return (enum state)i;
	machine_fail("found state %s, expected rest, fresh or busy", name);
}

int main(int argc, char **argv)
{
	const unsigned int count = argc > 3 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	const int rounds = argc > 3 ? atoi(argv[3]) : 0;
	const unsigned int polls = argc > 4 ? (unsigned int)strtoul(argv[4], NULL, 10) : 0;
	struct tb_subscriber *all, *one;
	enum state state;

	if (count < 2 || count > TOPICS_MAX || rounds < 1) {
		fputs("usage: tickbus-bench-topics TOPICS STATE ROUNDS [POLLS]\n", stderr);
		return 2;
	}
	state = state_of(argv[2]);
	bus_open(count);
	all = join("exchange.*.quote", count);
	one = join("exchange.feed0.quote", 1);
	machine_pin(0); /* after the library has started its threads, which thus are not pinned */
	if (state != FRESH)
		topics_move(count);
	drain(all);
	drain(one);
	if (polls > 0) {
		many_polls(all, state, polls);
	} else {
		printf("{\"rounds\": [");
		for (int i = 0; i < rounds; i++)
			round_print(all, one, count, state, i == 0);
		printf("]}\n");
	}
	tb_subscriber_close(all);
	tb_subscriber_close(one);
	tb_publisher_close(publisher);
	return 0;
}
