/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that the API allows at the same time. A thread per topic publishes, ends and restarts
 * it. Subscribers open, join all topics and close. Other threads inspect the bus, and ask the
 * publisher. A plain program, above all for the thread sanitizer, which finds data races. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tickbus/inspect.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define TOPICS      3
#define VISITS      40 /* of subscribers and of inspecting threads */
#define RECORDS     300
#define SUBSCRIBERS 2
#define ADDRESS     "shm:threads"

static struct tb_publisher *publisher;
static struct tb_schema *schema;
static _Atomic bool over;
static _Atomic uint64_t delivered, wrong, counters, visits, looks;

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	printf("not ok 1 - threads\n# %s: %s\n", what, tb_error());
	exit(1);
}

/* -- publishing ---------------------------------------------------------------------------------
 */

static void write_epoch(struct tb_topic *topic)
{
	struct tb_update update = { .size = sizeof(update), .kind = TB_KIND_UPDATE, .time_ns = 1 };
	const int instrument = tb_instrument(topic, "A");
	uint64_t x;

	must(instrument, "tb_instrument");
	update.instrument = (uint32_t)instrument;
	update.data = &x;
	update.length = sizeof(x);
	for (x = 1; x <= RECORDS; x++)
		must(tb_publish(topic, &update), "tb_publish");
	tb_topic_unpublished(topic, "B");
	must(tb_flush(topic), "tb_flush");
}

static void *write_topic(void *user)
{
	struct tb_topic *topic = user;

	for (unsigned int i = 0; !atomic_load(&over); i++) {
		write_epoch(topic);
		if (i % 2)
			must(tb_topic_end(topic), "tb_topic_end");
		must(tb_topic_restart(topic), "tb_topic_restart");
	}
	write_epoch(topic);
	return NULL;
}

static struct tb_topic *create(const char *name)
{
	struct tb_topic_options options = { .size = sizeof(options),
					    .name = name,
					    .schema = schema,
					    .slots = 256,
					    .instruments = 4 };
	struct tb_topic *topic = NULL;

	must(tb_topic_create(publisher, &options, &topic), "tb_topic_create");
	return topic;
}

/* -- reading ------------------------------------------------------------------------------------
 */

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	uint64_t x = 0;

	(void)user;
	(void)source;
	memcpy(&x, record->data, sizeof(x));
	if (x != record->sequence || strcmp(record->name, "A") != 0)
		atomic_fetch_add(&wrong, 1);
	atomic_fetch_add(&delivered, 1);
}

static void come_and_go(void)
{
	struct tb_subscriber_options options = { .size = sizeof(options),
						 .address = ADDRESS,
						 .connect_ms = 60000 };
	struct tb_subscription_options how = { .size = sizeof(how),
					       .on_record = on_record,
					       .from = TB_FROM_OLDEST };
	struct tb_subscriber *subscriber = NULL;
	struct tb_subscription *subscription = NULL;

	must(tb_subscriber_open(&subscriber, &options), "tb_subscriber_open");
	must(tb_subscribe(subscriber, ">", &how, &subscription), "tb_subscribe");
	for (int i = 0; i < 200; i++)
		if (tb_poll(subscriber, 100) == 0)
			must(tb_wait(subscriber, 1), "tb_wait");
	tb_unsubscribe(subscription);
	tb_subscriber_close(subscriber);
	atomic_fetch_add(&visits, 1);
}

static void *read_topics(void *user)
{
	while (!atomic_load(&over))
		come_and_go();
	return user;
}

static void on_counter(void *user, const struct tb_counter_value *counter)
{
	(void)user;
	(void)counter;
	atomic_fetch_add(&counters, 1);
}

static void *look_on(void *user)
{
	const struct tb_inspect_options options = { .size = sizeof(options),
						    .address = ADDRESS,
						    .timeout_ms = 60000 };

	while (!atomic_load(&over)) {
		must(tb_inspect_topics(&options, ">", NULL, NULL, NULL), "tb_inspect_topics");
		must(tb_inspect_counters(&options, on_counter, NULL, NULL), "tb_inspect_counters");
		atomic_fetch_add(&looks, 1);
	}
	return user;
}

/* -- the program --------------------------------------------------------------------------------
 */

static void start(pthread_t *thread, void *(*run)(void *), void *user)
{
	if (pthread_create(thread, NULL, run, user))
		abort();
}

static void run(void)
{
	pthread_t writers[TOPICS], readers[SUBSCRIBERS + 1];
	char name[16];

	for (int i = 0; i <= SUBSCRIBERS; i++)
		start(&readers[i], i < SUBSCRIBERS ? read_topics : look_on, NULL);
	for (int i = 0; i < TOPICS; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		start(&writers[i], write_topic, create(name));
		tb_publisher_joins(publisher, NULL, 0);
	}
	while (atomic_load(&visits) < VISITS || atomic_load(&looks) < VISITS)
		sched_yield();
	atomic_store(&over, true);
	for (int i = 0; i < TOPICS; i++)
		pthread_join(writers[i], NULL);
	for (int i = 0; i <= SUBSCRIBERS; i++)
		pthread_join(readers[i], NULL);
}

int main(void)
{
	static const char text[] = "name: x\nversion: 1\nfields:\n- {name: x, type: u64, doc: d}\n";
	struct tb_publisher_options options = { .size = sizeof(options),
						.name = "threads",
						.stale_ms = 40,
						.exit_wait_ms = UINT32_MAX };
	char folder[] = "/tmp/tickbus-threads-XXXXXX", lock[64];
	bool good;

	printf("1..1\n");
	if (!mkdtemp(folder) || setenv("TICKBUS_RUNTIME_DIR", folder, 1) < 0)
		return 1;
	must(tb_schema_parse(&schema, text, strlen(text), "threads"), "tb_schema_parse");
	must(tb_publisher_open(&publisher, &options), "tb_publisher_open");
	run();
	tb_publisher_close(publisher);
	tb_schema_free(schema);
	snprintf(lock, sizeof(lock), "%s/threads.lock", folder);
	unlink(lock);
	rmdir(folder);
	good = atomic_load(&wrong) == 0 && atomic_load(&delivered) > 0 &&
	       atomic_load(&counters) > 0;
	printf("%sok 1 - threads\n# %" PRIu64 " records delivered, %" PRIu64 " wrong, %" PRIu64
	       " counters read\n",
	       good ? "" : "not ", atomic_load(&delivered), atomic_load(&wrong),
	       atomic_load(&counters));
	return good ? 0 : 1;
}
