/* SPDX-License-Identifier: Apache-2.0 */
/* stress-topics STEPS [SEED]
 *
 * Many topics, most of them idle, and a subscriber that polls them all. Writers take random steps:
 * a few records of a random topic, sometimes more than its ring holds. At times a writer waits
 * until the subscriber has the last record of the topic. So no later record makes up for a
 * forgotten record. At last all topics end. Each record comes once and in order, or is in a gap,
 * and each end is reported. A plain program, so that the thread sanitizer can run it.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/random.h"
#include "tickbus/publisher.h"
#include "tickbus/subscriber.h"

#define TOPICS  300
#define WRITERS 3
#define SLOTS   64
#define ADDRESS "shm:topics"
#define LATE_S  120 /* a reader that is still missing a record by then has forgotten it */

struct account {
	struct tb_topic *topic;
	uint64_t published;       /* by its writer */
	_Atomic uint64_t reached; /* delivered or lost up to here, by the reader */
	uint64_t delivered, lost; /* by the reader */
	bool ended;
};

static struct account accounts[TOPICS];
static struct tb_publisher *publisher;
static unsigned long steps;
static uint64_t seed;
static _Atomic unsigned int writing = WRITERS;
static unsigned int ended;

static _Noreturn void fail(const char *what, const char *why)
{
	printf("not ok 1 - topics\n# %s: %s\n", what, why);
	exit(1);
}

static void must(int result, const char *what)
{
	if (result < 0)
		fail(what, tb_error());
}

static void deadline_check(time_t until, const char *what)
{
	if (time(NULL) > until)
		fail(what, "the deadline has passed");
}

/* -- writers -----------------------------------------------------------------------------------
 */

static void publish(struct account *account, uint64_t records)
{
	const int instrument = tb_instrument(account->topic, "A");
	uint64_t x;
	const struct tb_update update = { .size = sizeof(update),
					  .instrument = (uint32_t)instrument,
					  .kind = TB_KIND_UPDATE,
					  .length = sizeof(x),
					  .time_ns = 1,
					  .data = &x };

	must(instrument, "tb_instrument");
	for (uint64_t i = 0; i < records; i++) {
		x = ++account->published;
		must(tb_publish(account->topic, &update), "tb_publish");
	}
	must(tb_flush(account->topic), "tb_flush");
}

static void await(struct account *account)
{
	const time_t until = time(NULL) + LATE_S;

	while (atomic_load(&account->reached) < account->published) {
		deadline_check(until, "a writer waits for the reader");
		sched_yield();
	}
}

static void *write_topics(void *user)
{
	const unsigned int writer = (unsigned int)(uintptr_t)user;
	uint64_t random = seed + writer;

	for (unsigned long i = 0; i < steps / WRITERS; i++) {
		const uint64_t at = random_below(&random, TOPICS / WRITERS) * WRITERS + writer;
		const uint64_t how = random_draw(&random) % 64;

		publish(&accounts[at], how == 0 ? SLOTS + random_draw(&random) % 200 : 1 + how % 3);
		if (how % 4 == 0)
			await(&accounts[at]);
	}
	for (unsigned int at = writer; at < TOPICS; at += WRITERS)
		must(tb_topic_end(accounts[at].topic), "tb_topic_end");
	atomic_fetch_sub(&writing, 1);
	return NULL;
}

/* -- the reader --------------------------------------------------------------------------------
 */

static struct account *account_of(const char *topic)
{
	return &accounts[strtoul(topic + 1, NULL, 10)];
}

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct account *account = account_of(tb_source_topic(source));
	uint64_t x;

	(void)user;
	memcpy(&x, record->data, sizeof(x));
	if (record->sequence != account->reached + 1 || x != record->sequence)
		fail(tb_source_topic(source), "a record is wrong, twice there or missing");
	account->delivered++;
	atomic_store(&account->reached, record->sequence);
}

static void on_event(void *user, const struct tb_event *event)
{
	struct account *account = event->topic ? account_of(event->topic) : NULL;

	(void)user;
	if (event->kind == TB_EVENT_GAP) {
		if (event->first != account->reached + 1)
			fail(event->topic, "a gap is at the wrong place");
		account->lost += event->last - event->first + 1;
		atomic_store(&account->reached, event->last);
	} else if (event->kind == TB_EVENT_ENDED) {
		ended += !account->ended;
		account->ended = true;
	}
}

static void read_topics(struct tb_subscriber *subscriber)
{
	uint64_t random = seed + WRITERS;
	time_t until = 0;

	while (ended < TOPICS) {
		const int count = tb_poll(subscriber, 1 + (int)(random_draw(&random) % 100));

		must(count, "tb_poll");
		if (count == 0 && random_draw(&random) % 16 == 0)
			must(tb_wait(subscriber, 1), "tb_wait");
		if (atomic_load(&writing) > 0)
			continue;
		until = until ? until : time(NULL) + LATE_S;
		deadline_check(until, "the reader waits for ends");
	}
}

/* -- the program -------------------------------------------------------------------------------
 */

static void topics_create(void)
{
	static const char text[] = "name: x\nversion: 1\nfields:\n- {name: x, type: u64, doc: d}\n";
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "topics",
						      .topics_max = TOPICS,
						      .exit_wait_ms = UINT32_MAX };
	struct tb_schema *schema;
	char name[16];

	must(tb_schema_parse(&schema, text, strlen(text), "topics"), "tb_schema_parse");
	must(tb_publisher_open(&publisher, &options), "tb_publisher_open");
	for (int i = 0; i < TOPICS; i++) {
		const struct tb_topic_options how = { .size = sizeof(how),
						      .name = name,
						      .schema = schema,
						      .slots = SLOTS,
						      .instruments = 4 };

		snprintf(name, sizeof(name), "t%d", i);
		must(tb_topic_create(publisher, &how, &accounts[i].topic), "tb_topic_create");
	}
	tb_schema_free(schema);
}

static void run(void)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = ADDRESS,
						       .topics_max = TOPICS,
						       .connect_ms = 60000 };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = on_record,
						     .on_event = on_event,
						     .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;
	struct tb_subscriber *subscriber;
	pthread_t writers[WRITERS];

	must(tb_subscriber_open(&subscriber, &options), "tb_subscriber_open");
	must(tb_subscribe(subscriber, ">", &how, &subscription), "tb_subscribe");
	for (uintptr_t i = 0; i < WRITERS; i++)
		if (pthread_create(&writers[i], NULL, write_topics, (void *)i))
			abort();
	read_topics(subscriber);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	tb_subscriber_close(subscriber);
}

static bool accounts_are_right(void)
{
	uint64_t delivered = 0, lost = 0, wrong = 0;

	for (int i = 0; i < TOPICS; i++) {
		delivered += accounts[i].delivered;
		lost += accounts[i].lost;
		wrong += accounts[i].delivered + accounts[i].lost != accounts[i].published;
	}
	printf("# %" PRIu64 " records delivered, %" PRIu64 " lost, %" PRIu64
	       " accounts wrong, seed %" PRIu64 "\n",
	       delivered, lost, wrong, seed);
	return wrong == 0 && delivered > 0;
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/tickbus-topics-XXXXXX", lock[64];
	bool good;

	steps = argc > 1 ? strtoul(argv[1], NULL, 10) : 30000;
	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : random_seed();
	printf("1..1\n");
	if (!mkdtemp(folder) || setenv("TICKBUS_RUNTIME_DIR", folder, 1) < 0)
		return 1;
	topics_create();
	run();
	tb_publisher_close(publisher);
	snprintf(lock, sizeof(lock), "%s/topics.lock", folder);
	unlink(lock);
	rmdir(folder);
	good = accounts_are_right();
	printf("%sok 1 - topics\n", good ? "" : "not ");
	return good ? 0 : 1;
}
