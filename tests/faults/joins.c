/* SPDX-License-Identifier: Apache-2.0 */
/* joins FABRIC
 *
 * Memory runs out during a join: of a topic that appears, of a new epoch, of a successor's topic,
 * and over a new connection. Each allocation fails once, then several fail in a row. First those of
 * the test's own thread fail, which polls; then those of the publisher's thread. The subscriber
 * retries until the join works, and each refusal is an event. Nothing leaks, and another subscriber
 * loses nothing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "subscriber/state.h"
#include "tests/faults/scarce.h"
#include "tests/support/bytewise.h"
#include "tests/support/random.h"
#include "tests/support/watched.h"
#include "tickbus/publisher.h"

#define ALLOCATIONS_MAX 2000
#define IN_A_ROW        4 /* failures until there is memory again */
#define STALE_MS        40
#define DEADLINE_S      20
#define RECORDS         5 /* of each publish */

/* What a subscription received. */
struct received {
	uint64_t records;
	uint64_t next; /* the sequence that must come next */
	unsigned int refused, restarts;
	char wrong[192];
};

static char folder[] = "/tmp/tickbus-joins-XXXXXX";
static char address[32];
static bool network;
static struct scene {
	struct tb_publisher *publisher;
	struct tb_topic *topic, *calm;
	struct tb_subscriber *own, *other; /* the other has memory all the time */
	struct received received, others;
} scene;

/* -- handlers -----------------------------------------------------------------------------------
 */

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct received *received = user;
	uint64_t x;

	memcpy(&x, record->data, sizeof(x));
	if (record->sequence != received->next || x != record->sequence)
		snprintf(received->wrong, sizeof(received->wrong),
			 "%s: found record %" PRIu64 " with %" PRIu64 ", expected %" PRIu64,
			 tb_source_topic(source), record->sequence, x, received->next);
	received->next++;
	received->records++;
}

static void on_event(void *user, const struct tb_event *event)
{
	struct received *received = user;

	if (event->kind == TB_EVENT_APPEARED) {
		received->next = event->first;
	} else if (event->kind == TB_EVENT_RESTART) {
		received->next = 1;
		received->restarts++;
	} else if (event->kind == TB_EVENT_GAP) {
		snprintf(received->wrong, sizeof(received->wrong), "%s: a gap from %" PRIu64,
			 event->topic, event->first);
	} else if (event->kind == TB_EVENT_REFUSED) {
		received->refused++;
		if (event->code != ENOMEM || !*event->words)
			snprintf(received->wrong, sizeof(received->wrong),
				 "%s: refused with %d: %s", event->topic, event->code,
				 event->words);
	}
}

/* -- the scene ----------------------------------------------------------------------------------
 */

static int publish(struct tb_topic *topic, int records)
{
	const int instrument = tb_instrument(topic, "A");
	uint64_t x = tb_topic_sequence(topic);
	struct tb_update update = { .size = sizeof(update),
				    .kind = TB_KIND_UPDATE,
				    .instrument = (uint32_t)instrument,
				    .length = sizeof(x),
				    .data = &x };
	int result = instrument < 0 ? instrument : 0;

	for (int i = 0; i < records && result == 0; i++) {
		x++;
		result = tb_publish(topic, &update);
	}
	return result;
}

static int topic_make(const char *name, const char *field, struct tb_topic **topic)
{
	struct tb_topic_options options = {
		.size = sizeof(options), .name = name, .slots = 4096, .instruments = 16
	};
	struct tb_schema *schema;
	char text[128];
	int result;

	snprintf(text, sizeof(text),
		 "name: x\nversion: 1\nfields:\n- {name: %s, type: u64, doc: d}\n", field);
	result = tb_schema_parse(&schema, text, strlen(text), "text");
	if (result < 0)
		return result;
	options.schema = schema;
	result = tb_topic_create(scene.publisher, &options, topic);
	tb_schema_free(schema);
	return result;
}

static int publisher_make(void)
{
	const char *const listen = address;
	const struct tb_publisher_options options = { .size = sizeof(options),
						      .name = "test",
						      .listen = &listen,
						      .listen_count = 1,
						      .stale_ms = STALE_MS,
						      .exit_wait_ms = UINT32_MAX };
	int result = tb_publisher_open(&scene.publisher, &options);

	if (result == 0)
		result = topic_make("t.first", "x", &scene.topic);
	return result < 0 ? result : publish(scene.topic, RECORDS);
}

static int subscribe(const char *pattern, struct tb_subscriber **subscriber,
		     struct received *received)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .connect_ms = 20000 };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = on_record,
						     .on_event = on_event,
						     .user = received,
						     .from = TB_FROM_OLDEST };
	struct tb_subscription *subscription;
	int result = tb_subscriber_open(subscriber, &options);

	return result < 0 ? result : tb_subscribe(*subscriber, pattern, &how, &subscription);
}

static int scene_open(void)
{
	const time_t until = time(NULL) + DEADLINE_S;
	int result;

	memset(&scene, 0, sizeof(scene));
	result = publisher_make();
	if (result == 0)
		result = topic_make("calm", "x", &scene.calm);
	if (result == 0)
		result = subscribe("calm", &scene.other, &scene.others);
	if (result == 0)
		result = subscribe("t.*", &scene.own, &scene.received);
	while (result >= 0 && scene.received.records < RECORDS)
		result = time(NULL) > until ? -ETIMEDOUT : tb_poll(scene.own, 100);
	return result < 0 ? result : 0;
}

static void scene_close(void)
{
	tb_subscriber_close(scene.own);
	tb_subscriber_close(scene.other);
	tb_publisher_close(scene.publisher);
}

/* -- reasons to join ----------------------------------------------------------------------------
 */

/* Its schema is new to the subscriber. */
static int topic_appears(void)
{
	int result = topic_make("t.later", "y", &scene.topic);

	return result < 0 ? result : publish(scene.topic, RECORDS);
}

static int epoch_begins(void)
{
	int result = tb_topic_restart(scene.topic);

	return result < 0 ? result : publish(scene.topic, RECORDS);
}

static int publisher_succeeds(void)
{
	int result;

	tb_subscriber_close(scene.other); /* it would be affected too */
	scene.other = NULL;
	tb_publisher_close(scene.publisher);
	scarce_spare(true); /* allocations.c covers the publisher's own */
	result = publisher_make();
	scarce_spare(false);
	return result;
}

static int connection_goes(void)
{
	const time_t until = time(NULL) + DEADLINE_S;
	int result;

	scarce_spare(true); /* the test's own */
	result = shutdown(watched_socket(scene.own->ops->link_fd(scene.own->link)), SHUT_RDWR);
	scarce_spare(false);
	if (result < 0)
		return -errno;
	while (scene.own->welcomed) {
		if (time(NULL) > until)
			wrong("the connection that was shut down is still up", "seconds",
			      DEADLINE_S);
		tb_poll(scene.own, 100);
	}
	return publish(scene.topic, RECORDS);
}

static const struct situation {
	const char *name;
	int (*begin)(void);
	unsigned int restarts;
} situations[] = {
	{ "a topic that appears", topic_appears, 0 },
	{ "a new epoch", epoch_begins, 1 },
	{ "a successor", publisher_succeeds, 1 },
	{ "a new connection", connection_goes, 0 },
};
#define SITUATIONS (sizeof(situations) / sizeof(situations[0]))

/* -- what must hold -----------------------------------------------------------------------------
 */

static bool other_has_all(void)
{
	return !scene.other || scene.others.records == tb_topic_sequence(scene.calm);
}

/* Lets the other subscriber read on, without failures. */
static bool other_turn(void)
{
	int result = 0;

	if (!scene.other)
		return true;
	scarce_spare(true);
	if (other_has_all())
		result = publish(scene.calm, 1);
	if (result == 0)
		result = tb_poll(scene.other, 100);
	scarce_spare(false);
	return result >= 0;
}

/* All records arrived, and each topic is joined. */
static bool is_right(void)
{
	const struct tb_source *source = scene.own->subscriptions->sources;

	while (source && !source->orphan && !source->has_successor)
		source = source->next_source;
	return !source && scene.own->welcomed && scene.received.records == 2 * RECORDS;
}

/* A call that fails for lack of memory works when repeated. */
static int begin(const struct situation *situation, long in_a_row)
{
	int result = -ENOMEM;

	for (long tries = 0; result == -ENOMEM && tries <= in_a_row; tries++) {
		result = situation->begin();
		if (scarce_failures() >= in_a_row)
			scarce_no_more();
	}
	return result;
}

/* Polls until all is right. False: not in time. */
static bool comes_right(long in_a_row)
{
	const time_t until = time(NULL) + DEADLINE_S;

	while (!is_right() || !other_has_all()) {
		const int count = tb_poll(scene.own, 100);

		if (scarce_failures() >= in_a_row)
			scarce_no_more();
		if (count < 0 || !other_turn() || time(NULL) > until)
			return false;
		if (count == 0)
			tb_wait(scene.own, 1);
	}
	scarce_no_more();
	return true;
}

/* Whether an allocation failed. Counts the refusals that were reported. */
static bool attempt(const struct situation *situation, long number, long in_a_row,
		    unsigned long *refused)
{
	struct held before = held_now();

	if (scene_open() < 0)
		wrong(situation->name, "cannot begin the scene, allocation", number);
	scarce_from(number, in_a_row > 1);
	if (begin(situation, in_a_row) < 0)
		wrong(situation->name, "cannot be caused, allocation", number);
	if (!comes_right(in_a_row)) {
		fprintf(stderr, "%" PRIu64 " records of %d, refused %u times\n",
			scene.received.records, 2 * RECORDS, scene.received.refused);
		wrong(situation->name, "did not recover, allocation", number);
	}
	if (scene.received.wrong[0] || scene.received.restarts != situation->restarts)
		wrong(scene.received.wrong, situation->name, number);
	if (scene.others.wrong[0] || scene.others.refused > 0)
		wrong(scene.others.wrong, "the other subscriber was affected, allocation", number);
	*refused += scene.received.refused;
	scene_close();
	held_as_before(&before, situation->name, "allocation", number);
	return scarce_failures() > 0;
}

/* Over a network, memory of a new epoch is registered by the thread that restarts the topic. The
 * publisher's own thread then allocates nothing. */
static bool no_failure_expected(const struct situation *situation, bool others)
{
	return network && others && situation->begin == epoch_begins;
}

static void fail_allocations(const struct situation *situation, bool others, long in_a_row)
{
	unsigned long refused = 0;
	long number = 0;

	while (number < ALLOCATIONS_MAX && attempt(situation, number, in_a_row, &refused))
		number++;
	printf("%s: %ld allocations of %s thread failed, %s: %lu refusals were reported\n",
	       situation->name, number, others ? "the publisher's" : "the test's",
	       in_a_row > 1 ? "several in a row" : "one at a time", refused);
	if ((number == 0) != no_failure_expected(situation, others) || number == ALLOCATIONS_MAX)
		wrong(situation->name, "failed allocations,", number);
}

int main(int argc, char **argv)
{
	if (argc != 2 || !mkdtemp(folder))
		return 2;
	setenv("TICKBUS_RUNTIME_DIR", folder, 1);
	snprintf(address, sizeof(address), "%s:test", argv[1]);
	network = strcmp(argv[1], "shm") != 0;
	bytewise_add(random_seed());
	if (scene_open() < 0) /* once first, as libc keeps some memory */
		wrong("scene", "attempt", 0);
	scene_close();
	for (size_t i = 0; i < SITUATIONS; i++) {
		scarce_mine();
		fail_allocations(&situations[i], false, 1);
		fail_allocations(&situations[i], false, IN_A_ROW);
		scarce_others();
		fail_allocations(&situations[i], true, 1);
		fail_allocations(&situations[i], true, IN_A_ROW);
	}
	rmdir(folder);
	return 0;
}
