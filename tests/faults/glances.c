/* SPDX-License-Identifier: Apache-2.0 */
/* Polls of topics that rest. glances.py runs this program under callgrind, which counts what
 * counted() does: POLLS polls of FEW topics, then of MANY. The clock is stopped, so the polls have
 * no turn. Standard output has the two numbers of topics, and the number of polls. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "subscriber/glance.h"
#include "subscriber/state.h"
#include "tests/support/clock.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define FEW   16
#define MANY  144
#define POLLS 50
#define TRIES 60000 /* polls until all rest */

static void expect(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "glances: %s: %s\n", what, tb_error());
	exit(1);
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	(void)user;
	(void)source;
	(void)record;
}

static void topics_make(struct tb_publisher *publisher, struct tb_schema *schema)
{
	const double bid = 1;
	const struct tb_update update = { .size = sizeof(update),
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(bid),
					  .time_ns = 1,
					  .data = &bid };
	char name[16];

	for (int i = 0; i < MANY; i++) {
		const struct tb_topic_options how = { .size = sizeof(how),
						      .name = name,
						      .schema = schema,
						      .slots = 64,
						      .instruments = 4 };
		struct tb_topic *topic;

		snprintf(name, sizeof(name), "%s.t%d", i < FEW ? "few" : "more", i);
		expect(tb_topic_create(publisher, &how, &topic), "topic");
		expect(tb_instrument(topic, "A"), "instrument");
		for (int records = 0; records < i % 100; records++)
			expect(tb_publish(topic, &update), "publish");
	}
}

static bool all_rest(const struct tb_subscriber *subscriber)
{
	for (uint32_t slot = 0; slot < subscriber->table_used; slot++)
		if (!glance_rests(&subscriber->glances[slot]))
			return false;
	return subscriber->discovery.outstanding == 0;
}

static struct tb_subscriber *join(const char *pattern, uint32_t topics)
{
	const struct tb_subscriber_options how = { .size = sizeof(how),
						   .address = "shm:glances",
						   .topics_max = MANY,
						   .connect_ms = 60000 };
	const struct tb_subscription_options what = { .size = sizeof(what),
						      .on_record = on_record,
						      .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;
	struct tb_subscriber *subscriber;

	expect(tb_subscriber_open(&subscriber, &how), "subscriber");
	expect(tb_subscribe(subscriber, pattern, &what, &subscription), "subscribe");
	if (subscriber->table_used != topics) {
		fprintf(stderr, "glances: found %u topics, expected %u\n", subscriber->table_used,
			topics);
		exit(1);
	}
	return subscriber;
}

static __attribute__((noinline)) void counted(struct tb_subscriber *subscriber)
{
	for (int i = 0; i < POLLS; i++)
		expect(tb_poll(subscriber, 64), "poll");
}

/* The first polls may have a turn. valgrind runs one thread at a time: the pauses let the
 * publisher's thread answer. */
static void count(struct tb_subscriber *subscriber)
{
	for (int i = 0; i < TRIES && (i < 3 || !all_rest(subscriber)); i++) {
		expect(tb_poll(subscriber, 64), "poll");
		usleep(1000);
	}
	counted(subscriber);
}

/* With an argument the program only starts: glances.py tries whether valgrind can run it. */
int main(int arguments, char **unused)
{
	const struct tb_publisher_options bus = { .size = sizeof(bus),
						  .name = "glances",
						  .topics_max = MANY,
						  .exit_wait_ms = UINT32_MAX };
	struct tb_publisher *publisher;
	struct tb_subscriber *few, *many;
	struct tb_schema *schema;

	(void)unused;
	if (arguments > 1)
		return 0;
	expect(tb_schema_load(&schema, "trade"), "schema");
	expect(tb_publisher_open(&publisher, &bus), "publisher");
	topics_make(publisher, schema);
	few = join("few.*", FEW);
	many = join("*.*", MANY);
	clock_stop();
	printf("%d %d %d\n", FEW, MANY, POLLS);
	count(few);
	count(many);
	tb_subscriber_close(few);
	tb_subscriber_close(many);
	tb_publisher_close(publisher);
	tb_schema_free(schema);
	return 0;
}
