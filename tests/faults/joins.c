/* SPDX-License-Identifier: Apache-2.0 */
/* joins FABRIC
 *
 * Joins that are made while polling, of a topic that appears, of a new epoch, of another publisher
 * in the place of one that went, and over a connection that is made anew: every single allocation
 * of them fails once, then from there on several in a row, in our thread, which begins and polls,
 * and then in the publisher's own. The join comes right by itself, and what was refused on the way
 * was told so; nothing leaks, and another subscriber misses nothing. */
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
#include "tickbus/publisher.h"

#define ALLOCATIONS_MAX 2000
#define IN_A_ROW        4 /* failures, until there is memory again */
#define STALE_MS        40
#define DEADLINE_S      20
#define RECORDS         5 /* at once */

/* What one subscription was told. */
struct heard {
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
	struct tb_subscriber *own, *witness;
	struct heard heard, seen;
} scene;

/* -- what is told -------------------------------------------------------------------------------
 */

static void on_record(void *user, const struct tb_source *source, const struct tb_record *record)
{
	struct heard *heard = user;
	uint64_t x;

	memcpy(&x, record->data, sizeof(x));
	if (record->sequence != heard->next || x != record->sequence)
		snprintf(heard->wrong, sizeof(heard->wrong),
			 "%s: found record %" PRIu64 " with %" PRIu64 ", expected %" PRIu64,
			 tb_source_topic(source), record->sequence, x, heard->next);
	heard->next++;
	heard->records++;
}

static void on_event(void *user, const struct tb_event *event)
{
	struct heard *heard = user;

	if (event->kind == TB_EVENT_APPEARED) {
		heard->next = event->first;
	} else if (event->kind == TB_EVENT_RESTART) {
		heard->next = 1;
		heard->restarts++;
	} else if (event->kind == TB_EVENT_GAP) {
		snprintf(heard->wrong, sizeof(heard->wrong), "%s: a gap from %" PRIu64,
			 event->topic, event->first);
	} else if (event->kind == TB_EVENT_REFUSED) {
		heard->refused++;
		if (event->code != ENOMEM || !*event->words)
			snprintf(heard->wrong, sizeof(heard->wrong), "%s: refused with %d: %s",
				 event->topic, event->code, event->words);
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

static int subscribe(const char *pattern, struct tb_subscriber **subscriber, struct heard *heard)
{
	const struct tb_subscriber_options options = { .size = sizeof(options),
						       .address = address,
						       .connect_ms = 20000 };
	const struct tb_subscription_options how = { .size = sizeof(how),
						     .on_record = on_record,
						     .on_event = on_event,
						     .user = heard,
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
		result = subscribe("calm", &scene.witness, &scene.seen);
	if (result == 0)
		result = subscribe("t.*", &scene.own, &scene.heard);
	while (result >= 0 && scene.heard.records < RECORDS)
		result = time(NULL) > until ? -ETIMEDOUT : tb_poll(scene.own, 100);
	return result < 0 ? result : 0;
}

static void scene_close(void)
{
	tb_subscriber_close(scene.own);
	tb_subscriber_close(scene.witness);
	tb_publisher_close(scene.publisher);
}

/* -- what makes it join -------------------------------------------------------------------------
 */

/* With a schema that is not known yet. */
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

	tb_subscriber_close(scene.witness); /* which would be concerned */
	scene.witness = NULL;
	tb_publisher_close(scene.publisher);
	scarce_spare(true); /* allocations.c has what it needs itself */
	result = publisher_make();
	scarce_spare(false);
	return result;
}

static int connection_goes(void)
{
	const time_t until = time(NULL) + DEADLINE_S;

	if (shutdown(scene.own->ops->link_fd(scene.own->link), SHUT_RDWR) < 0)
		return -errno;
	while (scene.own->welcomed) {
		if (time(NULL) > until)
			wrong("a connection that was shut down stays up", "seconds", DEADLINE_S);
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
	{ "another publisher", publisher_succeeds, 1 },
	{ "a new connection", connection_goes, 0 },
};
#define SITUATIONS (sizeof(situations) / sizeof(situations[0]))

/* -- what must hold -----------------------------------------------------------------------------
 */

static bool witness_has_all(void)
{
	return !scene.witness || scene.seen.records == tb_topic_sequence(scene.calm);
}

/* Another subscriber, which has all the memory that it wants. */
static bool witness_turn(void)
{
	int result = 0;

	if (!scene.witness)
		return true;
	scarce_spare(true);
	if (witness_has_all())
		result = publish(scene.calm, 1);
	if (result == 0)
		result = tb_poll(scene.witness, 100);
	scarce_spare(false);
	return result >= 0;
}

/* All records came, and each topic is joined. */
static bool is_right(void)
{
	const struct tb_source *source = scene.own->subscriptions->sources;

	while (source && !source->orphan && !source->has_successor)
		source = source->next_source;
	return !source && scene.own->welcomed && scene.heard.records == 2 * RECORDS;
}

/* What fails for want of memory works when it is done again. */
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

/* Polls until all is right; false when it is too late. */
static bool comes_right(long in_a_row)
{
	const time_t until = time(NULL) + DEADLINE_S;

	while (!is_right() || !witness_has_all()) {
		const int count = tb_poll(scene.own, 100);

		if (scarce_failures() >= in_a_row)
			scarce_no_more();
		if (count < 0 || !witness_turn() || time(NULL) > until)
			return false;
		if (count == 0)
			tb_wait(scene.own, 1);
	}
	scarce_no_more();
	return true;
}

/* Whether an allocation failed; counts what was told of it. */
static bool attempt(const struct situation *situation, long number, long in_a_row,
		    unsigned long *refused)
{
	struct held before = held_now();

	if (scene_open() < 0)
		wrong(situation->name, "no scene for allocation", number);
	scarce_from(number, in_a_row > 1);
	if (begin(situation, in_a_row) < 0)
		wrong(situation->name, "did not begin, allocation", number);
	if (!comes_right(in_a_row)) {
		fprintf(stderr, "%" PRIu64 " records of %d, refused %u times\n",
			scene.heard.records, 2 * RECORDS, scene.heard.refused);
		wrong(situation->name, "did not come right, allocation", number);
	}
	if (scene.heard.wrong[0] || scene.heard.restarts != situation->restarts)
		wrong(scene.heard.wrong, situation->name, number);
	if (scene.seen.wrong[0] || scene.seen.refused > 0)
		wrong(scene.seen.wrong, "a subscriber that was not concerned, allocation", number);
	*refused += scene.heard.refused;
	scene_close();
	held_as_before(&before, situation->name, "allocation", number);
	return scarce_failures() > 0;
}

/* Memory of a new epoch is shown to a network by who begins it, not for who joins it. */
static bool none_expected(const struct situation *situation, bool others)
{
	return network && others && situation->begin == epoch_begins;
}

static void fail_allocations(const struct situation *situation, bool others, long in_a_row)
{
	unsigned long refused = 0;
	long number = 0;

	while (number < ALLOCATIONS_MAX && attempt(situation, number, in_a_row, &refused))
		number++;
	printf("%s: %ld allocations of %s thread failed, %s: %lu refusals were told\n",
	       situation->name, number, others ? "the publisher's" : "our",
	       in_a_row > 1 ? "with those after it" : "one by one", refused);
	if ((number == 0) != none_expected(situation, others) || number == ALLOCATIONS_MAX)
		wrong(situation->name, "allocations that failed:", number);
}

int main(int argc, char **argv)
{
	if (argc != 2 || !mkdtemp(folder))
		return 2;
	setenv("TICKBUS_RUNTIME_DIR", folder, 1);
	snprintf(address, sizeof(address), "%s:test", argv[1]);
	network = strcmp(argv[1], "shm") != 0;
	bytewise_add(random_seed());
	if (scene_open() < 0) /* once, for what libc keeps */
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
